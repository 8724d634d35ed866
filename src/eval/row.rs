//! What is kept of one run of one subject.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::task::Kind;
use super::verdict::{Outcome, Verdict};
use crate::model::Usage;
use crate::subject::Took;

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Row {
    pub(crate) agent: String,
    pub(crate) arm: String,
    /// Whether it had the command `kernels`.
    pub(crate) cli: bool,
    pub(crate) task: String,
    pub(crate) kind: Kind,
    /// Counted from 1.
    pub(crate) run: u32,
    #[serde(flatten)]
    pub(crate) verdict: Verdict,
    #[serde(flatten)]
    pub(crate) took: Took,
    /// What the tests wrote.
    pub(crate) reward: Option<Value>,
    /// The end of what they printed.
    pub(crate) output: String,
    /// Digests of the journal's contents: what the subject did, and what it changed.
    pub(crate) trajectory: Option<String>,
    pub(crate) diff: Option<String>,
}

/// Which run it is: rows with the same key are of the same run, and the last one counts.
pub(crate) type Key = (String, bool, String, u32, String);

impl Row {
    pub(crate) fn key(&self) -> Key {
        (self.agent.clone(), self.cli, self.task.clone(), self.run, self.arm.clone())
    }

    pub(crate) fn is_of(&self, agent: &str, cli: bool, arm: &str) -> bool {
        self.agent == agent && self.cli == cli && self.arm == arm
    }

    pub(crate) fn outcome(&self) -> Outcome {
        self.verdict.outcome
    }

    /// 1 or 0.
    pub(crate) fn passed(&self) -> f64 {
        f64::from(u8::from(self.verdict.outcome == Outcome::Pass))
    }

    /// All that was read and written.
    #[allow(clippy::cast_precision_loss, reason = "a count of tokens")]
    pub(crate) fn tokens(&self) -> Option<f64> {
        let Usage { fresh, cached, written, out, .. } = self.took.usage?;
        Some((fresh + cached + written + out) as f64)
    }

    /// What a run on this machine says nothing of: its subject or its tests could not be run. Such a run is done again.
    pub(crate) fn is_an_error(&self) -> bool {
        matches!(self.outcome(), Outcome::AgentError | Outcome::VerifierError)
    }
}
