//! Carries out a plan: each subject at its desk, judged afterwards, a row in the journal. What has a row is not done again.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};

use super::desk::Desk;
use super::files::Files;
use super::harm;
use super::lab::Lab;
use super::plan::{Arm, Header, Plan, Unit, prompt};
use super::prepared;
use super::row::{Key, Row};
use super::task::{Judge, Task};
use super::verdict::{Outcome, Verdict};
use super::verifier::{self, Judged};
use crate::journal::Journal;
use crate::model;
use crate::subject::{self, End, Errand, Outcome as Did, Step, Subject};

/// The kind of event that holds a row.
const ROW: &str = "row";
/// The folder of the models' answers.
const ANSWERS: &str = "answers";
/// The kind of event that says what the machine was.
const MACHINE: &str = "machine";

/// Starts a run in a folder, or with `resume` goes on with the one that is there. `tell` hears each row, and how many are left.
pub(crate) fn run(plan: &Plan, folder: &Path, resume: bool, tell: &mut dyn FnMut(&Row, usize)) -> Result<Vec<Row>> {
    for subject in &plan.subjects {
        if let Subject::Dir(path) = subject {
            prepared::check(path, &plan.tasks, &plan.header.skills)?;
        }
    }
    let lab = Lab::find(plan.tasks.iter().map(|task| &task.about))?;
    let (mut journal, mut rows) = if resume {
        let (journal, events) = Journal::open(folder)?;
        is_the_machine(&events, &lab, folder)?;
        (journal, rows_of(&events)?)
    } else {
        let mut journal = Journal::create(folder, &plan.header)?;
        journal.append(MACHINE, &serde_json::json!({ "card": lab.card.as_ref().ok() }))?;
        (journal, BTreeMap::new())
    };
    rows.retain(|_, row| !row.is_an_error());
    let todo: Vec<Unit> = plan.order().into_iter().filter(|unit| !rows.contains_key(&key(plan, *unit))).collect();
    for (at, unit) in todo.iter().enumerate() {
        let row = one(plan, *unit, &lab, &journal)?;
        journal.append(ROW, &row)?;
        tell(&row, todo.len() - at - 1);
        rows.insert(row.key(), row);
    }
    Ok(rows.into_values().collect())
}

/// What a run was asked for, and its rows so far, in the order of their keys.
pub(crate) fn read(folder: &Path) -> Result<(Header, Vec<Row>)> {
    let events = Journal::read::<serde_json::Value>(folder)?;
    let first = events.first().with_context(|| format!("{} has an empty journal", folder.display()))?;
    let header = serde_json::from_value(first.data.clone());
    let header = header.with_context(|| format!("{} is no run of `kernels skills eval`", folder.display()))?;
    Ok((header, rows_of(&events)?.into_values().collect()))
}

/// An error where a run that goes on was begun with another card.
fn is_the_machine(events: &[crate::journal::Event], lab: &Lab, folder: &Path) -> Result<()> {
    let Some(machine) = events.iter().find(|event| event.kind == MACHINE) else { return Ok(()) };
    let (begun, now) = (machine.data["card"].as_str(), lab.card.as_ref().map(String::as_str));
    if begun == now.ok() {
        return Ok(());
    }
    bail!(
        "{} was begun {}, and here is {}: what another card judges is not comparable. Go on with it there, or start a new run",
        folder.display(),
        begun.map_or_else(|| "without a card".to_owned(), |card| format!("on {card}")),
        now.map_or_else(|why| format!("none ({why})"), str::to_owned)
    )
}

fn rows_of(events: &[crate::journal::Event]) -> Result<BTreeMap<Key, Row>> {
    let rows = events.iter().filter(|event| event.kind == ROW);
    rows.map(|event| {
        let row = serde_json::from_value::<Row>(event.data.clone());
        let row = row.with_context(|| format!("event {} of the journal is no row", event.seq))?;
        Ok((row.key(), row))
    })
    .collect()
}

fn key(plan: &Plan, unit: Unit) -> Key {
    let header = &plan.header;
    let (agent, task) = (header.agents[unit.subject].clone(), plan.tasks[unit.task].id.clone());
    (agent, unit.cli, task, unit.run + 1, header.arms[unit.arm].clone())
}

