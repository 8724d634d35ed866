//! The receipt that an install writes into the skill's folder: what was installed, so that a later
//! run can distinguish user edits from its own files. It is part of the folder, and swapped with it.

use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::base::dir::Dir;
use crate::base::text;
use crate::skill::digest::{Digest, FileDigests};
use crate::skill::source::{Skill, Source};
use crate::skill::tree::RECEIPT;

/// The format of the file; a reader leaves a later format alone.
pub(crate) const FORMAT: u32 = 1;

/// An upper bound: a receipt of a thousand files is smaller.
pub(super) const LIMIT: u64 = 4 * 1024 * 1024;

#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub(crate) struct Receipt {
    pub(crate) format: u32,
    pub(crate) skill: String,
    /// Its `metadata.version`, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) version: Option<String>,
    pub(crate) source: Source,
    pub(crate) installed: String,
    pub(crate) by: String,
    /// The id of the change that installed it: distinguishes a staged tree from the one it replaced.
    pub(crate) id: String,
    pub(crate) tree: Digest,
    /// The digest of each file over its path, mode and content.
    pub(crate) files: FileDigests,
    /// The file system kept the executable bits.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub(crate) modes: bool,
    /// Files were installed with `\r\n`.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) crlf: bool,
    /// How many parent folders the install created, for `remove` to delete.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) created_folders: usize,
}

