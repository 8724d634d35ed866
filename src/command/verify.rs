//! `kernels verify`.

use std::process::ExitCode;

use anyhow::Result;

use super::prepare;
use crate::cli::project::Verify;
use crate::project::Project;
use crate::report::{Output, Progress, style};
use crate::session::Session;
use crate::verify::{Choice, Finding, VerifyReport, sanitize};

/// Checks a project on a card; exit 1 on findings.
pub(crate) fn run(arguments: &Verify, output: Output) -> Result<ExitCode> {
    let progress = Progress::new(output);
    let tell = |what: &str| progress.tell(what);
    let native_only = arguments.native_only || arguments.sanitize;
    let choice = prepare::choice(&arguments.selection, native_only)?;
    let mut project = Project::open(&arguments.dir)?;
    for why in prepare::of_shapes(&mut project, &choice)? {
        output.note(format!("left out: {why}"));
    }
    let card = prepare::card(arguments.selection.device)?;
    prepare::say_if_slow(output);
    let session = Session::open(project, &card, !native_only, &tell)?;
    if arguments.sanitize {
        progress.done();
        return sanitize_all(&session.project, &choice, output);
    }
    let report = session.verify(&choice, &tell)?;
    progress.done();
    show(&report, output);
    output.json(&report);
    Ok(if report.passed() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

pub(crate) fn show(report: &VerifyReport, output: Output) {
    prepare::show_heading(&report.project, &report.card, &report.compiler, report.seed, output);
    for held in &report.confinement {
        output.line(style::faint(format!("  held: {held}")));
    }
    for path in &report.paths {
        let name = path.name();
        if let Some(alike) = path.alike() {
            output.line(format!("  {name}: {alike}"));
            continue;
        }
        output.line(format!(
            "  {name}: {} cases, {} launches, {} elements against fp64, largest error {} of its budget, {:.1} s",
            path.cases,
            path.launches,
            path.elements,
            if path.worst < 1e3 { format!("{:.2}", path.worst) } else { format!("{:.0e}", path.worst) },
            path.seconds
        ));
    }
    for operation in &report.operations {
        output.line(style::faint(format!("  {}: {}", operation.operation, operation.words())));
        for own in operation.own() {
            output.line(format!("{} {own}", style::warning("remark")));
        }
    }
    for finding in &report.findings {
        show_finding(finding, output);
    }
    if report.passed() {
        output.line(style::good("no findings"));
    }
}

pub(crate) fn show_finding(finding: &Finding, output: Output) {
    output.line(format!(
        "{} {} {} [{}]\n    {}",
        style::bad(finding.kind.name()),
        style::strong(&finding.operation),
        finding.case.as_deref().unwrap_or(""),
        finding.path,
        finding.message
    ));
}

fn sanitize_all(project: &Project, choice: &Choice, output: Output) -> Result<ExitCode> {
    let results = sanitize::run(&project.root, choice)?;
    for result in &results {
        output.line(format!(
            "{} {}: {}",
            if result.clean { style::good("clean") } else { style::bad("sanitizer") },
            style::strong(&result.tool),
            result.summary
        ));
        if !result.clean {
            output.line(&result.text);
        }
    }
    output.json(&results);
    Ok(if results.iter().all(|result| result.clean) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
