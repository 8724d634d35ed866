//! `kernels skills validate --deep`: checks the code in a skill's Markdown with compilers and parsers.
//!
//! Nothing of the skill is executed: blocks are compiled to objects in a temporary folder, Python and command lines are
//! parsed. What cannot be checked is reported with a reason.

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

pub(crate) use report::{Report, Unchecked};

use std::path::{Path, PathBuf};

use crate::skill::Tree;
use crate::skill::lint::Severity;

use self::document::Document;
use self::report::Gathered;

/// The rules of this module, as [`crate::skill::lint::RULES`].
pub(crate) const RULES: &[(&str, Severity, &str)] = &[
    ("fence", Severity::Error, "fences are closed, and their attributes, harnesses and file lines make sense"),
    ("cuda", Severity::Error, "cuda blocks compile for sm_75, 80 and 90, or those of arch=, without a warning"),
    ("cpp", Severity::Error, "cpp blocks compile without a warning"),
    ("python", Severity::Error, "python blocks and files parse"),
    ("import", Severity::Error, "what Python imports is there, and so is what it uses of a module (F.rms_norm)"),
    ("toml", Severity::Error, "toml blocks parse; a build.toml passes `kernels check`, a kernel.toml is read"),
    ("json", Severity::Error, "json blocks parse"),
    ("yaml", Severity::Error, "yaml blocks parse"),
    ("shell", Severity::Error, "bash blocks parse (`bash -n`)"),
    ("command", Severity::Error, "`kernels` and `nvcc` have the commands and flags that are written"),
    ("script", Severity::Error, "scripts of the skill that are run are there, and have the flags that are written"),
    ("anchor", Severity::Error, "links to headings name headings that are there"),
    ("unchecked", Severity::Warning, "with --strict: nothing is left unchecked for want of a tool"),
];

#[derive(Debug)]
pub(crate) struct Options {
    /// The Python for import look-ups; it need not exist.
    pub(crate) python: PathBuf,
    /// This program's command line, against which `kernels …` lines are checked.
    pub(crate) commands: clap::Command,
}

/// Checks the code of a skill. `root` is its folder, if it is on the disk.
pub(crate) fn check(tree: &Tree, root: Option<&Path>, options: &Options) -> anyhow::Result<Report> {
    let mut gathered = Gathered::default();
    let documents = document::read(tree, &mut gathered);
    let work = layout::Work::new(&documents, &mut gathered)?;
    anchor::check(&documents, &mut gathered);
    data::check(&documents, &mut gathered);
    toml::check(&documents, &work, &mut gathered)?;
    let commands = shell::check(&documents, &mut gathered);
    let scripts = python::check(tree, root, &documents, &commands, &work, options, &mut gathered)?;
    command::check(&commands, &options.commands, &mut gathered);
    script::check(tree, &commands, &scripts, &mut gathered);
    let compiler = cuda::check(&documents, &work, options, &mut gathered)?;
    nvcc::check(&commands, compiler.as_ref(), &mut gathered);
    count_ignored(&documents, &mut gathered);
    Ok(gathered.finish())
}

/// Counts blocks in languages that are not checked.
fn count_ignored(documents: &[Document], gathered: &mut Gathered) {
    for block in documents.iter().flat_map(|document| &document.blocks) {
        if fence::Language::of(block).is_none() {
            gathered.ignored(&block.language);
        }
    }
}
