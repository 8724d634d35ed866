//! A refusal to touch something of the user's: exit code 3, with what to do about it.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde::Serialize;
use thiserror::Error;

use super::scan::Change;

/// One thing that is protected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Refused {
    /// Where it is.
    #[serde(serialize_with = "lossy")]
    pub path: PathBuf,
    /// Why it is protected.
    pub reason: String,
    /// The files that a person changed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Change>,
    /// What the user can do.
    pub advice: Vec<String>,
}

/// The whole refusal; nothing at all was changed.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{}", self.text())]
pub struct Refusal(pub Vec<Refused>);

/// Writes a path into JSON, which cannot hold bytes that are not UTF-8.
pub fn lossy<S: serde::Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&path.to_string_lossy())
}

/// How many changed files a message names before it counts the rest.
const NAMED: usize = 12;

impl Refusal {
    fn text(&self) -> String {
        let mut text = String::new();
        for refused in &self.0 {
            if !text.is_empty() {
                text.push('\n');
            }
            let _ = write!(text, "{} {}", refused.path.display(), refused.reason);
            for change in refused.changes.iter().take(NAMED) {
                let _ = write!(text, "\n  {} {}", change.kind.letter(), change.path);
            }
            if refused.changes.len() > NAMED {
                let _ = write!(text, "\n  … and {} more", refused.changes.len() - NAMED);
            }
            for line in &refused.advice {
                let _ = write!(text, "\n  → {line}");
            }
        }
        text
    }
}
