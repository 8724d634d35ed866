//! `kernels ci`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use serde_json::json;

use super::failure::Usage;
use super::{prepare, workflow};
use crate::base::signals;
use crate::cli::project::Ci;
use crate::report::check::{Check, Status, Suite, total};
use crate::report::{Output, file, junit, style, summary};
use crate::session::ahead::Ahead;
use crate::session::checks::{self, Checked, Wanted};
use crate::session::machine::{Here, Lab};

/// Checks every project, in the order given; continues after a failure.
pub(crate) fn run(arguments: &Ci, output: Output) -> Result<ExitCode> {
    if arguments.workflow {
        output.content(workflow::render(arguments)?.as_bytes());
        return Ok(ExitCode::SUCCESS);
    }
    let (projects, left_out) = projects(&arguments.dirs)?;
    let arguments = Ci { dirs: projects, ..arguments.clone() };
    let run = &Run { arguments, left_out, output, written: Arc::default() };
    let so_far = Arc::new(Mutex::new(SoFar::default()));
    on_a_stop(&so_far, run)?;
    Ok(Ahead::of(&Here, &run.arguments.dirs, |lab| run.on(lab, &so_far)))
}

/// What is to be checked, and where it is reported.
#[derive(Clone)]
struct Run {
    /// With the folders of projects alone.
    arguments: Ci,
    /// The folders that are no project's.
    left_out: Vec<PathBuf>,
    output: Output,
    /// Whether the reports of the whole run are written.
    written: Arc<AtomicBool>,
}

/// What was checked so far.
#[derive(Default)]
struct SoFar {
    suites: Vec<Suite>,
    /// The one that is under way.
    now: usize,
    /// The folders of those that are to be verified, and of those that are to be timed after that.
    unverified: Vec<String>,
    untimed: Vec<String>,
}

impl SoFar {
    fn now(&mut self) -> Option<&mut Suite> {
        self.suites.get_mut(self.now)
    }
}

/// When the process is told to end, writes what was checked so far and ends it.
fn on_a_stop(so_far: &Arc<Mutex<SoFar>>, run: &Run) -> Result<()> {
    let mut signals = signals::that_end()?;
    let (so_far, run) = (Arc::clone(so_far), run.clone());
    std::thread::spawn(move || {
        let Some(signal) = signals.forever().next() else { return };
        // Held until the process ends, so that nothing is written twice.
        let mut so_far = so_far.lock().unwrap_or_else(PoisonError::into_inner);
        if run.written.load(Ordering::Relaxed) {
            std::process::exit(128 + signal);
        }
        let name = signal_hook::low_level::signal_name(signal).unwrap_or("a signal");
        let dirs: Vec<String> = run.arguments.dirs.iter().map(|dir| dir.display().to_string()).collect();
        let named = |what: &str, dirs: &[String]| match dirs {
            [] => String::new(),
            _ => format!("; {what}: {}", dirs.join(", ")),
        };
        let mut rest = named("not begun", &dirs[so_far.suites.len()..]);
        rest += &named("not verified", &so_far.unverified);
        rest += &named("not timed", &so_far.untimed);
        if so_far.suites.is_empty() {
            // A report without a failure would say that all is well.
            so_far.suites.extend(dirs.first().map(|dir| of_folder(dir.clone())));
        }
        if let Some(suite) = so_far.now() {
            let check = Check::failed("ci", "stopped", format!("stopped by {name} before it was done{rest}"));
            line(suite, &check, run.output);
            suite.checks.push(check);
        }
        let _ = run.finish(&so_far.suites);
        std::process::exit(128 + signal);
    });
    Ok(())
}

/// The projects among the folders, and the others. If there are several folders, as from a shell's `*`, those whose files are
/// not a project's are left out. An empty folder may be a submodule that was not fetched, and is an error.
fn projects(dirs: &[PathBuf]) -> Result<(Vec<PathBuf>, Vec<PathBuf>)> {
    let has = |dir: &PathBuf, name: &str| dir.join(name).is_file();
    let is_filled = |dir: &PathBuf| std::fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_some());
    let is_none = |dir: &PathBuf| is_filled(dir) && !has(dir, "build.toml") && !has(dir, "kernel.toml");
    let (none, projects): (Vec<_>, Vec<_>) = dirs.iter().cloned().partition(is_none);
    // If none is a project, the first folder was probably mistyped, and the error names it.
    let named = if projects.is_empty() { dirs } else { &projects };
    named.iter().try_for_each(|dir| is_project(dir))?;
    Ok((projects, none))
}

