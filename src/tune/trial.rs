//! Candidates for one row: each is built in a copy of the project and verified; what is right is timed in turns.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde::Serialize;
use walkdir::{DirEntry, WalkDir};

use super::child;
use super::rows::{Change, Texts};
use crate::base::scratch::Scratch;
use crate::bench::{BenchReport, Residency, Spread};
use crate::compile::{self, parallel};
use crate::project::Project;
use crate::toolchain::Toolchain;
use crate::verify::VerifyReport;
use crate::worker::TuneCase;

/// Folders of a project that nothing is built from.
const LEFT_OUT: [&str; 7] = ["build", "target", "result", "__pycache__", "node_modules", "evidence", ".git"];
/// Timed rounds of a candidate's turn, the fewest that a bench has.
const ROUNDS: u32 = 5;
/// The most turns. Before each but the first, those that are clearly behind are left out, and of the rest the slower half.
const TURNS: u32 = 5;
/// What two timings of the same code may differ by.
const LEAST_GAIN: f64 = 0.005;

/// What became of a candidate.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Outcome {
    /// Timed in every turn.
    Timed,
    /// Timed until it was behind.
    Behind,
    /// Not timed: it does not compile, or is over a budget.
    NotBuilt,
    /// A finding of `kernels verify`: not timed, or where the guards showed it, not timed any more.
    Wrong,
    /// Not timed again: its launches are those of the present row.
    SameLaunch,
}

pub(crate) struct Trial {
    /// None: the project as it is.
    pub(crate) change: Option<Change>,
    /// The row's text.
    pub(crate) row: String,
    scratch: Scratch,
    pub(crate) outcome: Outcome,
    pub(crate) why: Option<String>,
    /// Of each timed case, in the report's order.
    cases: Vec<Timed>,
}

/// The rounds of a case.
struct Timed {
    name: (String, String),
    /// Whether the candidates are compared by it; in others they must not lose.
    decides: bool,
    residency: Residency,
    /// Kernel time over copy time.
    times: Vec<f64>,
    us: Vec<f64>,
    launches: Vec<String>,
}

/// Where candidates run.
pub(crate) struct Bench<'a> {
    pub(crate) ordinal: usize,
    pub(crate) arch: u32,
    /// How many are verified at once: as many as the card's memory has room for.
    pub(crate) beside: usize,
    /// Those that decide, the smallest that take their row in their place, those in which nothing may be slower, and others,
    /// which are verified alone.
    pub(crate) deciding: &'a [TuneCase],
    pub(crate) smaller: &'a [TuneCase],
    pub(crate) guards: &'a [TuneCase],
    pub(crate) others: &'a [TuneCase],
    /// How many are done, of how many, and what is being done.
    pub(crate) tell: &'a (dyn Fn(usize, usize, &str) + Sync),
}

