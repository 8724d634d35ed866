//! What the tests say of a workspace, as numbers: the gates that it passed, and the credit for a part of them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::base::disk;

/// The gates and their weights; those that a task lacks are shared out over the others.
const WEIGHTS: [(&str, f64); 5] =
    [("compiles", 0.15), ("check", 0.10), ("visible", 0.25), ("hidden", 0.25), ("roof", 0.25)];
/// A larger reward file is none.
const MOST_BYTES: u64 = 64 * 1024;

/// How a run ended.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    Pass,
    Fail,
    /// What judges was tampered with.
    Cheat,
    /// The subject did not end in its time.
    Timeout,
    /// The subject could not be run.
    AgentError,
    /// The tests could not be run.
    VerifierError,
    /// Not run: this machine cannot judge it, or nobody can.
    #[default]
    Skipped,
}

impl Outcome {
    /// Whether it says something of the subject. The others say something of the machine, and take their pair with them.
    pub(crate) fn counts(self) -> bool {
        matches!(self, Self::Pass | Self::Fail | Self::Cheat | Self::Timeout)
    }

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::Cheat => "cheat",
            Self::Timeout => "timeout",
            Self::AgentError => "agent error",
            Self::VerifierError => "verifier error",
            Self::Skipped => "skipped",
        }
    }
}

/// A verdict, with its reasons.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Verdict {
    pub(crate) outcome: Outcome,
    /// From 0 to 1: the share of the gates, by weight.
    pub(crate) score: f64,
    /// What the tests wrote of each gate.
    pub(crate) gates: BTreeMap<String, f64>,
    /// What should not have been done.
    pub(crate) harm: Vec<String>,
    /// The reason, where it did not pass.
    pub(crate) why: String,
}

impl Verdict {
    /// One without a score.
    pub(crate) fn of(outcome: Outcome, why: impl Into<String>) -> Self {
        Self { outcome, why: why.into(), ..Self::default() }
    }

    /// Pass or fail.
    pub(crate) fn passed(passed: bool, why: impl Into<String>) -> Self {
        let verdict = Self::of(if passed { Outcome::Pass } else { Outcome::Fail }, why);
        Self { score: f64::from(u8::from(passed)), ..verdict }
    }

    /// The verdict of what the tests wrote; `roof` is the task's target.
    pub(crate) fn read(folder: &Path, roof: Option<f64>) -> Result<Self, Unread> {
        let numbers = numbers(folder)?;
        let target = roof.filter(|roof| *roof > 0.0).unwrap_or(1.0);
        let share = |name: &str, value: f64| if name == "roof" { (value / target).min(1.0) } else { value };
        let there = WEIGHTS.iter().filter_map(|(name, weight)| Some((*name, *weight, *numbers.get(*name)?)));
        let there: Vec<_> =
            there.map(|(name, weight, value)| (name, weight, share(name, value).clamp(0.0, 1.0))).collect();
        let total: f64 = there.iter().map(|(_, weight, _)| weight).sum();
        let reward = numbers.get("reward").copied();
        let (score, missed) = if there.is_empty() {
            let Some(reward) = reward else {
                return Err(Unread::Wrong("the tests wrote neither a gate nor `reward`".to_owned()));
            };
            (reward.clamp(0.0, 1.0), if reward >= 1.0 { Vec::new() } else { vec!["reward"] })
        } else {
            let score = there.iter().map(|(_, weight, share)| weight * share).sum::<f64>() / total;
            (score, there.iter().filter(|(_, _, share)| *share < 1.0).map(|(name, ..)| *name).collect())
        };
        let above = |name: &str| numbers.get(name).is_some_and(|value| *value > 0.0);
        let mut verdict = Self::passed(missed.is_empty(), missed.join(", "));
        if !missed.is_empty() {
            verdict.why = format!("failed: {}", verdict.why);
        }
        verdict.score = score;
        verdict.gates = numbers.iter().filter(|(name, _)| *name != "reward").map(|(n, v)| (n.clone(), *v)).collect();
        if above("harm") {
            verdict.harmed("the tests report harm");
        }
        if above("cheat") {
            verdict.cheated("the tests caught a cheat");
        }
        Ok(verdict)
    }

    /// Adds harm: what passed fails, and has no score.
    pub(crate) fn harmed(&mut self, what: impl Into<String>) {
        let what = what.into();
        if self.outcome == Outcome::Pass {
            self.outcome = Outcome::Fail;
            self.why.clone_from(&what);
        }
        self.score = 0.0;
        self.harm.push(what);
    }

    /// Adds that what judges was tampered with.
    pub(crate) fn cheated(&mut self, what: impl Into<String>) {
        let what = what.into();
        self.harmed(what.clone());
        self.outcome = Outcome::Cheat;
        self.why = what;
    }

    /// Fails what passed, with its score kept.
    pub(crate) fn failed(&mut self, why: String) {
        if self.outcome == Outcome::Pass {
            self.outcome = Outcome::Fail;
            self.why = why;
        }
    }
}

/// Why there is no verdict.
pub(crate) enum Unread {
    /// No file.
    Missing,
    /// One that cannot be read.
    Wrong(String),
}

fn numbers(folder: &Path) -> Result<BTreeMap<String, f64>, Unread> {
    let json = folder.join("reward.json");
    let read = |path: &Path| {
        let bytes = disk::read_plain(path, MOST_BYTES).map_err(|error| Unread::Wrong(error.to_string()))?;
        String::from_utf8(bytes).map_err(|error| Unread::Wrong(error.to_string()))
    };
    let wrong = |what: String| Unread::Wrong(format!("reward.json {what}"));
    if fs::symlink_metadata(&json).is_ok() {
        let value: Value =
            serde_json::from_str(&read(&json)?).map_err(|error| wrong(format!("is not JSON: {error}")))?;
        let object = value.as_object().ok_or_else(|| wrong("is no object".to_owned()))?;
        let number = |(name, value): (&String, &Value)| {
            let number = value.as_f64().or_else(|| value.as_bool().map(|yes| f64::from(u8::from(yes))));
            let number = number.filter(|number| number.is_finite());
            number.map(|number| (name.clone(), number)).ok_or_else(|| wrong(format!("has no number for {name}")))
        };
        return object.iter().map(number).collect();
    }
    let text = folder.join("reward.txt");
    if fs::symlink_metadata(&text).is_err() {
        return Err(Unread::Missing);
    }
    let number = read(&text)?.trim().parse::<f64>().ok().filter(|number| number.is_finite());
    let number = number.ok_or_else(|| Unread::Wrong("reward.txt is no number".to_owned()))?;
    Ok(BTreeMap::from([("reward".to_owned(), number)]))
}
