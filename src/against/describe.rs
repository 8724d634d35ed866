//! The confined Python process that describes torch modules.

use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::Value;
use tempfile::TempDir;

use super::Interpreter;
use super::program::Driver;

/// The process, which runs strangers' modules: without network, writing to a folder of its own alone.
#[derive(Debug)]
pub(crate) struct Describer {
    driver: Driver,
    _scratch: TempDir,
}

impl Describer {
    pub(crate) fn start(python: &Interpreter) -> Result<Self> {
        let scratch = TempDir::with_prefix("kernels-import-").context("cannot make a folder for temporary files")?;
        let driver = Driver::confined(python, "describe.py", scratch.path())?;
        Ok(Self { driver, _scratch: scratch })
    }

    /// The line that answers a request.
    pub(crate) fn ask(&mut self, request: &Value, patience: Duration) -> Result<String> {
        self.driver.ask(request);
        self.driver.line(Some(patience))
    }
}
