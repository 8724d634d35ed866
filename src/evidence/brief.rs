//! A small table for pages that agents read: of each operation its smallest and its largest case, or a model's times.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Result;

use super::end_to_end::{EndToEndEvidence, PREFIX};
use super::{Evidence, Peers};
use crate::bench::{CaseBench, Residency};
use crate::project::DType;
use crate::report::export::cell;
use crate::report::figure;

const NOTHING: &str = "—";
const CONTENDERS: [&str; 4] = ["eager", "kernels", "compile", "both"];

/// The table of what is named: operations, or one `e2e-NAME`.
pub(super) fn table(names: &str, evidence: &[Evidence], dir: &Path) -> Result<String> {
    let names: Vec<&str> = names.split_whitespace().collect();
    if let [model] = names.as_slice()
        && let Some(model) = model.strip_prefix(PREFIX)
    {
        return whole(model, dir);
    }
    let mut lines = String::new();
    let mut cards: Vec<String> = Vec::new();
    for name in names {
        let mut recorded = evidence
            .iter()
            .filter(|one| one.operation == name)
            .peekable();
        if recorded.peek().is_none() {
            let _ = writeln!(lines, "| {} | not recorded yet | | | | |", cell(name));
        }
        for one in recorded {
            let card = format!(
                "{}, driver {}, nvcc {}",
                cell(&one.card.name),
                cell(one.card.driver.as_deref().unwrap_or("unknown")),
                cell(&one.toolchain)
            );
            if !cards.contains(&card) {
                cards.push(card);
            }
            for case in ends(one) {
                let _ = writeln!(
                    lines,
                    "| {} | {} | {} | {} | {} | {} |",
                    cell(&case.operation),
                    cell(&figure::sizes(case)),
                    case.dtype.name(),
                    figure::micros(case.kernel.median),
                    figure::micros(case.copy.median),
                    figure::percent(case.of_roof()),
                );
            }
        }
    }
    let mut text = format!(
        "\n| operation | shape | dtype | µs | copy, µs | % |\n|---|---|---|--:|--:|--:|\n{lines}\n"
    );
    if !cards.is_empty() {
        let _ = writeln!(
            text,
            "{}. Medians, buffers in device memory. The copy is of the bytes that must move, alternated with the kernel; % \
             is its share.\n",
            cards.join("; ")
        );
    }
    Ok(text)
}

/// Of operations that arithmetic binds: every cold 16-bit case, how much it computes a second, and its best peer.
pub(super) fn compute(names: &str, evidence: &[Evidence], dir: &Path) -> Result<String> {
    let mut text = String::from(
        "\n| operation | shape | dtype | µs | TFLOP/s | best peer, × as fast as it |\n|---|---|---|--:|--:|---|\n",
    );
    let mut cards = Vec::new();
    for name in names.split_whitespace() {
        let mut recorded = evidence
            .iter()
            .filter(|one| one.operation == name)
            .peekable();
        if recorded.peek().is_none() {
            let _ = writeln!(text, "| {} | not recorded yet | | | | |", cell(name));
        }
        for one in recorded {
            let peers = Peers::of_card(dir, &one.card.slug())?;
            let torch = peers.as_ref().map_or("", |peers| peers.torch.as_str());
            let card = format!("{}, torch {}", cell(&one.card.name), cell(torch));
            if !cards.contains(&card) {
                cards.push(card);
            }
            let cold = one
                .cases
                .iter()
                .filter(|case| case.residency == Residency::Cold);
            for case in cold {
                let row = peers.as_ref().and_then(|peers| peers.row(case));
                let best = row.and_then(|row| {
                    let (name, times) = row.best_peer()?;
                    let variant = row.chosen.get(name).map_or(name, String::as_str);
                    Some(format!("{}, {}", cell(variant), figure::times(times)))
                });
                let best = best.unwrap_or_else(|| NOTHING.to_owned());
                let tera = case.flops / case.kernel.median / 1e6;
                let _ = writeln!(
                    text,
                    "| {} | {} | {} | {} | {} | {best} |",
                    cell(&case.operation),
                    cell(&figure::sizes(case)),
                    case.dtype.name(),
                    figure::micros(case.kernel.median),
                    figure::micros(tera),
                );
            }
        }
    }
    text.push('\n');
    if !cards.is_empty() {
        let _ = writeln!(
            text,
            "{}. Medians, buffers in device memory.\n",
            cards.join("; ")
        );
    }
    Ok(text)
}