/// A suite without checks, of a folder that was not read.
fn of_folder(dir: String) -> Suite {
    Suite { name: dir.clone(), dir, ..Suite::default() }
}

/// Rejects a wrong folder before anything runs, so that a typing mistake is reported at once.
fn is_project(dir: &Path) -> Result<()> {
    for name in ["build.toml", "kernel.toml"] {
        if !dir.join(name).is_file() {
            let what = if dir.is_dir() { format!("it has no {name}") } else { "there is no such folder".to_owned() };
            return Err(Usage(format!(
                "{} is not a kernel project: {what}. A project is a folder with build.toml and kernel.toml",
                dir.display()
            ))
            .into());
        }
    }
    Ok(())
}

impl Run {
    /// Checks the projects on any [`Lab`]: all without a card, then, as their verifications end, with it; and times them when all are
    /// verified, for what is timed needs the card for itself. `so_far` has the checks that have ended, at any time.
    fn on(&self, lab: &dyn Lab, so_far: &Mutex<SoFar>) -> ExitCode {
        let (arguments, output) = (&self.arguments, self.output);
        let wanted = Wanted {
            evidence: arguments.evidence.as_deref(),
            require_card: arguments.require_card,
            python: arguments.python.as_ref(),
            require_torch: arguments.require_torch,
            signers: arguments.signers.as_deref(),
        };
        let locked = || so_far.lock().unwrap_or_else(PoisonError::into_inner);
        if lab.card().is_ok() {
            prepare::say_if_slow(output);
        }
        let mut tell = |check: &Check| {
            if let Some(suite) = locked().now() {
                line(suite, check, output);
                suite.checks.push(check.clone());
            }
        };
        let several = arguments.dirs.len() > 1;
        // Of several projects, the checks of each begin with its name again.
        let again = |index: usize, suite: &Suite| {
            locked().now = index;
            if several {
                head(suite, output);
            }
        };
        let ended = |index: usize, checked: &Checked| {
            if checked.next.is_none() {
                output.line(format!("  {}", style::faint(times(&checked.suite))));
            }
            if several || checked.next.is_none() {
                output.line("");
            }
            locked().suites[index].clone_from(&checked.suite);
        };
        let mut to_verify = Vec::new();
        for (index, dir) in arguments.dirs.iter().enumerate() {
            let mut started = |suite: &Suite| {
                head(suite, output);
                let mut so_far = locked();
                so_far.suites.push(suite.clone());
                so_far.now = index;
            };
            let checked = checks::suite(lab, dir, &wanted, &mut started, &mut tell);
            ended(index, &checked);
            if checked.next.is_some() {
                locked().unverified.push(checked.suite.dir.clone());
                to_verify.push((index, checked));
            }
        }
        let mut to_time = Vec::new();
        while !to_verify.is_empty() {
            let projects: Vec<_> =
                to_verify.iter().filter_map(|(_, checked)| checked.next.as_ref()).map(|(project, _)| project).collect();
            let first = lab.verified_first(&projects);
            let (index, checked) = to_verify.remove(first);
            again(index, &checked.suite);
            {
                let mut so_far = locked();
                let dir = so_far.unverified.remove(first);
                so_far.untimed.push(dir);
            }
            let checked = checked.verified(lab, &mut tell);
            ended(index, &checked);
            if checked.next.is_some() {
                to_time.push((index, checked));
            } else {
                locked().untimed.pop();
            }
        }
        for (index, checked) in to_time {
            again(index, &checked.suite);
            ended(index, &checked.timed(lab, &mut tell));
            locked().untimed.remove(0);
        }
        let so_far = locked();
        let code = self.finish(&so_far.suites);
        // Before the lock is free: on a stop after this the reports are not written again.
        self.written.store(true, Ordering::Relaxed);
        code
    }

