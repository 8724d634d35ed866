//! `kernels verify`.

use std::process::ExitCode;

use anyhow::Result;

use crate::cli::project::Verify;
use crate::report::Output;

/// Not there yet.
pub fn run(_arguments: &Verify, _output: Output) -> Result<ExitCode> {
    anyhow::bail!("not there yet")
}
