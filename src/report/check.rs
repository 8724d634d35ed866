//! The results of a CI run: one suite per project, one check for everything that can fail on its own.

use std::collections::BTreeMap;

use serde::Serialize;

/// One thing checked.
#[derive(Clone, Debug, Serialize)]
pub struct Check {
    /// What kind of check: `build`, `budgets`, `evidence`, `torch`, `verify`, `bench`.
    pub group: String,
    /// Its name within the group: `sm_90`, `rms_norm: rows=8192 width=4096 bf16`.
    pub name: String,
    /// How it ended.
    #[serde(flatten)]
    pub status: Status,
    /// A remark or the figures, for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) detail: String,
    /// How long it took; zero if timed as part of another check.
    pub(crate) seconds: f64,
}

/// How a check ended.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(tag = "status", rename_all = "lowercase")]
pub enum Status {
    /// No error.
    Passed,
    /// Something is wrong.
    Failed {
        /// One line.
        message: String,
        /// The full text.
        text: String,
    },
    /// Not done.
    Skipped {
        /// Why.
        reason: String,
    },
}

impl Check {
    /// A passed check.
    pub fn passed(group: &str, name: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(group, name, Status::Passed, detail)
    }

    /// A failed check; the message is the first line of the text.
    pub fn failed(group: &str, name: impl Into<String>, text: impl Into<String>) -> Self {
        let text = text.into();
        let message = text.lines().next().unwrap_or_default().to_owned();
        Self::new(group, name, Status::Failed { message, text }, "")
    }

    /// A skipped check.
    pub fn skipped(group: &str, name: impl Into<String>, reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self::new(group, name, Status::Skipped { reason }, "")
    }

    fn new(group: &str, name: impl Into<String>, status: Status, detail: impl Into<String>) -> Self {
        Self { group: group.to_owned(), name: name.into(), status, detail: detail.into(), seconds: 0.0 }
    }

    /// The same with the seconds it took.
    #[must_use]
    pub fn taking(self, seconds: f64) -> Self {
        Self { seconds, ..self }
    }
}

/// The checks of a project so far. Each is reported as it ends.
pub struct Checks<'a> {
    /// In the order in which they ended.
    pub done: Vec<Check>,
    tell: &'a mut dyn FnMut(&Check),
}

impl<'a> Checks<'a> {
    /// No checks yet.
    pub fn new(tell: &'a mut dyn FnMut(&Check)) -> Self {
        Self { done: Vec::new(), tell }
    }

    /// Adds a check that ended.
    pub(crate) fn push(&mut self, check: Check) {
        (self.tell)(&check);
        self.done.push(check);
    }

    /// Adds checks that ended together.
    pub(crate) fn extend(&mut self, checks: impl IntoIterator<Item = Check>) {
        checks.into_iter().for_each(|check| self.push(check));
    }
}

impl std::fmt::Debug for Checks<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.done.fmt(f)
    }
}

/// Everything checked of one project.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Suite {
    /// The project's name; its folder as given if the project could not be read.
    pub name: String,
    /// The folder, as it was given.
    pub dir: String,
    /// The checks, in the order in which they were made.
    pub checks: Vec<Check>,
    /// How long they took together.
    pub seconds: f64,
    /// How long each kind of check took, one after another.
    pub stages: BTreeMap<String, f64>,
}

/// The number of checks by status.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub(crate) struct Counts {
    /// No error.
    pub(crate) passed: usize,
    /// An error.
    pub(crate) failed: usize,
    /// Not done.
    pub(crate) skipped: usize,
}

impl Suite {
    /// The number of checks by status.
    pub(crate) fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for check in &self.checks {
            *match check.status {
                Status::Passed => &mut counts.passed,
                Status::Failed { .. } => &mut counts.failed,
                Status::Skipped { .. } => &mut counts.skipped,
            } += 1;
        }
        counts
    }
}

/// The number of checks by status in all suites.
pub(crate) fn total(suites: &[Suite]) -> Counts {
    suites.iter().map(Suite::counts).fold(Counts::default(), |sum, counts| Counts {
        passed: sum.passed + counts.passed,
        failed: sum.failed + counts.failed,
        skipped: sum.skipped + counts.skipped,
    })
}
