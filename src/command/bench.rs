//! `kernels bench`.

use std::process::ExitCode;

use anyhow::Result;

use crate::cli::project::Bench;
use crate::report::Output;

/// Not there yet.
pub fn run(_arguments: &Bench, _output: Output) -> Result<ExitCode> {
    anyhow::bail!("not there yet")
}
