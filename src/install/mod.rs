//! How a tree gets to where agents look: plan, stage, swap, receipt. Nothing of a user's is lost,
//! and at every instant the old tree or the new one stands whole.
//!
//! ```text
//! .claude/                  the host: what is locked while something changes
//! ├── skills/               the skills folder
//! │   └── cuda-kernels/     the destination; `.kernels.json` in it is the receipt
//! └── .kernels/             the area, beside the skills folder so that no agent lists what is in it
//!     ├── txn-…/            one change under way: journal.json, new, old, trash
//!     ├── base/             the texts that were installed, to compare and merge edits with
//!     └── backups/          trees with edits that something else replaced
//! ```

pub(crate) mod apply;
pub(crate) mod area;
pub(crate) mod backups;
pub(crate) mod base;
pub(crate) mod discover;
mod elsewhere;
mod kept;
pub(crate) mod lock;
pub(crate) mod manifest;
mod merge;
pub(crate) mod pins;
pub(crate) mod place;
pub(crate) mod plan;
mod protect;
pub(crate) mod receipt;
pub(crate) mod refusal;
pub(crate) mod remove;
pub(crate) mod scan;
pub(crate) mod state;
pub(crate) mod step;
pub(crate) mod transaction;

use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) use place::Place;
pub(crate) use refusal::Refusal;
pub(crate) use state::State;

/// Whether this process has set out to change installs. The exit code of such a command says whether that was done; that of
/// another one is worth nothing without its report.
static CHANGES: AtomicBool = AtomicBool::new(false);

/// Notes that installs are about to be changed.
fn note_change() {
    CHANGES.store(true, Ordering::Relaxed);
}

pub(crate) fn is_change() -> bool {
    CHANGES.load(Ordering::Relaxed)
}
