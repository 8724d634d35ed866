//! `kernels toolchain`.

use std::process::ExitCode;

use anyhow::Result;

use crate::cli::project::Toolchain;
use crate::report::Output;

/// Not there yet.
pub fn run(_arguments: &Toolchain, _output: Output) -> Result<ExitCode> {
    anyhow::bail!("not there yet")
}
