//! Timing: rotation, graphs, the roof, statistics.

pub mod result;

pub use result::{BenchReport, CaseBench, Residency, Spread};
