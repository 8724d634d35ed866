//! Whole models, timed by a project's own `benchmark_e2e.py`: `kernels bench DIR --e2e`. What the script writes is held
//! against what is here, and nothing of it is believed that contradicts itself.

mod result;
mod script;
pub(crate) mod sources;

pub(crate) use result::{Case, Contender, EndToEnd, Profile};
pub(crate) use script::{SCRIPT, run};