impl Trial {
    pub(crate) fn new(project: &Project, texts: &Texts, row: String, change: Option<Change>) -> Result<Self> {
        let scratch = Scratch::new()?;
        let folder = scratch.path().join("project");
        copy(&project.root, &folder)?;
        for (path, text) in texts {
            let text = match change.as_ref().filter(|change| change.file == *path) {
                Some(change) => change.apply(text, &[])?.text,
                None => text.clone(),
            };
            fs::write(folder.join(path), text).with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(Self { change, row, scratch, outcome: Outcome::Timed, why: None, cases: Vec::new() })
    }

    fn folder(&self) -> PathBuf {
        self.scratch.path().join("project")
    }

    pub(crate) fn end(&mut self, outcome: Outcome, why: impl Into<String>) {
        let folder = format!("{}/", self.folder().display());
        let why: String = why.into().replace(&folder, "").chars().take(600).collect();
        (self.outcome, self.why) = (outcome, Some(why));
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.outcome == Outcome::Timed
    }

    /// The cases that are compared: from memory where a shape was timed so.
    fn compared(&self) -> impl Iterator<Item = &Timed> {
        let cold = |name: &(String, String)| {
            self.cases.iter().any(|case| case.name == *name && case.residency == Residency::Cold)
        };
        self.cases.iter().filter(move |case| case.residency == Residency::Cold || !cold(&case.name))
    }

    /// Kernel time over copy time of each case that is compared, with its spread.
    fn scores(&self, all: bool) -> Vec<Spread> {
        self.compared().filter(|case| all || case.decides).map(|case| Spread::of(&case.times)).collect()
    }

    /// The geometric mean of those that decide, and the largest relative spread.
    pub(crate) fn score(&self) -> (f64, f64) {
        let scores = self.scores(false);
        #[allow(clippy::cast_precision_loss, reason = "some cases")]
        let mean = (scores.iter().map(|one| one.median.ln()).sum::<f64>() / scores.len().max(1) as f64).exp();
        (mean, scores.iter().map(spread).fold(0.0, f64::max))
    }

    /// Median microseconds of each case that is compared.
    pub(crate) fn microseconds(&self) -> Vec<(&(String, String), f64)> {
        self.compared().map(|case| (&case.name, Spread::of(&case.us).median)).collect()
    }

    pub(crate) fn rounds(&self) -> usize {
        self.cases.first().map_or(0, |case| case.times.len())
    }

    /// Whether it was timed in the same cases as another.
    pub(crate) fn is_comparable(&self, other: &Self) -> bool {
        let names =
            |of: &Self| of.cases.iter().filter(|case| case.decides).map(|case| case.name.clone()).collect::<Vec<_>>();
        names(self) == names(other)
    }

    fn launches(&self) -> Vec<&Vec<String>> {
        self.cases.iter().map(|case| &case.launches).collect()
    }

    /// Whether it is faster than another by more than both scatter, and in no case slower by more than that.
    pub(crate) fn beats(&self, other: &Self) -> bool {
        let ((own, scatter), (others, its)) = (self.score(), other.score());
        let everywhere = self.scores(true).into_iter().zip(other.scores(true));
        let loses = |(own, other): (Spread, Spread)| {
            own.median > other.median * (1.0 + spread(&own).max(spread(&other)).max(LEAST_GAIN))
        };
        others / own - 1.0 > scatter.max(its).max(LEAST_GAIN) && !{ everywhere }.any(loses)
    }
}

fn spread(one: &Spread) -> f64 {
    (one.p90 - one.p10) / 2.0 / one.median
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    let wanted = |entry: &DirEntry| {
        let name = entry.file_name().to_string_lossy();
        entry.depth() == 0 || !(entry.file_type().is_dir() && (LEFT_OUT.contains(&&*name) || name.starts_with('.')))
    };
    for entry in WalkDir::new(from).into_iter().filter_entry(wanted) {
        let entry = entry.with_context(|| format!("cannot read {}", from.display()))?;
        let target = to.join(entry.path().strip_prefix(from)?);
        if entry.file_type().is_dir() {
            fs::create_dir_all(&target)?;
        } else if entry.path().is_file() {
            fs::copy(entry.path(), &target).with_context(|| format!("cannot copy {}", entry.path().display()))?;
        }
    }
    Ok(())
}

impl Bench<'_> {
    /// Builds all on all processors, and verifies what was built.
    pub(crate) fn prove(&self, trials: &mut [Trial]) -> Result<()> {
        let toolchain = Toolchain::find()?;
        let done = std::sync::atomic::AtomicUsize::new(0);
        let count = |doing: &str, of: usize| {
            let before = done.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            (self.tell)(before % of.max(1), of, doing);
        };
        let all = trials.len();
        let folders: Vec<PathBuf> = trials.iter().map(Trial::folder).collect();
        let compile = |folder: &PathBuf| {
            count("building", all);
            let project = Project::open(folder)?;
            let built = compile::build(&project, &[self.arch], &toolchain, false, &|_| {});
            Ok(built.map(|build| build.over_budget(&project)).map_err(|error| format!("{error:#}")))
        };
        for (trial, built) in trials.iter_mut().zip(parallel::map(&folders, compile)?) {
            match built {
                Ok(over) if over.is_empty() => {}
                Ok(over) => trial.end(Outcome::NotBuilt, over.join("\n")),
                Err(why) => trial.end(Outcome::NotBuilt, why),
            }
        }
        self.verify(trials.iter_mut(), self.smaller);
        Ok(())
    }

    /// Verifies with all other cases who is to be timed again. Where one of these is wrong, the next best take its place.
    fn prove_best(&self, trials: &mut [Trial]) {
        let whole = if self.smaller == self.deciding { &[] } else { self.deciding };
        let cases = [self.others, whole, self.guards].concat();
        let mut proved = Vec::new();
        loop {
            let best: Vec<usize> = best(trials).into_iter().filter(|at| !proved.contains(at)).collect();
            if best.is_empty() {
                return;
            }
            self.verify(
                trials.iter_mut().enumerate().filter(|(at, _)| best.contains(at)).map(|(_, trial)| trial),
                &cases,
            );
            proved.extend(best);
        }
    }

