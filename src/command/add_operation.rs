//! `kernels add`.

use std::process::ExitCode;

use anyhow::Result;
use serde_json::json;

use super::failure::Usage;
use crate::cli::project::AddOperation;
use crate::report::{Output, style};
use crate::scaffold::{add, catalog, name};

/// Adds operations to a project.
pub(crate) fn run(arguments: &AddOperation, output: Output) -> Result<ExitCode> {
    let addition = add::plan(&arguments.dir, &arguments.op, &arguments.blank).map_err(|error| {
        if error.is::<catalog::Unknown>() || error.is::<name::BadName>() {
            Usage(error.to_string()).into()
        } else {
            error
        }
    })?;
    if arguments.dry_run {
        addition.check()?;
    } else {
        addition.apply()?;
    }
    let of = |wanted: fn(&add::Change) -> bool| -> Vec<&str> {
        addition.changes.iter().filter(|change| wanted(change)).map(|change| change.path.as_str()).collect()
    };
    let created = of(|change| change.was.is_none());
    let changed = of(|change| change.was.is_some() && change.is.is_some());
    let removed = of(|change| change.is.is_none());
    for (mark, paths) in [("+", &created), ("~", &changed), ("-", &removed)] {
        for path in paths {
            output.line(format!("  {mark} {path}"));
        }
    }
    let names = arguments.op.iter().chain(&arguments.blank).map(String::as_str).collect::<Vec<_>>().join(", ");
    output.line(match (addition.changes.is_empty(), arguments.dry_run) {
        (true, _) => format!("{names}: nothing to do, {} has all of it", style::strong(addition.root.display())),
        (false, true) => format!("{names}: nothing was written, as --dry-run says"),
        (false, false) => format!("{names}: added to {}", style::strong(addition.root.display())),
    });
    if let Some(own) = arguments.blank.first().filter(|_| !arguments.dry_run && !created.is_empty()) {
        output.line(format!(
            "next:\n  edit kernel_src/{own}/{own}.cu, kernel_src/{own}/reference.py, and {own} in kernel.toml\n  {:<24} {}\n  {:<24} {}",
            format!("kernels add {own}"),
            style::faint("what torch needs, from kernel.toml"),
            "kernels check --strict",
            style::faint("what would fail"),
        ));
    }
    output.json(&json!({
        "path": addition.root.to_string_lossy(),
        "operations": arguments.op.iter().chain(&arguments.blank).collect::<Vec<_>>(),
        "created": created,
        "changed": changed,
        "removed": removed,
        "dry_run": arguments.dry_run,
    }));
    Ok(ExitCode::SUCCESS)
}
