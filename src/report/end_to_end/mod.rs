//! A whole model's times: for a terminal, for a page, and as a picture of where the time goes.

pub mod markdown;
mod svg;
mod terminal;

use std::path::Path;

use anyhow::Result;

pub use svg::chart;
pub use terminal::{profiles, times};

use super::file;
use crate::end_to_end::{Contender, EndToEnd};

/// The categories of a profile in the order of a legend, for people. Others keep their own names, behind these.
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

/// The endings that `write` knows.
pub const ENDINGS: [&str; 3] = ["json", "md", "svg"];

/// Writes a result as the file's ending says; the caller has looked at it.
pub fn write(result: &EndToEnd, path: &Path) -> Result<()> {
    let text = match ending(path).as_deref() {
        Some("md") => markdown::tables(result),
        Some("svg") => chart(result),
        _ => serde_json::to_string_pretty(result)? + "\n",
    };
    file::write(path, text.as_bytes())
}

/// A file's ending in small letters, if it is one of [`ENDINGS`].
pub fn ending(path: &Path) -> Option<String> {
    let ending = path.extension()?.to_str()?.to_ascii_lowercase();
    ENDINGS.contains(&ending.as_str()).then_some(ending)
}

/// Gibibytes: `7.25`.
#[allow(clippy::cast_precision_loss, reason = "two digits are shown")]
fn gib(bytes: Option<u64>) -> String {
    bytes.map_or_else(
        || super::figure::NONE.to_owned(),
        |bytes| format!("{:.2}", bytes as f64 / f64::from(1 << 30)),
    )
}

/// Milliseconds of a category; what has no profile has none.
fn part(one: &Contender, category: &str) -> Option<f64> {
    let parts = &one.profile.as_ref()?.categories_ms;
    Some(parts.get(category).copied().unwrap_or(0.0))
}

/// What a result says beside its tables: who was wrong, who failed, who was left out.
pub fn remarks(result: &EndToEnd) -> Vec<String> {
    let mut said = result.findings();
    // One line a case and reason: a spent budget leaves out many.
    let mut left: Vec<(&str, &str, Vec<&str>)> = Vec::new();
    for one in result.skipped.iter().filter(|one| !one.failed) {
        match left
            .iter_mut()
            .find(|(case, why, _)| (*case, *why) == (&one.case, &one.why))
        {
            Some((_, _, contenders)) => contenders.push(&one.contender),
            None => left.push((&one.case, &one.why, vec![&one.contender])),
        }
    }
    said.extend(left.iter().map(|(case, why, contenders)| {
        format!("{case}, not timed: {}: {why}", contenders.join(", "))
    }));
    said.extend(
        result
            .cases
            .iter()
            .filter_map(|case| Some(format!("{}: {}", case.name, case.note.as_ref()?))),
    );
    said.extend(result.contenders().filter_map(|(case, one)| {
        let breaks = one.graph_breaks.filter(|breaks| *breaks > 0)?;
        Some(format!(
            "{}, {}: torch.compile broke the graph {breaks} times",
            case.name, one.name
        ))
    }));
    said
}
