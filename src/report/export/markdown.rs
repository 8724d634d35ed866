//! A table for an issue, a pull request or a README.

use std::fmt::Write as _;

use anyhow::Result;

use super::Export;
use crate::bench::BenchReport;
use crate::report::{beside, figure};

/// `.md`: one row a case, and a line under it that says how the figures came about.
#[derive(Debug)]
pub struct Markdown;

impl Export for Markdown {
    fn render(&self, report: &BenchReport) -> Result<String> {
        Ok(table(report))
    }
}

/// The table and the lines under it.
pub(super) fn table(report: &BenchReport) -> String {
    let mut text = String::from(
        "| operation | case | dtype | MB | µs, median [p10–p90] | GB/s | % of roof | % of datasheet peak | data |\n\
         |---|---|---|--:|--:|--:|--:|--:|---|\n",
    );
    for case in &report.cases {
        let peak = figure::of_peak(case, report.card.peak_gbs);
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} [{}–{}] | {} | {} | {} | {} |",
            cell(&case.operation),
            cell(figure::shape(case)),
            case.dtype.name(),
            figure::megabytes(case.bytes),
            figure::micros(case.kernel.median),
            figure::micros(case.kernel.p10),
            figure::micros(case.kernel.p90),
            figure::gbs(case.gbs()),
            figure::percent(case.of_roof()),
            peak.map_or_else(|| figure::NONE.to_owned(), figure::percent),
            figure::residency(case),
        );
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
            let _ = writeln!(
                text,
                "\nRemark on {} {}: {}",
                cell(&case.operation),
                cell(&case.case),
                cell(remark)
            );
        }
    }
    for finding in &report.findings {
        let case = finding.case.as_deref().unwrap_or("the whole project");
        let _ = writeln!(
            text,
            "\n**Wrong**: {} {}: {}",
            cell(&finding.operation),
            cell(case),
            cell(&finding.message)
        );
    }
    text
}

/// Others' times, where there are any.
fn beside_table(report: &BenchReport, text: &mut String) {
    if beside::cases(report).next().is_none() {
        return;
    }
    let names = beside::names(report);
    let _ = writeln!(text, "\n{}:\n", cell(&beside::heading(report)));
    let titles: Vec<String> = names.iter().map(|name| cell(name)).collect();
    let join = |cells: &[String]| {
        cells
            .iter()
            .fold(String::new(), |row, one| row + " | " + one)
    };
    let _ = writeln!(
        text,
        "| operation | case | dtype | copy | ours{} | best, × |",
        join(&titles)
    );
    let _ = writeln!(
        text,
        "|---|---|---|--:|--:{}|---|",
        "|--:".repeat(names.len())
    );
    for (case, against) in beside::cases(report) {
        let micros = |spread: Option<crate::bench::Spread>| {
            spread.map_or_else(
                || figure::NONE.to_owned(),
                |spread| figure::micros(spread.median),
            )
        };
        let times: Vec<String> = names
            .iter()
            .map(|name| cell(&beside::time(beside::find(against, name))))
            .collect();
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {}{} | {} |",
            cell(&case.operation),
            cell(figure::shape(case)),
            case.dtype.name(),
            micros(against.copy),
            micros(against.kernel),
            join(&times),
            cell(&beside::best(against)),
        );
    }
    for note in beside::notes(report) {
        let _ = writeln!(text, "\n{}", cell(&note));
    }
}

/// Text that stays in its cell and is shown as it is written.
pub fn cell(text: &str) -> String {
    let mut safe = String::with_capacity(text.len() + 8);
    let mut before = ' ';
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let inside_a_word =
            before.is_alphanumeric() && rest.peek().is_some_and(|next| next.is_alphanumeric());
        match c {
            // A reference instead of `\|`, which not every renderer reads alike.
            '|' => safe.push_str("&#124;"),
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '_' if inside_a_word => safe.push(c),
            '\\' | '`' | '*' | '_' | '[' | ']' | '~' | '$' => {
                safe.push('\\');
                safe.push(c);
            }
            c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') => safe.push(' '),
            c => safe.push(c),
        }
        before = c;
    }
    safe
}
