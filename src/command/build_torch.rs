//! `kernels build --torch`.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Result;
use serde_json::{Value, json};

use super::build::{duration, must_be_known};
use crate::base::plural;
use crate::base::text::for_shell;
use crate::cli::project::Build as Arguments;
use crate::evidence;
use crate::evidence::coverage::{Coverage, coverage};
use crate::install::Refusal;
use crate::install::refusal::Refused;
use crate::project::TorchProject;
use crate::report::{Output, style};
use crate::variant::{self, Options, Protected, Variant};

/// Whether evidence was recorded of the machine code that was linked.
fn said(coverage: &Coverage, dir: &Path) -> String {
    let records = |paths: &[PathBuf]| plural(paths.len(), "record");
    let other = match coverage.other.as_slice() {
        [] => String::new(),
        [first, ..] => format!(
            "; of other machine code: {} of this project, {} the first",
            records(&coverage.other),
            first.display()
        ),
    };
    if !coverage.same.is_empty() {
        return format!("verified: this machine code is that of {}{other}", records(&coverage.same));
    }
    if !coverage.same_before.is_empty() {
        let before = records(&coverage.same_before);
        return format!("verified with an older set of cases: this machine code is that of {before}{other}");
    }
    let dir = for_shell(dir);
    format!(
        "{} no evidence covers this machine code{other}: `kernels bench {dir} --record` on a card",
        style::warning("unproved:")
    )
}

/// At most this many files of a protected folder are named.
const NAMED: usize = 12;

pub(super) fn run(arguments: &Arguments, output: Output) -> Result<ExitCode> {
    let asked = &arguments.compile.arch;
    must_be_known(asked)?;
    let project = TorchProject::open(&arguments.compile.dir)?;
    let progress = output.is_talkative() && std::io::stderr().is_terminal();
    let tell = |line: &str| {
        if progress {
            output.note(style::faint(line));
        }
    };
    let options = Options {
        archs: asked,
        out: arguments.out.as_deref(),
        python: arguments.python.as_deref(),
        force: arguments.force,
    };
    let started = Instant::now();
    let variant = variant::build(&project, options, &tell)
        .map_err(|error| error.downcast::<Protected>().map_or_else(|error| error, refused))?;
    let seconds = started.elapsed().as_secs_f64();
    let coverage = match &variant.made {
        Some(made) => Some(coverage(&evidence::folder(&project.root, None), &project.build.name, &made.device)?),
        None => None,
    };
    tell_of(&project, &variant, seconds, output);
    if let Some(coverage) = &coverage {
        output.line(format!("  {}", said(coverage, &arguments.compile.dir)));
    }
    output.json(&json(&project, &variant, coverage.as_ref(), seconds));
    Ok(ExitCode::SUCCESS)
}

/// Prints what was built, from what, and where it lies.
fn tell_of(project: &TorchProject, variant: &Variant, seconds: f64, output: Output) {
    let made = variant.made.as_ref();
    for note in &variant.notes {
        output.note(format!("{} {note}", style::warning("note")));
    }
    for warning in made.iter().flat_map(|made| &made.warnings) {
        output.note(warning);
    }
    let word = style::good(if made.is_some() { "built" } else { "unchanged" });
    output.line(format!("{word} {}", variant.path.display()));
    output.line(format!("  {}, for {}, torch {} and later", variant.id, variant.archs.join(", "), project.stable_abi));
    if let Some(backup) = made.and_then(|made| made.backup.as_ref()) {
        output.line(format!("  the previous contents are in {}", backup.display()));
    }
    let (counts, origin) = match made {
        Some(made) => (
            format!(
                " {}: {} compiled, {} from the cache,",
                plural(made.compiled + made.cached, "file"),
                made.compiled,
                made.cached
            ),
            format!(", torch {} ({})", made.torch, made.torch_origin),
        ),
        None => (String::new(), String::new()),
    };
    output.line(format!(
        "{}{counts} {} {}",
        style::strong(&project.build.name),
        duration(seconds),
        style::faint(format!("nvcc {}{origin}", variant.compiler))
    ));
}

/// What `--json` prints.
fn json(project: &TorchProject, variant: &Variant, coverage: Option<&Coverage>, seconds: f64) -> Value {
    let made = variant.made.as_ref();
    let names = |paths: &[PathBuf]| paths.iter().map(|path| path.to_string_lossy().into_owned()).collect::<Vec<_>>();
    json!({
        "evidence": coverage.map(|coverage| json!({
            "of_this_machine_code": names(&coverage.same),
            "of_this_machine_code_under_an_older_set": names(&coverage.same_before),
            "of_other_machine_code": names(&coverage.other),
        })),
        "project": project.build.name,
        "variant": variant.name,
        "id": variant.id,
        "path": variant.path.to_string_lossy(),
        "library": variant.library.to_string_lossy(),
        "archs": variant.archs,
        "stable_abi": project.stable_abi.to_string(),
        "compiler": variant.compiler,
        "host_compiler": variant.host,
        "unchanged": made.is_none(),
        "seconds": seconds,
        "compiled": made.map_or(0, |made| made.compiled),
        "cached": made.map_or(0, |made| made.cached),
        "torch": made.map(|made| &made.torch),
        "torch_origin": made.map(|made| &made.torch_origin),
        "libraries": made.map(|made| &made.libraries),
        "compat": made.map(|made| &made.compat),
        "warnings": made.map(|made| &made.warnings),
        "backup": made.and_then(|made| made.backup.as_ref()).map(|path| path.to_string_lossy()),
        "notes": variant.notes,
    })
}

/// The error for a folder that holds the user's files.
fn refused(protected: Protected) -> anyhow::Error {
    let mut lines = vec!["holds what `kernels build --torch` did not write:".to_owned()];
    lines.extend(protected.files.iter().take(NAMED).cloned());
    if protected.files.len() > NAMED {
        lines.push(format!("… and {} more", protected.files.len() - NAMED));
    }
    let reason = lines.join("\n  ");
    Refusal(vec![Refused {
        path: protected.path,
        reason,
        changes: Vec::new(),
        advice: vec![
            "move it elsewhere, or name another folder with --out".to_owned(),
            "--force moves it to .kernels-backups beside it and builds".to_owned(),
        ],
    }])
    .into()
}
