//! Several installs changed by one command: what was done, what was not, and the exit code.

use std::process::ExitCode;

use anyhow::Result;
use serde_json::Value;

use super::failure;
use crate::cli::skills::Looking;
use crate::install::Refusal;
use crate::install::refusal::Refused;
use crate::report::Output;

#[derive(Default)]
pub(crate) struct Batch {
    /// A report for each skill that was installed, or would be.
    reports: Vec<Value>,
    /// How many places changed, or would.
    changes: usize,
    /// Protected installs; they do not block the others.
    refused: Vec<Refused>,
    /// What could not be done, and why.
    pub(crate) failed: Vec<String>,
}

impl Batch {
    /// Takes the outcome of installing one skill: its report and how many places changed.
    pub(crate) fn take(&mut self, outcome: Result<(Value, usize)>) {
        match outcome.map_err(anyhow::Error::downcast::<Refusal>) {
            Ok((report, changes)) => {
                self.failed.extend(conflicts(&report));
                self.failed.extend(report["not_pinned"].as_str().map(str::to_owned));
                self.reports.push(report);
                self.changes += changes;
            }
            Err(Ok(refusal)) => self.refused.extend(refusal.0),
            Err(Err(error)) => self.failed.push(failure::message(&error)),
        }
    }

    /// Ends the command: prints `report` with the reports under `key`, or without a key the only report itself, and what went
    /// wrong.
    pub(crate) fn end(mut self, key: Option<&str>, mut report: Value, looking: Looking, output: Output) -> ExitCode {
        self.failed.extend(failure::pending(self.changes, looking));
        match key {
            Some(key) => report[key] = self.reports.into(),
            None => report = self.reports.pop().unwrap_or(report),
        }
        failure::end(report, self.refused, &self.failed, output)
    }
}

/// Unresolved conflicts in the installs of a report. They give exit code 1, as in git.
fn conflicts(report: &Value) -> Vec<String> {
    let words = |of: &Value| of.as_str().unwrap_or_default().to_owned();
    let waits = |step: &Value| {
        let files: Vec<String> = step["conflicts"].as_array()?.iter().map(|change| words(&change["path"])).collect();
        (!files.is_empty()).then(|| format!("conflicts wait in {}: {}", words(&step["path"]), files.join(", ")))
    };
    report["steps"].as_array().into_iter().flatten().filter_map(waits).collect()
}
