//! What a child process does for a search: compiles a candidate, judges it on a card, or times it beside others. It
//! reads the run's folder and writes one result into it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Error, Result, bail, ensure};
use rustix::process::{Resource, Rlimit};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::event::{Attempt, Caught, Stage, Summary};
use super::facts::Facts;
use super::job::{self, Done, Job, Work};
use super::machine::Machine;
use super::profile;
use super::sources::Sources;
use super::task;
use crate::against::{self, Interpreter, Peer};
use crate::base::scratch::Scratch;
use crate::bench::{BenchReport, CaseBench, Residency};
use crate::check::{self, Severity};
use crate::compile;
use crate::gpu::{self, Card};
use crate::journal::Journal;
use crate::project::Project;
use crate::session::{ROUNDS, Session};
use crate::toolchain::{HostCompiler, Toolchain};
use crate::verify::{Choice, Finding};
use crate::worker::SearchJob;

/// Rounds of the first timing: enough to tell a candidate that is worth a confirmation.
const SCREEN: u32 = 10;
/// Address space and file size of a compiler, in bytes.
const SPACE: u64 = 24 << 30;
const OUTPUT: u64 = 1 << 30;

/// What compiling a candidate gave.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Built {
    pub(crate) attempts: Vec<Attempt>,
    pub(crate) code: Option<String>,
    pub(crate) device: Option<String>,
    pub(crate) facts: Option<Facts>,
}

/// What a card said of it.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Verdict {
    pub(crate) attempts: Vec<Attempt>,
    pub(crate) summary: Option<Summary>,
    pub(crate) verified: Option<Value>,
    pub(crate) timed: Option<Value>,
    pub(crate) card: String,
    /// Of a confirmation, the comparison with other implementations.
    #[serde(default)]
    pub(crate) beside: Option<Beside>,
    /// Of a confirmation, what Nsight Compute measured, or why it was not run.
    #[serde(default)]
    pub(crate) profile: Option<Result<BTreeMap<String, f64>, String>>,
}

/// How a candidate compares with the best of other implementations.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Beside {
    pub(crate) speedup: Option<f64>,
    pub(crate) why: Option<String>,
    pub(crate) best: BTreeMap<String, u32>,
    /// Peers that were asked for and not timed in every case, or wrong in one, or of another function.
    #[serde(default)]
    pub(crate) missing: BTreeSet<String>,
}

/// Carries out a job and publishes its result.
pub(crate) fn serve(asked: &SearchJob) -> Result<()> {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    let (run, key) = (&asked.run, &asked.key);
    let file = job::job_file(run, key);
    let text = fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let job: Job = serde_json::from_slice(&text).with_context(|| format!("cannot read {}", file.display()))?;
    let started = job::now();
    let candidate = || -> Result<(Sources, (Scratch, PathBuf))> {
        let sources: Sources = serde_json::from_slice(&Journal::get(run, &job.tree)?)?;
        let copy = task::materialise(&run.join(task::FOLDER), &sources)?;
        Ok((sources, copy))
    };
    match &job.work {
        Work::Machine => job::publish(run, key, &Done::now(Machine::here(), started)),
        Work::Compile => {
            let (sources, (_copy, project)) = candidate()?;
            limit(job.patience);
            job::publish(run, key, &Done::now(built(run, &project, &sources, &job)?, started))
        }
        Work::Judge { ordinal } => {
            let (_, (_copy, project)) = candidate()?;
            job::publish(run, key, &Done::now(judged(&project, *ordinal, &job)?, started))
        }
        Work::Confirm { ordinal, against, profiled } => {
            let (_, (_copy, project)) = candidate()?;
            let verdict = confirmed(&project, *ordinal, &job, (against, *profiled))?;
            job::publish(run, key, &Done::now(verdict, started))
        }
    }
}

/// Limits this process and the compilers that it starts: what loops or grows without end is ended, also where nobody
/// waits for it any more.
fn limit(seconds: u32) {
    let time = 2 * u64::from(seconds);
    for (resource, current, maximum) in [
        (Resource::Core, 0, 0),
        // The first limit sends a signal of its own. At the second one the system kills, as it does for want of memory.
        (Resource::Cpu, time, time + 5),
        (Resource::Fsize, OUTPUT, OUTPUT),
        (Resource::As, SPACE, SPACE),
    ] {
        // Fails where a lower limit is in force, which then stays.
        let _ = rustix::process::setrlimit(resource, Rlimit { current: Some(current), maximum: Some(maximum) });
    }
}