    /// Writes the files and the totals, with a skipped check for each folder that was left out.
    fn finish(&self, suites: &[Suite]) -> ExitCode {
        let mut suites = suites.to_vec();
        for dir in self.left_out.iter().map(|dir| dir.display().to_string()) {
            let reason = format!("{dir} is left out: it has neither build.toml nor kernel.toml");
            let mut suite = of_folder(dir);
            head(&suite, self.output);
            let check = Check::skipped("read", "build.toml and kernel.toml", reason);
            line(&suite, &check, self.output);
            self.output.line("");
            suite.checks.push(check);
            suites.push(suite);
        }
        let unwritten = write(&self.arguments, &suites);
        let output = self.output;
        for reason in &unwritten {
            output.error(format!("{} {reason}", style::bad("error:")));
        }
        let counts = total(&suites);
        let ok = counts.failed == 0 && unwritten.is_empty();
        output.line(format!(
            "{}, {}, {}",
            style::good(format!("{} passed", counts.passed)),
            count(counts.failed, "failed", |text| style::bad(text)),
            count(counts.skipped, "skipped", |text| style::warning(text)),
        ));
        output.json(&json!({
            "ok": ok,
            "counts": counts,
            "projects": suites,
            "left_out": self.left_out.iter().map(|dir| dir.to_string_lossy()).collect::<Vec<_>>(),
            "unwritten": unwritten,
        }));
        if ok { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

/// The line above a suite's checks.
fn head(suite: &Suite, output: Output) {
    output.line(format!("{} {}", style::strong(&suite.name), style::faint(&suite.dir)));
}

/// `12.3 s: verify 8.1, bench 3.0`, the longest first.
fn times(suite: &Suite) -> String {
    let mut stages: Vec<_> = suite.stages.iter().filter(|(_, seconds)| **seconds >= 0.05).collect();
    stages.sort_by(|one, other| other.1.total_cmp(one.1));
    let stages: Vec<String> = stages.iter().map(|(group, seconds)| format!("{group} {seconds:.1}")).collect();
    let all = format!("{:.1} s", suite.seconds);
    if stages.is_empty() { all } else { format!("{all}: {}", stages.join(", ")) }
}

fn count(number: usize, what: &str, paint: fn(&str) -> String) -> String {
    let text = format!("{number} {what}");
    if number == 0 { text } else { paint(&text) }
}

/// Writes the requested files and returns the errors: the checks have been made by then, and their results are
/// shown even if a file cannot be written.
fn write(arguments: &Ci, suites: &[Suite]) -> Vec<String> {
    let mut unwritten = Vec::new();
    if let Some(path) = &arguments.junit
        && let Err(error) = file::write(path, junit::render(suites).as_bytes())
    {
        unwritten.push(format!("{error:#}"));
    }
    if let Some(path) = std::env::var_os("GITHUB_STEP_SUMMARY").filter(|path| !path.is_empty())
        && let Err(error) = summary::append(&PathBuf::from(path), suites)
    {
        unwritten.push(format!("{error:#}"));
    }
    unwritten
}

fn line(suite: &Suite, check: &Check, output: Output) {
    let name = format!("{:<8} {}", check.group, check.name);
    match &check.status {
        Status::Passed => output.line(
            format!("  {} {name}  {}", style::good("✓"), style::faint(check.detail.lines().next().unwrap_or_default()))
                .trim_end(),
        ),
        Status::Skipped { reason } => {
            output.line(format!("  {} {name}  {}", style::warning("–"), style::warning(format!("skipped: {reason}"))));
        }
        Status::Failed { text, .. } => {
            let lines = std::iter::once(name.as_str()).chain(text.lines());
            let text = lines.collect::<Vec<_>>().join("\n      ");
            // Repeats the context: stderr may be read without the lines above.
            output.error(format!(
                "  {} {text}\n      {}",
                style::bad("✗"),
                style::faint(format!("in {}, {}", suite.name, suite.dir))
            ));
        }
    }
}
