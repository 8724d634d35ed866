//! Jobs: the parts of an evaluation, each in a child process of its own, `kernels __worker`, so that a candidate that
//! crashes or hangs costs itself alone. An engine has them carried out, here or on another machine.
//!
//! A job is a file `jobs/KEY.json` of the run's folder and its result a file `results/KEY.json`, made beside it and linked
//! to its name: the first one wins, however often a job is run. The key names what is evaluated by its content. What has a
//! result is never carried out again, in this process or a later one.

use std::fs;
use std::io::{self, Read};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process_group};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;

use super::event::Caught;
use super::machine::Machine;
use crate::base::disk;
use crate::base::text::for_shell;

/// What a child process does.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Work {
    /// `check` and `compile`.
    Compile,
    /// `verify` and `bench`, on the card of this number.
    Judge { ordinal: usize },
    /// `bench` beside other implementations; `profiled`: Nsight Compute looks at a launch as well.
    Confirm {
        ordinal: usize,
        against: Vec<String>,
        #[serde(default)]
        profiled: bool,
    },
    /// Says what the machine has.
    Machine,
}

impl Work {
    pub(super) fn needs_card(&self) -> bool {
        !matches!(self, Self::Compile)
    }
}

/// A job as its file has it.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Job {
    pub(crate) work: Work,
    /// The blob of the sources.
    pub(crate) tree: String,
    pub(crate) arch: u32,
    /// The version of the compiler that the run began with; none where there was none.
    #[serde(default)]
    pub(crate) compiler: Option<String>,
    /// Seconds after which it is ended.
    pub(crate) patience: u32,
}

/// A result as its file has it.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Done<T> {
    /// What was found; none where the process ended without saying.
    pub(crate) result: Option<T>,
    /// How the process ended, where it did not say.
    #[serde(default)]
    pub(crate) died: Option<Death>,
    /// Seconds since 1970.
    pub(crate) started: f64,
    pub(crate) ended: f64,
}

/// How a process ended that said nothing.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Death {
    /// `timed-out` or `crashed`; `failed`, which says why; `killed` by somebody else, for want of memory say; `lost` without a word.
    pub(crate) kind: String,
    pub(crate) text: String,
}

impl Death {
    /// Whether a candidate may have caused it by itself. Everything else is an error of this program's or of the machine's.
    fn is_of_a_candidate(&self) -> bool {
        matches!(self.kind.as_str(), "timed-out" | "crashed")
    }
}

/// A job that no candidate made fail, so that it has no result.
#[derive(Debug, Error)]
#[error(
    "the job {key} ended without a result ({}): {}\nThis is no finding about a candidate. Mend its cause; `kernels search resume {}` \
     goes on",
    .died.kind, .died.text.trim_start_matches("error: "), for_shell(.run)
)]
struct Failed {
    run: PathBuf,
    key: String,
    died: Death,
}

impl<T> Done<T> {
    /// A result that has just been found.
    pub(super) fn now(result: T, started: f64) -> Self {
        Self { result: Some(result), died: None, started, ended: now() }
    }

    /// How a process that said nothing ended. What it printed may be the candidate's own words.
    pub(super) fn death(&self) -> Caught {
        let (kind, text) = self.died.as_ref().map_or(("crashed", ""), |died| (died.kind.as_str(), died.text.as_str()));
        Caught { kind: kind.to_owned(), text: text.to_owned(), public: false }
    }

    pub(crate) fn seconds(&self) -> f64 {
        self.ended - self.started
    }
}

/// Seconds since 1970.
pub(crate) fn now() -> f64 {
    let since = std::time::SystemTime::now().duration_since(std::time::SystemTime::UNIX_EPOCH);
    since.map_or(0.0, |since| since.as_secs_f64())
}

/// The result of a job that was carried out before.
pub(crate) fn known<T: DeserializeOwned>(run: &Path, key: &str) -> Option<Done<T>> {
    serde_json::from_slice(&fs::read(result_file(run, key)).ok()?).ok()
}

