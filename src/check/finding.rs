//! What a rule found, where, and the edit that fixes it, if there is one.

use std::fmt;
use std::ops::Range;

use serde::Serialize;

/// How much a finding matters.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// It can hurt, or the rule cannot be sure from the text alone.
    Warning,
    /// A build on the Hub or a user of the kernel fails.
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

/// A piece of a file: lines and columns count characters from 1, and the end is behind the last one.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub struct Span {
    /// Where it begins.
    pub line: usize,
    /// In which column.
    pub column: usize,
    /// Where it ends.
    pub end_line: usize,
    /// Behind which column.
    pub end_column: usize,
}

/// One thing that a rule found.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Finding {
    /// The rule's id.
    pub rule: &'static str,
    /// How much it matters: the rule's severity, or less where this finding is not certain.
    pub severity: Severity,
    /// The file, relative to the project, with `/` between folders.
    pub path: String,
    /// Where in it.
    #[serde(flatten)]
    pub place: Span,
    /// What is wrong, and the next step, in one line.
    pub message: String,
    /// Whether `--fix` fixes it.
    pub fixable: bool,
    /// How.
    #[serde(skip)]
    pub(super) edit: Option<Edit>,
}

/// A replacement of some bytes of a file of the project.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Edit {
    /// The file, relative to the project.
    pub(super) path: String,
    /// Its bytes to replace.
    pub(super) at: Range<usize>,
    /// What to put there.
    pub(super) text: String,
    /// What that does, for people.
    pub(super) what: String,
}
