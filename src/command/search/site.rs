//! `kernels search site`.

use std::process::ExitCode;

use anyhow::Result;
use serde_json::json;

use super::state;
use crate::cli::search::Site;
use crate::report::{Output, file};
use crate::search::site;

pub(super) fn run(arguments: &Site, output: Output) -> Result<ExitCode> {
    let run = &arguments.of.run;
    let state = state(run)?;
    let page = site::page(&state, run)?;
    file::write(&arguments.out, page.as_bytes())?;
    output.line(format!("{} ({} kB)", arguments.out.display(), page.len().div_ceil(1000)));
    output.json(&json!({ "file": arguments.out, "bytes": page.len(), "candidates": state.candidates.len() }));
    Ok(ExitCode::SUCCESS)
}
