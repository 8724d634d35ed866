//! What is to be written, and what was tried.

use std::path::PathBuf;

use super::students::Students;
use crate::deep;
use crate::skill::source::Skill;

/// What is to be written.
pub(crate) struct Job {
    pub(crate) task: String,
    pub(crate) name: String,
    /// What the traces say, in Markdown.
    pub(crate) digests: Vec<String>,
    /// The skill that is to become better.
    pub(crate) base: Option<Skill>,
    /// The folders of tasks whose answers must not be in the skill.
    pub(crate) tasks: Vec<PathBuf>,
    pub(crate) rounds: usize,
    /// Who works with the drafts; none: nothing is measured.
    pub(crate) students: Option<Students>,
    pub(crate) deep: Option<deep::Options>,
    /// The run's folder.
    pub(crate) folder: PathBuf,
}

/// A draft and what the writer is told against it: nothing of a task's answer.
#[derive(Default)]
pub(super) struct Tried {
    pub(super) text: String,
    pub(super) told: Vec<String>,
    /// What agents made of it.
    pub(super) measured: String,
}
