//! Verification: runs every case on every code path, compares the outputs with an oracle in double precision, and checks
//! that no other byte changed.

mod beside;
mod case;
pub(crate) mod compare;
mod exact;
mod exports;
mod files;
pub(crate) mod finding;
pub(crate) mod function;
pub(crate) mod inputs;
pub(crate) mod judge;
pub(crate) mod layout;
mod memory;
pub mod path;
mod pipeline;
pub(crate) mod random;
pub(crate) mod reference;
pub(crate) mod run;
pub(crate) mod sanitize;
mod select;
pub(crate) mod slot;
pub(crate) mod through;
pub(crate) mod timed;
mod turn;
mod verdict;

pub(crate) use crate::worker::Choice;
pub(crate) use beside::whole;
pub use finding::{Finding, Kind, OperationReport, PathReport, SET, VerifyReport};
