//! Timing: rotating buffers, CUDA graphs, the copy roof, statistics.

mod clock;
mod health;
mod result;
mod ring;
mod roof;
mod rotation;
mod ruler;
pub(crate) mod run;
mod spread;

pub use result::{Against, BenchReport, Beside, CaseBench, Residency, Spread};
pub use rotation::Rotation;
pub use ruler::Ruler;
