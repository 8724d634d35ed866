//! The state of an installed skill compared with the one on offer.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::place::link_file;
use super::receipt::{Receipt, ReceiptError};
use super::scan::{Change, ChangeKind, Scan};
use super::transaction::link_file_fingerprint;
use crate::base::dir::Dir;
use crate::skill::digest::Digest;
use crate::skill::lineage;
use crate::skill::source::{Skill, is_newer};
use crate::skill::tree::RECEIPT;

/// The state of a place where a skill may be installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Absent,
    /// Equal to the skill on offer.
    Current {
        /// Whether it has a receipt; without one it is recognised by its digest.
        receipt: bool,
    },
    /// As it was installed; whether what it was installed from has changed since is not known.
    Unchecked,
    /// An older version, unmodified.
    Stale,
    /// A later version, unmodified.
    Newer,
    /// The user changed, added or removed files.
    Modified(Vec<Change>),
    /// Files are missing or empty, and nothing else differs.
    Missing(Vec<Change>),
    /// Not installed by `kernels`.
    Foreign(Foreign),
    Unreadable(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Foreign {
    Folder,
    NotAFolder,
    /// A link, and its target as written.
    Link(PathBuf),
    /// What git writes for a link with `core.symlinks=false`: a file that holds the target.
    LinkFile(PathBuf),
    /// A folder with a receipt of a later program.
    LaterReceipt,
    /// A folder with a receipt that is of no use, and why.
    DamagedReceipt(String),
}

/// A state and the data it was derived from.
#[derive(Clone, Debug)]
pub(crate) struct Judgement {
    pub(crate) state: State,
    /// The installed version, if known.
    pub(crate) version: Option<String>,
    /// The receipt, if there is a valid one.
    pub(crate) receipt: Option<Receipt>,
    /// Whether line ends are `\r\n` that were installed as `\n`, as git makes them in a clone.
    pub(crate) translated: bool,
    /// A fingerprint of the folder, to detect a change between judging and acting.
    pub(crate) fingerprint: Option<String>,
}

impl State {
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::Current { .. } => "current",
            Self::Unchecked => "unchecked",
            Self::Stale => "stale",
            Self::Newer => "newer",
            Self::Modified(_) => "modified",
            Self::Missing(changes) if changes.iter().any(|change| change.kind == ChangeKind::Emptied) => "damaged",
            Self::Missing(_) => "missing files",
            Self::Foreign(Foreign::LinkFile(_)) => "link file",
            Self::Foreign(_) => "foreign",
            Self::Unreadable(_) => "unreadable",
        }
    }

    /// The user's changes, if the state has any.
    pub(crate) fn changes(&self) -> &[Change] {
        match self {
            Self::Modified(changes) | Self::Missing(changes) => changes,
            _ => &[],
        }
    }
}

/// How often to retry when another process swaps the tree meanwhile.
const LOOKS: usize = 5;

/// Compares `dest`, which may be anything, with the skill on offer.
pub(crate) fn judge(dest: &Path, name: &str, offer: Option<&Skill>) -> Judgement {
    let identity = || fs::symlink_metadata(dest).ok().map(|meta| (meta.dev(), meta.ino()));
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
    let bare = |state| Judgement { state, version: None, receipt: None, translated: false, fingerprint: None };
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
        return match link_file(dest) {
            Some(to) => {
                let fingerprint = Some(link_file_fingerprint(&to));
                Judgement { fingerprint, ..bare(State::Foreign(Foreign::LinkFile(to))) }
            }
            None => bare(State::Foreign(Foreign::NotAFolder)),
        };
    }
    let scanned = Dir::open_last(dest).and_then(|folder| Ok((Scan::of(&folder)?, folder)));
    let (scan, folder) = match scanned {
        Ok(scanned) => scanned,
        Err(error) => return unreadable(&error),
    };
    let fingerprint = Some(scan.fingerprint());
    match Receipt::read_in(&folder) {
        Ok(receipt) if receipt.skill == name => {
            let state = by_receipt(&scan, &receipt, offer);
            let version = receipt.version.clone();
            let translated = !receipt.crlf && scan.has_crlf(&receipt.files);
            Judgement { state, version, receipt: Some(receipt), translated, fingerprint }
        }
        Err(ReceiptError::Later(_)) => Judgement { fingerprint, ..bare(State::Foreign(Foreign::LaterReceipt)) },
        // For what is in the folder, a damaged receipt counts as none.
        unusable => {
            let (mut state, version) = by_digest(scan.tree_digest(), name, offer);
            if state == State::Foreign(Foreign::Folder)
                && let Some(why) = why_unusable(unusable)
            {
                state = State::Foreign(Foreign::DamagedReceipt(why));
            }
            Judgement { state, version, receipt: None, translated: false, fingerprint }
        }
    }
}

/// Why there is no receipt of this skill, if there is a file for one.
fn why_unusable(read: Result<Receipt, ReceiptError>) -> Option<String> {
    match read {
        Ok(receipt) => Some(format!("{RECEIPT} is of another skill, {}", receipt.skill)),
        Err(error) if error.is_absence() => None,
        Err(error) => Some(error.to_string()),
    }
}

fn by_receipt(scan: &Scan, receipt: &Receipt, offer: Option<&Skill>) -> State {
    // The files on offer where the receipt says that it is they: it may have been edited with them.
    let files = offer.filter(|offer| offer.digest == receipt.tree).map_or(&receipt.files, |offer| &offer.files);
    let changes = scan.changes(files, receipt.modes);
    if !changes.iter().all(Change::is_loss) {
        return State::Modified(changes);
    }
    if !changes.is_empty() {
        return State::Missing(changes);
    }
    match offer {
        Some(offer) if offer.digest != receipt.tree => match (&receipt.version, &offer.version) {
            (Some(here), Some(there)) if is_newer(here, there) => State::Newer,
            _ => State::Stale,
        },
        Some(_) => State::Current { receipt: true },
        None => State::Unchecked,
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
