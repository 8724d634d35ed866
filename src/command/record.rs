//! `kernels __record`: the child in which a candidate's host code runs.

use std::process::ExitCode;

use anyhow::Result;

/// Not there yet.
pub fn run() -> Result<ExitCode> {
    anyhow::bail!("not there yet")
}
