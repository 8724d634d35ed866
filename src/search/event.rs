//! What a run writes to its journal: the kinds of events and their data. A run's state is a fold over these
//! ([`super::state`]); nothing else is kept of it but contents by their digest.
//!
//! Order: `run` once; then for each generation `generation`, and for each of its candidates, by number, `proposed`,
//! `compiled`, `judged`, `confirmed`, as far as it got. `resumed` and `ended` may stand anywhere between generations.
//! Fields named `started`, `ended` and `seconds` are times; all others are the same for the same seed, answers and
//! measurements.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::facts::Features;
use super::settings::Settings;
use crate::gpu::Card;

/// The names of the kinds.
pub(crate) const RUN: &str = "run";
pub(crate) const GENERATION: &str = "generation";
pub(crate) const PROPOSED: &str = "proposed";
pub(crate) const COMPILED: &str = "compiled";
pub(crate) const JUDGED: &str = "judged";
pub(crate) const CONFIRMED: &str = "confirmed";
pub(crate) const RESUMED: &str = "resumed";
pub(crate) const ENDED: &str = "ended";

/// `run`: what is searched for, where and how. The first event.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Run {
    /// The project's name in build.toml.
    pub(crate) project: String,
    /// The project's folder.
    pub(crate) folder: String,
    /// The digest of everything that is frozen: all files but the sources.
    pub(crate) task: String,
    /// The sources that may change, relative to the project.
    pub(crate) editable: Vec<String>,
    /// Seed, proposers, budget.
    pub(crate) settings: Settings,
    /// This program's version.
    pub(crate) version: String,
    /// nvcc's version, or why there is none.
    pub(crate) compiler: Result<String, String>,
    /// The card, or why there is none.
    pub(crate) card: Result<Card, String>,
    /// The architecture that candidates are compiled for.
    pub(crate) arch: u32,
}

impl Run {
    /// Whether times of this card are not to be compared with the run's. None is named where nothing was judged.
    pub(crate) fn is_other_card(&self, name: &str) -> bool {
        !name.is_empty() && self.card.as_ref().is_ok_and(|card| card.name != name)
    }
}

/// `generation`: candidates that are made and judged at the same time, planned from the state before.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Generation {
    pub(crate) number: u32,
    pub(crate) plans: Vec<Plan>,
    /// Seconds that the run has taken so far, over all of its processes.
    pub(crate) seconds: f64,
}

/// Who makes a candidate of what.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(crate) struct Plan {
    /// The candidate's number. 0 is the project as it was.
    pub(crate) candidate: u32,
    pub(crate) island: u32,
    /// As on the command line; `start` for the project itself.
    pub(crate) proposer: String,
    /// A name of `operators.toml`; `given` where sources are given as they are.
    pub(crate) operator: String,
    /// The candidates that it is made of; the second of a crossover comes second.
    pub(crate) parents: Vec<u32>,
    /// Which of the proposer's answers: counts its earlier plans.
    pub(crate) sample: u32,
    /// For `transplant`, the run and the candidate in it that code is taken from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) donor: Option<(String, u32)>,
}

/// A stage of the loop.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Stage {
    /// The proposal was asked for and applied to the sources.
    Edit,
    /// It differs from earlier candidates.
    Novelty,
    /// The rules of `kernels check`.
    Check,
    Compile,
    /// Its machine code and host code differ from every earlier candidate's.
    Identity,
    /// The cases of one dtype.
    VerifyFew,
    /// All cases.
    Verify,
    /// Timed beside a copy of the same bytes.
    Bench,
    /// Timed again in a fresh process, beside other implementations.
    Confirm,
}

impl Stage {
    /// As reports name it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Edit => "edit",
            Self::Novelty => "novelty",
            Self::Check => "check",
            Self::Compile => "compile",
            Self::Identity => "identity",
            Self::VerifyFew => "verify-few",
            Self::Verify => "verify",
            Self::Bench => "bench",
            Self::Confirm => "confirm",
        }
    }
}

/// What became of a stage.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Outcome {
    Passed,
    Failed,
    /// Nobody looked: there is no card, or no compiler. It is never taken for passed.
    NotJudged,
}

/// One stage of one candidate.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Attempt {
    pub(crate) stage: Stage,
    pub(crate) outcome: Outcome,
    /// What was caught, or why nothing was judged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) findings: Vec<Caught>,
    pub(crate) seconds: f64,
}

impl Attempt {
    pub(crate) fn passed(stage: Stage, seconds: f64) -> Self {
        Self { stage, outcome: Outcome::Passed, findings: Vec::new(), seconds }
    }

    pub(crate) fn failed(stage: Stage, findings: Vec<Caught>, seconds: f64) -> Self {
        Self { stage, outcome: Outcome::Failed, findings, seconds }
    }

    pub(crate) fn not_judged(stage: Stage, why: &str) -> Self {
        let why = Caught { kind: "not-judged".to_owned(), text: why.to_owned(), public: true };
        Self { stage, outcome: Outcome::NotJudged, findings: vec![why], seconds: 0.0 }
    }

    /// All stages that need a card.
    pub(crate) fn no_card(why: &str) -> Vec<Self> {
        [Stage::VerifyFew, Stage::Verify, Stage::Bench].map(|stage| Self::not_judged(stage, why)).into()
    }
}

/// A finding: of this room (`frozen-file`, `not-novel`, `does-not-compile`, …), a rule of `kernels check`, or a kind of
/// `kernels verify` and `kernels bench` (`wrong-value`, `timed-output`, …).
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct Caught {
    pub(crate) kind: String,
    pub(crate) text: String,
    /// Whether a proposer may read the text. That of a verification has expected values, drawn cases, and what the
    /// candidate itself printed.
    #[serde(default)]
    pub(crate) public: bool,
}

