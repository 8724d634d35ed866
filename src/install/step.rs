//! The action at one place.

use std::path::PathBuf;

use super::place::Place;
use super::scan::Change;
use super::transaction::OldTree;
use crate::skill::tree::Tree;

/// How to treat existing files.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Options {
    /// Replace what is protected, after moving it to a backup.
    pub(crate) force: bool,
    /// One real copy, links elsewhere.
    pub(crate) link: bool,
    /// What becomes of the edits in an install that gets another version.
    pub(crate) merge: Merge,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Merge {
    /// It is refused.
    #[default]
    No,
    /// They are merged; conflicts are refused.
    Clean,
    /// They are merged; conflicts are written between markers.
    WithMarkers,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Install,
    /// Write a receipt into an identical copy.
    Adopt,
    /// Replace an unmodified other version.
    Update {
        from: Option<String>,
        /// Whether it may be the last copy of another source's skill, and goes to a backup.
        last_copy: bool,
    },
    /// Restore missing files.
    Repair(Vec<Change>),
    /// Move the existing entry to a backup and install the skill.
    Replace {
        /// What is there.
        what: String,
    },
    /// Move the edited tree to a backup and install the new version with the edits in it.
    Merge {
        tree: Tree,
        from: Option<String>,
        /// The files with conflict markers, or where one side had to be taken.
        conflicts: Vec<Change>,
    },
    /// Create a relative link.
    Link {
        to: PathBuf,
        /// Must be a link; do not fall back to a copy: some agent would list the skill twice.
        only: bool,
        /// What the link replaces, moved to a backup.
        replaces: Option<String>,
    },
    /// Already installed.
    Unchanged,
    /// A link exists already.
    KeepLink {
        /// Its target, as written.
        to: PathBuf,
    },
}

#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) place: Place,
    pub(crate) action: Action,
    /// How to treat the tree it replaces.
    pub(crate) old: OldTree,
    /// How many parent folders the existing install had created; the new receipt keeps the number.
    pub(crate) created_folders: usize,
}

impl Action {
    pub(crate) fn changes_anything(&self) -> bool {
        !matches!(self, Self::Unchanged | Self::KeepLink { .. })
    }
}
