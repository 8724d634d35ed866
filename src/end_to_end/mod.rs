//! End-to-end benchmarks of models by a project's `benchmark_e2e.py`: `kernels bench DIR --e2e`. The script's results are
//! checked for consistency and against the project's files.

mod comments;
mod result;
mod script;
pub(crate) mod sources;

pub(crate) use result::{Case, Contender, EndToEnd, Profile};
pub(crate) use script::{SCRIPT, Written, run};
