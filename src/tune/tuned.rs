//! What a tuning found: the figures of all candidates, the row that won, and its way into the project's files.

use std::path::PathBuf;

use anyhow::Result;
use serde::Serialize;

use super::record::{self, Edited, Record, Written};
use super::rows::{self, Change, Place, Seen};
use super::trial::{Outcome, Trial};
use crate::base::plural;
use crate::gpu::Card;
use crate::install::{Refusal, refusal::Refused};
use crate::project::Project;

/// One row's candidates, as reports show them.
#[derive(Debug, Serialize)]
pub(crate) struct Tuned {
    pub(crate) file: PathBuf,
    pub(crate) table: String,
    pub(crate) present: String,
    /// The cases that decided, and those that must not lose.
    pub(crate) cases: Vec<String>,
    pub(crate) guarded: Vec<String>,
    pub(crate) candidates: Vec<Line>,
    /// The row that was better by more than the spread.
    pub(crate) best: Option<String>,
    #[serde(skip)]
    pub(crate) change: Option<(Change, Vec<String>)>,
}

/// A candidate.
#[derive(Debug, Serialize)]
pub(crate) struct Line {
    pub(crate) row: String,
    pub(crate) outcome: Outcome,
    pub(crate) why: Option<String>,
    /// Of the copy, in the cases that decide.
    pub(crate) share: Option<f64>,
    pub(crate) spread: Option<f64>,
    pub(crate) us: Vec<(String, f64)>,
    pub(crate) rounds: usize,
}

pub(super) fn label(seen: &Seen) -> String {
    format!("{} {}", seen.operation, seen.case.label)
}

/// The best that is better than the present row.
pub(super) fn judged(trials: &[Trial], (place, card): (Place, &Card), group: &[Seen], guards: &[Seen]) -> Tuned {
    let mut right: Vec<&Trial> = trials[1..].iter().filter(|trial| trial.is_alive()).collect();
    right.sort_by(|one, other| one.score().0.total_cmp(&other.score().0));
    let best = right.iter().find(|trial| trial.beats(&trials[0])).copied();
    let line = |trial: &Trial| {
        let timed = trial.rounds() > 0;
        let (score, spread) = trial.score();
        Line {
            row: trial.row.clone(),
            outcome: trial.outcome.clone(),
            why: trial.why.clone(),
            share: timed.then_some(1.0 / score),
            spread: timed.then_some(spread),
            us: trial
                .microseconds()
                .into_iter()
                .map(|((operation, case), us)| (format!("{operation} {case}"), us))
                .collect(),
            rounds: trial.rounds(),
        }
    };
    let share = |trial: &Trial| format!("{:.1} %", 100.0 / trial.score().0);
    let change = best.and_then(|best| {
        let more = if group.len() > 1 { format!(" and {} more", group.len() - 1) } else { String::new() };
        // Those that were left out early have fewer rounds; the next best may be one of them.
        let right = |trial: &&Trial| trial.rounds() > 0 && trial.outcome != Outcome::Wrong && trial.is_comparable(best);
        let next = trials[1..].iter().filter(right).filter(|trial| !std::ptr::eq(*trial, best));
        let next = next.min_by(|one, other| one.score().0.total_cmp(&other.score().0));
        let next = next.map_or_else(String::new, |next| format!(", next best {} {}", next.row, share(next)));
        let comment = vec![
            format!(
                "kernels tune, {}, {}: {} of a copy at {}{more}.",
                card.name,
                &now()[..10],
                share(best),
                label(&group[0])
            ),
            format!("Before it {} {}{next}; {} has all.", trials[0].row, share(&trials[0]), record::FILE),
        ];
        Some((best.change.clone()?, comment))
    });
    Tuned {
        file: place.tuning.file.clone(),
        table: place.tuning.table.clone(),
        present: trials[0].row.clone(),
        cases: group.iter().map(label).collect(),
        guarded: guards.iter().map(label).collect(),
        candidates: trials.iter().map(line).collect(),
        best: best.map(|best| best.row.clone()),
        change,
    }
}

fn now() -> String {
    humantime::format_rfc3339_seconds(std::time::SystemTime::now()).to_string()
}

/// The project's files with the rows that were found, as they are on the disk now. An edit of
/// somebody else's meanwhile stays.
pub(crate) fn edited(project: &Project, card: &Card, all: &[Tuned]) -> Result<(Vec<Written>, Vec<Edited>)> {
    let (at, before) = (now(), rows::texts(project)?);
    let (mut after, mut written) = (before.clone(), Vec::new());
    for tuned in all {
        let Some((change, comment)) = &tuned.change else { continue };
        let applied = change.apply(&after[&change.file], comment).map_err(|why| {
            Refusal(vec![Refused {
                path: project.root.join(&change.file),
                reason: format!("was edited meanwhile: {why:#}; nothing was written"),
                changes: Vec::new(),
                advice: vec![format!("put the row there by hand: {}", change.row)],
            }])
        })?;
        after.insert(change.file.clone(), applied.text);
        written.push(Written {
            at: at.clone(),
            card: card.name.clone(),
            file: change.file.clone(),
            table: tuned.table.clone(),
            row: change.row.clone(),
            was: applied.was,
            is: applied.is,
            measured: serde_json::to_value(tuned)?,
        });
    }
    let files = before.into_iter().filter_map(|(path, text)| {
        let new = after.remove(&path).filter(|new| *new != text)?;
        Some(Edited { path, old: text, new })
    });
    Ok((written, files.collect()))
}

/// Writes the rows, and first what is needed to take them back.
pub(crate) fn write(project: &Project, written: Vec<Written>, files: &[Edited]) -> Result<()> {
    let mut record = Record::read(&project.root)?;
    record.rows.extend(written);
    record.write(&project.root)?;
    files.iter().try_for_each(|edited| record::replace(&project.root, edited))
}

/// What is said of so many rows.
pub(crate) fn summary(all: &[Tuned]) -> String {
    let better = all.iter().filter(|tuned| tuned.change.is_some()).count();
    format!(
        "{} tried for {}: {better} better",
        plural(all.iter().map(|tuned| tuned.candidates.len() - 1).sum::<usize>(), "row"),
        plural(all.len(), "row")
    )
}
