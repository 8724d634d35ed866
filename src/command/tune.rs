//! `kernels tune`.

use std::process::ExitCode;

use anyhow::Result;
use serde_json::json;

use super::prepare;
use crate::base::plural;
use crate::base::text::for_shell;
use crate::cli::project::Tune;
use crate::project::Project;
use crate::report::{Output, Progress, style, unified};
use crate::tune::record::{Edited, Undone};
use crate::tune::trial::Outcome;
use crate::tune::{self, Tuned, Wanted, record};

/// The width of the progress bar in columns.
const BAR: usize = 20;

/// Tries the rows of a project's tuning tables, and writes those that are better.
pub(super) fn run(arguments: &Tune, output: Output) -> Result<ExitCode> {
    let project = Project::open(&arguments.dir)?;
    if arguments.undo {
        return undo(&project, arguments.dry_run, output);
    }
    let card = prepare::card(arguments.device)?;
    prepare::say_if_slow(output);
    let wanted =
        Wanted { operations: arguments.operation.clone(), shapes: arguments.shape.clone(), ordinal: arguments.device };
    let progress = Progress::new(output);
    let tell = |done: usize, of: usize, what: &str| {
        let full = BAR * done / of.max(1);
        progress.tell(&format!("[{}{}] {done}/{of} {what}", "#".repeat(full), "-".repeat(BAR - full)));
        // If no line can be overwritten, print one line per stage.
        if done == 0 && !output.shows_progress() {
            output.note(format!("{}: {}", what.split(": ").next().unwrap_or(what), plural(of, "candidate")));
        }
    };
    let ended = |tuned: &Tuned| progress.above(|| show(tuned, output));
    let all = tune::run(&project, &wanted, &card, &tell, &ended)?;
    progress.done();
    let (written, files) = tune::edited(&project, &card, &all)?;
    output.line(tune::summary(&all));
    let diff = diff(&files, output);
    let wrote = !arguments.dry_run && !files.is_empty();
    if wrote {
        tune::write(&project, written, &files)?;
        let (dir, typed) = (arguments.dir.display(), for_shell(&arguments.dir));
        output.note(format!("wrote this and {dir}/{}; `kernels tune {typed} --undo` takes it back", record::FILE));
    }
    output.json(&json!({ "card": card, "rows": all, "diff": diff, "written": wrote }));
    Ok(ExitCode::SUCCESS)
}

/// Undoes what the last run wrote.
fn undo(project: &Project, dry_run: bool, output: Output) -> Result<ExitCode> {
    let Undone { record, rows, absent, files } = record::undone(project)?;
    if rows.is_empty() {
        output.line(format!("nothing to take back: {} has no row", project.root.join(record::FILE).display()));
    }
    for row in &absent {
        let path = project.root.join(&row.file);
        output.line(format!("{} does not have the row {}, which counts as taken back", path.display(), row.row));
    }
    let diff = diff(&files, output);
    if !dry_run && !rows.is_empty() {
        for edited in &files {
            record::replace(&project.root, edited)?;
        }
        record.write(&project.root)?;
    }
    let absent: Vec<&String> = absent.iter().map(|row| &row.row).collect();
    output.json(&json!({ "rows": rows, "absent": absent, "diff": diff, "written": !dry_run && !rows.is_empty() }));
    Ok(ExitCode::SUCCESS)
}

/// Shows what changes in the files, and returns it.
fn diff(files: &[Edited], output: Output) -> String {
    let mut all = String::new();
    for Edited { path, old, new } in files {
        let path = path.display().to_string();
        all += &unified::of_file(&path, &path, Some(old.clone().into()), Some(new.clone().into()));
    }
    if output.is_talkative() && !all.is_empty() {
        output.text(&all, unified::colour);
    }
    all
}

fn show(tuned: &Tuned, output: Output) {
    let more = tuned.cases.len() - 1;
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    output.line(format!("{} of {}: {}{more}", style::strong(&tuned.table), tuned.file.display(), tuned.cases[0]));
    for line in &tuned.candidates {
        let figures = line.share.map_or_else(String::new, |share| {
            let spread = line.spread.unwrap_or_default();
            let us = line.us.first().map_or(0.0, |(_, us)| *us);
            format!("{:6.1} % of the copy ±{:.1}, {us:.2} us, {} rounds", share * 100.0, spread * 100.0, line.rounds)
        });
        let is_best = tuned.best.as_ref() == Some(&line.row);
        let said = match line.outcome {
            _ if is_best => style::good("best"),
            Outcome::Timed if line.row == tuned.present => "present".to_owned(),
            Outcome::NotBuilt => style::warning("not built"),
            Outcome::Wrong => style::bad("wrong, not timed"),
            Outcome::Timed | Outcome::Behind | Outcome::SameLaunch => String::new(),
        };
        let why = line.why.as_deref().and_then(|why| why.lines().next()).unwrap_or_default();
        let parts = [said.as_str(), figures.trim_start(), why];
        let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        output.line(format!("  {}  {}", line.row, parts.join("; ")));
    }
    if tuned.best.is_none() {
        output.line("  no row is faster than the present one by more than the spread; it stays");
    }
}