    /// Verifies those that are left, some at once.
    fn verify<'t>(&self, trials: impl Iterator<Item = &'t mut Trial>, cases: &[TuneCase]) {
        if cases.is_empty() {
            return;
        }
        let mut alive: Vec<&mut Trial> = trials.filter(|trial| trial.is_alive()).collect();
        let all = alive.len();
        for (number, some) in alive.chunks_mut(self.beside).enumerate() {
            (self.tell)(number * self.beside, all, "verifying");
            std::thread::scope(|scope| {
                for trial in some {
                    scope.spawn(|| self.verify_one(trial, cases));
                }
            });
        }
    }

    fn verify_one(&self, trial: &mut Trial, cases: &[TuneCase]) {
        match child::carry_out::<VerifyReport>(&trial.folder(), self.ordinal, cases, None) {
            Ok(report) if report.passed() => {}
            Ok(report) => {
                let said: Vec<String> = report.findings.iter().take(2).map(ToString::to_string).collect();
                trial.end(Outcome::Wrong, said.join("\n"));
            }
            Err(why) => trial.end(Outcome::Wrong, format!("{why:#}")),
        }
    }

    /// Times the first, which is the present row, and all others that are right, a turn each after the other, until one is
    /// left, the better of two is clear, or all turns were made. The first turn has the smaller cases in place of those that
    /// decide. With these, the guards and the others the best are verified after it.
    pub(crate) fn time(&self, trials: &mut [Trial]) -> Result<()> {
        let (smaller, all) = (self.smaller != self.deciding, [self.deciding, self.guards].concat());
        for turn in 0..TURNS {
            if turn == 1 && smaller {
                trials.iter_mut().filter(|trial| trial.is_alive()).for_each(|trial| trial.cases.clear());
            }
            let (cases, deciding) = if turn == 0 { (self.smaller, self.smaller) } else { (&all[..], self.deciding) };
            let mut order: Vec<usize> = (0..trials.len()).filter(|at| trials[*at].is_alive()).collect();
            if order.len() < 2 {
                break;
            }
            if turn % 2 == 1 {
                order.reverse();
            }
            let count = order.len();
            for (number, at) in order.into_iter().enumerate() {
                (self.tell)(number, count, &format!("turn {} of {TURNS}: timing {}", turn + 1, trials[at].row));
                self.turn(&mut trials[at], cases, deciding)?;
            }
            let Some((present, others)) = trials.split_first_mut() else { break };
            if turn == 0 {
                for other in others.iter_mut().filter(|other| other.is_alive()) {
                    if other.launches() == present.launches() {
                        other.end(Outcome::SameLaunch, "its launches are those of the present row");
                    }
                }
                self.prove_best(trials);
            }
            anyhow::ensure!(
                trials[0].is_alive(),
                "the present row cannot be timed: {}",
                trials[0].why.as_deref().unwrap_or("")
            );
            if turn + 1 < TURNS {
                halve(trials);
            }
            if turn > 0 && is_clear(trials) {
                break;
            }
        }
        Ok(())
    }

    /// A turn of one candidate.
    fn turn(&self, trial: &mut Trial, cases: &[TuneCase], deciding: &[TuneCase]) -> Result<()> {
        let report: BenchReport = match child::carry_out(&trial.folder(), self.ordinal, cases, Some(ROUNDS)) {
            Ok(report) => report,
            Err(why) => {
                trial.end(Outcome::Wrong, format!("{why:#}"));
                return Ok(());
            }
        };
        if let Some(finding) = report.findings.first() {
            trial.end(Outcome::Wrong, finding.to_string());
            return Ok(());
        }
        for case in report.cases {
            let rounds = case.rounds.context("a bench without its rounds")?;
            let times = rounds.kernel.iter().zip(&rounds.copy).map(|(kernel, copy)| kernel / copy);
            let decides = deciding
                .iter()
                .any(|one| (&one.operation, one.dtype, &one.values) == (&case.operation, case.dtype, &case.values));
            let name = (case.operation, case.case);
            let known = trial.cases.iter().position(|one| (&one.name, one.residency) == (&name, case.residency));
            let at = known.unwrap_or_else(|| {
                let (residency, launches) = (case.residency, case.launches);
                trial.cases.push(Timed { name, decides, residency, times: Vec::new(), us: Vec::new(), launches });
                trial.cases.len() - 1
            });
            trial.cases[at].times.extend(times);
            trial.cases[at].us.extend(rounds.kernel);
        }
        Ok(())
    }
}

/// Whether two are left, the present row and one that is faster by several times what both scatter.
fn is_clear(trials: &[Trial]) -> bool {
    let alive: Vec<&Trial> = trials.iter().filter(|trial| trial.is_alive()).collect();
    let [present, other] = alive[..] else { return false };
    let ((own, scatter), (before, its)) = (other.score(), present.score());
    before / own - 1.0 > 4.0 * scatter.max(its).max(LEAST_GAIN)
}

/// Who is timed again: the faster half of those that are left, without those that are behind the best by more than both
/// scatter; and the present row.
fn best(trials: &[Trial]) -> Vec<usize> {
    let mut alive: Vec<usize> = (0..trials.len()).filter(|at| trials[*at].is_alive()).collect();
    alive.sort_by(|one, other| trials[*one].score().0.total_cmp(&trials[*other].score().0));
    let Some((best, scatter)) = alive.first().map(|at| trials[*at].score()) else { return alive };
    let keep = alive.len().div_ceil(2).max(3);
    let stays = |(place, at): (usize, usize)| {
        let (score, own) = trials[at].score();
        let near = place < keep && score / best - 1.0 <= scatter + own + LEAST_GAIN;
        (near || trials[at].change.is_none()).then_some(at)
    };
    alive.into_iter().enumerate().filter_map(stays).collect()
}

/// Leaves out all but the best and the present row.
fn halve(trials: &mut [Trial]) {
    let stay = best(trials);
    let Some(best) = stay.first().map(|at| trials[*at].score().0) else { return };
    for (_, trial) in trials.iter_mut().enumerate().filter(|(at, trial)| trial.is_alive() && !stay.contains(at)) {
        let behind = trial.score().0 / best - 1.0;
        let why = format!("{:.1} % behind the best after {} rounds", behind * 100.0, trial.rounds());
        trial.end(Outcome::Behind, why);
    }
}
