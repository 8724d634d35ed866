//! What a child process does for a tuning: verifies, or times, some cases of a project. A kernel that faults loses its
//! process, and no other candidate's.

use std::io::Read as _;
use std::path::Path;
use std::process::{Child, Stdio};

use anyhow::{Context as _, Result, bail};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::rows::{self, Seen};
use crate::gpu;
use crate::project::{CaseSet, Inputs, Operation, Project};
use crate::session::Session;
use crate::verify::Choice;
use crate::worker::{Request, TuneCase, TuneJob};

/// Carries a job out, and returns its report.
pub(crate) fn serve(job: &TuneJob) -> Result<Value> {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    let cards = gpu::probe().map_err(anyhow::Error::msg)?;
    let card = cards.into_iter().nth(job.ordinal).context("the card is gone")?;
    let mut session = Session::open(Project::open(&job.project)?, &card, false, &|_| {})?;
    session.project.spec.operations.retain_mut(|operation| restrict(operation, &job.cases));
    let choice = Choice { ordinal: job.ordinal, native_only: true, ..Choice::default() };
    Ok(match job.rounds {
        None => serde_json::to_value(session.verify(&choice, &|_| {})?)?,
        Some(rounds) => serde_json::to_value(session.bench(&choice, rounds, &|_| {})?)?,
    })
}

fn set(case: &TuneCase) -> CaseSet {
    let inputs = Inputs::from_name(&case.inputs).into_iter().collect();
    CaseSet { offsets: case.offsets.clone(), inputs, ..rows::set(case.dtype, &case.values) }
}

/// Leaves an operation these cases; whether there are any.
fn restrict(operation: &mut Operation, cases: &[TuneCase]) -> bool {
    let own: Vec<&TuneCase> = cases.iter().filter(|case| case.operation == operation.name).collect();
    operation.verify = own.iter().map(|case| set(case)).collect();
    operation.bench = own.iter().filter(|case| case.timed).map(|case| set(case)).collect();
    operation.reject = Vec::new();
    !own.is_empty()
}

/// A case as a job has it.
pub(super) fn case(seen: &Seen, timed: bool) -> TuneCase {
    TuneCase {
        operation: seen.operation.clone(),
        dtype: seen.case.dtype,
        values: seen.case.values.clone(),
        offsets: seen.case.offsets.clone(),
        inputs: seen.case.inputs.name().to_owned(),
        timed,
    }
}

/// A child process that is ended with its owner.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The report of a job, by a process of its own.
pub(super) fn carry_out<T: DeserializeOwned>(
    project: &Path,
    ordinal: usize,
    cases: &[TuneCase],
    rounds: Option<u32>,
) -> Result<T> {
    let job = TuneJob { project: project.to_owned(), ordinal, cases: cases.to_vec(), rounds };
    let mut command = Request::Tune(job).command()?;
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = Running(command.spawn().context("cannot start a child process of this program")?);
    let stderr = child.0.stderr.take();
    let said = std::thread::spawn(move || {
        let mut text = Vec::new();
        stderr.map(|mut pipe| pipe.read_to_end(&mut text));
        String::from_utf8_lossy(&text).trim().chars().take(2000).collect::<String>()
    });
    let mut text = String::new();
    if let Some(mut out) = child.0.stdout.take() {
        out.read_to_string(&mut text)?;
    }
    let status = child.0.wait()?;
    let said = said.join().unwrap_or_default();
    match serde_json::from_str(&text) {
        Ok(report) if status.success() => Ok(report),
        _ if said.is_empty() => bail!("its process gave no report ({status})"),
        _ => bail!("{}", said.trim_start_matches("error: ")),
    }
}
