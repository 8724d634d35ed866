//! `kernels search compare`.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use serde_json::{Value, json};

use super::{candidate, state, status};
use crate::cli::search::Compare;
use crate::report::table::{Cell, Column, Table, window};
use crate::report::{Output, style, unified};
use crate::search::facts::Facts;
use crate::search::state::{Candidate, is_better};

pub(super) fn run(arguments: &Compare, output: Output) -> Result<ExitCode> {
    let run = &arguments.of.run;
    let state = state(run)?;
    let both = [candidate(&state, arguments.one, run)?, candidate(&state, arguments.other, run)?];
    let diff = both[1].difference(run, Some(both[0]), usize::MAX)?;
    let figures = [figures(run, both[0])?, figures(run, both[1])?];
    let [one, other] = both.map(|one| Column::figure(&one.id().to_string()));
    let mut table = Table::new([Column::text("candidate"), one, other]);
    for (row, name) in figures[0].iter().map(|(name, _)| name).enumerate() {
        table.row([Cell::plain(name), Cell::plain(&figures[0][row].1), Cell::plain(&figures[1][row].1)]);
    }
    for line in table.lines(window()) {
        output.line(line);
    }
    let ratio = ratio(both[0], both[1]);
    match ratio {
        Some((ratio, true)) => output.line(format!("{} is {ratio:.3} times as fast as {}", both[1].id(), both[0].id())),
        Some((_, false)) => output.line(style::faint("the difference of their times is within their spread")),
        None => output.line(style::faint("one of them was not timed, or has a finding")),
    }
    if output.is_talkative() && !diff.is_empty() {
        output.text(&diff, unified::colour);
    }
    output.json(&json!({
        "candidates": both.map(status::brief),
        "figures": figures.map(|all| all.into_iter().collect::<serde_json::Map<String, Value>>()),
        "times_as_fast": ratio.map(|(ratio, _)| ratio),
        "is_a_tie": ratio.map(|(_, clear)| !clear),
        "diff": diff,
    }));
    Ok(ExitCode::SUCCESS)
}

/// The first one's time divided by the other's, and whether they differ by more than both scatter.
fn ratio(one: &Candidate, other: &Candidate) -> Option<(f64, bool)> {
    let (one, other) = (one.summary()?, other.summary()?);
    Some((one.us / other.us, is_better(&one, &other) || is_better(&other, &one)))
}

/// Named figures, the same names for every candidate.
fn figures(run: &Path, candidate: &Candidate) -> Result<Vec<(String, Value)>> {
    let facts = candidate.facts(run)?;
    let summary = candidate.summary();
    let rounded = |value: f64| json!((value * 1e3).round() / 1e3);
    let time =
        |of: fn(&crate::search::event::Summary) -> f64| summary.as_ref().map_or(Value::Null, |one| rounded(of(one)));
    let most = |of: fn(&crate::search::facts::KernelFacts) -> u32| {
        facts.as_ref().map_or(Value::Null, |facts| json!(facts.kernels.iter().map(of).max().unwrap_or(0)))
    };
    let accesses = facts.as_ref().map(Facts::accesses);
    let all = [
        ("us", time(|one| one.us)),
        ("of_roof", time(|one| one.roof)),
        ("worst_of_roof", time(|one| one.worst)),
        ("launches", summary.map_or(Value::Null, |one| json!(one.launches))),
        ("speedup", candidate.speedup().map_or(Value::Null, rounded)),
        ("kernels", facts.as_ref().map_or(Value::Null, |facts| json!(facts.kernels.len()))),
        ("registers", most(|one| one.kernel.registers)),
        ("spilled_bytes", most(|one| one.kernel.spill_stores + one.kernel.spill_loads)),
        ("shared_bytes", most(|one| one.kernel.shared)),
        ("accesses", accesses.map_or(Value::Null, |one| json!(one.all))),
        ("accesses_of_16_bytes", accesses.map_or(Value::Null, |one| json!(one.wide))),
        ("tensor_instructions", most(|one| one.opcodes.tensor)),
        ("asynchronous_copies", most(|one| one.opcodes.copies + one.opcodes.bulk)),
        ("usd", rounded(candidate.usd())),
    ];
    Ok(all.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}