/// What the recorded cases would take at least on another card: their bytes at its datasheet's GB/s, of which there are
/// several where there are several cards of its kind.
pub(super) fn estimate(words: &str, evidence: &[Evidence]) -> String {
    let (bandwidths, names): (Vec<&str>, Vec<&str>) = words
        .split_whitespace()
        .partition(|word| word.parse::<f64>().is_ok());
    let mut text = String::from("\n| operation | shape | dtype | MB |");
    for bandwidth in &bandwidths {
        let _ = write!(text, " µs at {bandwidth} GB/s |");
    }
    let _ = writeln!(
        text,
        "\n|---|---|---|--:|{}",
        "--:|".repeat(bandwidths.len())
    );
    for one in names
        .iter()
        .flat_map(|name| evidence.iter().filter(move |one| one.operation == *name))
    {
        for case in ends(one) {
            let _ = write!(
                text,
                "| {} | {} | {} | {} |",
                cell(&case.operation),
                cell(&figure::sizes(case)),
                case.dtype.name(),
                figure::megabytes(case.bytes),
            );
            for bandwidth in bandwidths
                .iter()
                .filter_map(|word| word.parse::<f64>().ok())
            {
                #[allow(clippy::cast_precision_loss, reason = "three digits are shown")]
                let micros = case.bytes as f64 / bandwidth / 1e3;
                let _ = write!(text, " {} |", figure::micros(micros));
            }
            text.push('\n');
        }
    }
    text.push_str(
        "\nEstimates, not measured: the bytes that must move, at the datasheet's bandwidth.\n\n",
    );
    text
}

/// The smallest and the largest cold case in bf16, or of the first type where there is none.
fn ends(one: &Evidence) -> Vec<&CaseBench> {
    let cold = || {
        one.cases
            .iter()
            .filter(|case| case.residency == Residency::Cold)
    };
    let dtype = cold()
        .find(|case| case.dtype == DType::BF16)
        .or_else(|| cold().next())
        .map(|case| case.dtype);
    let of_type = || cold().filter(|case| Some(case.dtype) == dtype);
    let smallest = of_type().min_by_key(|case| case.bytes);
    let largest = of_type().max_by_key(|case| case.bytes);
    smallest
        .into_iter()
        .chain(largest.filter(|large| smallest.is_none_or(|small| small.bytes < large.bytes)))
        .collect()
}

fn whole(model: &str, dir: &Path) -> Result<String> {
    let mut text = String::new();
    for (_, evidence) in EndToEndEvidence::read_all(dir)? {
        let result = evidence.result;
        if result.name != model {
            continue;
        }
        text.push_str("\n| ms | eager | kernels | compile | both |\n|---|--:|--:|--:|--:|\n");
        for case in &result.cases {
            let times = CONTENDERS.map(|name| {
                let contender = case.contenders.iter().find(|one| one.name == name);
                contender
                    .and_then(|one| one.time_ms.as_ref())
                    .map_or_else(|| NOTHING.to_owned(), |time| figure::micros(time.median))
            });
            if times.iter().any(|time| time != NOTHING) {
                let _ = writeln!(text, "| {} | {} |", cell(&case.label), times.join(" | "));
            }
        }
        let card = result
            .card
            .as_ref()
            .map_or("no card", |card| card.name.as_str());
        let version = |name: &str| {
            let found = result.versions.get(name)?;
            Some(format!(", {name} {}", cell(found)))
        };
        let versions: String = ["torch", "diffusers", "transformers"]
            .iter()
            .filter_map(|name| version(name))
            .collect();
        let _ = write!(
            text,
            "\n{}, random weights{versions}. Medians of one run in turns.\n\n",
            cell(card)
        );
    }
    if text.is_empty() {
        let _ = write!(text, "\nNothing is recorded of `{model}` yet.\n\n");
    }
    Ok(text)
}
