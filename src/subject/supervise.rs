//! Runs a command of a stranger's to its end as `kernels __worker`, and then ends everything that it started.
//!
//! The worker is the "subreaper" of what it starts (Linux): a process that leaves its group and its parent becomes the worker's
//! child, and is found there. The command has a wall clock, and limits on processes, files and output. Where the user may make
//! a cgroup, the kernel holds the number of processes; elsewhere they are counted, and stopped before they are ended, since a
//! process that forks faster than it is ended would go on.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, WaitOptions};
use serde::{Deserialize, Serialize};
use walkdir::WalkDir;

use crate::confine::cap::Cap;
use crate::confine::verifier::{Bounds, Cell};
use crate::worker::{Request, Supervised};

/// How often processes are counted.
const LOOK: Duration = Duration::from_millis(50);
/// How often files are counted, which takes longer.
const LOOK_AT_FILES: Duration = Duration::from_millis(250);
/// More processes at once than the build of a task needs.
const MOST_PROCESSES: usize = 512;
/// The limit that the kernel holds. Threads count there, and a process may have one for each core.
const MOST_THREADS: usize = 2_048;
/// More bytes than a build of kernels writes.
const MOST_BYTES: u64 = 8 << 30;
/// What is kept of the output: its end.
const KEPT: usize = 64 * 1024;
/// What is kept of an agent's events: their beginning.
const EVENTS: u64 = 256 << 20;

/// How a command ended.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Ended {
    /// Its exit code; none if it was ended.
    pub(crate) code: Option<i32>,
    /// Why it was ended before its time.
    pub(crate) stopped: Option<String>,
    /// The end of what it printed.
    pub(crate) output: String,
}

/// What to run, confined.
pub(crate) struct Job<'a> {
    pub(crate) program: &'a Path,
    pub(crate) arguments: &'a [PathBuf],
    pub(crate) folder: &'a Path,
    /// The whole environment.
    pub(crate) env: &'a [(String, String)],
    pub(crate) writes: &'a [PathBuf],
    pub(crate) card: bool,
    pub(crate) limit: Duration,
    pub(crate) bounds: Option<Bounds>,
}

/// Runs a command through a worker.
pub(crate) fn run(job: &Job) -> Result<Ended> {
    let request = Request::Supervise(Supervised {
        program: job.program.to_owned(),
        arguments: job.arguments.to_vec(),
        writes: job.writes.to_vec(),
        card: job.card,
        seconds: job.limit.as_secs_f64(),
        hidden: Vec::new(),
        bounds: job.bounds.clone(),
    });
    // What a killed worker leaves becomes this process's, and not another's whom nobody could find it below.
    #[cfg(target_os = "linux")]
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let mut command = request.command()?;
    command.current_dir(job.folder).env_clear().envs(job.env.iter().map(|(name, value)| (name, value)));
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn()?;
    // Held open while the worker is to go on: it ends with this process, however this process ends.
    let _held = child.stdin.take();
    let mut said = Vec::new();
    child.stdout.take().context("the worker has no output")?.read_to_end(&mut said)?;
    let status = child.wait()?;
    let ended = serde_json::from_slice(&said);
    if ended.is_err() {
        end_orphans();
    }
    ended.with_context(|| format!("the process that runs the tests ended with {status}"))
}

/// Ends what a killed worker left. It is told from this process's own children by its confinement, which nothing sheds: it has
/// more filters of system calls than this process.
fn end_orphans() {
    let filters = |pid: &str| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        status.lines().find_map(|line| line.strip_prefix("Seccomp_filters:")?.trim().parse::<u32>().ok())
    };
    let (own, parent) = (filters("self"), i32::try_from(std::process::id()).unwrap_or(0));
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(10) {
        let all = processes()
            .into_iter()
            .filter(|(pid, of, lives)| *lives && *of == parent && filters(&pid.to_string()) > own);
        let left: Vec<i32> = all.map(|(pid, ..)| pid).collect();
        if left.is_empty() {
            break;
        }
        for pid in left {
            signal(pid, Signal::KILL);
            let _ = Pid::from_raw(pid).map(|pid| rustix::process::waitpid(Some(pid), WaitOptions::empty()));
        }
    }
}

