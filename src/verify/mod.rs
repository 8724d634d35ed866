//! Inputs, poison, red zones, comparison.

pub mod beside;
pub mod check;
pub mod compare;
pub mod exact;
pub mod exports;
pub mod files;
pub mod finding;
pub mod inputs;
pub mod layout;
pub mod path;
pub mod random;
pub mod run;
pub mod sanitize;
pub mod slot;

pub use finding::{Finding, Kind, PathReport, VerifyReport};
