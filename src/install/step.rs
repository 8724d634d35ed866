//! What can happen at one place.

use std::path::PathBuf;

use super::place::Place;
use super::scan::Change;
use super::transaction::OldTree;

/// How to treat what is already there.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Replace what is protected, after moving it to a backup.
    pub force: bool,
    /// One real copy, links elsewhere.
    pub link: bool,
}

/// What happens at one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Put the skill where nothing is.
    Install,
    /// Write a receipt beside a copy that is the skill already.
    Adopt,
    /// Replace an untouched other version.
    Update {
        /// The version that is there, where it is known.
        from: Option<String>,
    },
    /// Put back files that are gone.
    Repair(Vec<Change>),
    /// Move what is there to a backup and put the skill in its place.
    Replace {
        /// What is there.
        what: String,
    },
    /// Put a relative link.
    Link {
        /// Where it points, from the skills folder.
        to: PathBuf,
        /// Whether a copy must not stand in for it: some agent would list the skill twice.
        only: bool,
        /// What is moved to a backup for it, if anything is.
        replaces: Option<String>,
    },
    /// Nothing: it is there.
    Unchanged,
    /// Nothing: a link is there already.
    KeepLink {
        /// Where it points, as written.
        to: PathBuf,
    },
}

/// One place and what happens there.
#[derive(Clone, Debug)]
pub struct Step {
    /// Where.
    pub place: Place,
    /// What.
    pub action: Action,
    /// What is to become of what is there.
    pub old: OldTree,
    /// How many folders above an existing install it had created, to be remembered.
    pub created_folders: usize,
}

impl Action {
    /// Whether the step writes anything.
    pub fn changes_anything(&self) -> bool {
        !matches!(self, Self::Unchanged | Self::KeepLink { .. })
    }
}
