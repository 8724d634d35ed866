//! What a script writes, format 1. docs/end-to-end.md describes it for people who write one.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The format that this program reads.
pub(crate) const FORMAT: u32 = 1;

/// One run of a script.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct EndToEnd {
    pub(crate) format: u32,
    /// As records are named: `ltx_video`.
    pub name: String,
    /// As reports name it: `LTX-Video`.
    pub(crate) title: String,
    /// Whether the script finished.
    pub(crate) finished: bool,
    /// Whether the model was a small one, for a test of the script.
    #[serde(default)]
    pub(crate) smoke: bool,
    /// Options with which the run was incomplete.
    #[serde(default)]
    pub(crate) partial: Option<String>,
    /// None where nothing was timed.
    pub(crate) card: Option<Card>,
    /// Of packages, with python and torch.
    pub(crate) versions: BTreeMap<String, String>,
    /// Configuration and weights.
    pub(crate) model: Value,
    /// The build of the kernel.
    #[serde(default)]
    pub(crate) kernel: BTreeMap<String, Option<String>>,
    /// The mode of torch.compile.
    pub(crate) compile_mode: String,
    pub(crate) rounds: u32,
    /// Files and folders outside the project that the times depend on, relative to it.
    #[serde(default)]
    pub(crate) sources: Vec<String>,
    pub(crate) cases: Vec<Case>,
    /// What was not timed.
    #[serde(default)]
    pub(crate) skipped: Vec<Skipped>,
}

/// The card, as torch reports it.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Card {
    /// `NVIDIA H100 80GB HBM3`
    pub name: String,
    pub driver: String,
    /// `9.0`
    pub(crate) capability: String,
    pub memory_bytes: u64,
}

/// A case that all contenders ran.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Case {
    /// A short name.
    pub(crate) name: String,
    pub label: String,
    /// The unit of a time: `step`.
    pub(crate) per: String,
    /// A remark.
    #[serde(default)]
    pub(crate) note: Option<String>,
    pub(crate) contenders: Vec<Contender>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Contender {
    /// `eager`, `kernels`, `compile`, `both`.
    pub(crate) name: String,
    /// Milliseconds; none where the result was wrong.
    #[serde(default)]
    pub(crate) time_ms: Option<Spread>,
    /// Seconds of the first call, with compilation.
    pub(crate) first_call_s: f64,
    /// In what torch.compile compiled.
    #[serde(default)]
    pub(crate) graph_breaks: Option<u32>,
    /// The peak of device memory.
    #[serde(default)]
    pub(crate) peak_bytes: Option<u64>,
    /// Of these, what it keeps from step to step in addition to the weights.
    #[serde(default)]
    pub(crate) own_bytes: Option<u64>,
    #[serde(default)]
    pub(crate) profile: Option<Profile>,
    /// Distances from other results, by their names.
    #[serde(default)]
    pub(crate) errors: BTreeMap<String, f64>,
    #[serde(default)]
    pub(crate) wrong: Option<String>,
}

/// Milliseconds.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Spread {
    pub median: f64,
    pub p10: f64,
    pub p90: f64,
    pub min: f64,
    pub samples: u32,
}

/// Where the time of a step goes.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Profile {
    /// Kernels, copies and fills per step.
    pub(crate) launches: f64,
    /// Milliseconds in which the card was busy.
    pub(crate) busy_ms: f64,
    /// The share of the step in which it was not.
    pub(crate) host_bound: f64,
    /// Milliseconds by category, `idle` among them.
    pub(crate) categories_ms: BTreeMap<String, f64>,
    /// Kernels by name: milliseconds and launches per step.
    #[serde(default)]
    pub(crate) largest: Vec<(String, f64, f64)>,
}

/// A contender that was not timed in a case.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Skipped {
    pub(crate) case: String,
    pub(crate) contender: String,
    pub(crate) why: String,
    /// Whether it failed when it was run.
    #[serde(default)]
    pub(crate) failed: bool,
}

