//! Search: makes candidates of a project's kernels, and keeps what the harness believes.
//!
//! A run is a folder with a journal (`event.rs`), contents by their digest, a frozen copy of the project (`task.rs`), and
//! the results of jobs (`job.rs`). Its state is a fold over the events (`state.rs`).

mod commit;
mod confirm;
mod edit;
pub(crate) mod engine;
pub(crate) mod evaluate;
pub(crate) mod event;
pub(crate) mod export;
pub(crate) mod facts;
mod feedback;
pub(crate) mod import;
mod job;
mod ledger;
mod machine;
mod novelty;
mod operator;
mod places;
pub(crate) mod profile;
pub(crate) mod proposer;
mod run;
mod select;
pub(crate) mod settings;
pub(crate) mod site;
mod slot;
mod sources;
pub(crate) mod state;
mod task;
mod twins;

pub(crate) use run::Search;