/// The worker's side.
pub(crate) fn serve(request: &Supervised) -> Result<()> {
    #[cfg(target_os = "linux")]
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let held = open_until_closed();
    let cap = Cap::enter(MOST_THREADS);
    let mut child = Request::Confine(request.clone())
        .command()?
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot start the tests")?;
    let (send, output) = channel();
    let events = request.bounds.as_ref().and_then(|bounds| Some((child.stdout.take()?, bounds.events.clone())));
    let events = events.map(|(pipe, path)| thread::spawn(move || record(pipe, &path)));
    for pipe in [child.stdout.take().map(boxed), child.stderr.take().map(boxed)].into_iter().flatten() {
        let send = send.clone();
        thread::spawn(move || keep(pipe, &send));
    }
    drop(send);
    let ended = wait(&mut child, request, &held, cap.as_ref());
    end_all(cap.as_ref());
    let _ = child.wait();
    reap(None);
    drop(cap);
    let (code, stopped) = ended?;
    let mut kept = Vec::new();
    // What holds the pipes open has ended.
    while let Ok(part) = output.recv_timeout(Duration::from_secs(2)) {
        push(&mut kept, &part);
    }
    if let Some(events) = events {
        events.join().unwrap_or_else(|_| bail!("a thread panicked")).context("cannot keep the agent's events")?;
    }
    let ended = Ended { code, stopped, output: String::from_utf8_lossy(&kept).into_owned() };
    let mut out = std::io::stdout().lock();
    serde_json::to_writer(&mut out, &ended)?;
    out.flush()?;
    Ok(())
}

/// Becomes the command, confined; returns only if that fails.
pub(crate) fn become_it(request: &Supervised) -> anyhow::Error {
    // Without a limit of time it is part of tests that are run already; with one a worker waits for it, and would end it.
    #[cfg(target_os = "linux")]
    if request.seconds > 0.0 {
        let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    }
    let mut command = Command::new(&request.program);
    command.args(&request.arguments);
    let Supervised { writes, card, hidden, bounds, .. } = request;
    Cell { writes, card: *card, hidden, bounds: bounds.as_ref() }.become_confined(&mut command)
}

fn boxed(pipe: impl Read + Send + 'static) -> Box<dyn Read + Send> {
    Box::new(pipe)
}

/// A channel that closes when the process that asked has gone.
fn open_until_closed() -> Receiver<()> {
    let (send, held) = channel();
    thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        drop(send);
    });
    held
}

/// Sends the end of what a pipe gives, however much that is.
fn keep(mut pipe: Box<dyn Read + Send>, send: &std::sync::mpsc::Sender<Vec<u8>>) {
    let mut kept = Vec::new();
    let mut part = vec![0; 64 * 1024];
    while let Ok(count @ 1..) = pipe.read(&mut part) {
        push(&mut kept, &part[..count]);
    }
    let _ = send.send(kept);
}

/// Writes what a pipe gives to a file, which the command itself cannot write to.
fn record(mut pipe: impl Read, path: &Path) -> Result<()> {
    std::io::copy(&mut pipe.by_ref().take(EVENTS), &mut std::fs::File::create(path)?)?;
    std::io::copy(&mut pipe, &mut std::io::sink())?;
    Ok(())
}

fn push(kept: &mut Vec<u8>, part: &[u8]) {
    kept.extend_from_slice(part);
    let over = kept.len().saturating_sub(KEPT);
    kept.drain(..over);
}

fn wait(
    child: &mut Child,
    request: &Supervised,
    held: &Receiver<()>,
    cap: Option<&Cap>,
) -> Result<(Option<i32>, Option<String>)> {
    let start = Instant::now();
    let limit = Duration::try_from_secs_f64(request.seconds).unwrap_or(Duration::MAX);
    let mut pause = Duration::from_millis(2);
    let (mut looked, mut looked_at_files) = (Instant::now(), Instant::now());
    loop {
        if let Some(status) = child.try_wait()? {
            let stopped = status.code().is_none().then(|| format!("it ended with {status}"));
            return Ok((status.code(), stopped));
        }
        let mut stopped = (start.elapsed() > limit).then(|| format!("it ran past {} s", request.seconds));
        if stopped.is_none() && looked.elapsed() > LOOK {
            stopped = too_many(cap);
            looked = Instant::now();
        }
        if stopped.is_none() && looked_at_files.elapsed() > LOOK_AT_FILES {
            reap(Some(child.id()));
            stopped = too_much(&request.writes);
            looked_at_files = Instant::now();
        }
        if stopped.is_some() {
            return Ok((None, stopped));
        }
        if held.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) {
            bail!("the process that asked for this has gone");
        }
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}

