//! `kernels bench`.

use std::process::ExitCode;

use anyhow::{Result, bail};
use serde_json::json;

use super::bench_e2e;
use super::failure::Usage;
use super::prepare::{self, Progress};
use crate::against::{self, Interpreter, Peer};
use crate::bench::{BenchReport, run};
use crate::cli::project::Bench;
use crate::evidence;
use crate::report::table::window;
use crate::report::{Output, beside, export, style, timing};
use crate::verify;

/// Timed rounds of a case.
const ROUNDS: u32 = 30;

/// Times a project on a card; exit 1 on findings.
pub fn run(arguments: &Bench, output: Output) -> Result<ExitCode> {
    if arguments.e2e {
        return bench_e2e::run(arguments, output);
    }
    let rounds = arguments.rounds.unwrap_or(ROUNDS);
    for path in &arguments.export {
        export::of(path)?;
    }
    let peers = Peer::parse_all(&arguments.against)?;
    let python = if peers.is_empty() {
        None
    } else {
        Some(Interpreter::find(arguments.python.as_ref(), "--against")?)
    };
    let selection = &arguments.selection;
    let partial =
        selection.filter.is_some() || !selection.shape.is_empty() || !selection.dtype.is_empty();
    if arguments.record && partial {
        return Err(Usage(
            "--record keeps the whole of a project's cases: leave out --filter, --dtype and --shape".to_owned(),
        )
        .into());
    }
    let progress = Progress::new(output);
    let card = prepare::card(selection.device)?;
    let (project, build) = prepare::build_for(&arguments.dir, &card, arguments.record, &progress)?;
    let over = build.over_budget(&project);
    if arguments.record && !over.is_empty() {
        bail!(
            "nothing was recorded, a budget is overrun:\n{}",
            over.join("\n")
        );
    }
    let choice = prepare::choice(selection, true)?;
    let verified = if arguments.record {
        let mut every_path = choice.clone();
        every_path.native_only = false;
        let verified =
            verify::run::run(&project, &build, &every_path, &|what| progress.tell(what))?;
        progress.done();
        super::verify::show(&verified, output);
        if !verified.passed() {
            bail!("nothing was timed or recorded: verification found the above");
        }
        Some(verified)
    } else {
        None
    };
    let mut report = run::run(&project, &build, &choice, rounds, &|what| {
        progress.tell(what);
    })?;
    // What was measured is shown whatever becomes of the others.
    let others = python.map_or(Ok(()), |python| {
        let who = (peers.as_slice(), &python, rounds);
        against::run(&mut report, &project, &build, &choice, who, &|what| {
            progress.tell(what);
        })
    });
    progress.done();
    show(&report, output);
    for path in &arguments.export {
        export::write(&report, path)?;
        output.note(format!("wrote {}", path.display()));
    }
    others?;
    let mut recorded = Vec::new();
    if let Some(verified) = &verified {
        let folder = evidence::folder(&project.root, arguments.evidence.as_deref());
        let digest = build.device_digest()?;
        recorded = evidence::record(&folder, &report, verified, &digest, (&project).into())?;
        for path in &recorded {
            output.note(format!("recorded {}", path.display()));
        }
    }
    if verified.is_some() {
        output.json(&json!({ "bench": report, "verification": verified, "recorded": recorded }));
    } else {
        output.json(&report);
    }
    Ok(if report.findings.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// The report for people.
fn show(report: &BenchReport, output: Output) {
    prepare::show_heading(
        &report.project,
        &report.card,
        &report.compiler,
        report.seed,
        output,
    );
    for line in timing::table(report).lines(window()) {
        output.line(line);
    }
    if let Some(table) = beside::table(report) {
        output.line("");
        output.line(beside::heading(report));
        for line in table.lines(window()) {
            output.line(line);
        }
        for note in beside::notes(report) {
            output.line(style::faint(note));
        }
    }
    for remark in &report.remarks {
        output.line(format!("{} {remark}", style::warning("remark")));
    }
    for case in report.cases.iter().filter(|case| !case.remarks.is_empty()) {
        output.line(format!(
            "{} {} {}: {}",
            style::warning("remark"),
            case.operation,
            case.case,
            case.remarks.join("; ")
        ));
    }
    for finding in &report.findings {
        super::verify::show_finding(finding, output);
    }
}
