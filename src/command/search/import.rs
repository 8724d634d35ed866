//! `kernels search import`.

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::Result;
use serde_json::json;

use crate::against::Interpreter;
use crate::base::plural;
use crate::cli::search::Import;
use crate::report::{Output, Progress, style};
use crate::search::import::{self, Imported, Importer, Outcome};

/// Exit 0 if every module became a project or was there already; 1 otherwise.
pub(super) fn run(arguments: &Import, output: Output) -> Result<ExitCode> {
    let modules = match (&arguments.from, &arguments.module, &arguments.shapes) {
        (Some(root), ..) => import::robust_kbench(root, &arguments.only)?,
        (None, Some(module), Some(shapes)) => vec![import::module(module, shapes)?],
        // clap requires one of them.
        _ => Vec::new(),
    };
    let python = Interpreter::find(None, "search import")?;
    let mut maker = Importer::new(python, &arguments.out, arguments.seed)?;
    let line = Progress::new(output);
    let mut all: Vec<Imported> = Vec::new();
    for (number, module) in modules.iter().enumerate() {
        line.tell(&format!("{} of {}: {} {}", number + 1, modules.len(), module.name, module.title));
        let imported = maker.import(module)?;
        line.above(|| show(&imported, output));
        all.push(imported);
    }
    line.done();
    let mut counts: BTreeMap<Outcome, u64> = BTreeMap::new();
    for one in &all {
        *counts.entry(one.outcome).or_default() += 1;
    }
    if output.is_json() {
        output.json(&json!({"out": arguments.out, "tasks": all}));
    } else {
        let parts: Vec<String> = counts.iter().map(|(outcome, count)| format!("{count} {}", words(*outcome))).collect();
        output.line(format!("{} in {}: {}", plural(all.len(), "task"), arguments.out.display(), parts.join(", ")));
    }
    let failed = counts.keys().any(|outcome| matches!(outcome, Outcome::TorchFails | Outcome::Unfit));
    Ok(if failed { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

fn words(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Verifies => "with torch's own result verified",
        Outcome::Flagged => "verified and worthless",
        Outcome::TorchFails => "that torch's own result fails",
        Outcome::Unfit => "not imported",
        Outcome::Kept => "there already",
    }
}

fn show(imported: &Imported, output: Output) {
    let outcome = match imported.outcome {
        Outcome::Verifies | Outcome::Kept => style::good(words(imported.outcome)),
        Outcome::Flagged => style::warning(words(imported.outcome)),
        Outcome::TorchFails | Outcome::Unfit => style::bad(words(imported.outcome)),
    };
    output.line(format!("{} {}: {outcome}", imported.task, style::faint(&imported.title)));
    for (name, text) in imported.reasons.iter().chain(&imported.notes) {
        // A traceback ends with the reason, and an error of ours begins with it.
        let (first, last) = (text.lines().next().unwrap_or_default(), text.lines().next_back().unwrap_or_default());
        let both = if first == last || first.starts_with("Traceback") {
            last.to_owned()
        } else {
            format!("{first} … {last}")
        };
        output.line(format!("    {name}: {both}"));
    }
}
