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

    /// The verdict of what the tests wrote, if they did; `roof` is the task's target. An error says why it cannot be read.
    pub(crate) fn read(folder: &Path, roof: Option<f64>) -> Result<Option<Self>, String> {
        let Some(numbers) = numbers(folder)? else { return Ok(None) };
        let target = roof.filter(|roof| *roof > 0.0).unwrap_or(1.0);
        let share = |name: &str, value: f64| if name == "roof" { value / target } else { value }.clamp(0.0, 1.0);
        let gate = |(name, weight): &(&'static str, f64)| Some((*name, *weight, share(name, *numbers.get(*name)?)));
        let mut gates: Vec<_> = WEIGHTS.iter().filter_map(gate).collect();
        if gates.is_empty() {
            gates.extend(gate(&("reward", 1.0)));
        }
        if gates.is_empty() {
            return Err("the tests wrote neither a gate nor `reward`".to_owned());
        }
        let total: f64 = gates.iter().map(|(_, weight, _)| weight).sum();
        let missed: Vec<_> = gates.iter().filter(|(_, _, share)| *share < 1.0).map(|(name, ..)| *name).collect();
        let above = |name: &str| numbers.get(name).is_some_and(|value| *value > 0.0);
        let mut verdict = Self::passed(missed.is_empty(), missed.join(", "));
        if !missed.is_empty() {
            verdict.why = format!("failed: {}", verdict.why);
        }
        verdict.score = gates.iter().map(|(_, weight, share)| weight * share).sum::<f64>() / total;
        verdict.gates = numbers.iter().filter(|(name, _)| *name != "reward").map(|(n, v)| (n.clone(), *v)).collect();
        if above("harm") {
            verdict.harmed("the tests report harm");
        }
        if above("cheat") {
            verdict.cheated("the tests caught a cheat");
        }
        Ok(Some(verdict))
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

/// What the tests wrote; none where there is no file.
fn numbers(folder: &Path) -> Result<Option<BTreeMap<String, f64>>, String> {
    let [json, text] = ["reward.json", "reward.txt"].map(|name| folder.join(name));
    let read = |path: &Path| disk::read_plain(path, MOST_BYTES).map_err(|error| error.to_string());
    if fs::symlink_metadata(&json).is_ok() {
        let value: Value =
            serde_json::from_slice(&read(&json)?).map_err(|error| format!("reward.json is not JSON: {error}"))?;
        let number = |(name, value): (&String, &Value)| {
            let number = value.as_f64().or_else(|| value.as_bool().map(|yes| f64::from(u8::from(yes))));
            let number = number.filter(|number| number.is_finite());
            number.map(|number| (name.clone(), number)).ok_or_else(|| format!("reward.json has no number for {name}"))
        };
        let object = value.as_object().ok_or("reward.json is no object")?;
        return object.iter().map(number).collect::<Result<_, _>>().map(Some);
    }
    if fs::symlink_metadata(&text).is_err() {
        return Ok(None);
    }
    let number = String::from_utf8_lossy(&read(&text)?).trim().parse::<f64>().ok().filter(|number| number.is_finite());
    Ok(Some(BTreeMap::from([("reward".to_owned(), number.ok_or("reward.txt is no number")?)])))
}
