//! Findings with location and optional fix.

use std::fmt;
use std::ops::Range;

use serde::Serialize;

/// How much a finding matters.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Potentially harmful, or uncertain from the text alone.
    Warning,
    /// Breaks a build on the Hub or a user of the kernel.
    Error,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

/// A range in a file: lines and columns count characters from 1; the end is exclusive.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub(crate) struct Span {
    /// First line.
    pub(crate) line: usize,
    /// First column.
    pub(crate) column: usize,
    /// Last line.
    pub(crate) end_line: usize,
    /// Column after the last character.
    pub(crate) end_column: usize,
}

/// A violation of a rule.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub(crate) struct Finding {
    /// The rule's id.
    pub(crate) rule: &'static str,
    /// The rule's severity, or a lower one if this finding is uncertain.
    pub(crate) severity: Severity,
    /// The file, relative to the project, with `/` between folders.
    pub path: String,
    /// Where in it.
    #[serde(flatten)]
    pub(crate) place: Span,
    /// The problem and the next step, in one line.
    pub message: String,
    /// Whether `--fix` fixes it.
    pub(crate) fixable: bool,
    /// How.
    #[serde(skip)]
    pub(super) edit: Option<Edit>,
}

/// A replacement of bytes in a project file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Edit {
    /// The file, relative to the project.
    pub(super) path: String,
    /// The bytes to replace.
    pub(super) at: Range<usize>,
    /// The replacement.
    pub(super) text: String,
    /// A description of the change.
    pub(super) what: String,
}
