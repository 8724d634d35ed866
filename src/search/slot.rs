//! One candidate on its way through the stages, in a thread of its own. It sends what it finds to the thread that writes
//! events, and stops where that thread will stop as well: it knows the candidates of earlier generations, and those of this
//! one are compared when the events are written.

use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::sync::mpsc::{Receiver, Sender};

use anyhow::{Context as _, Result};

use super::evaluate::{Built, Verdict};
use super::event::{Outcome, Plan};
use super::job::{self, Done, Job, Work};
use super::novelty;
use super::places::Places;
use super::proposer::{Answer, Desk};
use super::sources::Sources;
use super::twins::{same_code, twin};
use crate::journal::Journal;

/// What a candidate's thread sends.
pub(super) enum Step {
    Answered(Box<Done<Answer>>),
    Built(Box<Done<Built>>),
    Judged(Box<Done<Verdict>>),
    /// Something of this program's own failed, and the run with it.
    Failed(anyhow::Error),
}

/// What the candidates' threads have sent, by candidate, in their order.
pub(super) struct Inbox {
    steps: Receiver<(u32, Step)>,
    kept: BTreeMap<u32, Vec<Step>>,
}

impl Inbox {
    pub(super) fn new(steps: Receiver<(u32, Step)>) -> Self {
        Self { steps, kept: BTreeMap::new() }
    }

    /// The next step of a candidate.
    pub(super) fn next(&mut self, candidate: u32) -> Result<Step> {
        loop {
            let kept = self.kept.entry(candidate).or_default();
            if !kept.is_empty() {
                return Ok(kept.remove(0));
            }
            let sent = self.steps.recv();
            let (of, step) = sent.with_context(|| format!("candidate {candidate} ended without a result"))?;
            self.kept.entry(of).or_default().push(step);
        }
    }
}

/// Goes through the stages; a failure of this program's own is sent as the last step.
pub(super) fn run(plan: &Plan, desk: &Desk, places: &Places, to: &Sender<(u32, Step)>, doing: &(dyn Fn(&str) + Sync)) {
    if let Err(error) = stages(plan, desk, places, to, doing) {
        let _ = to.send((plan.candidate, Step::Failed(error)));
    }
}

fn stages(
    plan: &Plan,
    desk: &Desk,
    places: &Places,
    to: &Sender<(u32, Step)>,
    doing: &(dyn Fn(&str) + Sync),
) -> Result<()> {
    let id = plan.candidate;
    // Nobody receives any more where another candidate failed the run.
    let send = |step| drop(to.send((id, step)));
    doing(&format!("candidate {id}: {} by {}", plan.operator, plan.proposer));
    let answer = desk.answer(plan)?;
    let sources = answer.result.as_ref().and_then(|answer| answer.sources.clone().ok());
    send(Step::Answered(Box::new(answer)));
    let Some(sources) = sources else { return Ok(()) };
    let (program, change) = compared(desk, plan, &sources)?;
    if twin(desk.state, plan, &program, &change).is_some() {
        return Ok(());
    }
    let bytes = serde_json::to_vec(&sources)?;
    let tree = desk.journal.lock().unwrap_or_else(PoisonError::into_inner).put(&bytes)?;
    let run = &desk.state.run;
    let job = |work| Job { work, tree: tree.clone(), arch: run.arch, patience: run.settings.patience };
    let built: Done<Built> = {
        let _place = places.compiler();
        doing(&format!("candidate {id}: compiling"));
        job::carry_out(places.engine(), desk.run, &format!("compile-{tree}"), &job(Work::Compile))?
    };
    let code = built.result.as_ref().and_then(|built| built.code.clone());
    let passed =
        built.result.as_ref().is_some_and(|built| built.attempts.iter().all(|one| one.outcome == Outcome::Passed));
    send(Step::Built(Box::new(built)));
    let Some(code) = code.filter(|_| passed && places.has_card()) else { return Ok(()) };
    if same_code(desk.state, id, &code).is_some() {
        return Ok(());
    }
    let lock = places.code(&code);
    let _one = lock.lock().unwrap_or_else(PoisonError::into_inner);
    let place = places.card(None);
    doing(&format!("candidate {id}: on card {}", place.number));
    let work = job(Work::Judge { ordinal: places.engine().ordinal(place.number) });
    let verdict = job::carry_out(places.engine(), desk.run, &format!("judge-{code}"), &work)?;
    send(Step::Judged(Box::new(verdict)));
    Ok(())
}

/// The digest of a candidate's tokens, and the signature of what it changes of its first parent.
pub(super) fn compared(desk: &Desk, plan: &Plan, sources: &Sources) -> Result<(String, String)> {
    let change = match plan.parents.first() {
        Some(parent) => {
            let tree = desk.state.candidate(*parent).and_then(|one| one.tree());
            let tree = tree.with_context(|| format!("candidate {parent} has no sources"))?;
            let parent: Sources = serde_json::from_slice(&Journal::get(desk.run, tree)?)?;
            novelty::change(&parent, sources)
        }
        None => String::new(),
    };
    Ok((novelty::program(sources), change))
}