/// Publishes a result, unless there is one: the first wins.
pub(crate) fn publish(run: &Path, key: &str, done: &impl Serialize) -> Result<()> {
    let file = result_file(run, key);
    let staged = file.with_file_name(format!(".{key}.{}", disk::unique()));
    disk::write_atomic(&staged, &serde_json::to_vec(done)?, 0o666)
        .with_context(|| format!("cannot write {}", staged.display()))?;
    let linked = fs::hard_link(&staged, &file);
    let _ = fs::remove_file(&staged);
    match linked {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        linked => linked.with_context(|| format!("cannot write {}", file.display())),
    }
}

/// Carries out jobs whose files are written.
pub(super) trait Engine: std::fmt::Debug + Send + Sync {
    /// Returns when the job has a result, or how it ended without one.
    fn carry_out(&self, run: &Path, key: &str, job: &Job) -> Result<Option<Death>>;

    /// How many compilations and how many cards it uses at once, where the run's card is known.
    fn places(&self) -> (usize, usize);

    /// The number by which a job knows the card of a place.
    fn ordinal(&self, place: usize) -> usize;

    /// The machine on which jobs run.
    fn machine(&self, run: &Path) -> Result<Machine>;
}

/// Has a job carried out, or takes its result if there is one.
pub(super) fn carry_out<T: DeserializeOwned + Serialize>(
    engine: &dyn Engine,
    run: &Path,
    key: &str,
    job: &Job,
) -> Result<Done<T>> {
    if let Some(done) = known(run, key) {
        return Ok(done);
    }
    let file = job_file(run, key);
    disk::write_atomic(&file, &serde_json::to_vec(job)?, 0o666)
        .with_context(|| format!("cannot write {}", file.display()))?;
    let started = now();
    let death = engine.carry_out(run, key, job)?;
    if known::<T>(run, key).is_none() {
        let died = death.unwrap_or_else(|| Death { kind: "lost".to_owned(), text: "it left no result".to_owned() });
        if !died.is_of_a_candidate() {
            return Err(Failed { run: run.to_owned(), key: key.to_owned(), died }.into());
        }
        publish(run, key, &Done::<T> { result: None, died: Some(died), started, ended: now() })?;
    }
    known(run, key).with_context(|| format!("cannot read {}", result_file(run, key).display()))
}

/// As [`carry_out`], for a candidate. A candidate can make a worker fail as only the machine should, by more memory of the device than
/// there is, say; then no run with it could go on. So the project as it was, whose blob is `start`, goes through the same:
/// where that has a result, and the candidate's job fails again, the candidate is the cause.
pub(super) fn carry_out_candidate<T: DeserializeOwned + Serialize>(
    engine: &dyn Engine,
    run: &Path,
    key: &str,
    job: &Job,
    start: &str,
) -> Result<Done<T>> {
    let begun = now();
    let failed = match carry_out(engine, run, key, job) {
        Err(error) if error.is::<Failed>() && job.tree != start => error,
        other => return other,
    };
    let work = match &job.work {
        Work::Confirm { ordinal, .. } => Work::Judge { ordinal: *ordinal },
        work => work.clone(),
    };
    let control = Job { work, tree: start.to_owned(), ..job.clone() };
    let control = carry_out::<Value>(engine, run, &format!("control-{}", disk::unique()), &control);
    if !control.is_ok_and(|done| done.result.is_some()) {
        return Err(failed);
    }
    match carry_out(engine, run, key, job).map_err(anyhow::Error::downcast::<Failed>) {
        Err(Ok(Failed { died, .. })) => {
            publish(run, key, &Done::<T> { result: None, died: Some(died), started: begun, ended: now() })?;
            known(run, key).with_context(|| format!("cannot read {}", result_file(run, key).display()))
        }
        Err(Err(error)) => Err(error),
        Ok(done) => Ok(done),
    }
}

