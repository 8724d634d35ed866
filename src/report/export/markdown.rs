//! A table for an issue, a pull request or a README.

use std::fmt::Write as _;

use anyhow::Result;

use super::Export;
use crate::bench::BenchReport;
use crate::report::markdown::{cell, row, titles};
use crate::report::{beside, figure};

/// `.md`: one row per case, and a line under it that says how the figures were measured.
#[derive(Debug)]
pub(crate) struct Markdown;

impl Export for Markdown {
    fn render(&self, report: &BenchReport) -> Result<String> {
        Ok(table(report))
    }
}

/// The table and the lines under it.
pub(super) fn table(report: &BenchReport) -> String {
    let mut text = titles([
        "operation",
        "case",
        "dtype",
        ">MB",
        ">µs, median [p10–p90]",
        ">GB/s",
        ">% of roof",
        ">% of datasheet peak",
        "data",
    ]);
    for case in &report.cases {
        let peak = figure::of_peak(case, report.card.peak_gbs);
        text += &row([
            cell(&case.operation),
            cell(figure::shape(case)),
            case.dtype.name().to_owned(),
            figure::megabytes(case.bytes),
            figure::spread(case.kernel, '[', ']'),
            figure::gbs(case.gbs()),
            figure::percent(case.of_roof()),
            peak.map_or_else(|| figure::NONE.to_owned(), figure::percent),
            figure::residency(case).to_owned(),
        ]);
    }
    let _ = writeln!(
        text,
        "\n{}, driver {}, nvcc {}, seed {}. Roof: a copy of the same bytes on the same card, alternated with the kernel.",
        cell(&report.card.name),
        cell(report.card.driver.as_deref().unwrap_or("unknown")),
        cell(&report.compiler),
        report.seed,
    );
    beside_table(report, &mut text);
    for remark in &report.remarks {
        let _ = writeln!(text, "\nRemark: {}", cell(remark));
    }
    for case in &report.cases {
        for remark in &case.remarks {
            let _ = writeln!(text, "\nRemark on {} {}: {}", cell(&case.operation), cell(&case.case), cell(remark));
        }
    }
    for finding in &report.findings {
        let case = finding.case.as_deref().unwrap_or("the whole project");
        let _ = writeln!(text, "\n**Wrong**: {} {}: {}", cell(&finding.operation), cell(case), cell(&finding.message));
    }
    text
}

/// Peers' times, if any.
fn beside_table(report: &BenchReport, text: &mut String) {
    if beside::cases(report).next().is_none() {
        return;
    }
    let names = beside::names(report);
    let _ = writeln!(text, "\n{}:\n", cell(&beside::heading(report)));
    let mut heads = ["operation", "case", "dtype", ">copy", ">ours"].map(str::to_owned).to_vec();
    heads.extend(names.iter().map(|name| format!(">{}", cell(name))));
    heads.push("best, ×".to_owned());
    *text += &titles(heads);
    for (case, against) in beside::cases(report) {
        let mut cells = vec![
            cell(&case.operation),
            cell(figure::shape(case)),
            case.dtype.name().to_owned(),
            figure::median(against.copy),
            figure::median(against.kernel),
        ];
        cells.extend(names.iter().map(|name| cell(&beside::time(beside::find(against, name)))));
        cells.push(cell(&beside::best(against)));
        *text += &row(cells);
    }
    for note in beside::notes(report) {
        let _ = writeln!(text, "\n{}", cell(&note));
    }
}
