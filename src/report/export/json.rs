//! The report as JSON.

use anyhow::Result;

use super::Export;
use crate::bench::BenchReport;

/// `.json`: [`BenchReport`] in full precision.
#[derive(Debug)]
pub(crate) struct Json;

impl Export for Json {
    fn render(&self, report: &BenchReport) -> Result<String> {
        Ok(serde_json::to_string_pretty(report)? + "\n")
    }
}
