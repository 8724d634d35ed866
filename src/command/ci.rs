//! `kernels ci`.

use std::process::ExitCode;

use anyhow::Result;

use crate::cli::project::Ci;
use crate::report::Output;

/// Not there yet.
pub fn run(_arguments: &Ci, _output: Output) -> Result<ExitCode> {
    anyhow::bail!("not there yet")
}
