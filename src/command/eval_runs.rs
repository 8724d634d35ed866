//! `kernels skills runs`.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use serde_json::json;

use super::eval::{self, RUNS};
use crate::cli::eval::Runs;
use crate::eval::report::Report;
use crate::eval::row::Row;
use crate::eval::tables::{Column, on};
use crate::report::export::csv::quoted;
use crate::report::{Output, style};

pub(super) fn run(arguments: &Runs, output: Output) -> Result<ExitCode> {
    let folders = if arguments.runs.is_empty() { eval::kept(Path::new(RUNS))? } else { arguments.runs.clone() };
    let runs: Vec<Report> = folders.iter().map(|folder| Report::read(folder)).collect::<Result<_>>()?;
    if arguments.csv {
        output.content(csv(&runs).as_bytes());
        return Ok(ExitCode::SUCCESS);
    }
    eval::write(&arguments.pictures, &runs)?;
    let mut reports = Vec::new();
    for Report { folder, header, rows, summary } in &runs {
        let all =
            header.agents.len() * header.arms.len() * header.cli.len() * header.digests.len() * header.runs as usize;
        let done = format!("{} of {all} runs", rows.len());
        output.line(format!("{}  {}  {done}", style::strong(folder.display()), header.title()));
        if !arguments.runs.is_empty() {
            eval::show(summary, output);
        }
        reports.push(json!({
            "run": folder.to_string_lossy(),
            "header": header,
            "done": rows.len(),
            "of": all,
            "summary": summary,
        }));
    }
    if runs.is_empty() {
        output.line(format!("no runs in {RUNS}; `kernels skills eval` makes one"));
    }
    output.json(&json!({ "runs": reports }));
    Ok(ExitCode::SUCCESS)
}

const COLUMNS: [Column<Row>; 21] = [
    ("agent", |row| row.agent.clone()),
    ("kernels", |row| on(row.cli).to_owned()),
    ("arm", |row| row.arm.clone()),
    ("task", |row| row.task.clone()),
    ("k", |row| row.run.to_string()),
    ("outcome", |row| row.outcome().word().to_owned()),
    ("score", |row| format!("{:.4}", row.verdict.score)),
    ("harm", |row| row.verdict.harm.join("; ")),
    ("loaded", |row| known(row.took.loaded)),
    ("fresh", |row| known(row.took.usage.map(|usage| usage.fresh))),
    ("cached", |row| known(row.took.usage.map(|usage| usage.cached))),
    ("written", |row| known(row.took.usage.map(|usage| usage.written))),
    ("out", |row| known(row.took.usage.map(|usage| usage.out))),
    ("reasoning", |row| known(row.took.usage.map(|usage| usage.reasoning))),
    ("requests", |row| known(row.took.usage.map(|usage| usage.requests))),
    ("turns", |row| known(row.took.turns)),
    ("calls", |row| known(row.took.calls)),
    ("failed_calls", |row| known(row.took.failed_calls)),
    ("seconds", |row| format!("{:.1}", row.took.seconds)),
    ("usd", |row| known(row.took.usd.map(|usd| format!("{usd:.6}")))),
    ("why", |row| row.verdict.why.clone()),
];

fn known(value: Option<impl ToString>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

/// One line a row.
fn csv(runs: &[Report]) -> String {
    let mut text = format!("run,{}\n", COLUMNS.map(|(head, _)| head).join(","));
    for (folder, row) in runs.iter().flat_map(|run| run.rows.iter().map(|row| (run.folder.display(), row))) {
        let cells = COLUMNS.iter().map(|(_, cell)| cell(row));
        let cells: Vec<String> =
            std::iter::once(folder.to_string()).chain(cells).map(|cell| no_formula(&cell)).collect();
        text += &(cells.join(",") + "\n");
    }
    text
}

/// A cell that a spreadsheet would take for a formula begins with an apostrophe.
fn no_formula(cell: &str) -> String {
    let formula = cell.starts_with(['=', '+', '-', '@', '\t', '\r']) && cell.parse::<f64>().is_err();
    quoted(&if formula { format!("'{cell}") } else { cell.to_owned() })
}
