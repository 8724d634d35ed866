//! `kernels verify`.

use std::process::ExitCode;

use anyhow::Result;

use super::prepare::{self, Progress};
use crate::cli::project::Verify;
use crate::report::{Output, style};
use crate::verify::{Finding, VerifyReport, run, sanitize};

/// Checks a project on a card; exit 1 on findings.
pub fn run(arguments: &Verify, output: Output) -> Result<ExitCode> {
    let progress = Progress::new(output);
    let card = prepare::card(arguments.selection.device)?;
    if sanitize::inside().is_none() && arguments.sanitize {
        prepare::build_for(&arguments.dir, &card, false, &progress)?;
        progress.done();
        return sanitize_all(arguments, output);
    }
    let native_only = arguments.native_only || sanitize::inside().is_some();
    let (project, build) = prepare::build_for(&arguments.dir, &card, !native_only, &progress)?;
    let mut choice = prepare::choice(&arguments.selection, native_only)?;
    choice.only_arch = arguments.path_arch;
    let report = run::run(&project, &build, &choice, &|what| progress.tell(what))?;
    progress.done();
    show(&report, output);
    output.json(&report);
    Ok(if report.passed() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// The report for people.
pub fn show(report: &VerifyReport, output: Output) {
    prepare::show_heading(
        &report.project,
        &report.card,
        &report.compiler,
        report.seed,
        output,
    );
    for held in &report.confinement {
        output.line(style::faint(format!("  held: {held}")));
    }
    for path in &report.paths {
        let name = if path.jit {
            format!("compute_{} through the driver's compiler", path.arch)
        } else {
            format!("sm_{}", path.arch)
        };
        output.line(format!(
            "  {name}: {} cases, {} launches, {} elements against fp64, largest error {} of its budget, {:.1} s",
            path.cases,
            path.launches,
            path.elements,
            if path.worst < 1e3 { format!("{:.2}", path.worst) } else { format!("{:.0e}", path.worst) },
            path.seconds
        ));
    }
    for finding in &report.findings {
        show_finding(finding, output);
    }
    if report.passed() {
        output.line(style::good("all right"));
    }
}

/// One thing that is wrong, for people.
pub fn show_finding(finding: &Finding, output: Output) {
    output.line(format!(
        "{} {} {} [{}]\n    {}",
        style::bad(finding.kind.name()),
        style::strong(&finding.operation),
        finding.case.as_deref().unwrap_or(""),
        finding.path,
        finding.message
    ));
}

fn sanitize_all(arguments: &Verify, output: Output) -> Result<ExitCode> {
    let selection = &arguments.selection;
    let mut inner = vec!["--device".to_owned(), selection.device.to_string()];
    let mut pass = |flag: &str, values: &[String]| {
        for value in values {
            inner.extend([flag.to_owned(), value.clone()]);
        }
    };
    pass("--dtype", &selection.dtype);
    pass("--shape", &selection.shape);
    pass("--filter", selection.filter.as_slice());
    pass(
        "--seed",
        selection.seed.map(|seed| seed.to_string()).as_slice(),
    );
    let results = sanitize::run(&arguments.dir, &inner)?;
    for result in &results {
        output.line(format!(
            "{} {}: {}",
            if result.clean {
                style::good("clean")
            } else {
                style::bad("sanitizer")
            },
            style::strong(&result.tool),
            result.summary
        ));
        if !result.clean {
            output.line(&result.text);
        }
    }
    output.json(&results);
    Ok(if results.iter().all(|result| result.clean) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
