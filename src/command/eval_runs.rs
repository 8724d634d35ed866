//! `kernels skills runs`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use serde_json::json;

use super::eval::{self, RUNS};
use crate::cli::eval::Runs;
use crate::eval::plan::Header;
use crate::eval::row::Row;
use crate::eval::summary::Summary;
use crate::eval::{self as evaluation, picture};
use crate::report::{Output, style};

pub(super) fn run(arguments: &Runs, output: Output) -> Result<ExitCode> {
    let folders = if arguments.runs.is_empty() { eval::kept(Path::new(RUNS))? } else { arguments.runs.clone() };
    let mut runs: Vec<(PathBuf, Header, Vec<Row>)> = Vec::new();
    for folder in folders {
        let (header, rows) = evaluation::run::read(&folder)?;
        runs.push((folder, header, rows));
    }
    if arguments.csv {
        output.content(csv(&runs).as_bytes());
        return Ok(ExitCode::SUCCESS);
    }
    let parts: Vec<(Header, Vec<Row>)> = runs.iter().map(|(_, header, rows)| (header.clone(), rows.clone())).collect();
    eval::write(&arguments.pictures, &parts)?;
    let mut reports = Vec::new();
    for (folder, header, rows) in &runs {
        let summary = Summary::of(header, rows);
        let all =
            header.agents.len() * header.arms.len() * header.cli.len() * header.digests.len() * header.runs as usize;
        let done = format!("{} of {all} runs", rows.len());
        output.line(format!("{}  {}  {done}", style::strong(folder.display()), picture::title(header)));
        if !arguments.runs.is_empty() {
            eval::show(&summary, output);
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

/// One line a row. A cell that a spreadsheet would take for a formula begins with an apostrophe.
fn csv(runs: &[(PathBuf, Header, Vec<Row>)]) -> String {
    let mut text = String::from(
        "run,agent,kernels,arm,task,k,outcome,score,harm,loaded,fresh,cached,written,out,reasoning,requests,turns,calls,failed_calls,seconds,usd,why\n",
    );
    for (folder, _, rows) in runs {
        for row in rows {
            let usage = row.usage.map(|u| [u.fresh, u.cached, u.written, u.out, u.reasoning, u.requests]);
            let counts: [Option<u64>; 6] = usage.map_or([None; 6], |counts| counts.map(Some));
            let counted = |count: Option<u64>| count.map_or_else(String::new, |count| count.to_string());
            let mut cells = vec![
                folder.display().to_string(),
                row.agent.clone(),
                if row.cli { "on" } else { "off" }.to_owned(),
                row.arm.clone(),
                row.task.clone(),
                row.run.to_string(),
                row.outcome().word().to_owned(),
                format!("{:.4}", row.verdict.score),
                row.verdict.harm.join("; "),
                row.loaded.map_or_else(String::new, |loaded| loaded.to_string()),
            ];
            cells.extend(counts.map(counted));
            cells.extend([row.turns, row.calls, row.failed_calls].map(|count| counted(count.map(u64::from))));
            cells.push(format!("{:.1}", row.seconds));
            cells.push(row.usd.map_or_else(String::new, |usd| format!("{usd:.6}")));
            cells.push(row.verdict.why.clone());
            text += &cells.iter().map(|cell| quoted(cell)).collect::<Vec<_>>().join(",");
            text.push('\n');
        }
    }
    text
}

fn quoted(cell: &str) -> String {
    let formula = cell.starts_with(['=', '+', '-', '@', '\t', '\r']) && cell.parse::<f64>().is_err();
    let cell = if formula { format!("'{cell}") } else { cell.to_owned() };
    if cell.contains([',', '"', '\n', '\r']) { format!("\"{}\"", cell.replace('"', "\"\"")) } else { cell }
}