/// `check` and `compile`.
fn built(run: &Path, dir: &Path, sources: &Sources, job: &Job) -> Result<Built> {
    let mut built = Built { attempts: Vec::new(), code: None, device: None, facts: None };
    let start = Instant::now();
    let caught = broken_rules(&run.join(task::FOLDER), dir, sources)?;
    let seconds = start.elapsed().as_secs_f64();
    if !caught.is_empty() {
        built.attempts.push(Attempt::failed(Stage::Check, caught, seconds));
        return Ok(built);
    }
    built.attempts.push(Attempt::passed(Stage::Check, seconds));
    let toolchain = match Toolchain::find() {
        Ok(toolchain) => toolchain,
        Err(why) if job.compiler.is_some() => bail!("no nvcc: {why}"),
        Err(why) => {
            built.attempts.push(Attempt::not_judged(Stage::Compile, &format!("no nvcc: {why}")));
            return Ok(built);
        }
    };
    is_the_runs(job, &toolchain.version)?;
    HostCompiler::find()?;
    let start = Instant::now();
    let project = Project::open(dir)?;
    let failed = |kind: &str, text: String| {
        let text: String = text.replace(&format!("{}/", dir.display()), "").chars().take(4000).collect();
        Attempt::failed(Stage::Compile, vec![Caught::public(kind, text)], start.elapsed().as_secs_f64())
    };
    let made = match compile::build(&project, &[job.arch], &toolchain, false, &|_| {}) {
        Ok(made) => made,
        Err(error) if is_of_the_machine(&error) => return Err(error),
        Err(error) => {
            built.attempts.push(failed("does-not-compile", format!("{error:#}")));
            return Ok(built);
        }
    };
    let over = made.over_budget(&project);
    if !over.is_empty() {
        built.attempts.push(failed("over-budget", over.join("\n")));
        return Ok(built);
    }
    built.code = Some(made.code_digest()?);
    built.device = Some(made.device_digest()?);
    built.facts = Some(Facts::of(&made)?);
    built.attempts.push(Attempt::passed(Stage::Compile, start.elapsed().as_secs_f64()));
    Ok(built)
}

/// Whether a compilation failed for what the machine lacks. Compilers say it in words, which a candidate could have written: then
/// [`job::carry_out_candidate`] finds that the project as it was compiles.
fn is_of_the_machine(error: &Error) -> bool {
    // The last two are compilers that the system killed, for want of memory say.
    let words = ["No space left on device", "died due to signal 9", "Killed signal terminated program"];
    let text = format!("{error:#}");
    error.chain().any(|cause| cause.downcast_ref::<io::Error>().is_some())
        || words.iter().any(|words| text.contains(words))
}

/// An error where a node's compiler is not the run's.
fn is_the_runs(job: &Job, version: &str) -> Result<()> {
    let known = job.compiler.as_deref().unwrap_or(version);
    ensure!(known == version, "the run was made with nvcc {known}, and this machine has {version}");
    Ok(())
}

/// The errors of `kernels check` in the sources that the project did not have before.
fn broken_rules(before: &Path, now: &Path, sources: &Sources) -> Result<Vec<Caught>> {
    let errors = |dir: &Path| -> Result<Vec<(String, String, String)>> {
        let report = check::check(dir)?;
        let of = report.findings.into_iter().filter(|finding| finding.severity == Severity::Error);
        Ok(of.map(|one| (one.path, one.rule.to_string(), one.message)).collect())
    };
    let known = errors(before)?;
    let new = errors(now)?.into_iter().filter(|one| sources.get(&one.0).is_some() && !known.contains(one));
    Ok(new.map(|(path, rule, message)| Caught::public(&rule, format!("{path}: {message}"))).collect())
}

/// The card of this number. The run has one: where it is gone, nothing is said of the candidate.
fn card(ordinal: usize) -> Result<Card> {
    let cards = gpu::probe().map_err(|why| anyhow::anyhow!("no card: {why}"))?;
    let count = cards.len();
    cards.into_iter().nth(ordinal).with_context(|| format!("there is no card {ordinal}: this machine has {count}"))
}

/// `verify` and `bench`.
fn judged(dir: &Path, ordinal: usize, job: &Job) -> Result<Verdict> {
    let card = card(ordinal)?;
    let mut verdict = Verdict { card: card.name.clone(), ..Verdict::default() };
    let session = Session::open(Project::open(dir)?, &card, false, &|_| {})?;
    is_the_runs(job, &session.build.compiler)?;
    let all = Choice { ordinal, native_only: true, ..Choice::default() };
    for (stage, choice) in [(Stage::VerifyFew, few(&session.project, &all)), (Stage::Verify, Some(all.clone()))] {
        let Some(choice) = choice else { continue };
        let start = Instant::now();
        let report = session.verify(&choice, &|_| {})?;
        verdict.attempts.push(attempt(stage, &report.findings, start.elapsed().as_secs_f64()));
        verdict.verified = Some(serde_json::to_value(&report)?);
        if !report.passed() {
            return Ok(verdict);
        }
    }
    let start = Instant::now();
    let report = session.bench(&all, SCREEN, &|_| {})?;
    verdict.attempts.push(attempt(Stage::Bench, &report.findings, start.elapsed().as_secs_f64()));
    verdict.summary = summary(&report).filter(|_| report.findings.is_empty());
    verdict.timed = Some(serde_json::to_value(&report)?);
    Ok(verdict)
}

