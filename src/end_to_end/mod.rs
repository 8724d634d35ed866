//! Whole models, timed by a project's own `benchmark_e2e.py`: `kernels bench DIR --e2e`. What the script writes is held
//! against what is here, and nothing of it is believed that contradicts itself.

mod result;
mod script;
pub mod sources;

pub use result::{Case, Contender, EndToEnd, FORMAT, Profile, Skipped, Spread};
pub use script::{SCRIPT, run};
