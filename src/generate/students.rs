//! Agents at work on tasks with a draft and without it. A writer learns from the tasks that drafts are refined on, and of the others
//! nothing: they say whether the last draft is taken.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::base::disk;
use crate::eval::lab::Lab;
use crate::eval::plan::{Header, Plan};
use crate::eval::row::Row;
use crate::eval::summary::Summary;
use crate::eval::verdict::Outcome;
use crate::eval::{self, tasks};
use crate::report::check::Status;
use crate::report::statistics::mean;
use crate::trace::redact::redact;
use crate::verify::random::Random;

/// What a writer is told of one task, and of all of them.
const PROMPT: usize = 1_200;
const OUTPUT: usize = 1_500;
const TOLD: usize = 24_000;

/// Who works, and on what: the header of their runs, but for skill, tasks and arm.
pub(crate) struct Students {
    pub(crate) header: Header,
    /// The skill that is to become better.
    pub(crate) base: Option<PathBuf>,
    /// The share of tasks that no writer hears of.
    pub(crate) holdout: f64,
    /// The run's folder.
    pub(crate) folder: PathBuf,
}

/// The tasks that hold, and why others do not.
#[derive(Deserialize, Serialize)]
pub(super) struct Split {
    pub(super) train: Vec<PathBuf>,
    pub(super) holdout: Vec<PathBuf>,
    pub(super) left_out: BTreeMap<String, String>,
}

/// What a draft changed.
pub(super) struct Worth {
    /// By student: the difference of the pass rates; none where no pair of runs was judged.
    pub(super) lifts: Vec<(String, Option<f64>)>,
    /// Runs with harm, less those without the draft.
    pub(super) harm: i64,
    /// Whether everything passed.
    pub(super) all: bool,
}

impl Worth {
    /// The mean over students; below everything where one was not measured.
    pub(super) fn lift(&self) -> f64 {
        let lifts: Option<Vec<f64>> = self.lifts.iter().map(|(_, lift)| *lift).collect();
        lifts.and_then(|lifts| mean(&lifts)).unwrap_or(f64::NEG_INFINITY)
    }

    /// Why it is not to be taken.
    pub(super) fn objection(&self) -> Option<String> {
        for (agent, lift) in &self.lifts {
            match lift {
                None => return Some(format!("{agent}: no pair of runs of the hold-out was judged")),
                Some(lift) if *lift < 0.0 => return Some(format!("{agent}: the hold-out falls by {:.2}", -lift)),
                Some(_) => {}
            }
        }
        (self.harm > 0).then(|| format!("harm in {} more runs of the hold-out", self.harm))
    }

    pub(super) fn json(&self) -> Value {
        json!({ "lift": self.lifts, "harm": self.harm })
    }
}

