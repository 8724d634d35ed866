//! The table of all operations: the smallest bf16 case of each and up to three large ones, beside their peers.

use std::collections::BTreeSet;

use super::records::{Records, nothing_yet};
use super::{Evidence, PeerRow, Peers};
use crate::bench::{CaseBench, Residency};
use crate::project::DType;
use crate::report::figure;
use crate::report::markdown::{cell, row, titles};

/// torch.compile's two modes; the faster one is compared with.
pub(super) const COMPILED: [&str; 2] = ["compile", "compile-max"];
/// The kernel of the article that this project compares with.
pub(super) const BLOG: [&str; 1] = ["blog"];
/// Shown where there is nothing to compare with.
pub(super) const NOTHING: &str = "—";
/// From this size on the copy is the limit; below it, caches and launches count.
const LARGE: u64 = 64_000_000;
/// The most large cases per operation in the table; the others are in the operation's own.
const MOST_LARGE: usize = 3;
/// Suffixes of launchers that differ from another's only in the destination, or in the type of a table.
const VARIANTS: [&str; 1] = ["_in_place"];

/// Marks a peer that computes another function.
pub(super) const OTHER: &str = "†";

/// The table of all operations; it says so where nothing was timed in bf16.
pub(super) fn table(records: &Records) -> String {
    let peers = records.peers.as_ref();
    let mut lines = String::new();
    let mut others = Vec::new();
    let is_variant = |one: &&Evidence| VARIANTS.iter().any(|end| one.operation.ends_with(end));
    for one in records.by_project().into_iter().filter(|one| !is_variant(one)) {
        for case in main_cases(one, peers) {
            let peers = peers.and_then(|peers| peers.row(case));
            others.extend(peers.map(|row| row.other.clone()).unwrap_or_default());
            let best = best_peer(peers)
                .map_or_else(|| NOTHING.to_owned(), |(name, times)| format!("{}, {times}", cell(&name)));
            lines += &row([
                cell(&case.operation),
                cell(&figure::sizes(case)),
                figure::micros(case.kernel.median),
                figure::percent(case.of_roof()),
                times(peers, &BLOG),
                times(peers, &COMPILED),
                best,
            ]);
        }
    }
    let Some(first) = records.operations.first().filter(|_| !lines.is_empty()) else {
        return nothing_yet();
    };
    let heads =
        ["operation, bf16", "shape", ">µs", ">% of roof", ">× the blog's kernel", ">× torch.compile", "best peer, ×"];
    let run = match peers {
        Some(peers) => format!(", both timed in one run of the peers' script, torch {}.", cell(&peers.torch)),
        None => "; no peer was timed on this card.".to_owned(),
    };
    format!(
        "{}{lines}\n{}, driver {}. Roof: a copy of the least bytes that must move. × is how many times faster this \
         project's kernel is{run}\n{}",
        titles(heads),
        cell(&first.card.name),
        cell(first.card.driver.as_deref().unwrap_or("unknown")),
        note(&others),
    )
}

/// The display name of the fastest peer that computes the same, and this project's speedup over it.
pub(super) fn best_peer(row: Option<&PeerRow>) -> Option<(String, String)> {
    let row = row?;
    let (name, times) = row.best_peer()?;
    // The torch backend that was chosen.
    let backend = row.chosen.get(name).filter(|_| name == "torch");
    let name = backend.map_or_else(|| peer(name), String::as_str);
    Some((name.to_owned(), figure::times(times)))
}

/// The speedup over torch.compile, where it computes the same.
pub(super) fn compiled(row: Option<&PeerRow>) -> Option<String> {
    let row = row.filter(|row| !COMPILED.iter().any(|name| row.other.contains_key(*name)))?;
    row.times_faster(&COMPILED).map(figure::times)
}

/// The smallest cold bf16 case of an operation, then the large ones, in kernel.toml's order; if there are many, those
/// with a peer.
fn main_cases<'a>(evidence: &'a Evidence, peers: Option<&Peers>) -> Vec<&'a CaseBench> {
    let cases: Vec<&CaseBench> =
        evidence.cases.iter().filter(|case| case.residency == Residency::Cold && case.dtype == DType::BF16).collect();
    let mut large: Vec<&CaseBench> = cases.iter().copied().filter(|case| case.bytes >= LARGE).collect();
    if large.len() > MOST_LARGE {
        let compared =
            |case: &&CaseBench| peers.and_then(|peers| peers.row(case)).is_some_and(|row| row.best_peer().is_some());
        let rest = large.extract_if(.., |case| !compared(case)).collect::<Vec<_>>();
        large.extend(rest);
        large.truncate(MOST_LARGE);
    }
    let smallest = cases.into_iter().min_by_key(|case| case.bytes);
    smallest.into_iter().filter(|case| case.bytes < LARGE).chain(large).collect()
}

/// The speedup over the fastest of `names`, marked where that computes another function.
pub(super) fn times(row: Option<&PeerRow>, names: &[&str]) -> String {
    let mark = |row: &PeerRow| {
        let other = names.iter().any(|name| row.other.contains_key(*name));
        if other { OTHER } else { "" }
    };
    row.and_then(|row| Some(format!("{}{}", figure::times(row.times_faster(names)?), mark(row))))
        .unwrap_or_else(|| NOTHING.to_owned())
}

/// The legend of the marked peers.
pub(super) fn note(others: &[(String, String)]) -> String {
    let said: BTreeSet<String> = others
        .iter()
        .map(|(name, what)| format!("\n{OTHER} {} computes something else: it {}.\n", peer(name), cell(what)))
        .collect();
    said.into_iter().collect()
}

/// The display name of a peer.
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
