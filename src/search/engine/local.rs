//! This machine: each job in a child process of its own, which is ended after its patience.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use crate::base;
use crate::gpu;
use crate::search::job::{Death, Engine, Job, scrubbed, wait};
use crate::search::machine::Machine;
use crate::worker::{Request, SearchJob};

#[derive(Debug)]
pub(super) struct Local;

impl Engine for Local {
    fn carry_out(&self, run: &Path, key: &str, job: &Job) -> Result<Option<Death>> {
        let request = Request::Search(SearchJob { run: run.to_owned(), key: key.to_owned() });
        let mut command = request.command()?;
        wait(scrubbed(&mut command), Duration::from_secs(job.patience.into()))
    }

    fn places(&self) -> (usize, usize) {
        // A compilation runs several compilers by itself.
        ((base::cores() / 2).max(1), gpu::probe().map_or(0, |cards| cards.len()))
    }

    fn ordinal(&self, place: usize) -> usize {
        place
    }

    fn machine(&self, _run: &Path) -> Result<Machine> {
        Ok(Machine::here())
    }
}
