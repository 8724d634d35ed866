//! Problems in a file of the project, each with its line quoted and marked.

use std::fmt::Write as _;
use std::ops::Range;
use std::path::PathBuf;

use thiserror::Error;

/// What is wrong with a project's files, every problem with file, line, column and the next step.
#[derive(Clone, Debug, Error)]
#[error("{0}")]
pub struct InvalidProject(pub String);

impl InvalidProject {
    /// Both, one after the other.
    pub(super) fn and(&self, other: &Self) -> Self {
        Self(format!("{}\n\n{}", self.0, other.0))
    }
}

/// The widest piece of a line that is quoted, in characters.
const WIDEST: usize = 120;

/// The most problems that are shown of one file; the rest are counted.
const MOST: usize = 10;

/// A file with its text.
#[derive(Clone, Debug)]
pub(crate) struct Document {
    pub(crate) path: PathBuf,
    pub(crate) text: String,
}

/// One problem.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    /// The bytes of the file at fault.
    pub(crate) span: Range<usize>,
    /// What is wrong.
    pub(crate) message: String,
    /// What is allowed, and what to do; a line each.
    pub(crate) help: Vec<String>,
}

impl Document {
    pub(crate) fn new(path: PathBuf, text: String) -> Self {
        Self { path, text }
    }

    /// The number of the line in which a byte lies, from 1.
    pub(super) fn line_of(&self, at: usize) -> usize {
        self.before(at).matches('\n').count() + 1
    }

    /// All problems as one error, in the order of the file.
    pub(super) fn invalid(&self, mut problems: Vec<Problem>) -> InvalidProject {
        problems.sort_by_key(|problem| problem.span.start);
        let count = problems.len();
        let mut shown: Vec<String> = problems.iter().take(MOST).map(|problem| self.show(problem)).collect();
        if count > MOST {
            shown.push(format!("and {} more in {}", count - MOST, self.path.display()));
        }
        InvalidProject(shown.join("\n\n"))
    }

    fn before(&self, at: usize) -> &str {
        let mut at = at.min(self.text.len());
        while !self.text.is_char_boundary(at) {
            at -= 1;
        }
        &self.text[..at]
    }

    fn show(&self, problem: &Problem) -> String {
        let before = self.before(problem.span.start);
        let start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let line: Vec<char> = self.text[start..]
            .split('\n')
            .next()
            .unwrap_or_default()
            .trim_end_matches('\r')
            .chars()
            // A control character in a quoted line could drive the reader's terminal.
            .map(|character| match character {
                '\t' => ' ',
                control if control.is_control() => '\u{fffd}',
                other => other,
            })
            .collect();
        let column = before[start..].chars().count();
        let width = self
            .before(problem.span.end)
            .get(before.len()..)
            .unwrap_or_default()
            .split('\n')
            .next()
            .unwrap_or_default()
            .trim_end()
            .chars()
            .count()
            .max(1);
        let first = column.saturating_sub(WIDEST / 3);
        let first = if line.len() <= WIDEST { 0 } else { first };
        let quoted: String = line.iter().skip(first).take(WIDEST).collect();
        let marks = width.min(WIDEST.saturating_sub(column - first).max(1));
        let number = self.line_of(problem.span.start).to_string();
        let margin = " ".repeat(number.len());
        let mut text = format!(
            "{}:{number}:{}: {}\n{margin} |\n{number} | {}\n{margin} | {}{}",
            self.path.display(),
            column + 1,
            problem.message,
            quoted.trim_end(),
            " ".repeat(column - first),
            "^".repeat(marks)
        );
        for help in &problem.help {
            let _ = write!(text, "\n{margin} = {help}");
        }
        text
    }
}