fn yes() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_true(value: &bool) -> bool {
    *value
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_false(value: &bool) -> bool {
    !*value
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_zero(value: &usize) -> bool {
    *value == 0
}

/// Why a folder has no usable receipt.
#[derive(Debug, Error)]
pub(crate) enum ReceiptError {
    /// Missing or unreadable.
    #[error("{RECEIPT} cannot be read: {0}")]
    Io(#[from] io::Error),
    /// Not a receipt.
    #[error("{RECEIPT} is damaged: {0}")]
    Damaged(#[from] serde_json::Error),
    /// Written by a later program.
    #[error("{RECEIPT} has format {0}; this program knows {FORMAT}: upgrade kernels")]
    Later(u32),
}

impl ReceiptError {
    /// Whether the folder has none.
    pub(crate) fn is_absence(&self) -> bool {
        matches!(self, Self::Io(error) if error.kind() == io::ErrorKind::NotFound)
    }
}

impl Receipt {
    pub(crate) fn new(skill: &Skill, id: &str, source: Source) -> Self {
        Self {
            format: FORMAT,
            skill: skill.name.clone(),
            version: skill.version.clone(),
            source,
            installed: now(),
            by: format!("kernels {}", crate::base::bundle::version()),
            id: id.to_owned(),
            tree: skill.digest,
            files: skill.files.clone(),
            modes: true,
            crlf: skill.tree.iter().any(|(_, entry)| text::with_lf(&entry.content).is_some()),
            created_folders: 0,
        }
    }

    pub(crate) fn read(folder: &Path) -> Result<Self, ReceiptError> {
        Self::read_in(&Dir::open_last(folder)?)
    }

    /// Whether there is one at all in the folder, be it damaged or of a later format; also where that cannot be seen.
    pub(crate) fn is_in(folder: &Path) -> bool {
        match folder.join(RECEIPT).symlink_metadata() {
            Ok(_) => true,
            Err(error) => error.kind() == io::ErrorKind::PermissionDenied,
        }
    }

    /// Whether it says that the install in this folder was copied from itself: then there is no other copy. `add` wrote such
    /// receipts into skills that it found in their place.
    pub(super) fn names_itself(&self, install: &Path) -> bool {
        let (Source::Folder { path: Some(path) } | Source::Archive { path: Some(path) }) = &self.source else {
            return false;
        };
        let from = install.parent().unwrap_or(install).join(path).canonicalize();
        from.is_ok_and(|from| install.canonicalize().is_ok_and(|install| from.starts_with(install)))
    }

    pub(crate) fn read_in(folder: &Dir) -> Result<Self, ReceiptError> {
        #[derive(Deserialize)]
        struct Head {
            format: u32,
        }
        let bytes = folder.read_plain(RECEIPT, LIMIT)?;
        let head: Head = serde_json::from_slice(&bytes)?;
        if head.format > FORMAT {
            return Err(ReceiptError::Later(head.format));
        }
        let receipt: Self = serde_json::from_slice(&bytes)?;
        // Where lines are a table, a version of two lines would be two rows.
        Ok(Self { version: receipt.version.as_deref().map(text::one_line), ..receipt })
    }

    /// Whether it differs at most in when, by what and with which line ends the same was installed.
    pub(crate) fn says_the_same(&self, other: &Self) -> bool {
        let (installed, by, id) = (other.installed.clone(), other.by.clone(), other.id.clone());
        Self { installed, by, id, crlf: other.crlf, ..self.clone() } == *other
    }

    pub(crate) fn to_json(&self) -> Result<Vec<u8>, serde_json::Error> {
        let mut bytes = serde_json::to_vec_pretty(self)?;
        bytes.push(b'\n');
        Ok(bytes)
    }
}

/// The current UTC time, to the second.
pub(crate) fn now() -> String {
    humantime::format_rfc3339_seconds(SystemTime::now()).to_string()
}

/// The part of a source that a receipt may record: a project's receipt travels with the project, so it
/// names only paths inside it, relative to the skills folder.
pub(crate) fn recordable(source: &Source, folder: &Path, project: Option<&Path>) -> Source {
    let adjust = |path: &Option<PathBuf>| -> Option<PathBuf> {
        // JSON holds only UTF-8 names.
        let path = path.as_deref().filter(|path| path.to_str().is_some())?;
        match project {
            None => Some(path.to_path_buf()),
            Some(project) if path.starts_with(project) && folder.starts_with(project) => Some(relative(folder, path)),
            Some(_) => None,
        }
    };
    match source {
        Source::Embedded => Source::Embedded,
        Source::Folder { path } => Source::Folder { path: adjust(path) },
        Source::Archive { path } => Source::Archive { path: adjust(path) },
        Source::Remote { .. } => source.clone(),
    }
}

/// The relative path from the folder `from` to `to`, both absolute and without links.
pub(crate) fn relative(from: &Path, to: &Path) -> PathBuf {
    let shared = from.components().zip(to.components()).take_while(|(a, b)| a == b).count();
    let mut way = PathBuf::new();
    for _ in from.components().skip(shared) {
        way.push("..");
    }
    way.extend(to.components().skip(shared));
    way
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_usual_is_not_written_and_assumed_where_it_is_not() -> anyhow::Result<()> {
        let skill = Skill::bundled("cuda-kernels")?;
        let usual = Receipt::new(&skill, "1", Source::Embedded);
        let unusual = Receipt { modes: false, crlf: true, created_folders: 2, ..usual.clone() };
        for (receipt, written) in [(&usual, false), (&unusual, true)] {
            let bytes = receipt.to_json()?;
            let json: serde_json::Value = serde_json::from_slice(&bytes)?;
            for key in ["modes", "crlf", "created_folders"] {
                assert_eq!(json.get(key).is_some(), written, "{key}");
            }
            assert_eq!(serde_json::from_slice::<Receipt>(&bytes)?, *receipt);
        }
        Ok(())
    }

    #[test]
    fn receipts_say_the_same_whenever_and_by_whatever_it_was_installed() -> anyhow::Result<()> {
        let one = Receipt::new(&Skill::bundled("cuda-kernels")?, "1", Source::Embedded);
        let text = || "other".to_owned();
        let (installed, by, id, crlf) = (text(), text(), text(), true);
        assert!(one.says_the_same(&Receipt { installed, by, id, crlf, ..one.clone() }));
        for other in [
            Receipt { skill: text(), ..one.clone() },
            Receipt { version: None, ..one.clone() },
            Receipt { source: Source::Folder { path: None }, ..one.clone() },
            Receipt { modes: false, ..one.clone() },
            Receipt { created_folders: 2, ..one.clone() },
            Receipt { files: FileDigests::new(), ..one.clone() },
        ] {
            assert!(!one.says_the_same(&other), "{other:?}");
        }
        Ok(())
    }

    #[test]
    fn the_way_between_folders() {
        let way = |from: &str, to: &str| relative(Path::new(from), Path::new(to));
        assert_eq!(way("/p/.codex/skills", "/p/.agents/skills/x"), Path::new("../../.agents/skills/x"));
        assert_eq!(way("/p", "/p/a"), Path::new("a"));
    }

    #[test]
    fn a_projects_receipt_names_no_path_outside_it() {
        let source = Source::Folder { path: Some("/home/alice/x".into()) };
        let folder = Path::new("/repo/.claude/skills");
        let kept = recordable(&source, folder, Some(Path::new("/repo")));
        assert_eq!(kept, Source::Folder { path: None });
        let inside = Source::Folder { path: Some("/repo/src/x".into()) };
        let kept = recordable(&inside, folder, Some(Path::new("/repo")));
        assert_eq!(kept, Source::Folder { path: Some("../../src/x".into()) });
        assert_eq!(recordable(&source, folder, None), source);
    }
}
