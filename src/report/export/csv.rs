//! Raw numbers for a spreadsheet or a data frame: RFC 4180, one line per case.

use anyhow::Result;

use super::Export;
use crate::bench::BenchReport;
use crate::report::{beside, figure};

/// `.csv`: the columns of [`TITLES`], unrounded; then the peers' medians, if any were timed.
#[derive(Debug)]
pub(crate) struct Csv;

/// The header. Times are microseconds per launch, bytes the minimum that must be moved.
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
        let names = beside::names(report);
        let is_beside = beside::cases(report).next().is_some();
        let mut titles: Vec<String> = TITLES.map(str::to_owned).to_vec();
        if is_beside {
            let others = ["copy", "kernels"].iter().chain(&names);
            titles.extend(others.map(|name| format!("against_{name}_us")));
        }
        let mut text = line(&titles);
        for case in &report.cases {
            let mut fields = vec![
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
            ];
            if is_beside {
                let against = case.against.as_ref();
                let own = [against.and_then(|against| against.copy), against.and_then(|against| against.kernel)];
                // The time of a wrong result is left out.
                let theirs = names.iter().map(|name| {
                    let peer = beside::find(against?, name)?;
                    peer.time.filter(|_| peer.wrong.is_none())
                });
                let median =
                    |time: Option<crate::bench::Spread>| time.map_or_else(String::new, |time| time.median.to_string());
                fields.extend(own.into_iter().chain(theirs).map(median));
            }
            text.push_str(&line(&fields));
        }
        Ok(text)
    }
}

fn line(fields: &[String]) -> String {
    let quoted: Vec<String> = fields.iter().map(|field| quoted(field)).collect();
    quoted.join(",") + "\r\n"
}

pub(crate) fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\r', '\n']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}
