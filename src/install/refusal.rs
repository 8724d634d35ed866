//! A refusal to change the user's files: exit code 3, with advice.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde::Serialize;
use thiserror::Error;

use super::scan::Change;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Refused {
    #[serde(serialize_with = "lossy")]
    pub(crate) path: PathBuf,
    pub(crate) reason: String,
    /// The files that the user changed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) changes: Vec<Change>,
    pub(crate) advice: Vec<String>,
}

/// The whole refusal; nothing was changed.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{}", self.text())]
pub(crate) struct Refusal(pub Vec<Refused>);

/// Serializes a path; JSON cannot hold bytes that are not UTF-8.
pub(crate) fn lossy<S: serde::Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&path.to_string_lossy())
}

/// How many changed files a message names; it counts the rest.
const NAMED: usize = 12;

impl Refusal {
    /// One path that is not touched, with what to do instead.
    pub(crate) fn of(path: impl Into<PathBuf>, reason: impl Into<String>, advice: &[&str]) -> Self {
        let advice = advice.iter().map(|line| (*line).to_owned()).collect();
        Self(vec![Refused { path: path.into(), reason: reason.into(), changes: Vec::new(), advice }])
    }

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::install::scan::ChangeKind;

    #[test]
    fn a_refusal_names_some_files_and_counts_the_rest() {
        let refused = |count: usize| Refused {
            path: "/p/demo".into(),
            reason: "was edited:".to_owned(),
            changes: (0..count)
                .map(|at| Change { path: format!("f{at:02}"), file: PathBuf::new(), kind: ChangeKind::Edited })
                .collect(),
            advice: vec!["do this".to_owned()],
        };
        let text = |all: Vec<Refused>| Refusal(all).to_string();
        assert_eq!(text(vec![refused(1)]), "/p/demo was edited:\n  M f00\n  → do this");
        assert!(text(vec![refused(12)]).ends_with("  M f11\n  → do this"));
        assert!(text(vec![refused(14)]).ends_with("  M f11\n  … and 2 more\n  → do this"));
        let two = text(vec![refused(0), refused(0)]);
        assert_eq!(two, "/p/demo was edited:\n  → do this\n/p/demo was edited:\n  → do this");
        let one = Refusal::of("/p/x", "is there", &["move it"]);
        assert_eq!(one.to_string(), "/p/x is there\n  → move it");
    }
}
