//! The suite on a GPU: parallel builds, then `kernels verify` and `kernels bench` on every project.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command as Process, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use kernels::bench::BenchReport;
use kernels::gpu::Card;
use kernels::verify::{Finding, Kind, VerifyReport};
use serde::{Deserialize, Serialize};

use super::record::{Entry, Honest, Record};
use super::suite::{self, Candidate, Cheat, Command, Legal, Suite};
use super::support::program;

/// The time limit of a candidate.
const LIMIT: Duration = Duration::from_secs(60);

/// A cheat that passes must not be faster than this fraction of its twin's time.
const NO_FASTER: f64 = 0.85;

/// Where the suite runs: on a card, or on the driver of `stand_in`.
#[derive(Default)]
pub struct Place {
    /// Variables that lead to the driver and the compiler.
    pub environment: Vec<(&'static str, PathBuf)>,
    /// Why there is no card, and which candidates can do without.
    pub without: Option<fn(&Candidate) -> bool>,
}

impl Place {
    pub fn command(&self) -> Process {
        let mut process = Process::new(program());
        process.envs(self.environment.iter().map(|(name, value)| (name, value)));
        process
    }

    /// The candidate as it runs here.
    fn of(&self, candidate: Candidate) -> Candidate {
        Candidate { small: self.without.is_some(), ..candidate }
    }

    fn has(&self, candidate: &Candidate) -> bool {
        self.without.is_none_or(|has| has(candidate))
    }
}

/// A candidate and the command to run on it.
type Task = (Command, Candidate);

/// The result of a command.
#[derive(Clone, Deserialize, Serialize)]
struct Outcome {
    /// `None`: no report, for the reason in `said`.
    report: Option<Report>,
    said: String,
    /// Project files that changed, and files that appeared in the home folder.
    changed: Vec<String>,
    seconds: f64,
}

/// The common fields of the two reports, and the times.
#[derive(Clone, Deserialize, Serialize)]
struct Report {
    card: Card,
    findings: Vec<Finding>,
    /// By case: the median in microseconds and the number of samples.
    times: Vec<(f64, u32)>,
}

/// Runs all of it.
pub fn run(suite: &Suite, place: &Place) -> Record {
    let begin = Instant::now();
    let scratch = tempfile::TempDir::with_prefix("kernels-cheats-").unwrap();
    let only = std::env::var("KERNELS_ONLY").unwrap_or_default();
    let here = |name: &str, one: Candidate| name.contains(&only) && place.has(&one);
    let cheats: Vec<&Cheat> = suite.cheat.iter().filter(|cheat| here(&cheat.name, cheat.candidate())).collect();
    let legal: Vec<_> = suite.legal.iter().filter(|legal| here(&legal.name, legal.candidate())).collect();
    let cheat_of = |cheat: &Cheat| (cheat.command, place.of(cheat.candidate()));
    let twin_of = |cheat: &Cheat| (cheat.command, place.of(cheat.twin()));
    let legal_of = |one: &Legal| (one.command, place.of(one.candidate()));

    let mut tasks: Vec<Task> = Vec::new();
    for cheat in &cheats {
        tasks.extend([cheat_of(cheat), twin_of(cheat)]);
    }
    tasks.extend(legal.iter().map(|legal| legal_of(legal)));
    tasks.sort();
    tasks.dedup();

    // Candidates with results from an interrupted run are not run again.
    let log = Log::open(place);
    let mut done = BTreeMap::new();
    tasks.retain(|task| match log.found.get(&Log::key(task)) {
        Some(outcome) => {
            done.insert(task.clone(), outcome.clone());
            false
        }
        None => true,
    });

    let cores = thread::available_parallelism().map_or(1, usize::from);
    let candidates: Vec<Candidate> = tasks.iter().map(|(_, one)| one.clone()).collect();
    // The command that needs a failed build reports it.
    each(cores, candidates, |one| {
        let folder = one.write(scratch.path());
        let _ = finished(place.command().arg("build").arg(&folder));
    });
    let jobs = std::env::var("KERNELS_JOBS").map_or(4, |text| text.parse().unwrap());
    let (checks, timings): (Vec<Task>, Vec<Task>) =
        tasks.into_iter().partition(|(command, _)| *command == Command::Verify);
    let outcomes = Mutex::new(done);
    let stopped: BTreeSet<Task> =
        cheats.iter().filter(|cheat| cheat.caught.contains(&Kind::ChildStopped)).map(|cheat| cheat_of(cheat)).collect();
    // Several candidates hang; the launches here take microseconds. Without a card a busy machine may make any of them wait.
    let patience = |task: &Task| match place.without {
        None => "6",
        Some(_) if stopped.contains(task) => "3",
        Some(_) => "30",
    };
    let perform = |task: Task| {
        let outcome = outcome(&task, scratch.path(), place, patience(&task));
        log.keep(&task, &outcome);
        outcomes.lock().unwrap().insert(task, outcome);
    };
    each(jobs, checks, perform);
    // One at a time: nothing else may run on the GPU.
    each(if place.without.is_some() { jobs } else { 1 }, timings, perform);
    let outcomes = outcomes.into_inner().unwrap();

    let mut honest: BTreeMap<Task, Honest> = BTreeMap::new();
    for cheat in &cheats {
        let task = twin_of(cheat);
        let name = twin_name(&task);
        honest.insert(task.clone(), judge_honest(name, &task, &outcomes[&task]));
    }
    for one in &legal {
        let task = legal_of(one);
        let judged = judge_honest(one.name.clone(), &task, &outcomes[&task]);
        honest.insert(task, judged);
    }
    let entries = cheats.iter().map(|cheat| {
        let twin = twin_of(cheat);
        let outcome = &outcomes[&cheat_of(cheat)];
        let (caught, message) = judge_cheat(cheat, outcome, &outcomes[&twin]);
        Entry {
            name: cheat.name.clone(),
            rows: cheat.rows.clone(),
            command: cheat.command.name().to_owned(),
            caught,
            message,
            twin: honest[&twin].name.clone(),
            seconds: rounded(outcome.seconds),
        }
    });
    Record {
        format: 1,
        suite: suite::digest(),
        harness: suite::harness(),
        cheats: entries.collect(),
        card: outcomes.values().find_map(|outcome| outcome.report.as_ref().map(|report| report.card.clone())),
        honest: honest.into_values().collect(),
        seconds: rounded(begin.elapsed().as_secs_f64()),
    }
}

/// Results as they arrive, one per line in the file `KERNELS_OUTCOMES`: an interrupted run keeps its
/// results, and the next run resumes there.
struct Log {
    path: Option<PathBuf>,
    found: BTreeMap<String, Outcome>,
}

impl Log {
    fn open(place: &Place) -> Self {
        let path = std::env::var_os("KERNELS_OUTCOMES").filter(|_| place.without.is_none()).map(PathBuf::from);
        let text = path.as_ref().and_then(|path| fs::read_to_string(path).ok()).unwrap_or_default();
        let line = |line: &str| serde_json::from_str::<(String, Outcome)>(line).ok();
        Self { path, found: text.lines().filter_map(line).collect() }
    }

