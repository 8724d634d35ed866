//! Writes what became of a candidate to the journal, stage by stage. Here, in the order of the candidates, it is decided
//! whether one is an earlier one again.

use std::sync::mpsc::Receiver;

use anyhow::{Context as _, Result};

use super::evaluate::{Built, Verdict};
use super::event::{self, Attempt, Caught, Compiled, Judged, Outcome, Plan, Proposed, Stage};
use super::job::Done;
use super::ledger::Ledger;
use super::proposer::Answer;
use super::slot::Step;
use super::state::{Candidate, State};
use super::twins::{compared, same_code, twin};

/// Whether a candidate has not come to the end of its stages, but for the confirmation.
pub(super) fn is_open(candidate: &Candidate) -> bool {
    let ended = |attempts: &[Attempt]| attempts.iter().any(|one| one.outcome == Outcome::Failed);
    match (&candidate.proposed, &candidate.compiled, &candidate.judged) {
        (None, ..) => true,
        (Some(proposed), None, _) => !ended(&proposed.attempts),
        (_, Some(compiled), None) => !ended(&compiled.attempts),
        _ => false,
    }
}

/// Takes the steps of a candidate as they come, and writes those that are not written yet.
pub(super) fn candidate(search: &mut Ledger, plan: &Plan, steps: &Receiver<Result<Step>>) -> Result<()> {
    let id = plan.candidate;
    while let Some(before) = search.state.candidate(id).filter(|one| is_open(one)).cloned() {
        // What no card can say needs no step.
        if before.compiled.is_some() && !search.places.has_card() {
            let judged = unjudged(&before, &search.state);
            search.write(event::JUDGED, &judged)?;
            continue;
        }
        match steps.recv().with_context(|| format!("candidate {id} ended without a result"))?? {
            Step::Answered(_) if before.proposed.is_some() => {}
            Step::Built(_) if before.compiled.is_some() => {}
            Step::Answered(answer) => proposed(search, plan, &answer)?,
            Step::Built(built) => compiled(search, id, &built)?,
            Step::Judged(verdict) => judged(search, id, &verdict)?,
        }
    }
    Ok(())
}

fn proposed(search: &mut Ledger, plan: &Plan, done: &Done<Answer>) -> Result<()> {
    let mut new = Proposed { candidate: plan.candidate, ..Proposed::default() };
    let Some(answer) = &done.result else {
        new.attempts.push(Attempt::failed(Stage::Edit, vec![done.death()], done.seconds()));
        return search.write(event::PROPOSED, &new);
    };
    new.thought.clone_from(&answer.thought);
    new.cost = answer.cost.clone();
    if !answer.question.is_empty() {
        new.question = Some(search.put(&answer.question)?);
    }
    if !answer.text.is_empty() {
        new.answer = Some(search.put(&answer.text)?);
    }
    match &answer.sources {
        Err(caught) => new.attempts.push(Attempt::failed(Stage::Edit, caught.clone(), done.seconds())),
        Ok(sources) => {
            new.attempts.push(Attempt::passed(Stage::Edit, done.seconds()));
            new.tree = Some(search.put(sources)?);
            (new.program, new.change, new.changed) = compared(&search.state, &search.folder, plan, sources)?;
            new.attempts.push(match twin(&search.state, plan, &new.program, &new.change) {
                None => Attempt::passed(Stage::Novelty, 0.0),
                Some((other, why)) => {
                    let text = format!("{why} candidate {other}");
                    Attempt::failed(Stage::Novelty, vec![Caught::public("not-novel", text)], 0.0)
                }
            });
        }
    }
    search.write(event::PROPOSED, &new)
}

fn compiled(search: &mut Ledger, id: u32, done: &Done<Built>) -> Result<()> {
    let mut new = Compiled { candidate: id, ended: done.ended, ..Compiled::default() };
    let Some(built) = &done.result else {
        new.attempts.push(Attempt::failed(Stage::Compile, vec![done.death()], done.seconds()));
        return search.write(event::COMPILED, &new);
    };
    new.attempts.clone_from(&built.attempts);
    new.device.clone_from(&built.device);
    if let Some(facts) = &built.facts {
        new.features = Some(facts.features());
        new.facts = Some(search.put(facts)?);
    }
    if let Some(code) = &built.code {
        new.same_as = same_code(&search.state, id, code);
        new.attempts.push(match new.same_as {
            None => Attempt::passed(Stage::Identity, 0.0),
            Some(other) => {
                let text = format!("the machine code and the host code are those of candidate {other}");
                Attempt::failed(Stage::Identity, vec![Caught::public("same-code", text)], 0.0)
            }
        });
        new.code = Some(code.clone());
    }
    search.write(event::COMPILED, &new)
}

/// What is said of a candidate that no card has judged.
fn unjudged(candidate: &Candidate, state: &State) -> Judged {
    let compiled = candidate.compiled.as_ref();
    let built = compiled.is_some_and(|compiled| compiled.code.is_some());
    let why = match (&state.run.card, built) {
        (_, false) => "it was not compiled".to_owned(),
        (Err(why), true) => format!("no card: {why}"),
        (Ok(_), true) => "no card".to_owned(),
    };
    Judged { candidate: candidate.id(), attempts: Attempt::no_card(&why), ..Judged::default() }
}

fn judged(search: &mut Ledger, id: u32, done: &Done<Verdict>) -> Result<()> {
    let mut new = Judged { candidate: id, started: done.started, ended: done.ended, ..Judged::default() };
    match &done.result {
        None => new.attempts.push(Attempt::failed(Stage::Verify, vec![done.death()], done.seconds())),
        Some(verdict) if search.state.run.is_other_card(&verdict.card) => {
            let why = format!("it was judged on {}, which is not the run's card", verdict.card);
            new.attempts = Attempt::no_card(&why);
        }
        Some(verdict) => {
            new.attempts.clone_from(&verdict.attempts);
            new.summary = verdict.summary;
            new.card.clone_from(&verdict.card);
            new.verified = verdict.verified.as_ref().map(|report| search.put(report)).transpose()?;
            new.timed = verdict.timed.as_ref().map(|report| search.put(report)).transpose()?;
        }
    }
    search.write(event::JUDGED, &new)
}
