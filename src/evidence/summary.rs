//! The table over all operations: of each its smallest and its large bf16 cases, beside their peers.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::{Evidence, PeerRow, Peers};
use crate::bench::{CaseBench, Residency};
use crate::project::DType;
use crate::report::export::cell;
use crate::report::figure;

/// Both ways that torch compiles; the faster is compared with.
pub(super) const COMPILED: [&str; 2] = ["compile", "compile-max"];
/// The kernel of the article that this project's operations are measured against.
pub(super) const BLOG: [&str; 1] = ["blog"];
/// Stands where there is nothing to compare with.
pub(super) const NOTHING: &str = "—";
/// Where this much moves, the copy is the roof; below it caches and launches count.
const LARGE: u64 = 64_000_000;
/// Large cases of an operation in the table; the others stand in its own.
const MOST_LARGE: usize = 3;
/// Launchers that differ from another's only in where they write, or in how they are given a table.
const VARIANTS: [&str; 2] = ["_in_place", "_f32_tables"];

/// What tells that a peer computes something else.
pub(super) const OTHER: &str = "†";

/// The table of one card; empty where nothing was timed in bf16.
pub(super) fn table(evidence: &[&Evidence], peers: Option<&Peers>) -> String {
    let mut lines = String::new();
    let mut others = Vec::new();
    for one in evidence {
        if VARIANTS.iter().any(|end| one.operation.ends_with(end)) {
            continue;
        }
        for case in main_cases(one, peers) {
            let row = peers.and_then(|peers| peers.row(case));
            others.extend(row.map(|row| row.other.clone()).unwrap_or_default());
            let best = row.and_then(|row| {
                let (name, times) = row.best_peer()?;
                // Of torch's backends the one that was taken.
                let backend = row.chosen.get(name).filter(|_| name == "torch");
                Some((backend.map_or_else(|| peer(name), String::as_str), times))
            });
            let best = best.map_or_else(
                || NOTHING.to_owned(),
                |(name, times)| format!("{}, {}", cell(name), figure::times(times)),
            );
            let _ = writeln!(
                lines,
                "| {} | {} | {} | {} | {} | {} | {best} |",
                cell(&case.operation),
                cell(&figure::sizes(case)),
                figure::micros(case.kernel.median),
                figure::percent(case.of_roof()),
                times(row, &BLOG),
                times(row, &COMPILED),
            );
        }
    }
    let Some(first) = evidence.first().filter(|_| !lines.is_empty()) else {
        return lines;
    };
    let mut text = format!(
        "| operation, bf16 | shape | µs | % of roof | × the blog's kernel | × torch.compile | best peer, × |\n\
         |---|---|--:|--:|--:|--:|---|\n\
         {lines}\n\
         {}, driver {}. Roof: a copy of the least bytes that must move. × is how many times faster this \
         project's kernel is",
        cell(&first.card.name),
        cell(first.card.driver.as_deref().unwrap_or("unknown")),
    );
    match peers {
        Some(peers) => {
            let _ = writeln!(
                text,
                ", both timed in one run of the peers' script, torch {}.",
                cell(&peers.torch)
            );
        }
        None => text.push_str("; no peer was timed on this card.\n"),
    }
    text.push_str(&note(&others));
    text
}

/// Of an operation the smallest cold bf16 case, then the large ones, in kernel.toml's order. Where there are many, those
/// with a peer.
fn main_cases<'a>(evidence: &'a Evidence, peers: Option<&Peers>) -> Vec<&'a CaseBench> {
    let cases: Vec<&CaseBench> = evidence
        .cases
        .iter()
        .filter(|case| case.residency == Residency::Cold && case.dtype == DType::BF16)
        .collect();
    let mut large: Vec<&CaseBench> = cases
        .iter()
        .copied()
        .filter(|case| case.bytes >= LARGE)
        .collect();
    if large.len() > MOST_LARGE {
        let compared = |case: &&CaseBench| {
            peers
                .and_then(|peers| peers.row(case))
                .is_some_and(|row| row.best_peer().is_some())
        };
        let rest = large
            .extract_if(.., |case| !compared(case))
            .collect::<Vec<_>>();
        large.extend(rest);
        large.truncate(MOST_LARGE);
    }
    let smallest = cases.into_iter().min_by_key(|case| case.bytes);
    smallest
        .into_iter()
        .filter(|case| case.bytes < LARGE)
        .chain(large)
        .collect()
}

/// How many times faster than the fastest of `names`, marked where that computes something else.
pub(super) fn times(row: Option<&PeerRow>, names: &[&str]) -> String {
    let mark = |row: &PeerRow| {
        let other = names.iter().any(|name| row.other.contains_key(*name));
        if other { OTHER } else { "" }
    };
    row.and_then(|row| {
        Some(format!(
            "{}{}",
            figure::times(row.times_faster(names)?),
            mark(row)
        ))
    })
    .unwrap_or_else(|| NOTHING.to_owned())
}

/// What those marked compute.
pub(super) fn note(others: &[(String, String)]) -> String {
    let said: BTreeSet<String> = others
        .iter()
        .map(|(name, what)| {
            format!(
                "\n{OTHER} {} computes something else: it {}.\n",
                peer(name),
                cell(what)
            )
        })
        .collect();
    said.into_iter().collect()
}

/// A peer as people call it.
fn peer(name: &str) -> &str {
    match name {
        "torch" => "torch eager",
        "compile" => "torch.compile",
        "compile-max" => "torch.compile max-autotune",
        "liger" => "Liger",
        "quack" => "QuACK",
        "blog" => "the blog's kernel",
        other => other,
    }
}
