//! Raw numbers for a spreadsheet or a data frame: RFC 4180, one line a case.

use anyhow::Result;

use super::Export;
use crate::bench::BenchReport;
use crate::report::figure;

/// `.csv`: the columns of [`TITLES`], unrounded.
#[derive(Debug)]
pub struct Csv;

/// The first line. Times are microseconds a launch, bytes the fewest that must move.
pub(super) const TITLES: [&str; 22] = [
    "project",
    "operation",
    "case",
    "dtype",
    "residency",
    "slots",
    "bytes",
    "flops",
    "median_us",
    "p10_us",
    "p90_us",
    "min_us",
    "samples",
    "copy_median_us",
    "copy_p10_us",
    "copy_p90_us",
    "of_roof",
    "gbs",
    "card",
    "driver",
    "compiler",
    "seed",
];

impl Export for Csv {
    fn render(&self, report: &BenchReport) -> Result<String> {
        let mut text = line(TITLES.map(str::to_owned));
        for case in &report.cases {
            text.push_str(&line([
                report.project.clone(),
                case.operation.clone(),
                case.case.clone(),
                case.dtype.name().to_owned(),
                figure::residency(case).to_owned(),
                case.slots.to_string(),
                case.bytes.to_string(),
                case.flops.to_string(),
                case.kernel.median.to_string(),
                case.kernel.p10.to_string(),
                case.kernel.p90.to_string(),
                case.kernel.min.to_string(),
                case.kernel.samples.to_string(),
                case.copy.median.to_string(),
                case.copy.p10.to_string(),
                case.copy.p90.to_string(),
                case.of_roof().to_string(),
                case.gbs().to_string(),
                report.card.name.clone(),
                report.card.driver.clone().unwrap_or_default(),
                report.compiler.clone(),
                report.seed.to_string(),
            ]));
        }
        Ok(text)
    }
}

fn line<const N: usize>(fields: [String; N]) -> String {
    fields.map(|field| quoted(&field)).join(",") + "\r\n"
}

fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\r', '\n']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}
