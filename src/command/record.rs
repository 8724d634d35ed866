//! `kernels __record`: the child in which a candidate's host code runs.

use std::process::ExitCode;

use anyhow::Result;

use crate::gpu::child;

/// Serves the parent until it hangs up.
pub fn run() -> Result<ExitCode> {
    child::serve()?;
    Ok(ExitCode::SUCCESS)
}