impl Caught {
    /// One whose text a proposer may read.
    pub(crate) fn public(kind: &str, text: impl Into<String>) -> Self {
        Self { kind: kind.to_owned(), text: text.into(), public: true }
    }
}

/// `proposed`: what a proposer answered.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Proposed {
    pub(crate) candidate: u32,
    /// The blob of its sources: a JSON object, path to text. None where the proposal was refused.
    pub(crate) tree: Option<String>,
    /// The sources that differ from the first parent's.
    #[serde(default)]
    pub(crate) changed: Vec<String>,
    /// What the proposer says of it, in one line.
    #[serde(default)]
    pub(crate) thought: String,
    /// The blob of the question, and of the answer as it came.
    #[serde(default)]
    pub(crate) question: Option<String>,
    #[serde(default)]
    pub(crate) answer: Option<String>,
    pub(crate) cost: Cost,
    /// `edit`, and `novelty` where it got there.
    pub(crate) attempts: Vec<Attempt>,
    /// The digest of its tokens, and what it changes of its parent, as `novelty.rs` compares them.
    #[serde(default)]
    pub(crate) program: String,
    #[serde(default)]
    pub(crate) change: String,
}

/// What a proposal cost.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Cost {
    /// US dollars, as far as the price is known; none where nothing is.
    pub(crate) usd: Option<f64>,
    pub(crate) tokens_in: u64,
    pub(crate) tokens_out: u64,
    pub(crate) requests: u64,
    /// Requests whose price is not in `usd`, because it is not known.
    #[serde(default)]
    pub(crate) unpriced: u32,
    /// The model, as its server names it.
    #[serde(default)]
    pub(crate) model: String,
    pub(crate) seconds: f64,
}

impl Cost {
    /// Whether it cost more than `usd` says, or may have.
    pub(crate) fn is_unknown(&self) -> bool {
        self.unpriced > 0 || self.requests > 0 && self.usd.is_none()
    }
}

/// `compiled`: what needs no card.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Compiled {
    pub(crate) candidate: u32,
    /// `check`, `compile`, `identity`.
    pub(crate) attempts: Vec<Attempt>,
    /// The digest of machine code and host code.
    pub(crate) code: Option<String>,
    /// SHA-256 of the cubins' device code alone.
    pub(crate) device: Option<String>,
    /// The earlier candidate with the same code.
    #[serde(default)]
    pub(crate) same_as: Option<u32>,
    pub(crate) features: Option<Features>,
    /// The blob of [`super::facts::Facts`]: each kernel's registers, spills, occupancy, accesses, opcodes.
    #[serde(default)]
    pub(crate) facts: Option<String>,
    /// When the compiled code was there, in seconds since 1970.
    pub(crate) ended: f64,
}

/// `judged`: what a card said.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Judged {
    pub(crate) candidate: u32,
    /// `verify-few`, `verify`, `bench`.
    pub(crate) attempts: Vec<Attempt>,
    /// Its times, where it passed.
    pub(crate) summary: Option<Summary>,
    /// The blobs of the reports of `kernels verify --json` and `kernels bench --json`.
    #[serde(default)]
    pub(crate) verified: Option<String>,
    #[serde(default)]
    pub(crate) timed: Option<String>,
    /// The card's name; empty where there is none.
    #[serde(default)]
    pub(crate) card: String,
    /// When a card began with it and ended, in seconds since 1970.
    pub(crate) started: f64,
    pub(crate) ended: f64,
}

/// The times of a benchmark in a few numbers, over its cold cases (all where none is cold).
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct Summary {
    /// Geometric mean of the medians, in microseconds.
    pub(crate) us: f64,
    /// Geometric mean of copy time over kernel time, and the worst case's.
    pub(crate) roof: f64,
    pub(crate) worst: f64,
    /// Half of p10 to p90 as a part of the median, of the least steady case: a smaller difference is a tie.
    pub(crate) spread: f64,
    pub(crate) cases: u32,
    /// The most launches that a case makes.
    pub(crate) launches: u32,
}

/// `confirmed`: a candidate that became an elite was measured again. Only these rows may have a speed-up.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Confirmed {
    pub(crate) candidate: u32,
    /// `confirm`.
    pub(crate) attempts: Vec<Attempt>,
    /// How often it was measured: large gains twice.
    pub(crate) runs: u32,
    /// Of the slowest run.
    pub(crate) summary: Option<Summary>,
    /// Geometric mean over the cases of the best peer's time over the kernel's, in one process and in turns. None where
    /// no peer could be timed in every case: `why` says so.
    pub(crate) speedup: Option<f64>,
    #[serde(default)]
    pub(crate) why: Option<String>,
    /// In how many cases each peer was the best one.
    #[serde(default)]
    pub(crate) best: BTreeMap<String, u32>,
    /// Peers that were asked for and not timed in every case, or not right, so that the speed-up is without them.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) missing: BTreeSet<String>,
    /// What Nsight Compute measured of a finalist, or why it was not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) profile: Option<Result<BTreeMap<String, f64>, String>>,
    /// The blobs of the reports of `kernels bench --against … --json`.
    #[serde(default)]
    pub(crate) timed: Vec<String>,
    pub(crate) card: String,
    pub(crate) started: f64,
    pub(crate) ended: f64,
}

/// `resumed`: another process goes on.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Resumed {
    pub(crate) version: String,
    /// The budget from here on.
    pub(crate) settings: Settings,
}

/// `ended`: why the run stopped.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Ended {
    pub(crate) why: String,
    pub(crate) seconds: f64,
}
