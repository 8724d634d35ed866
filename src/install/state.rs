//! What an installed skill is, compared with what is on offer.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::receipt::{Receipt, ReceiptError};
use super::scan::{Change, ChangeKind, Scan};
use crate::skill::digest::Digest;
use crate::skill::lineage;
use crate::skill::source::{Skill, Source, is_newer};

/// The state of a place where a skill may be installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Nothing is there.
    Absent,
    /// Exactly what is on offer.
    Current {
        /// Whether a receipt says so; without one it is recognised by its digest.
        receipt: bool,
    },
    /// Another version than the one on offer, and nobody has touched it.
    Stale,
    /// A later version than the one on offer, and nobody has touched it.
    Newer,
    /// A person changed, added or removed files.
    Modified(Vec<Change>),
    /// Files are gone, and nothing else is different.
    Missing(Vec<Change>),
    /// Something that `kernels` did not put there.
    Foreign(Foreign),
    /// It cannot be looked at.
    Unreadable(String),
}

/// What a foreign thing is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Foreign {
    /// A folder without a receipt, whose content was never shipped.
    Folder,
    /// A file, a pipe, a device.
    NotAFolder,
    /// A link; where it points, as written.
    Link(PathBuf),
    /// A folder with a receipt of a later program.
    LaterReceipt,
}

/// A state and what it was judged by.
#[derive(Clone, Debug)]
pub struct Judgement {
    /// The state.
    pub state: State,
    /// The version that is installed, where it is known.
    pub version: Option<String>,
    /// The receipt, where there is a sound one.
    pub receipt: Option<Receipt>,
    /// A fingerprint of everything in the folder, to notice a change between judging and acting.
    pub fingerprint: Option<String>,
}

impl State {
    /// The word that reports print.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::Current { .. } => "current",
            Self::Stale => "stale",
            Self::Newer => "newer",
            Self::Modified(_) => "modified",
            Self::Missing(_) => "missing files",
            Self::Foreign(_) => "foreign",
            Self::Unreadable(_) => "unreadable",
        }
    }

    /// The changes that a person made, if that is what the state is about.
    pub fn changes(&self) -> &[Change] {
        match self {
            Self::Modified(changes) | Self::Missing(changes) => changes,
            _ => &[],
        }
    }
}

/// How often to look again when another process swaps the tree in the middle of a look.
const LOOKS: usize = 5;

/// Judges what is at `dest`, which may be anything, against the skill on offer.
pub fn judge(dest: &Path, name: &str, offer: Option<&Skill>) -> Judgement {
    let identity = || {
        fs::symlink_metadata(dest)
            .ok()
            .map(|meta| (meta.dev(), meta.ino()))
    };
    for _ in 1..LOOKS {
        let before = identity();
        let judged = look(dest, name, offer);
        if identity() == before {
            return judged;
        }
    }
    look(dest, name, offer)
}

fn look(dest: &Path, name: &str, offer: Option<&Skill>) -> Judgement {
    let bare = |state| Judgement {
        state,
        version: None,
        receipt: None,
        fingerprint: None,
    };
    let unreadable = |error: &io::Error| bare(State::Unreadable(error.to_string()));
    let meta = match fs::symlink_metadata(dest) {
        Ok(meta) => meta,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return bare(State::Absent),
        Err(error) => return unreadable(&error),
    };
    if meta.is_symlink() {
        return match fs::read_link(dest) {
            Ok(to) => bare(State::Foreign(Foreign::Link(to))),
            Err(error) => unreadable(&error),
        };
    }
    if !meta.is_dir() {
        return bare(State::Foreign(Foreign::NotAFolder));
    }
    let scan = match Scan::of(dest) {
        Ok(scan) => scan,
        Err(error) => return unreadable(&error),
    };
    let fingerprint = Some(scan.fingerprint());
    match Receipt::read(dest) {
        Ok(receipt) if receipt.skill == name => {
            let state = by_receipt(&scan, &receipt, offer);
            let version = receipt.version.clone();
            Judgement {
                state,
                version,
                receipt: Some(receipt),
                fingerprint,
            }
        }
        Err(ReceiptError::Later(_)) => Judgement {
            fingerprint,
            ..bare(State::Foreign(Foreign::LaterReceipt))
        },
        // A damaged receipt says nothing, like none.
        Ok(_) | Err(ReceiptError::Io(_) | ReceiptError::Damaged(_)) => {
            let (state, version) = by_digest(scan.tree_digest(), name, offer);
            Judgement {
                state,
                version,
                receipt: None,
                fingerprint,
            }
        }
    }
}

fn by_receipt(scan: &Scan, receipt: &Receipt, offer: Option<&Skill>) -> State {
    let changes = scan.changes(&receipt.files, receipt.modes);
    if changes
        .iter()
        .any(|change| change.kind != ChangeKind::Missing)
    {
        return State::Modified(changes);
    }
    if !changes.is_empty() {
        return State::Missing(changes);
    }
    match offer {
        Some(offer) if offer.digest != receipt.tree => {
            let both_embedded =
                offer.source == Source::Embedded && receipt.source == Source::Embedded;
            match (&receipt.version, &offer.version) {
                (Some(here), Some(there)) if both_embedded && is_newer(here, there) => State::Newer,
                _ => State::Stale,
            }
        }
        _ => State::Current { receipt: true },
    }
}

fn by_digest(tree: Option<Digest>, name: &str, offer: Option<&Skill>) -> (State, Option<String>) {
    let Some(tree) = tree else {
        return (State::Foreign(Foreign::Folder), None);
    };
    if let Some(offer) = offer.filter(|offer| offer.digest == tree) {
        return (State::Current { receipt: false }, offer.version.clone());
    }
    match lineage::find(name, tree) {
        Some(shipped) => (State::Stale, Some(shipped.version.clone())),
        None => (State::Foreign(Foreign::Folder), None),
    }
}
