//! `kernels ci`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use serde_json::json;

use super::failure::Usage;
use super::workflow;
use crate::cli::project::Ci;
use crate::report::check::{Check, Status, Suite, total};
use crate::report::{Output, file, junit, style, summary};
use crate::session::checks::{self, Wanted};
use crate::session::machine::{Here, Lab};

/// Checks every project, in the order given; continues after a failure.
pub(crate) fn run(arguments: &Ci, output: Output) -> Result<ExitCode> {
    if arguments.workflow {
        output.content(workflow::render(&arguments.dirs)?.as_bytes());
        return Ok(ExitCode::SUCCESS);
    }
    for dir in &arguments.dirs {
        is_project(dir)?;
    }
    Ok(run_in(&Here, arguments, output))
}

/// Rejects a wrong folder before anything runs, so that a typing mistake costs no minutes.
fn is_project(dir: &Path) -> Result<()> {
    for name in ["build.toml", "kernel.toml"] {
        if !dir.join(name).is_file() {
            let what = if dir.is_dir() { format!("it has no {name}") } else { "there is no such folder".to_owned() };
            return Err(Usage(format!(
                "{} is no kernel project: {what}. A project is a folder with build.toml and kernel.toml",
                dir.display()
            ))
            .into());
        }
    }
    Ok(())
}

/// Like `run`, on any [`Lab`].
pub(crate) fn run_in(lab: &dyn Lab, arguments: &Ci, output: Output) -> ExitCode {
    let wanted = Wanted { evidence: arguments.evidence.as_deref(), require_card: arguments.require_card };
    let mut suites: Vec<Suite> = Vec::new();
    for dir in &arguments.dirs {
        let suite = checks::suite(lab, dir, &wanted);
        show(&suite, output);
        suites.push(suite);
    }
    let unwritten = write(arguments, &suites);
    for reason in &unwritten {
        output.error(format!("{} {reason}", style::bad("error:")));
    }
    let counts = total(&suites);
    let ok = counts.failed == 0 && unwritten.is_empty();
    output.line(format!(
        "{}, {}, {}",
        style::good(format!("{} passed", counts.passed)),
        count(counts.failed, "failed", |text| style::bad(text)),
        count(counts.skipped, "skipped", |text| style::warning(text)),
    ));
    output.json(&json!({
        "ok": ok,
        "counts": counts,
        "projects": suites,
        "unwritten": unwritten,
    }));
    if ok { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn count(number: usize, what: &str, paint: fn(&str) -> String) -> String {
    let text = format!("{number} {what}");
    if number == 0 { text } else { paint(&text) }
}

/// Writes the requested files and returns the errors: the checks have been made by then, and their results are
/// shown even if a file cannot be written.
fn write(arguments: &Ci, suites: &[Suite]) -> Vec<String> {
    let mut unwritten = Vec::new();
    if let Some(path) = &arguments.junit
        && let Err(error) = file::write(path, junit::render(suites).as_bytes())
    {
        unwritten.push(format!("{error:#}"));
    }
    if let Some(path) = std::env::var_os("GITHUB_STEP_SUMMARY").filter(|path| !path.is_empty())
        && let Err(error) = summary::append(&PathBuf::from(path), suites)
    {
        unwritten.push(format!("{error:#}"));
    }
    unwritten
}

fn show(suite: &Suite, output: Output) {
    output.line(format!("{} {}", style::strong(&suite.name), style::faint(&suite.dir)));
    for check in &suite.checks {
        line(suite, check, output);
    }
    output.line("");
}

fn line(suite: &Suite, check: &Check, output: Output) {
    let name = format!("{:<8} {}", check.group, check.name);
    match &check.status {
        Status::Passed => output.line(
            format!("  {} {name}  {}", style::good("✓"), style::faint(check.detail.lines().next().unwrap_or_default()))
                .trim_end(),
        ),
        Status::Skipped { reason } => {
            output.line(format!("  {} {name}  {}", style::warning("–"), style::warning(format!("skipped: {reason}"))));
        }
        Status::Failed { text, .. } => {
            let lines = std::iter::once(name.as_str()).chain(text.lines());
            let text = lines.collect::<Vec<_>>().join("\n      ");
            // Repeats the context: stderr may be read without the lines above.
            output.error(format!(
                "  {} {text}\n      {}",
                style::bad("✗"),
                style::faint(format!("in {}, {}", suite.name, suite.dir))
            ));
        }
    }
}
