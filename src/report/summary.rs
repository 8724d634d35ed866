//! Checks as Markdown, for the summary page of a GitHub job.

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;

use anyhow::{Context, Result};

use super::check::{Check, Status, Suite};
use super::markdown::{cell, row, titles};

/// How many passed checks of one kind are listed before the rest is counted.
const LISTED: usize = 40;

/// One section per project: failed checks first, then skipped, then passed.
pub fn render(suites: &[Suite]) -> String {
    let mut text = String::new();
    for suite in suites {
        let counts = suite.counts();
        let mark = if counts.failed > 0 { "❌" } else { "✅" };
        let _ = writeln!(
            text,
            "## {mark} {}: {} passed, {} failed, {} skipped\n",
            cell(&suite.name),
            counts.passed,
            counts.failed,
            counts.skipped,
        );
        failures(&mut text, suite);
        let rest: Vec<&Check> =
            suite.checks.iter().filter(|check| !matches!(check.status, Status::Failed { .. })).collect();
        if rest.is_empty() {
            continue;
        }
        text += &titles(["", "check", ""]);
        for check in rest.iter().take(LISTED) {
            let (mark, words) = match &check.status {
                Status::Skipped { reason } => ("⏭️", reason.as_str()),
                _ => ("✅", check.detail.as_str()),
            };
            text += &row([
                mark,
                &format!("{}: {}", cell(&check.group), cell(&check.name)),
                &cell(words.lines().next().unwrap_or_default()),
            ]);
        }
        if rest.len() > LISTED {
            let _ = writeln!(text, "| | and {} more | |", rest.len() - LISTED);
        }
        text.push('\n');
    }
    text
}

fn failures(text: &mut String, suite: &Suite) {
    for check in &suite.checks {
        let Status::Failed { text: words, .. } = &check.status else {
            continue;
        };
        let _ = writeln!(text, "**{}: {}**\n", cell(&check.group), cell(&check.name));
        // An indented block ends with its indentation, whatever the text contains; a fence could be closed by the text.
        for line in words.lines() {
            let _ = writeln!(text, "    {line}");
        }
        text.push('\n');
    }
}

/// Appends the summary to the file that GitHub names in `GITHUB_STEP_SUMMARY`.
pub(crate) fn append(path: &Path, suites: &[Suite]) -> Result<()> {
    OpenOptions::new()
        .append(true)
        .create(true)
        .open(path)
        .and_then(|mut file| file.write_all(render(suites).as_bytes()))
        .with_context(|| format!("cannot append to {}, the file that GITHUB_STEP_SUMMARY names", path.display()))
}