/// The folders that jobs use.
pub(crate) fn make_folders(run: &Path) -> Result<()> {
    for folder in ["jobs", "results"] {
        let folder = run.join(folder);
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    Ok(())
}

/// Removes what a run makes before its first event.
pub(crate) fn remove_all(run: &Path) {
    for name in ["task", "jobs", "results", "blobs", "events.jsonl", "lock"] {
        let _ = disk::delete(&run.join(name));
    }
}

pub(crate) fn job_file(run: &Path, key: &str) -> PathBuf {
    run.join("jobs").join(format!("{key}.json"))
}

pub(super) fn result_file(run: &Path, key: &str) -> PathBuf {
    run.join("results").join(format!("{key}.json"))
}

/// Variables that a child process needs to find compilers, drivers and Python. Others, keys of models among them, do not
/// reach a process that runs a candidate's code.
const PASSED: [&str; 14] = [
    "PATH",
    "HOME",
    "USER",
    "TMPDIR",
    "LANG",
    "TZ",
    "LD_LIBRARY_PATH",
    "VIRTUAL_ENV",
    "PYTHONPATH",
    "XDG_CACHE_HOME",
    "NVCC_CCBIN",
    "NVCC",
    "CXX",
    "SSL_CERT_FILE",
];
const PREFIXES: [&str; 4] = ["KERNELS_", "CUDA_", "NVIDIA_", "TRITON_"];
const SECRET: [&str; 5] = ["KEY", "TOKEN", "SECRET", "PASS", "CREDENTIAL"];

/// Leaves a command these variables of the environment.
pub(crate) fn scrubbed(command: &mut Command) -> &mut Command {
    let passes = |name: &str| {
        let known = PASSED.contains(&name) || PREFIXES.iter().any(|start| name.starts_with(start));
        known && !SECRET.iter().any(|word| name.contains(word))
    };
    let kept: Vec<_> = std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(passes)).collect();
    command.env_clear().envs(kept)
}

/// Signals that a process does not get for what it does, and no limit of ours sends.
const OF_OTHERS: [Signal; 4] = [Signal::HUP, Signal::INT, Signal::KILL, Signal::TERM];

/// Runs a command in a process group of its own to its end, or ends the whole group after a time. None where it ended with
/// exit code 0.
pub(super) fn wait(command: &mut Command, patience: Duration) -> Result<Option<Death>> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).process_group(0);
    let mut child = command.spawn().context("cannot start a child process of this program")?;
    let said = said(child.stderr.take(), 1 << 16);
    let status = ended(&mut child, patience)?;
    let said = said.join().unwrap_or_default();
    let said = said.trim().chars().rev().take(2000).collect::<Vec<_>>().into_iter().rev().collect::<String>();
    let death = |kind: &str, text: String| Some(Death { kind: kind.to_owned(), text });
    Ok(match status {
        None => death("timed-out", format!("not done after {} s; it was ended", patience.as_secs())),
        Some(status) if status.success() => None,
        Some(status) => match status.signal() {
            Some(signal) if OF_OTHERS.iter().any(|other| other.as_raw() == signal) => {
                death("killed", format!("{status}, by the system for want of memory or by somebody: {said}"))
            }
            Some(_) => death("crashed", format!("{status}: {said}")),
            None => death("failed", said),
        },
    })
}

/// The first bytes of what a process writes to a pipe, as text.
pub(super) fn said(pipe: Option<impl Read + Send + 'static>, most: u64) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            let _ = pipe.by_ref().take(most).read_to_end(&mut bytes);
            // What nobody reads would block the process.
            let _ = io::copy(&mut pipe, &mut io::sink());
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Waits for the first process of a group, and ends the whole group: what it started may outlive it, and hold its pipes. None
/// where it was not done after this time.
pub(super) fn ended(child: &mut Child, patience: Duration) -> Result<Option<ExitStatus>> {
    let start = Instant::now();
    let mut pause = Duration::from_millis(2);
    let status = loop {
        match child.try_wait()? {
            None if start.elapsed() <= patience => thread::sleep(pause),
            status => break status,
        }
        pause = (pause * 2).min(Duration::from_millis(50));
    };
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(group, Signal::KILL);
    }
    // It may not be the first of a group of its own.
    let _ = child.kill();
    let _ = child.wait();
    Ok(status)
}
