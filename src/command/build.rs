//! `kernels build`.

use std::process::ExitCode;

use anyhow::Result;

use crate::cli::project::Build;
use crate::report::Output;

/// Not there yet.
pub fn run(_arguments: &Build, _output: Output) -> Result<ExitCode> {
    anyhow::bail!("not there yet")
}