impl EndToEnd {
    /// Reads what a script wrote. Errors name the file and what is wrong with it.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let value: Value = serde_json::from_str(&text).with_context(|| format!("{} is not JSON", path.display()))?;
        let format = value.get("format").and_then(Value::as_u64);
        ensure!(
            format == Some(u64::from(FORMAT)),
            "{} is not a result that this version of kernels reads: it reads `\"format\": {FORMAT}`, and there is {}",
            path.display(),
            format.map_or("none".to_owned(), |format| format.to_string())
        );
        // From the text, for the line in the message.
        let result: Self = serde_json::from_str(&text).with_context(|| {
            format!(
                "{} is not an end-to-end result of format {FORMAT}; docs/end-to-end.md has the fields",
                path.display()
            )
        })?;
        result
            .sound()
            .with_context(|| format!("{} contradicts itself; docs/end-to-end.md has the fields", path.display()))?;
        Ok(result)
    }

    /// Checks that the figures are consistent.
    fn sound(&self) -> Result<()> {
        ensure!(
            !self.name.is_empty() && self.name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-'),
            "the name {:?} cannot be part of a file's name: use letters, digits, _ and -",
            self.name
        );
        for case in &self.cases {
            let mut names = Vec::new();
            for one in &case.contenders {
                let who = format!("{}, {}", case.name, one.name);
                ensure!(!names.contains(&&one.name), "{who} is there twice");
                names.push(&one.name);
                if let (Some(_), Some(wrong)) = (&one.time_ms, &one.wrong) {
                    bail!("{who} has a time, and its result is wrong: {wrong}");
                }
                if let Some(time) = &one.time_ms {
                    let figures = [time.min, time.p10, time.median, time.p90];
                    ensure!(
                        figures.iter().all(|ms| ms.is_finite() && *ms > 0.0),
                        "{who} has a time that is not a positive number"
                    );
                    ensure!(figures.is_sorted(), "{who} has percentiles that do not rise");
                    ensure!(time.samples > 0, "{who} has a time of no samples");
                }
                if let Some(profile) = &one.profile {
                    let parts = profile.categories_ms.values();
                    ensure!(
                        parts
                            .chain([&profile.busy_ms, &profile.launches, &profile.host_bound])
                            .all(|part| part.is_finite() && *part >= 0.0),
                        "{who} has a profile with a figure below zero"
                    );
                }
            }
        }
        Ok(())
    }

    /// Every contender with its case.
    pub(crate) fn contenders(&self) -> impl Iterator<Item = (&Case, &Contender)> {
        self.cases.iter().flat_map(|case| case.contenders.iter().map(move |one| (case, one)))
    }

    /// The contenders that have a column in tables: `graphs` only where it ran, which it does for some models.
    pub(crate) fn columns(&self) -> Vec<&'static str> {
        let ran = self.contenders().any(|(_, one)| one.name == "graphs");
        let names = ["eager", "kernels", "graphs", "compile", "both"];
        names.into_iter().filter(|name| ran || *name != "graphs").collect()
    }

    /// Wrong results and failures, one line each.
    pub(crate) fn findings(&self) -> Vec<String> {
        let wrong = self.contenders().filter_map(|(case, one)| {
            let wrong = one.wrong.as_ref()?;
            Some(format!("{}, {}: the result is wrong: {wrong}", case.name, one.name))
        });
        let failed = self.skipped.iter().filter(|one| one.failed);
        let failed = failed.map(|one| format!("{}, {} failed: {}", one.case, one.contender, one.why));
        wrong.chain(failed).collect()
    }
}

impl Case {
    /// A contender's median, where it has one.
    pub(crate) fn median(&self, name: &str) -> Option<f64> {
        let one = self.contenders.iter().find(|one| one.name == name)?;
        one.time_ms.map(|time| time.median)
    }

    /// How many times faster than `base` a contender is.
    pub(crate) fn times_faster(&self, name: &str, base: &str) -> Option<f64> {
        Some(self.median(base)? / self.median(name)?)
    }
}