/// A small part of a project's cases: one dtype, and of the first operation's first table where it has a name. None where
/// that is all of them.
fn few(project: &Project, all: &Choice) -> Option<Choice> {
    let first = project.spec.operations.first()?;
    let filter = first.verify.first().and_then(|set| set.name.clone()).map(|name| format!("{name}:"));
    let filter = filter.filter(|_| first.verify.len() > 1);
    let several = project.spec.operations.iter().any(|operation| operation.dtypes.len() > 1);
    let few = Choice { filter, dtypes: vec![*first.dtypes.first()?], ..all.clone() };
    let some = few.cases(first, &first.verify, 0).is_ok_and(|cases| !cases.is_empty());
    (some && (few.filter.is_some() || several)).then_some(few)
}

/// Findings keep their kinds; what they say is not for proposers.
fn attempt(stage: Stage, findings: &[Finding], seconds: f64) -> Attempt {
    if findings.is_empty() {
        return Attempt::passed(stage, seconds);
    }
    let caught = |finding: &Finding| {
        let case = finding.case.as_deref().unwrap_or_default();
        let text = format!("{} {case}: {}", finding.operation, finding.message);
        Caught { kind: finding.kind.name(), text: text.chars().take(600).collect(), public: false }
    };
    Attempt::failed(stage, findings.iter().take(8).map(caught).collect(), seconds)
}

/// The cases that a candidate is compared by.
fn compared(report: &BenchReport) -> Vec<&CaseBench> {
    let cold: Vec<&CaseBench> = report.cases.iter().filter(|case| case.residency == Residency::Cold).collect();
    if cold.is_empty() { report.cases.iter().collect() } else { cold }
}

fn geomean(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.into_iter().fold((0.0, 0.0), |(sum, count), value| (sum + value.ln(), count + 1.0));
    Some(f64::exp(sum / count)).filter(|mean| mean.is_finite() && *mean > 0.0)
}

fn summary(report: &BenchReport) -> Option<Summary> {
    let cases = compared(report);
    let most = |of: fn(&CaseBench) -> f64| cases.iter().map(|case| of(case)).fold(0.0, f64::max);
    Some(Summary {
        us: geomean(cases.iter().map(|case| case.kernel.median))?,
        roof: geomean(cases.iter().map(|case| case.of_roof()))?,
        worst: cases.iter().map(|case| case.of_roof()).fold(f64::INFINITY, f64::min),
        spread: most(|case| (case.kernel.p90 - case.kernel.p10) / 2.0 / case.kernel.median),
        cases: u32::try_from(cases.len()).unwrap_or(u32::MAX),
        launches: cases.iter().map(|case| u32::try_from(case.launches.len()).unwrap_or(u32::MAX)).max().unwrap_or(0),
    })
}

/// `bench` again, beside other implementations in turns.
fn confirmed(dir: &Path, ordinal: usize, job: &Job, (against, profiled): (&[String], bool)) -> Result<Verdict> {
    let card = card(ordinal)?;
    let session = Session::open(Project::open(dir)?, &card, false, &|_| {})?;
    is_the_runs(job, &session.build.compiler)?;
    let choice = Choice { ordinal, native_only: true, ..Choice::default() };
    let start = Instant::now();
    let mut report = session.bench(&choice, ROUNDS, &|_| {})?;
    let mut beside = Beside::default();
    let profiled = profiled && report.findings.is_empty();
    if report.findings.is_empty() {
        beside = match compare(&session, &mut report, &choice, against) {
            Ok(()) => speedup(&report),
            Err(why) => Beside { why: Some(format!("{why:#}")), ..Beside::default() },
        };
    }
    Ok(Verdict {
        attempts: vec![attempt(Stage::Confirm, &report.findings, start.elapsed().as_secs_f64())],
        summary: summary(&report).filter(|_| report.findings.is_empty()),
        verified: None,
        timed: Some(serde_json::to_value(&report)?),
        card: card.name,
        beside: Some(beside),
        profile: profiled.then(|| profile::measure(&session.project, ordinal).map_err(|why| format!("{why:#}"))),
    })
}

