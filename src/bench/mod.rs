//! Timing: rotation, graphs, the roof, statistics.

pub mod clock;
pub mod health;
pub mod result;
pub mod ring;
pub mod roof;
pub mod rotation;
pub mod ruler;
pub mod run;
pub mod spread;

pub use result::{Against, BenchReport, Beside, CaseBench, Residency, Spread};
pub use rotation::Rotation;
pub use ruler::Ruler;
