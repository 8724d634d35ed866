//! Engines: where the jobs of a run are carried out. A job is at least once: its result is a file that the first one links to
//! its name, so that an engine may run it again whenever it does not know what became of it.

mod local;
mod slurm;

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};

use super::job::{self, Engine, Job};
use crate::worker::SearchArray;
use local::Local;

/// What `--engine` names: none is this machine, else the options of sbatch.
pub(super) fn named(text: &str) -> Result<Option<&str>> {
    match text.split_once(':').unwrap_or((text, "")) {
        ("local", "") => Ok(None),
        ("slurm", options) => Ok(Some(options)),
        _ => bail!("--engine {text}: an engine is local, or slurm[:OPTIONS OF SBATCH]"),
    }
}

/// The engine of that name.
pub(super) fn of(text: &str, run: &Path, cards: u32) -> Result<Arc<dyn Engine>> {
    Ok(match named(text)? {
        None => Arc::new(Local),
        Some(options) => Arc::new(slurm::Slurm::start(run, options, cards)),
    })
}

/// Carries out one element of an array of jobs, on a node of a cluster.
pub(crate) fn serve(array: &SearchArray) -> Result<()> {
    let index =
        std::env::var("SLURM_ARRAY_TASK_ID").context("this is no element of an array: no SLURM_ARRAY_TASK_ID")?;
    let text = std::fs::read(job::job_file(&array.run, &array.batch))?;
    let keys: Vec<String> = serde_json::from_slice(&text).context("reading the list of an array")?;
    let key = keys.get(index.parse::<usize>()?).with_context(|| format!("the array has no element {index}"))?;
    let file = job::job_file(&array.run, key);
    let job: Job = serde_json::from_slice(&std::fs::read(&file)?).context("reading a job")?;
    job::carry_out::<serde_json::Value>(&Local, &array.run, key, &job).map(drop)
}