fn compare(session: &Session, report: &mut BenchReport, choice: &Choice, against: &[String]) -> Result<()> {
    ensure!(!against.is_empty(), "no peers were named (--against)");
    let peers = Peer::parse_all(against)?;
    let python = Interpreter::find(None, "the baselines need a Python with torch (KERNELS_PYTHON)")?;
    let who = (peers.as_slice(), &python, ROUNDS);
    against::run(report, &session.project, &session.build, choice, who, &|_| {})
}

/// Against the best peer of each cold case, where every one of them has a right and timed peer.
fn speedup(report: &BenchReport) -> Beside {
    let mut beside = Beside::default();
    let mut ratios = Vec::new();
    let mut missing = BTreeSet::new();
    for case in report.cases.iter().filter(|case| case.residency == Residency::Cold) {
        let Some(against) = &case.against else {
            missing.insert(format!("{}: nothing was timed beside it", case.case));
            ratios.push(None);
            continue;
        };
        for peer in &against.peers {
            let unfit = peer.wrong.as_deref().or(peer.other.as_deref());
            let untimed = peer.time.is_none().then(|| peer.skipped.as_deref().unwrap_or("not timed"));
            if let Some(why) = untimed.or(unfit) {
                missing.insert(format!("{}: {why}", peer.name));
                beside.missing.insert(peer.name.clone());
            }
        }
        match (against.best(), against.kernel) {
            (Some((peer, time)), Some(kernel)) => {
                *beside.best.entry(peer.name.clone()).or_default() += 1;
                ratios.push(Some(time.median / kernel.median));
            }
            (None, _) => ratios.push(None),
            (_, None) => {
                missing.insert(format!("{}: the kernel was not timed in that process", case.case));
                ratios.push(None);
            }
        }
    }
    beside.speedup = ratios.into_iter().collect::<Option<Vec<f64>>>().and_then(geomean);
    if !missing.is_empty() || beside.speedup.is_none() {
        let why = missing.into_iter().take(6).collect::<Vec<_>>().join("; ");
        beside.why = Some(if why.is_empty() { "no peer is right in every case".to_owned() } else { why });
    }
    beside
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::speedup;

    fn spread(median: f64) -> Value {
        json!({ "median": median, "p10": median, "p90": median, "min": median, "samples": 30 })
    }

    fn of(cases: &[Value]) -> super::Beside {
        let case = |against: &Value| {
            json!({ "operation": "norm", "case": "rows=1", "dtype": "f16", "values": {}, "bytes": 1, "flops": 1.0,
                    "residency": "cold", "slots": 4, "kernel": spread(5.0), "copy": spread(4.0), "copy_by": "kernel",
                    "launches": [], "checked": 1, "remarks": [], "against": against })
        };
        let card = json!({ "name": "H100", "arch": 90, "sms": 1, "l2_bytes": 1, "memory_bytes": 1, "driver": null,
                           "cuda": "13.0", "peak_gbs": null });
        let report = json!({ "project": "norm", "card": card, "compiler": "13.0.88", "seed": 0, "findings": [],
                             "remarks": [], "cases": cases.iter().map(case).collect::<Vec<_>>() });
        speedup(&serde_json::from_value(report).unwrap())
    }

    fn beside(peers: &[Value]) -> Value {
        json!({ "clock": "kernels", "kernel": spread(5.0), "copy": null, "peers": peers })
    }

    #[test]
    fn a_speedup_names_what_it_leaves_out_and_needs_a_peer_in_every_case() {
        let torch = json!({ "name": "torch", "time": spread(20.0) });
        let compile = json!({ "name": "compile", "time": spread(10.0) });
        let whole = of(&[beside(&[torch.clone(), compile.clone()]), beside(&[torch.clone(), compile.clone()])]);
        assert_eq!((whole.speedup, whole.why, whole.missing.len()), (Some(2.0), None, 0));
        assert_eq!(whole.best["compile"], 2);
        let faults = [
            json!({ "name": "compile", "skipped": "it failed" }),
            json!({ "name": "compile", "time": spread(1.0), "wrong": "element 3" }),
            json!({ "name": "compile", "time": spread(1.0), "other": "without the bias" }),
        ];
        for fault in faults {
            let less = of(&[beside(&[torch.clone(), fault]), beside(&[torch.clone(), compile.clone()])]);
            assert!((less.speedup.unwrap() - 8.0_f64.sqrt()).abs() < 1e-9, "{less:?}");
            assert!(less.missing.contains("compile") && less.why.is_some(), "{less:?}");
        }
        for nothing in [Value::Null, beside(&[json!({ "name": "torch", "skipped": "it failed" })])] {
            let none = of(&[beside(std::slice::from_ref(&torch)), nothing]);
            assert!(none.speedup.is_none() && none.why.is_some(), "{none:?}");
        }
    }
}
