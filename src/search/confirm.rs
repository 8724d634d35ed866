//! Confirms a candidate that took a cell: fresh processes, beside other implementations in turns, large gains twice. Only
//! what was confirmed has a speed-up.

use anyhow::{Context as _, Result};

use super::evaluate::Verdict;
use super::event::{self, Attempt, Confirmed, Outcome, Stage, Summary};
use super::job::{self, Done, Job, Work};
use super::ledger::Ledger;
use super::state::{Candidate, State};

/// A gain over the parent, and a part of the roof, from which on a candidate is measured twice.
const LARGE: f64 = 1.5;
const NEAR: f64 = 0.95;

/// Whether a candidate is to be confirmed and was not yet.
pub(super) fn is_due(state: &State, id: u32) -> bool {
    state.candidate(id).is_some_and(|one| one.confirmed.is_none()) && state.took_a_cell(id)
}

pub(super) fn candidate(search: &mut Ledger, id: u32, doing: &(dyn Fn(&str) + Sync)) -> Result<()> {
    if !is_due(&search.state, id) || !search.places.has_card() {
        return Ok(());
    }
    doing(&format!("candidate {id}: confirming"));
    let (first, card) = measured(search, id, 1, None)?;
    let summary = first.result.as_ref().and_then(|verdict| verdict.summary);
    let mut runs = vec![first];
    if summary.is_some_and(|summary| is_large(&search.state, id, &summary)) {
        runs.push(measured(search, id, 2, Some(card))?.0);
    }
    let new = confirmed(search, id, &runs)?;
    search.write(event::CONFIRMED, &new)
}

fn is_large(state: &State, id: u32, summary: &Summary) -> bool {
    let before = state.candidate(id).and_then(|one| state.parent(one)?.summary());
    summary.roof > NEAR || before.is_some_and(|before| before.us > summary.us * LARGE)
}

/// One measurement, and the card that it was made on.
fn measured(search: &Ledger, id: u32, run: u32, not: Option<usize>) -> Result<(Done<Verdict>, usize)> {
    let candidate = search.state.candidate(id).context("a candidate is gone")?;
    let tree = candidate.tree().context("a timed candidate has no sources")?.to_owned();
    let code = candidate.compiled.as_ref().and_then(|compiled| compiled.code.clone()).unwrap_or_default();
    let settings = &search.state.run.settings;
    let place = search.places.card(not);
    // Of a finalist, once: none is faster so far.
    let us = |one: &Candidate| one.summary().map_or(f64::INFINITY, |summary| summary.us);
    let profiled = run == 1 && search.state.candidates.iter().all(|one| us(candidate) <= us(one));
    let engine = search.places.engine();
    let work = Work::Confirm { ordinal: engine.ordinal(place.number), against: settings.against.clone(), profiled };
    // Peers may compile for minutes.
    let patience = settings.patience.saturating_mul(2);
    let (arch, compiler) = (search.state.run.arch, search.state.run.compiler.clone().ok());
    let job = Job { work, tree, arch, compiler, patience };
    let start = search.put(&search.task.start)?;
    let done = job::carry_out_candidate(engine, &search.folder, &format!("confirm-{code}-{run}"), &job, &start)?;
    Ok((done, place.number))
}

/// All measurements as one event: the slowest run counts, and a finding of any.
fn confirmed(search: &Ledger, id: u32, runs: &[Done<Verdict>]) -> Result<Confirmed> {
    let mut new = Confirmed {
        candidate: id,
        runs: u32::try_from(runs.len()).unwrap_or(u32::MAX),
        started: runs.first().map_or(0.0, |done| done.started),
        ended: runs.last().map_or(0.0, |done| done.ended),
        ..Confirmed::default()
    };
    let mut failed = Vec::new();
    let mut speedups = Vec::new();
    for done in runs {
        let Some(verdict) = &done.result else {
            failed.push(done.death());
            continue;
        };
        failed.extend(
            verdict.attempts.iter().filter(|one| one.outcome == Outcome::Failed).flat_map(|one| one.findings.clone()),
        );
        new.card.clone_from(&verdict.card);
        if search.state.run.is_other_card(&verdict.card) {
            new.why = Some(format!("it was timed on {}, which is not the run's card", verdict.card));
            speedups.push(None);
            continue;
        }
        new.profile = new.profile.or_else(|| verdict.profile.clone());
        new.timed.extend(verdict.timed.as_ref().map(|report| search.put(report)).transpose()?);
        let slower = |known: &Summary| verdict.summary.is_some_and(|summary| summary.us > known.us);
        if new.summary.as_ref().is_none_or(slower) {
            new.summary = verdict.summary;
        }
        let beside = verdict.beside.clone().unwrap_or_default();
        speedups.push(beside.speedup);
        new.why = new.why.or(beside.why);
        new.best = beside.best;
        new.missing.extend(beside.missing);
    }
    let seconds = new.ended - new.started;
    if failed.is_empty() {
        new.attempts.push(Attempt::passed(Stage::Confirm, seconds));
        // The least of all runs, and none where one has none.
        let all = speedups.into_iter().collect::<Option<Vec<f64>>>();
        new.speedup = all.and_then(|all| all.into_iter().min_by(f64::total_cmp));
    } else {
        new.summary = None;
        new.attempts.push(Attempt::failed(Stage::Confirm, failed, seconds));
    }
    Ok(new)
}
