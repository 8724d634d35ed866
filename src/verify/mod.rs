//! Inputs, poison, red zones, comparison.

pub mod finding;

pub use finding::{Finding, Kind, PathReport, VerifyReport};
