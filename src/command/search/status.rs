//! `kernels search status`.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use serde_json::{Value, json};

use super::state;
use crate::base::plural;
use crate::base::text::for_shell;
use crate::report::table::{Cell, Column, Table, window};
use crate::report::{Output, style};
use crate::search::state::{Candidate, Standing, State};

/// The table has at most this many candidates.
const ROWS: usize = 12;

pub(super) fn run(run: &Path, output: Output) -> Result<ExitCode> {
    show(&state(run)?, run, output);
    Ok(ExitCode::SUCCESS)
}

/// Prints what a run has found.
pub(super) fn show(state: &State, run: &Path, output: Output) {
    if output.is_json() {
        return output.json(&report(state, run));
    }
    output.line(heading(state));
    output.line(format!("  {}", counts(state)));
    let mut table = Table::new([
        Column::figure("id"),
        Column::text("standing"),
        Column::figure("us"),
        Column::figure("of roof"),
        Column::figure("worst"),
        Column::figure("speed-up"),
        Column::name("made by"),
        Column::name("cell"),
    ]);
    for candidate in ranked(state).into_iter().take(ROWS) {
        table.row(row(candidate));
    }
    if !table.is_empty() {
        for line in table.lines(window()) {
            output.line(line);
        }
    }
    for (kind, count) in state.caught() {
        output.line(format!("{} {kind}: {}", style::bad("caught"), plural(count, "candidate")));
    }
    match &state.ended {
        Some(why) => output.line(style::faint(format!("ended: {why}"))),
        None => output.line(style::faint(format!("`kernels search resume {}` goes on with it", for_shell(run)))),
    }
}

fn heading(state: &State) -> String {
    let on = match (&state.run.card, &state.run.compiler) {
        (Ok(card), _) => format!("on {}", card.name),
        (Err(_), Ok(_)) => format!("compiled for sm_{}, not judged: no card", state.run.arch),
        (Err(_), Err(_)) => "not compiled: no nvcc".to_owned(),
    };
    format!("{} {on}, seed {}", style::strong(&state.run.project), state.run.settings.seed)
}

fn counts(state: &State) -> String {
    let count = |standing| state.candidates.iter().filter(|one| one.standing() == standing).count();
    let mut parts = vec![plural(state.candidates.len(), "candidate")];
    for (standing, words) in [
        (Standing::Confirmed, "confirmed"),
        (Standing::Timed, "timed"),
        (Standing::NotJudged, "not judged"),
        (Standing::Caught, "caught"),
        (Standing::Same, "an earlier one again"),
        (Standing::Open, "open"),
    ] {
        if count(standing) > 0 {
            parts.push(format!("{} {words}", count(standing)));
        }
    }
    parts.push(format!("{:.2} US dollars", state.usd()));
    if state.unpriced() > 0 {
        parts.push(format!("{} of unknown price", plural(state.unpriced(), "answer")));
    }
    parts.push(format!("{:.1} minutes", state.seconds / 60.0));
    parts.join(", ")
}

/// The timed candidates, the fastest first; if there are none, those that compiled.
fn ranked(state: &State) -> Vec<&Candidate> {
    let mut timed: Vec<&Candidate> = state.candidates.iter().filter(|one| one.summary().is_some()).collect();
    let us = |one: &Candidate| one.summary().map_or(f64::INFINITY, |summary| summary.us);
    timed.sort_by(|one, other| us(one).total_cmp(&us(other)));
    if timed.is_empty() {
        timed = state.candidates.iter().filter(|one| one.standing() == Standing::NotJudged).collect();
    }
    timed
}

fn row(candidate: &Candidate) -> Vec<Cell> {
    let summary = candidate.summary();
    let figure = |text: Option<String>| Cell::plain(text.unwrap_or_else(|| "–".to_owned()));
    let standing = match candidate.standing() {
        Standing::Confirmed => Cell::good("confirmed"),
        Standing::Timed => Cell::plain("timed"),
        _ => Cell::warning("not judged"),
    };
    vec![
        Cell::plain(candidate.id()),
        standing,
        figure(summary.map(|summary| format!("{:.3}", summary.us))),
        figure(summary.map(|summary| format!("{:.1} %", summary.roof * 100.0))),
        figure(summary.map(|summary| format!("{:.1} %", summary.worst * 100.0))),
        figure(candidate.speedup().map(|speedup| format!("{speedup:.2}{}", candidate.without()))),
        Cell::plain(format!("{} {}", candidate.plan.operator, candidate.plan.proposer)),
        Cell::faint(candidate.features().map_or_else(String::new, crate::search::facts::Features::words)),
    ]
}

/// The JSON of a run.
fn report(state: &State, run: &Path) -> Value {
    let elites: Vec<Value> = (0..state.run.settings.islands)
        .flat_map(|island| {
            let of = |(cell, id)| json!({"island": island, "cell": cell, "candidate": id});
            state.elites(island).into_iter().map(of).collect::<Vec<_>>()
        })
        .collect();
    json!({
        "run": run,
        "project": state.run.project,
        "task": state.run.task,
        "settings": state.run.settings,
        "card": state.run.card.as_ref().ok(),
        "no_card": state.run.card.as_ref().err(),
        "compiler": state.run.compiler.as_ref().ok(),
        "no_compiler": state.run.compiler.as_ref().err(),
        "generations": state.generations,
        "best": state.best().map(Candidate::id),
        "elites": elites,
        "caught": state.caught(),
        "usd": state.usd(),
        "unpriced": state.unpriced(),
        "evals": state.evals(),
        "seconds": state.seconds,
        "ended": state.ended,
        "candidates": state.candidates.iter().map(brief).collect::<Vec<_>>(),
    })
}

/// A candidate in a list.
pub(super) fn brief(candidate: &Candidate) -> Value {
    let failure = candidate.failure();
    json!({
        "candidate": candidate.id(),
        "generation": candidate.generation,
        "plan": candidate.plan,
        "standing": candidate.standing(),
        "stage": failure.map(|attempt| attempt.stage),
        "findings": failure.map(|attempt| attempt.findings.iter().map(|one| one.kind.clone()).collect::<Vec<_>>()),
        "summary": candidate.summary(),
        "speedup": candidate.speedup(),
        "missing": candidate.confirmed.as_ref().map(|confirmed| &confirmed.missing),
        "cell": candidate.features(),
        "thought": candidate.proposed.as_ref().map(|proposed| proposed.thought.clone()),
    })
}
