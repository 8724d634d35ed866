//! A whole model's times: for a terminal, for a page, and as a chart of where the time goes.

pub(crate) mod markdown;
mod svg;
mod terminal;

use std::path::Path;

use anyhow::Result;

pub use svg::chart;
pub(crate) use terminal::{profiles, times};

use super::file;
use crate::end_to_end::{Contender, EndToEnd};

/// The categories of a profile with their display names, in legend order. Others follow, by their own names.
pub(super) const CATEGORIES: [(&str, &str); 8] = [
    ("gemm", "matrix products"),
    ("attention", "attention"),
    ("norm", "norms, modulation, RoPE"),
    ("activation", "activations"),
    ("elementwise", "other elementwise"),
    ("copy", "copies, casts"),
    ("other", "other"),
    ("idle", "idle"),
];

/// The extensions that `write` accepts.
pub(crate) const ENDINGS: [&str; 3] = ["json", "md", "svg"];

/// Writes a validated result in the format of the file's extension.
pub fn write(result: &EndToEnd, path: &Path) -> Result<()> {
    let text = match ending(path).as_deref() {
        Some("md") => markdown::tables(result),
        Some("svg") => chart(result),
        _ => serde_json::to_string_pretty(result)? + "\n",
    };
    file::write(path, text.as_bytes())
}

/// The file's extension in lower case, if it is one of [`ENDINGS`].
pub(crate) fn ending(path: &Path) -> Option<String> {
    let ending = path.extension()?.to_str()?.to_ascii_lowercase();
    ENDINGS.contains(&ending.as_str()).then_some(ending)
}

/// Gibibytes: `7.25`.
#[allow(clippy::cast_precision_loss, reason = "two digits are shown")]
fn gib(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| super::figure::NONE.to_owned(), |bytes| format!("{:.2}", bytes as f64 / f64::from(1 << 30)))
}

/// Milliseconds of a category; `None` without a profile.
fn part(one: &Contender, category: &str) -> Option<f64> {
    let parts = &one.profile.as_ref()?.categories_ms;
    Some(parts.get(category).copied().unwrap_or(0.0))
}

/// Remarks beside the tables: wrong, failed and omitted contenders.
pub(crate) fn remarks(result: &EndToEnd) -> Vec<String> {
    let mut said = result.findings();
    // One line per case and reason: an exhausted time budget omits many.
    let mut left: Vec<(&str, &str, Vec<&str>)> = Vec::new();
    for one in result.skipped.iter().filter(|one| !one.failed) {
        match left.iter_mut().find(|(case, why, _)| (*case, *why) == (&one.case, &one.why)) {
            Some((_, _, contenders)) => contenders.push(&one.contender),
            None => left.push((&one.case, &one.why, vec![&one.contender])),
        }
    }
    said.extend(
        left.iter().map(|(case, why, contenders)| format!("{case}, not timed: {}: {why}", contenders.join(", "))),
    );
    said.extend(result.cases.iter().filter_map(|case| Some(format!("{}: {}", case.name, case.note.as_ref()?))));
    said.extend(result.contenders().filter_map(|(case, one)| {
        let breaks = one.graph_breaks.filter(|breaks| *breaks > 0)?;
        Some(format!("{}, {}: torch.compile broke the graph {breaks} times", case.name, one.name))
    }));
    said
}