impl Students {
    /// Divides the tasks whose solutions pass and whose mutants fail. It is done once a run.
    pub(super) fn split(&self, tell: &mut dyn FnMut(String)) -> Result<Split> {
        let path = self.folder.join("tasks.json");
        if let Ok(bytes) = fs::read(&path) {
            return serde_json::from_slice(&bytes).with_context(|| format!("{} cannot be read", path.display()));
        }
        let tasks = tasks::read_all(&self.header.tasks)?;
        let lab = Lab::find(tasks.iter().map(|task| &task.about))?;
        let (mut good, mut left_out) = (Vec::new(), BTreeMap::new());
        for (task, suite) in tasks.iter().zip(eval::check(&tasks, &lab, &mut |_, _| ())) {
            let why = suite.checks.iter().find_map(|check| match &check.status {
                Status::Passed => None,
                Status::Skipped { reason } => Some(reason.clone()),
                Status::Failed { text, .. } => Some(format!("{}: {text}", check.name)),
            });
            match why {
                None => good.push(task.folder.clone()),
                Some(why) => drop(left_out.insert(task.id.clone(), why)),
            }
        }
        for (task, why) in &left_out {
            tell(format!("task {task} is left out: {}", why.lines().next().unwrap_or_default()));
        }
        if good.len() < 2 {
            bail!(
                "{} tasks hold here, and two are needed: one to refine drafts on, one that no writer hears of",
                good.len()
            );
        }
        Random::new(self.header.seed, 2).shuffle(&mut good);
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "a share of a count"
        )]
        let apart = ((good.len() as f64 * self.holdout).round() as usize).clamp(1, good.len() - 1);
        let train = good.split_off(apart);
        let split = Split { train, holdout: good, left_out };
        fs::create_dir_all(&self.folder)?;
        disk::write_atomic(&path, &serde_json::to_vec_pretty(&split)?, 0o666)
            .with_context(|| format!("cannot write {}", path.display()))?;
        Ok(split)
    }

    /// The arm that a draft is held against.
    fn arm(&self) -> String {
        self.base.as_ref().map_or_else(|| "without".to_owned(), |path| format!("old={}", path.display()))
    }

    /// The rows of one arm on these tasks, from what was kept as far as it goes.
    fn rows(&self, name: &str, arm: &str, skill: Option<&Path>, tasks: &[PathBuf]) -> Result<Vec<Row>> {
        let header = Header {
            skill: skill.map_or_else(PathBuf::new, Path::to_owned),
            tasks: tasks.to_owned(),
            arms: vec![arm.to_owned()],
            ..self.header.clone()
        };
        let folder = self.folder.join("students").join(name);
        let begun = folder.join("events.jsonl").exists();
        let plan = if begun { Plan::again(&eval::run::read(&folder)?.0, &folder) } else { Plan::open(header) };
        let rows = plan.and_then(|plan| eval::run(&plan, &folder, begun, &mut |_, _| ()));
        rows.with_context(|| format!("the students' run; remove {} to begin it anew", folder.display()))
    }

    /// What a draft changes on these tasks, and its rows.
    pub(super) fn measure(&self, draft: (usize, &Path), part: &str, tasks: &[PathBuf]) -> Result<(Worth, Vec<Row>)> {
        let arm = self.arm();
        let before = self.rows(&format!("before-{part}"), &arm, None, tasks)?;
        let rows = self.rows(&format!("{}-{part}", draft.0), "with", Some(draft.1), tasks)?;
        let header = Header { arms: vec![arm, "with".to_owned()], ..self.header.clone() };
        let both: Vec<Row> = before.into_iter().chain(rows.iter().cloned()).collect();
        let lifts = Summary::of(&header, &both).lifts;
        let worth = Worth {
            harm: lifts.iter().map(|lift| lift.harm).sum(),
            all: rows.iter().all(|row| row.outcome() == Outcome::Pass),
            lifts: lifts.into_iter().map(|lift| (lift.agent, lift.lift)).collect(),
        };
        Ok((worth, rows))
    }
}

/// What a writer is told of the runs with a draft: of tasks that went wrong the prompt and what the tests said.
pub(super) fn told(rows: &[Row], tasks: &[PathBuf]) -> String {
    let counted: Vec<&Row> = rows.iter().filter(|row| row.outcome().counts()).collect();
    let passed = counted.iter().filter(|row| row.outcome() == Outcome::Pass).count();
    let mut text = format!("Agents did tasks with it: {passed} of {} runs passed.\n", counted.len());
    for row in counted.iter().filter(|row| row.outcome() != Outcome::Pass || !row.verdict.harm.is_empty()) {
        let folder = tasks.iter().find(|folder| folder.ends_with(&row.task));
        let prompt =
            folder.and_then(|folder| fs::read_to_string(folder.join("instruction.md")).ok()).unwrap_or_default();
        let output: String = row.output.chars().rev().take(OUTPUT).collect::<Vec<_>>().into_iter().rev().collect();
        let loaded = if row.took.loaded == Some(false) { " The agent did not open the skill." } else { "" };
        let _ = write!(
            text,
            "\nTask {}, {}: {}.{loaded}\nIt was asked:\n{}\nThe tests said:\n{}\n",
            row.task,
            row.outcome().word(),
            [row.verdict.why.clone(), row.verdict.harm.join("; ")].join(" ").trim(),
            prompt.chars().take(PROMPT).collect::<String>().trim(),
            output.trim()
        );
    }
    redact(&text.chars().take(TOLD).collect::<String>()).0
}
