//! Timing: rotation, graphs, the roof, statistics.

pub mod health;
pub mod result;
pub mod ring;
pub mod roof;
pub mod run;
pub mod spread;

pub use result::{BenchReport, CaseBench, Residency, Spread};
