//! The action at one place.

use std::path::PathBuf;

use super::place::Place;
use super::scan::Change;
use super::transaction::OldTree;

/// How to treat existing files.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Options {
    /// Replace what is protected, after moving it to a backup.
    pub(crate) force: bool,
    /// One real copy, links elsewhere.
    pub(crate) link: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Install,
    /// Write a receipt into an identical copy.
    Adopt,
    /// Replace an unmodified other version.
    Update {
        from: Option<String>,
    },
    /// Restore missing files.
    Repair(Vec<Change>),
    /// Move the existing entry to a backup and install the skill.
    Replace {
        /// What is there.
        what: String,
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