    /// The command, the name and a hash of the project: a changed candidate of the same name is run again.
    fn key((command, candidate): &Task) -> String {
        format!("{} {} {} {}", command.name(), candidate.slug(), suite::hash(&candidate.files()), suite::harness())
    }

    fn keep(&self, task: &Task, outcome: &Outcome) {
        let Some(path) = &self.path else { return };
        let line = serde_json::to_string(&(Self::key(task), outcome)).unwrap();
        let file = fs::File::options().create(true).append(true).open(path);
        writeln!(file.unwrap(), "{line}").unwrap();
    }
}

fn twin_name((command, candidate): &Task) -> String {
    format!("{} {}", command.name(), candidate.slug())
}

/// How a cheat was caught, with the text; `None` with what was observed instead.
fn judge_cheat(cheat: &Cheat, outcome: &Outcome, twin: &Outcome) -> (Option<String>, String) {
    let Some(report) = &outcome.report else {
        return (None, outcome.said.clone());
    };
    let expected = |finding: &&Finding| cheat.caught.contains(&finding.kind);
    if let Some(finding) = report.findings.iter().find(expected) {
        return (Some(suite::kind_name(finding.kind)), finding.message.clone());
    }
    if !report.findings.is_empty() || !cheat.harmless {
        return (None, listed(&report.findings));
    }
    if !outcome.changed.is_empty() {
        return (None, format!("changed {}", outcome.changed.join(", ")));
    }
    let Some(twin) = &twin.report else {
        return (None, "passed, and its twin has no report".to_owned());
    };
    let mut compared = "passed, no file changed, no door open".to_owned();
    for (mine, theirs) in report.times.iter().zip(&twin.times) {
        compared = format!("{:.2} µs over {} samples, its twin {:.2} µs over {}", mine.0, mine.1, theirs.0, theirs.1);
        if mine.1 != theirs.1 || mine.0 < NO_FASTER * theirs.0 {
            return (None, compared);
        }
    }
    (Some("harmless".to_owned()), compared)
}

fn judge_honest(name: String, task: &Task, outcome: &Outcome) -> Honest {
    let mut message = match &outcome.report {
        None => outcome.said.clone(),
        Some(report) if report.findings.is_empty() => String::new(),
        Some(report) => listed(&report.findings),
    };
    if !outcome.changed.is_empty() {
        message = format!("changed {}. {message}", outcome.changed.join(", "));
    }
    Honest {
        name,
        command: task.0.name().to_owned(),
        passed: outcome.report.is_some() && message.is_empty(),
        message,
        seconds: rounded(outcome.seconds),
    }
}

fn listed(findings: &[Finding]) -> String {
    let line = |finding: &Finding| format!("{}: {}", suite::kind_name(finding.kind), finding.message);
    match findings {
        [] => "passed".to_owned(),
        [first, ..] => format!("{} findings, first {}", findings.len(), line(first)),
    }
}

/// Runs one command on one project.
fn outcome((command, candidate): &Task, scratch: &Path, place: &Place, patience: &str) -> Outcome {
    let folder = scratch.join(candidate.slug());
    let mut process = place.command();
    process.arg(command.name()).arg(&folder).arg("--json");
    match command {
        // Only the code path of this GPU; the others run the same checks.
        Command::Verify => process.arg("--native-only"),
        Command::Bench => process.args(["--rounds", "10"]),
    };
    if place.without.is_some() && *command == Command::Verify {
        // Of so few rows, not every seed draws two that begin alike.
        process.args(["--seed", "1"]);
    }
    process.env("KERNELS_PATIENCE", patience);
    let begin = Instant::now();
    let ran = finished(&mut process);
    let seconds = begin.elapsed().as_secs_f64();
    let mut changed = candidate.changed(&folder);
    let home = std::env::var_os("HOME").map_or_else(|| PathBuf::from("/root"), PathBuf::from);
    let trace = home.join(".kernels-cheats-was-here");
    if fs::remove_file(&trace).is_ok() {
        changed.push(trace.display().to_string());
    }
    let (report, said) = match ran {
        Err(said) => (None, said),
        Ok((code, out, err)) => match report_of(*command, &out) {
            Ok(report) if i32::from(!report.findings.is_empty()) == code => (Some(report), String::new()),
            Ok(report) => (None, format!("exit code {code} with {} findings", report.findings.len())),
            Err(error) => (None, format!("exit code {code}, no report ({error}): {}", err.trim())),
        },
    };
    Outcome { report, said, changed, seconds }
}

/// The report, which must be the only output on stdout.
fn report_of(command: Command, out: &str) -> serde_json::Result<Report> {
    Ok(match command {
        Command::Verify => {
            let report: VerifyReport = serde_json::from_str(out)?;
            Report { card: report.card, findings: report.findings, times: Vec::new() }
        }
        Command::Bench => {
            let report: BenchReport = serde_json::from_str(out)?;
            let time = |case: &kernels::bench::CaseBench| (case.kernel.median, case.kernel.samples);
            Report { card: report.card, findings: report.findings, times: report.cases.iter().map(time).collect() }
        }
    })
}

/// Exit code, stdout and stderr, or why there is no exit code. Output goes to files, because a process that a
/// candidate leaves behind would keep a pipe open.
fn finished(process: &mut Process) -> Result<(i32, String, String), String> {
    let mut out = tempfile::tempfile().unwrap();
    let mut err = tempfile::tempfile().unwrap();
    let child = process.stdin(Stdio::null()).stdout(out.try_clone().unwrap()).stderr(err.try_clone().unwrap()).spawn();
    let mut child = child.map_err(|e| format!("{}: {e}", program()))?;
    let code = wait(&mut child)?;
    let (out, err) = (text_of(&mut out), text_of(&mut err));
    match code {
        Some(code) => Ok((code, out, err)),
        None => Err(format!("ended by a signal: {}", err.trim())),
    }
}

fn text_of(file: &mut fs::File) -> String {
    let mut bytes = Vec::new();
    file.rewind().unwrap();
    file.read_to_end(&mut bytes).unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn wait(child: &mut Child) -> Result<Option<i32>, String> {
    let begin = Instant::now();
    loop {
        if let Some(status) = child.try_wait().map_err(|e| e.to_string())? {
            return Ok(status.code());
        }
        if begin.elapsed() > LIMIT {
            child.kill().map_err(|e| e.to_string())?;
            child.wait().map_err(|e| e.to_string())?;
            return Err(format!("no end after {} s", LIMIT.as_secs()));
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// Runs a function for each item, with limited parallelism.
fn each<T: Send>(at_once: usize, things: Vec<T>, act: impl Fn(T) + Sync) {
    let queue = Mutex::new(things.into_iter());
    thread::scope(|scope| {
        for _ in 0..at_once.max(1) {
            scope.spawn(|| {
                loop {
                    let next = queue.lock().unwrap().next();
                    let Some(thing) = next else { return };
                    act(thing);
                }
            });
        }
    });
}

fn rounded(seconds: f64) -> f64 {
    (seconds * 100.0).round() / 100.0
}
