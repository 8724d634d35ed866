//! Small tables for pages that agents read: each operation's smallest and largest case, or a model's times.

use std::collections::BTreeSet;

use super::Evidence;
use super::records::Records;
use super::summary::NOTHING;
use crate::bench::{CaseBench, Residency};
use crate::end_to_end::EndToEnd;
use crate::project::DType;
use crate::report::figure;
use crate::report::markdown::{cell, row, titles};

/// The table of the named operations, or of one model.
pub(super) fn table(records: &Records, names: &[&str]) -> String {
    if let [model] = names
        && let Some(name) = model.strip_prefix(super::end_to_end::PREFIX)
    {
        return records.model(name).map_or_else(|| format!("Nothing is recorded of `{name}` yet."), whole);
    }
    let heads = ["operation", "shape", "dtype", ">µs", ">copy, µs", ">%"];
    let (text, made_on) = rows(records, names, titles(heads), |one| {
        ends(one)
            .into_iter()
            .map(|case| {
                let mut cells = begin(case);
                cells.extend([
                    figure::micros(case.kernel.median),
                    figure::micros(case.copy.median),
                    figure::percent(case.of_roof()),
                ]);
                cells
            })
            .collect()
    });
    footed(text, &made_on, "The copy is of the bytes that must move, alternated with the kernel; % is its share.")
}

/// For operations bound by arithmetic: every cold case, its TFLOP/s, and its best peer.
pub(super) fn compute(records: &Records, names: &[&str]) -> String {
    let heads = ["operation", "shape", "dtype", ">µs", ">TFLOP/s", "best peer, × as fast as it"];
    let (text, made_on) = rows(records, names, titles(heads), |one| {
        cold(one)
            .map(|case| {
                let row = records.peers.as_ref().and_then(|peers| peers.row(case));
                let best = row.and_then(|row| {
                    let (name, times) = row.best_peer()?;
                    let variant = row.chosen.get(name).map_or(name, String::as_str);
                    Some(format!("{}, {}", cell(variant), figure::times(times)))
                });
                let mut cells = begin(case);
                cells.extend([
                    figure::micros(case.kernel.median),
                    figure::micros(case.flops / case.kernel.median / 1e6),
                    best.unwrap_or_else(|| NOTHING.to_owned()),
                ]);
                cells
            })
            .collect()
    });
    let torch = records.peers.as_ref().map(|peers| format!("Peers: torch {}.", cell(&peers.torch)));
    footed(text, &made_on, &torch.unwrap_or_default())
}

/// The rows of the named operations, below `text`, and the card and compiler.
fn rows(
    records: &Records,
    names: &[&str],
    mut text: String,
    of: impl Fn(&Evidence) -> Vec<Vec<String>>,
) -> (String, BTreeSet<String>) {
    let mut made_on = BTreeSet::new();
    for name in names {
        match records.operation(name) {
            Some(one) => {
                made_on.insert(one.made_on());
                for cells in of(one) {
                    text += &row(cells);
                }
            }
            None => text += &row([&cell(name), "not recorded yet", "", "", "", ""]),
        }
    }
    (text, made_on)
}

fn begin(case: &CaseBench) -> Vec<String> {
    vec![cell(&case.operation), cell(&figure::sizes(case)), case.dtype.name().to_owned()]
}

fn footed(text: String, made_on: &BTreeSet<String>, note: &str) -> String {
    if made_on.is_empty() {
        return text;
    }
    let cards: Vec<&str> = made_on.iter().map(String::as_str).collect();
    format!("{text}\n{}. Medians, buffers in device memory. {note}", cards.join("; "))
}

fn cold(one: &Evidence) -> impl Iterator<Item = &CaseBench> {
    one.cases.iter().filter(|case| case.residency == Residency::Cold)
}

/// The smallest and the largest cold case in bf16, or of the first type where there is none.
fn ends(one: &Evidence) -> Vec<&CaseBench> {
    let dtype = cold(one).find(|case| case.dtype == DType::BF16).or_else(|| cold(one).next()).map(|case| case.dtype);
    let of_type = || cold(one).filter(|case| Some(case.dtype) == dtype);
    let smallest = of_type().min_by_key(|case| case.bytes);
    let largest = of_type().max_by_key(|case| case.bytes);
    smallest.into_iter().chain(largest.filter(|large| smallest.is_none_or(|small| small.bytes < large.bytes))).collect()
}

fn whole(model: &EndToEnd) -> String {
    let names = model.columns();
    let mut text = titles(std::iter::once("ms".to_owned()).chain(names.iter().map(|name| format!(">{name}"))));
    for case in &model.cases {
        let times = names.iter().map(|name| case.median(name).map_or_else(|| NOTHING.to_owned(), figure::micros));
        let times: Vec<String> = times.collect();
        if times.iter().any(|time| time != NOTHING) {
            text += &row(std::iter::once(cell(&case.label)).chain(times));
        }
    }
    let versions: String = ["torch", "diffusers", "transformers"]
        .iter()
        .filter_map(|name| Some(format!(", {name} {}", cell(model.versions.get(*name)?))))
        .collect();
    let card = model.card.as_ref().map_or("no card", |card| &card.name);
    format!("{text}\n{}, random weights{versions}. Medians of one run in turns.\n", cell(card))
}
