//! `kernels skills validate --deep`: checks the code in a skill's Markdown with the tools that it is written for.
//!
//! Nothing of the skill is ever executed. Blocks are compiled to objects in a temporary folder and thrown away, Python
//! is parsed, command lines are read. What cannot be checked is counted with its reason, never passed over.

mod anchor;
mod command;
mod cuda;
mod data;
mod diagnosis;
mod document;
mod fence;
mod job;
mod layout;
mod nvcc;
mod process;
mod python;
mod report;
mod script;
mod shell;
mod toml;

pub use report::{Report, Unchecked};

use std::path::{Path, PathBuf};

use crate::skill::Tree;
use crate::skill::lint::Severity;

use self::document::Document;
use self::report::Gathered;

/// What the rules of this room ask for, as [`crate::skill::lint::RULES`].
pub const RULES: &[(&str, Severity, &str)] = &[
    (
        "fence",
        Severity::Error,
        "fences are closed, and their attributes, harnesses and file lines make sense",
    ),
    (
        "cuda",
        Severity::Error,
        "cuda blocks compile for sm_75, 80 and 90, or those of arch=, without a warning",
    ),
    (
        "cpp",
        Severity::Error,
        "cpp blocks compile without a warning",
    ),
    ("python", Severity::Error, "python blocks and files parse"),
    (
        "import",
        Severity::Error,
        "what Python imports is there, and so is what it uses of a module (F.rms_norm)",
    ),
    (
        "toml",
        Severity::Error,
        "toml blocks parse; a build.toml passes `kernels check`, a kernel.toml is read",
    ),
    ("json", Severity::Error, "json blocks parse"),
    ("yaml", Severity::Error, "yaml blocks parse"),
    ("shell", Severity::Error, "bash blocks parse (`bash -n`)"),
    (
        "command",
        Severity::Error,
        "`kernels` and `nvcc` have the commands and flags that are written",
    ),
    (
        "script",
        Severity::Error,
        "scripts of the skill that are run are there, and have the flags that are written",
    ),
    (
        "anchor",
        Severity::Error,
        "links to headings name headings that are there",
    ),
    (
        "unchecked",
        Severity::Warning,
        "with --strict: nothing is left unchecked for want of a tool",
    ),
];

/// With what a skill is checked.
#[derive(Debug)]
pub struct Options {
    /// The Python that imports are looked up with; it need not be there.
    pub python: PathBuf,
    /// The command line of this program, against which `kernels …` is held.
    pub commands: clap::Command,
}

/// Checks the code of a skill. `root` is its folder on the disk, where it lies in one.
///
/// # Errors
/// The temporary folder cannot be written.
pub fn check(tree: &Tree, root: Option<&Path>, options: &Options) -> anyhow::Result<Report> {
    let mut gathered = Gathered::default();
    let documents = document::read(tree, &mut gathered);
    let work = layout::Work::new(&documents, &mut gathered)?;
    anchor::check(&documents, &mut gathered);
    data::check(&documents, &mut gathered);
    toml::check(&documents, &work, &mut gathered)?;
    let commands = shell::check(&documents, &mut gathered);
    let scripts = python::check(
        tree,
        root,
        &documents,
        &commands,
        &work,
        options,
        &mut gathered,
    )?;
    command::check(&commands, &options.commands, &mut gathered);
    script::check(tree, &commands, &scripts, &mut gathered);
    let compiler = cuda::check(&documents, &work, options, &mut gathered)?;
    nvcc::check(&commands, compiler.as_ref(), &mut gathered);
    count_ignored(&documents, &mut gathered);
    Ok(gathered.finish())
}

/// Counts blocks in languages that nothing here checks.
fn count_ignored(documents: &[Document], gathered: &mut Gathered) {
    for block in documents.iter().flat_map(|document| &document.blocks) {
        if fence::Language::of(block).is_none() {
            gathered.ignored(&block.language);
        }
    }
}
