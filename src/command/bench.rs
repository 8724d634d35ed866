//! `kernels bench`.

use std::process::ExitCode;

use anyhow::{Result, bail};
use serde_json::json;

use super::bench_e2e;
use super::failure::Usage;
use super::prepare;
use crate::against::{self, Interpreter, Peer};
use crate::bench::BenchReport;
use crate::cli::project::Bench;
use crate::project::Project;
use crate::report::table::window;
use crate::report::{Output, Progress, beside, export, style, timing};
use crate::session::{ROUNDS, Session};
use crate::tune;
use crate::verify::Choice;
use crate::verify::VerifyReport;

/// The fewest rounds of a case, of which a median and its spread say something.
const LEAST: u32 = 5;

/// Times a project on a card; exit 1 on findings.
pub(crate) fn run(arguments: &Bench, output: Output) -> Result<ExitCode> {
    if arguments.e2e {
        return bench_e2e::run(arguments, output);
    }
    for path in &arguments.export {
        export::of(path)?;
    }
    let peers = Peer::parse_all(&arguments.against)?;
    let python = if peers.is_empty() { None } else { Some(Interpreter::find(arguments.python.as_ref(), "--against")?) };
    let selection = &arguments.selection;
    let partial = selection.filter.is_some() || !selection.shape.is_empty() || !selection.dtype.is_empty();
    if arguments.record && partial {
        return Err(Usage(
            "--record keeps the whole of a project's cases: leave out --filter, --dtype and --shape".to_owned(),
        )
        .into());
    }
    let rounds = arguments.rounds.unwrap_or(ROUNDS);
    if rounds < LEAST {
        return Err(Usage(format!("--rounds {rounds}: a median and its spread take {LEAST} rounds or more")).into());
    }
    let progress = Progress::new(output);
    let tell = |what: &str| progress.tell(what);
    let choice = prepare::choice(selection, true)?;
    let mut project = Project::open(&arguments.dir)?;
    for why in prepare::of_shapes(&mut project, &choice)? {
        output.note(format!("left out: {why}"));
    }
    let card = prepare::card(selection.device)?;
    prepare::say_if_slow(output);
    let session = Session::open(project, &card, arguments.record, &tell)?;
    let verified = if arguments.record { Some(verified(&session, &choice, &progress, output)?) } else { None };
    let mut report = session.bench(&choice, rounds, &tell)?;
    if !arguments.record && !session.project.spec.tunings.is_empty() {
        let missing = tune::measured::missing(&session.project, &card, &report.cases);
        report.remarks.extend(missing.unwrap_or_else(|why| vec![format!("tuning tables: {why:#}")]));
    }
    // A measurement is shown even when a peer fails.
    let others = python.map_or(Ok(()), |python| {
        let who = (peers.as_slice(), &python, rounds);
        against::run(&mut report, &session.project, &session.build, &choice, who, &tell)
    });
    progress.done();
    show(&report, output);
    for path in &arguments.export {
        export::write(&report, path)?;
        output.note(format!("wrote {}", path.display()));
    }
    others?;
    if let Some(verified) = &verified {
        let recorded = session.record(arguments.evidence.as_deref(), &report, verified)?;
        for path in &recorded {
            output.note(format!("recorded {}{}", path.display(), prepare::signed(path, arguments.sign.as_deref())?));
        }
        output.json(&json!({ "bench": report, "verification": verified, "recorded": recorded }));
    } else {
        output.json(&report);
    }
    Ok(if report.findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The verification that evidence needs, on every code path; an error on any finding.
fn verified(session: &Session, choice: &Choice, progress: &Progress, output: Output) -> Result<VerifyReport> {
    session.within_budgets()?;
    let every_path = Choice { native_only: false, ..choice.clone() };
    let verified = session.verify(&every_path, &|what| progress.tell(what))?;
    progress.done();
    super::verify::show(&verified, output);
    if !verified.passed() {
        bail!("nothing was timed or recorded: verification found the above");
    }
    Ok(verified)
}

fn show(report: &BenchReport, output: Output) {
    prepare::show_heading(&report.project, &report.card, &report.compiler, report.seed, output);
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