fn too_many(cap: Option<&Cap>) -> Option<String> {
    let many = cap.map_or_else(descendants, Cap::inside).len() > MOST_PROCESSES;
    many.then(|| format!("it had more than {MOST_PROCESSES} processes at once"))
}

fn too_much(writes: &[PathBuf]) -> Option<String> {
    let files = writes.iter().flat_map(|folder| WalkDir::new(folder).into_iter().flatten());
    let bytes: u64 = files.filter_map(|entry| entry.metadata().ok()).map(|meta| meta.len()).sum();
    (bytes > MOST_BYTES).then(|| format!("it wrote more than {} GiB", MOST_BYTES >> 30))
}

/// Ends all that this process started, whoever their parent is by now.
fn end_all(cap: Option<&Cap>) {
    let begun = Instant::now();
    if let Some(cap) = cap {
        cap.close();
    } else {
        // What is stopped starts nothing: when no other is found, none is left that runs.
        let mut stopped = BTreeSet::new();
        while begun.elapsed() < Duration::from_secs(10) {
            let new: Vec<i32> = descendants().into_iter().filter(|pid| stopped.insert(*pid)).collect();
            if new.is_empty() {
                break;
            }
            for pid in new {
                signal(pid, Signal::STOP);
            }
        }
    }
    while begun.elapsed() < Duration::from_secs(20) {
        let left = descendants();
        if left.is_empty() {
            break;
        }
        for pid in left {
            signal(pid, Signal::KILL);
        }
        thread::sleep(Duration::from_millis(2));
    }
}

fn signal(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = rustix::process::kill_process(pid, signal);
    }
}

/// Forgets what has ended and was left to this process, which counts until then; but not the command itself, `but`, whose exit
/// code is still to be read.
fn reap(but: Option<u32>) {
    let own = std::process::id();
    for (pid, parent, lives) in processes() {
        let is_ours = u32::try_from(parent) == Ok(own) && u32::try_from(pid).ok() != but;
        if let Some(pid) = Pid::from_raw(pid).filter(|_| is_ours && !lives) {
            let _ = rustix::process::waitpid(Some(pid), WaitOptions::NOHANG);
        }
    }
}

/// Stops a process of this one's, and ends what is below it.
pub(super) fn stop_and_end_below(pid: u32) {
    signal(i32::try_from(pid).unwrap_or(0), Signal::STOP);
    for pid in below(pid) {
        signal(pid, Signal::KILL);
    }
}

/// The processes below this one that have not ended.
fn descendants() -> Vec<i32> {
    below(std::process::id())
}

fn below(pid: u32) -> Vec<i32> {
    let all = processes();
    let mut below = vec![(i32::try_from(pid).unwrap_or(0), true)];
    let mut at = 0;
    while at < below.len() {
        let parent = below[at].0;
        below.extend(all.iter().filter(|(_, of, _)| *of == parent).map(|(pid, _, lives)| (*pid, *lives)));
        at += 1;
    }
    below.into_iter().skip(1).filter(|(_, lives)| *lives).map(|(pid, _)| pid).collect()
}

/// All processes: their number, their parent's, and whether they have not ended.
fn processes() -> Vec<(i32, i32, bool)> {
    let process = |entry: std::fs::DirEntry| {
        let pid = entry.file_name().to_string_lossy().parse::<i32>().ok()?;
        let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
        // The name, between parentheses, may hold anything.
        let mut fields = stat.rsplit(')').next()?.split_whitespace();
        let (state, parent) = (fields.next()?, fields.next()?.parse::<i32>().ok()?);
        Some((pid, parent, state != "Z" && state != "X"))
    };
    std::fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(process).collect()
}
