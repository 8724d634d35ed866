//! A Slurm cluster: jobs that are asked for at about the same time become one array. What a job found is its result's file and
//! nothing else. What `squeue` does not say, because it fails, hangs or knows nothing of a job, is unknown: the job is waited
//! for. Only where Slurm says that an element has ended, and it left no result, or where nothing was heard of it for longer
//! than it may run, it is submitted again.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

use crate::base::disk;
use crate::search::job::{self, Death, Done, Engine, Job, Work, scrubbed};
use crate::search::machine::Machine;
use crate::worker::{Request, SearchArray};

/// How long requests are gathered into one array, and how often Slurm is asked.
const GATHER: Duration = Duration::from_millis(200);
const ASK: Duration = Duration::from_secs(1);
/// A controller that is away blocks its clients.
const ANSWER: Duration = Duration::from_secs(15);
/// How long submitting may fail.
const AWAY: Duration = Duration::from_secs(600);
/// A shared file system may show a result this much later than Slurm its end.
const GRACE: Duration = Duration::from_secs(10);
/// How often a job is submitted.
const TRIES: u32 = 3;

#[derive(Debug)]
pub(super) struct Slurm(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    run: PathBuf,
    options: Vec<String>,
    cards: u32,
    desk: Mutex<Desk>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Desk {
    /// What somebody waits for.
    jobs: BTreeMap<String, Entry>,
    /// Why nothing can be submitted.
    failed: Option<String>,
    /// Since when submitting fails.
    away: Option<Instant>,
}

#[derive(Debug)]
struct Entry {
    card: bool,
    patience: u32,
    /// Its element, `123_4`, while it is submitted.
    element: Option<String>,
    tries: u32,
    asked: Instant,
    /// When Slurm last said that it waits or runs.
    heard: Instant,
    /// When Slurm first said that it has ended, and how.
    ended: Option<(Instant, String)>,
    death: Option<Death>,
}

impl Engine for Slurm {
    fn carry_out(&self, run: &Path, key: &str, job: &Job) -> Result<Option<Death>> {
        // An earlier process may have submitted it.
        let element = fs::read_to_string(element_file(run, key)).ok();
        let now = Instant::now();
        let entry = Entry {
            card: job.work.needs_card(),
            patience: job.patience,
            tries: u32::from(element.is_some()),
            element,
            asked: now,
            heard: now,
            ended: None,
            death: None,
        };
        let mut desk = self.0.desk();
        desk.jobs.insert(key.to_owned(), entry);
        loop {
            if job::result_file(run, key).exists() {
                desk.jobs.remove(key);
                return Ok(None);
            }
            if let Some(death) = desk.jobs.get_mut(key).and_then(|entry| entry.death.take()) {
                desk.jobs.remove(key);
                return Ok(Some(death));
            }
            if let Some(why) = desk.failed.clone() {
                desk.jobs.remove(key);
                bail!("{why}");
            }
            let waited = self.0.changed.wait_timeout(desk, GATHER / 2);
            desk = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn places(&self) -> (usize, usize) {
        let cards = self.0.cards as usize;
        (2 * cards, cards)
    }

    /// Slurm shows a job its own card alone.
    fn ordinal(&self, _place: usize) -> usize {
        0
    }

    fn machine(&self, run: &Path) -> Result<Machine> {
        let job = Job { work: Work::Machine, tree: String::new(), arch: 0, compiler: None, patience: 600 };
        let done: Done<Machine> = job::carry_out(self, run, "machine", &job)?;
        let died = || done.died.map_or_else(String::new, |death| death.text);
        done.result.with_context(|| format!("no node says what card it has: {}", died()))
    }
}

impl Slurm {
    pub(super) fn start(run: &Path, options: &str, cards: u32) -> Self {
        let options = options.split_whitespace().map(str::to_owned).collect();
        let shared = Arc::new(Shared {
            run: run.to_owned(),
            options,
            cards: cards.max(1),
            desk: Mutex::default(),
            changed: Condvar::new(),
        });
        let weak = Arc::downgrade(&shared);
        thread::spawn(move || tend(&weak));
        Self(shared)
    }
}

impl Drop for Slurm {
    /// What nobody waits for any more, because the run failed, is not to run.
    fn drop(&mut self) {
        let desk = self.0.desk();
        let open: Vec<String> = desk.jobs.values().filter_map(|entry| entry.element.clone()).collect();
        if !open.is_empty() {
            let _ = said(Command::new("scancel").args(open), ANSWER);
        }
    }
}

/// Submits and asks, as long as the engine lives.
fn tend(shared: &Weak<Shared>) {
    let mut last = Instant::now();
    loop {
        thread::sleep(GATHER / 2);
        let Some(shared) = shared.upgrade() else { return };
        shared.submit_all();
        if last.elapsed() >= ASK {
            shared.ask_all();
            last = Instant::now();
        }
        shared.changed.notify_all();
    }
}

impl Shared {
    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Submits what waits, one array for those that need a card and one for the others.
    fn submit_all(&self) {
        let mut groups: BTreeMap<(bool, u32), Vec<String>> = BTreeMap::new();
        {
            let desk = self.desk();
            let open = |(_, entry): &(&String, &Entry)| {
                entry.element.is_none() && entry.death.is_none() && entry.asked.elapsed() >= GATHER
            };
            for (key, entry) in desk.jobs.iter().filter(open) {
                groups.entry((entry.card, entry.patience)).or_default().push(key.clone());
            }
        }
        for ((card, patience), keys) in groups {
            let submitted = self.submit(card, patience, &keys);
            let mut desk = self.desk();
            match submitted {
                Ok(array) => {
                    desk.away = None;
                    for (index, key) in keys.iter().enumerate() {
                        let element = format!("{array}_{index}");
                        // Without it, a later process would submit the job once more.
                        let _ = disk::write_atomic(&element_file(&self.run, key), element.as_bytes(), 0o666);
                        if let Some(entry) = desk.jobs.get_mut(key) {
                            (entry.element, entry.ended, entry.heard) = (Some(element), None, Instant::now());
                            entry.tries += 1;
                        }
                    }
                }
                Err(why) => {
                    let since = *desk.away.get_or_insert_with(Instant::now);
                    // Options that sbatch refuses are no controller that is away.
                    if since.elapsed() > AWAY || is_refusal(&format!("{why:#}")) {
                        desk.failed = Some(format!("--engine slurm: {why:#}"));
                    } else {
                        let later = Instant::now() + ASK;
                        desk.jobs.values_mut().filter(|one| one.element.is_none()).for_each(|one| one.asked = later);
                    }
                }
            }
        }
    }

    fn submit(&self, card: bool, patience: u32, keys: &[String]) -> Result<String> {
        let batch = format!("batch-{}", disk::unique());
        disk::write_atomic(&job::job_file(&self.run, &batch), &serde_json::to_vec(keys)?, 0o666)?;
        let (program, arguments) = Request::SearchArray(SearchArray { run: self.run.clone(), batch }).arguments()?;
        let words = [program.to_string_lossy().into_owned()].into_iter().chain(arguments);
        let line: Vec<String> = words.map(|word| format!("'{}'", word.replace('\'', r"'\''"))).collect();
        let mut command = Command::new("sbatch");
        command.args(["--parsable", "--requeue", "--job-name=kernels-search"]);
        command.arg(format!("--array=0-{}%{}", keys.len() - 1, if card { self.cards } else { 2 * self.cards }));
        command.arg(format!("--time={}", patience / 60 + 3));
        command.arg(format!("--output={}", self.run.join("jobs").join("%A_%a.log").display()));
        command.args(card.then_some("--gres=gpu:1")).args(&self.options);
        command.arg(format!("--wrap=exec {}", line.join(" ")));
        let answer = said(&mut command, ANSWER)?;
        // With several clusters it is `123;name`.
        let array = answer.trim().split(';').next().unwrap_or_default();
        ensure!(array.parse::<u64>().is_ok(), "sbatch answers `{}`", answer.trim());
        Ok(array.to_owned())
    }

    /// Asks what has become of all elements.
    fn ask_all(&self) {
        let elements: Vec<String> = self.desk().jobs.values().filter_map(|entry| entry.element.clone()).collect();
        if elements.is_empty() {
            return;
        }
        // A failure says nothing of any job.
        let states = asked(&elements).unwrap_or_default();
        for (id, state) in states.values() {
            if state == "PENDING BeginTime" {
                // Requeued after its node was lost, it would be held for two minutes.
                let _ =
                    said(Command::new("scontrol").args(["update", &format!("JobId={id}"), "StartTime=now"]), ANSWER);
            }
        }
        let mut desk = self.desk();
        for entry in desk.jobs.values_mut().filter(|entry| entry.element.is_some()) {
            let now = Instant::now();
            let state = entry.element.as_ref().and_then(|element| states.get(element)).map(|(_, state)| state.as_str());
            match state {
                Some(state) if has_ended(state) => {
                    let since = entry.ended.get_or_insert_with(|| (now, state.to_owned())).0;
                    if since.elapsed() > GRACE {
                        entry.again(&format!("Slurm says {state}, and there is no result"), state);
                    }
                }
                Some(_) => (entry.heard, entry.ended) = (now, None),
                None => {
                    let silent = Duration::from_secs(2 * u64::from(entry.patience)) + AWAY;
                    if entry.heard.elapsed() > silent {
                        entry.again("nothing was heard of it", "unknown");
                    }
                }
            }
        }
    }
}

impl Entry {
    /// To be submitted again, or given up.
    fn again(&mut self, why: &str, state: &str) {
        let element = self.element.take().unwrap_or_default();
        if self.tries >= TRIES || state.starts_with("TIMEOUT") {
            let kind = if state.starts_with("TIMEOUT") { "timed-out" } else { "lost" };
            let text = format!("{why}; submitted {} times, and jobs/{element}.log has what it said", self.tries);
            self.death = Some(Death { kind: kind.to_owned(), text });
        }
    }
}

/// The state of each element, with the number by which it is changed. Those of which nothing is said are not there.
fn asked(elements: &[String]) -> Result<BTreeMap<String, (String, String)>> {
    let mut arrays: Vec<&str> = elements.iter().filter_map(|element| element.split('_').next()).collect();
    arrays.dedup();
    let format = "%A|%F|%K|%T|%r";
    let text =
        said(Command::new("squeue").args(["-h", "-r", "-t", "all", "-j", &arrays.join(","), "-o", format]), ANSWER)?;
    let row = |line: &str| {
        let mut parts = line.split('|');
        let (id, array, index) = (parts.next()?, parts.next()?, parts.next()?);
        let (state, reason) = (parts.next()?, parts.next()?);
        let state = if state == "PENDING" { format!("{state} {reason}") } else { state.to_owned() };
        Some((format!("{array}_{index}"), (id.to_owned(), state)))
    };
    Ok(text.lines().filter_map(row).collect())
}

fn has_ended(state: &str) -> bool {
    const ENDS: [&str; 8] =
        ["COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL", "DEADLINE"];
    ENDS.contains(&state)
}

/// Whether sbatch refused what it was asked, and did not only fail to reach its controller.
fn is_refusal(why: &str) -> bool {
    ["invalid", "Invalid", "unrecognized option", "cannot start", "Access/permission denied"]
        .iter()
        .any(|word| why.contains(word))
}

fn element_file(run: &Path, key: &str) -> PathBuf {
    run.join("jobs").join(format!("{key}.slurm"))
}

/// What a command of Slurm prints, if it ends well within a time. It gets no variable that holds a key: what sbatch has in its
/// environment goes to the nodes.
fn said(command: &mut Command, limit: Duration) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    scrubbed(command);
    command.envs(std::env::var_os("SLURM_CONF").map(|path| ("SLURM_CONF", path)));
    let (out, err) = (tempfile::NamedTempFile::new()?, tempfile::NamedTempFile::new()?);
    command.stdin(Stdio::null()).stdout(out.reopen()?).stderr(err.reopen()?);
    let mut child = command.spawn().with_context(|| format!("cannot start {name}: is Slurm installed here?"))?;
    let status = job::ended(&mut child, limit)?;
    let status = status.with_context(|| format!("{name} gave no answer in {} s", limit.as_secs()))?;
    let text = String::from_utf8_lossy(&fs::read(out.path())?).into_owned();
    ensure!(status.success(), "{name} failed ({status}): {}", String::from_utf8_lossy(&fs::read(err.path())?).trim());
    Ok(text)
}
