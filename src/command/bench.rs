//! `kernels bench`.

use std::process::ExitCode;

use anyhow::Result;

use super::prepare::{self, Progress};
use crate::bench::{BenchReport, Residency, run};
use crate::cli::project::Bench;
use crate::report::{Output, style};

/// Times a project on a card; exit 1 on findings.
pub fn run(arguments: &Bench, output: Output) -> Result<ExitCode> {
    let progress = Progress::new(output);
    let card = prepare::card(arguments.selection.device)?;
    let (project, build) = prepare::build_for(&arguments.dir, &card, arguments.record, &progress)?;
    let choice = prepare::choice(&arguments.selection, true)?;
    let report = run::run(&project, &build, &choice, arguments.rounds, &|what| progress.tell(what))?;
    progress.done();
    show(&report, output);
    output.json(&report);
    Ok(if report.findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The report for people.
#[allow(clippy::cast_precision_loss)]
pub fn show(report: &BenchReport, output: Output) {
    for case in &report.cases {
        output.line(format!(
            "{} {} {:.2} us copy {:.2} {:.1} %",
            style::strong(&case.operation),
            case.case,
            case.kernel.median,
            case.copy.median,
            100.0 * case.of_roof()
        ));
        let _ = case.residency == Residency::Cold;
    }
    for finding in &report.findings {
        output.line(format!("{} {}", style::bad("finding"), finding.message));
    }
}
