//! One candidate on its way through the stages, in a thread of its own. It sends what it finds to the thread that writes
//! events, and stops where that thread will stop as well: it knows the candidates of earlier generations, and those of this
//! one are compared when the events are written.

use std::sync::PoisonError;
use std::sync::mpsc::Sender;

use anyhow::Result;

use super::evaluate::{Built, Verdict};
use super::event::{Outcome, Plan};
use super::job::{self, Done, Job, Work};
use super::places::Places;
use super::proposer::{Answer, Desk};
use super::twins::{compared, same_code, twin};

/// What a candidate's thread sends.
pub(super) enum Step {
    Answered(Box<Done<Answer>>),
    Built(Box<Done<Built>>),
    Judged(Box<Done<Verdict>>),
}

/// Goes through the stages. An error is one of this program's own: it is to be sent as the last step, and ends the run.
pub(super) fn run(
    plan: &Plan,
    desk: &Desk,
    places: &Places,
    to: &Sender<Result<Step>>,
    doing: &(dyn Fn(&str) + Sync),
) -> Result<()> {
    let id = plan.candidate;
    // Nobody receives any more where another candidate failed the run.
    let send = |step| drop(to.send(Ok(step)));
    doing(&format!("candidate {id}: {} by {}", plan.operator, plan.proposer));
    let answer = desk.answer(plan)?;
    let sources = answer.result.as_ref().and_then(|answer| answer.sources.clone().ok());
    send(Step::Answered(Box::new(answer)));
    let Some(sources) = sources else { return Ok(()) };
    let (program, change, _) = compared(desk.state, desk.run, plan, &sources)?;
    if twin(desk.state, plan, &program, &change).is_some() {
        return Ok(());
    }
    let bytes = serde_json::to_vec(&sources)?;
    let tree = desk.journal.lock().unwrap_or_else(PoisonError::into_inner).put(&bytes)?;
    let start = serde_json::to_vec(&desk.task.start)?;
    let start = desk.journal.lock().unwrap_or_else(PoisonError::into_inner).put(&start)?;
    let run = &desk.state.run;
    let (compiler, patience) = (run.compiler.clone().ok(), run.settings.patience);
    let job = |work| Job { work, tree: tree.clone(), arch: run.arch, compiler: compiler.clone(), patience };
    let built: Done<Built> = {
        let _place = places.compiler();
        doing(&format!("candidate {id}: compiling"));
        job::carry_out_candidate(places.engine(), desk.run, &format!("compile-{tree}"), &job(Work::Compile), &start)?
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
    let verdict = job::carry_out_candidate(places.engine(), desk.run, &format!("judge-{code}"), &work, &start)?;
    send(Step::Judged(Box::new(verdict)));
    Ok(())
}
