//! What the writer is told.

use std::fmt::Write as _;

use super::draft::{self, END};
use super::job::{Job, Tried};

/// What each question begins with: what a skill is, and the form of the answer.
const QUESTION: &str = include_str!("question.md");

/// The question of a round.
pub(super) fn question(job: &Job, tried: &[Tried]) -> String {
    let mut text = QUESTION.replace("{name}", &job.name).replace("{end}", END).replace("{task}", job.task.trim());
    for digest in &job.digests {
        let _ = write!(text, "\n{digest}");
    }
    if let Some(base) = &job.base {
        let _ = write!(text, "\nThe skill as it is, to be improved:\n\n{}", draft::shown(&base.tree));
    }
    if let Some(last) = tried.last() {
        let _ = write!(text, "\nYour last draft (number {} of {}):\n\n{}\n", tried.len(), job.rounds, last.text.trim());
        for reason in &last.told {
            let _ = writeln!(text, "It was rejected: {reason}");
        }
        if !last.measured.is_empty() {
            let _ = writeln!(text, "\n{}", last.measured.trim());
        }
        text.push_str(
            "\nWrite the whole skill again, better by what this shows. What holds for one task alone does not help.\n",
        );
    }
    text
}
