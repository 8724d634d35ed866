//! Timing: rotating buffers, CUDA graphs, the copy roof, statistics.

mod check;
mod clock;
mod device_slots;
mod health;
mod result;
mod roof;
mod rotation;
mod rounds;
mod ruler;
pub(crate) mod run;
mod slots;
mod spread;

pub use result::{Against, BenchReport, Beside, CaseBench, Residency, Samples, Spread};
pub use rotation::Rotation;
pub use ruler::Ruler;