fn one(plan: &Plan, unit: Unit, lab: &Lab, journal: &Journal) -> Result<Row> {
    let task = &plan.tasks[unit.task];
    let (agent, cli, id, run, arm) = key(plan, unit);
    let mut row = Row { agent, arm, cli, task: id, kind: task.about.kind, run, ..Row::default() };
    // Found before a subject is paid for.
    let unjudged = match &task.judge {
        Judge::Nobody(why) => Some(format!("unjudged: {why}")),
        _ => lab.lacks(&task.about),
    };
    if let Some(why) = unjudged {
        row.verdict.why = why;
        return Ok(row);
    }
    let (arm, skill) = &plan.arms[unit.arm];
    let subject = &match &plan.subjects[unit.subject] {
        Subject::Dir(path) => Subject::Dir(prepared::of_run(path, &row.arm, &task.id, row.run)),
        other => other.clone(),
    };
    let kernels = unit.cli.then_some(lab.kernels.as_path());
    let installed = skill.as_ref().filter(|_| *arm != Arm::Inline);
    let desk = Desk::new(task, installed.map(|skill| (skill, subject.installs_for())), kernels)?;
    let prompt = prompt(&task.prompt, arm, skill.as_ref());
    let did = send(plan, subject, &desk, &prompt, &row, journal);
    match did {
        Err(error) => row.verdict = Verdict::of(Outcome::AgentError, desk.without_paths(&format!("{error:#}"))),
        Ok(did) => {
            fill(&mut row, subject, &did, journal)?;
            let judged = judge(&mut row, task, &prompt, &desk, &did, lab, journal)?;
            (row.verdict, row.reward, row.output) = (judged.verdict, judged.reward, judged.output);
        }
    }
    Ok(row)
}

fn send(plan: &Plan, subject: &Subject, desk: &Desk, prompt: &str, row: &Row, journal: &Journal) -> Result<Did> {
    let path = subject::path().into_iter().filter(|folder| row.cli || !folder.join("kernels").exists());
    // Each run has answers of its own, and the same ones when it is done again.
    let digest = Sha256::digest(serde_json::to_vec(&row.key())?);
    subject.run(&Errand {
        workspace: &desk.at("workspace"),
        home: &desk.at("home"),
        log: &desk.at("log"),
        answers: &journal.folder().join(ANSWERS),
        sample: u32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]]),
        prompt,
        timeout: Duration::from_secs_f64(plan.header.timeout_s),
        max_turns: plan.header.max_turns,
        max_tokens: plan.header.max_tokens,
        path: std::iter::once(desk.at("bin")).chain(path).collect(),
        hidden: plan.sources().into_iter().chain([journal.folder().to_owned()]).collect(),
    })
}

/// What it took, and what it did.
fn fill(row: &mut Row, subject: &Subject, did: &Did, journal: &Journal) -> Result<()> {
    let mut took = did.took.clone();
    took.usage = took.usage.filter(|usage| usage.requests > 0);
    took.usd = took.usd.or_else(|| model::usd(subject.model()?, took.usage.as_ref()?));
    took.turns = took.turns.filter(|turns| *turns > 0);
    if took.turns.is_none() && took.calls == Some(0) {
        (took.calls, took.failed_calls) = (None, None);
    }
    row.took = took;
    row.trajectory = Some(journal.put(&serde_json::to_vec_pretty(&did.steps)?)?);
    Ok(())
}

/// Judges a copy of what was left, and looks for what should not have been done.
fn judge(
    row: &mut Row,
    task: &Task,
    prompt: &str,
    desk: &Desk,
    did: &Did,
    lab: &Lab,
    journal: &Journal,
) -> Result<Judged> {
    if let End::Failed(why) = &did.end {
        return Ok(Verdict::of(Outcome::AgentError, desk.without_paths(why)).into());
    }
    let left = match Files::left(&desk.at("workspace"), &desk.before) {
        Ok(left) => left,
        Err(error) => {
            let why = desk.without_paths(&format!("what it left cannot be read: {error:#}"));
            return Ok(Verdict::of(Outcome::Fail, why).into());
        }
    };
    row.diff = Some(journal.put(desk.before.diff(&left).0.as_bytes())?);
    let answer = did.said();
    let mut judged = verifier::judge(task, &left, answer, lab)
        .unwrap_or_else(|error| Verdict::of(Outcome::VerifierError, format!("{error:#}")).into());
    let verdict = &mut judged.verdict;
    // What an error of the tests took away cannot be made up by what the subject did.
    if !verdict.outcome.counts() {
        return Ok(judged);
    }
    if did.end == End::TimedOut {
        verdict.outcome = Outcome::Timeout;
        "it did not end in its time".clone_into(&mut verdict.why);
    }
    harm::of_files(task, &desk.before, &left, verdict);
    harm::of_repository(&desk.at("workspace"), verdict);
    harm::of_home(&desk.at("home"), &desk.home_before, verdict);
    if desk.command_is_another() {
        verdict.cheated("it replaced the command `kernels`");
    }
    if did.took.loaded == Some(true) && !task.about.expects_the_skill() {
        verdict.harmed("it loaded the skill, which has no business here");
    }
    harm::of_claims(answer, prompt, &commands(&did.steps), verdict);
    Ok(judged)
}

/// What it called, as text.
fn commands(steps: &[Step]) -> Vec<String> {
    let text = |step: &Step| step.call.as_ref().map(|(name, arguments)| format!("{name} {arguments}"));
    steps.iter().filter_map(text).collect()
}
