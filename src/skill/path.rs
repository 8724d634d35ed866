//! A file's place inside a skill: relative, with `/`, and safe to create on any system.

use std::borrow::Borrow;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::base::text::is_invisible;

/// The most folders and the file in a path: no skill needs a fraction of it, and each level costs every reader time.
pub(crate) const MAX_DEPTH: usize = 32;
/// The most bytes in one name: the limit of every common file system.
pub(crate) const MAX_NAME: usize = 255;
/// The most bytes in a path: with the project's folder before it, it must be one that macOS opens.
pub(crate) const MAX_PATH: usize = 768;

/// A relative path of one or more plain components joined by `/`.
///
/// By construction it never leaves the folder it is joined to, and never names the folder itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub(crate) struct RelPath(String);

/// Why a text is not a [`RelPath`].
#[derive(Debug, Error, PartialEq, Eq)]
pub(crate) enum PathError {
    /// It is empty.
    #[error("the path is empty")]
    Empty,
    /// It starts at a root or a drive.
    #[error("'{0}' is absolute; paths in a skill are relative to its folder")]
    Absolute(String),
    /// A component is `..`, `.` or empty.
    #[error("'{0}' has a '.', '..' or empty component; it could point outside the skill")]
    Escapes(String),
    /// A character that some file system or archive reader treats specially.
    #[error("{0:?} has a backslash, a colon or a control character; rename the file")]
    Unportable(String),
    /// A character that is not seen, or that reorders the others.
    #[error("{0:?} has a character that nobody sees or that reorders text; rename the file")]
    Invisible(String),
    /// A name over [`MAX_NAME`] bytes, or a path over [`MAX_PATH`].
    #[error("'{}…' is too long: at most {MAX_NAME} bytes a name and {MAX_PATH} a path; shorten it", start_of(.0))]
    TooLong(String),
    /// More than [`MAX_DEPTH`] components.
    #[error("'{}…' is nested more than {MAX_DEPTH} deep; flatten the folders", start_of(.0))]
    TooDeep(String),
}

/// Enough of a long path to recognise it.
fn start_of(text: &str) -> String {
    text.chars().take(60).collect()
}

impl RelPath {
    /// Parses `text` as a relative path.
    pub(crate) fn parse(text: &str) -> Result<Self, PathError> {
        if text.is_empty() {
            return Err(PathError::Empty);
        }
        let mut letters = text.chars();
        let drive = letters.next().is_some_and(|c| c.is_ascii_alphabetic()) && letters.next() == Some(':');
        if text.starts_with('/') || text.starts_with('\\') || drive {
            return Err(PathError::Absolute(text.to_owned()));
        }
        if text.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return Err(PathError::Escapes(text.to_owned()));
        }
        if text.chars().any(|c| matches!(c, '\\' | ':') || c.is_control()) {
            return Err(PathError::Unportable(text.to_owned()));
        }
        if text.chars().any(is_invisible) {
            return Err(PathError::Invisible(text.to_owned()));
        }
        if text.split('/').count() > MAX_DEPTH {
            return Err(PathError::TooDeep(text.to_owned()));
        }
        if text.len() > MAX_PATH || text.split('/').any(|part| part.len() > MAX_NAME) {
            return Err(PathError::TooLong(text.to_owned()));
        }
        Ok(Self(text.to_owned()))
    }

    /// The path as text, with `/` between components.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// The last component.
    pub(crate) fn file_name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or(&self.0)
    }

    /// The file's path in a skill's folder `root`.
    pub(crate) fn under(&self, root: &Path) -> PathBuf {
        let mut path = root.to_path_buf();
        path.extend(self.0.split('/'));
        path
    }

    /// The parent folders of the file, outermost first, without the skill's own.
    pub(crate) fn parents(&self) -> impl Iterator<Item = &str> {
        self.0.match_indices('/').map(|(at, _)| &self.0[..at])
    }
}

/// Paths are ordered as their texts are, so a map of them can be asked for a text.
impl Borrow<str> for RelPath {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl From<RelPath> for String {
    fn from(path: RelPath) -> Self {
        path.0
    }
}

impl TryFrom<String> for RelPath {
    type Error = PathError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text)
    }
}

impl fmt::Display for RelPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn refuses_everything_that_could_leave_the_folder() {
        for text in [
            "",
            "/",
            "/etc/passwd",
            "..",
            "../x",
            "a/../b",
            "a/..",
            "./a",
            "a//b",
            "a/",
            "C:x",
            "c:/x",
            "\\x",
            "a\\..\\b",
            "a:b",
            "a\0b",
            "a\nb",
            "a\u{202e}b",
            "a\u{200b}",
            &"x".repeat(256),
            &format!("{}x", "a long name of a folder by itself/".repeat(MAX_DEPTH - 1)),
            &format!("{}x", "x/".repeat(MAX_DEPTH)),
        ] {
            assert!(RelPath::parse(text).is_err(), "{text:?} was accepted");
        }
    }

    #[test]
    fn lists_the_folders_above_a_file() {
        let path = RelPath::parse("a/b/c.md").unwrap();
        assert_eq!(path.parents().collect::<Vec<_>>(), ["a", "a/b"]);
        assert_eq!(path.file_name(), "c.md");
    }

    proptest! {
        #[test]
        fn whatever_is_accepted_stays_inside(text in "[a-z./\\\\: \u{1F600}-]{0,24}") {
            if let Ok(path) = RelPath::parse(&text) {
                let joined = path.under(Path::new("/a/skill"));
                prop_assert!(joined.starts_with("/a/skill"));
                prop_assert!(joined.components().all(|c| c.as_os_str() != ".."));
                prop_assert_eq!(joined.components().count(), 3 + text.split('/').count());
            }
        }
    }
}
