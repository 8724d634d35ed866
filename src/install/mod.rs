//! How a tree gets to where agents look: plan, stage, swap, receipt. Nothing of a user's is lost,
//! and at every instant the old tree or the new one stands whole.
//!
//! ```text
//! .claude/                  the host: what is locked while something changes
//! ├── skills/               the skills folder
//! │   └── cuda-kernels/     the destination; `.kernels.json` in it is the receipt
//! └── .kernels/             the area, beside the skills folder so that no agent lists what is in it
//!     ├── txn-…/            one change under way: journal.json, new, old, trash
//!     └── backups/          trees that `--force` replaced
//! ```

pub mod apply;
pub mod area;
pub mod discover;
mod elsewhere;
pub mod lock;
pub mod place;
pub mod plan;
mod protect;
pub mod receipt;
pub mod refusal;
pub mod remove;
pub mod scan;
pub mod state;
pub mod step;
pub mod transaction;

pub use place::Place;
pub use receipt::Receipt;
pub use refusal::Refusal;
pub use state::State;
