//! The report as it is.

use anyhow::Result;

use super::Export;
use crate::bench::BenchReport;

/// `.json`: [`BenchReport`], every digit of it.
#[derive(Debug)]
pub struct Json;

impl Export for Json {
    fn render(&self, report: &BenchReport) -> Result<String> {
        Ok(serde_json::to_string_pretty(report)? + "\n")
    }
}
