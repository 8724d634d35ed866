//! A whole verification: every code path, operation and case.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Instant;

use anyhow::{Result, bail};

use super::beside::Beside;
use super::case::{self, CaseOutcome, Listed, Prepared, check_refusal};
use super::finding::{Finding, OperationReport, PathReport, SET, VerifyReport};
use super::memory::Memory;
use super::path::{CodePath, Fault, choose};
use super::pipeline::{self, Stages};
use super::random::{Random, fresh_seed};
use super::select::{self, Chosen};
use super::turn::{self, Turns};
use super::verdict::Verdicts;
use super::{exact, sanitize};
use crate::compile::{Build, Target};
use crate::gpu::muffle::Muffle;
use crate::gpu::{Device, memory};
use crate::project::{Case, Inputs, Operation, OracleRef, Project};
use crate::worker::{self, Choice};

/// Reports progress.
type Tell<'a> = &'a dyn Fn(&str);

/// The maximum number of findings reported for one operation on one path; the rest is counted.
const MOST_FINDINGS: usize = 12;

/// Verifies a project on a card: the first code path in this process, each of the others in one of its own. `tell` is called with
/// what is being done.
pub(crate) fn run(project: &Project, build: &Build, choice: &Choice, tell: Tell) -> Result<VerifyReport> {
    memory::keep_what_is_freed();
    // Dropped last, after the context has printed everything.
    let _muffle = Muffle::new();
    let choice = &Choice { turns: choice.turns.clone().or_else(turn::path), ..choice.clone() };
    let mut whole = Run::new(project, build, choice, tell)?;
    let paths = whole.paths(choice.native_only)?;
    let others = Choice { seed: Some(whole.report.seed), ..choice.clone() };
    let mut beside = Vec::new();
    let mut alike = Vec::new();
    for (index, (target, _)) in paths.iter().enumerate().skip(1) {
        if let Some(older) = same_code(target, &paths[index + 1..])? {
            alike.push((target.arch, older));
        } else {
            let path = worker::CodePath::Arch(target.arch);
            beside.push((target.arch, Beside::start(project, path, others.clone())?));
        }
    }
    whole.verdicts = Verdicts::Told(Mutex::new(beside.iter_mut().filter_map(|(_, other)| other.hears()).collect()));
    let mut lost = false;
    if let Some((target, jit)) = paths.first() {
        lost = whole.code_path(target, *jit, false)?;
    }
    for (arch, other) in beside {
        tell(&format!("waiting for the code for sm_{arch}"));
        whole.add(other.finish(&format!("the verification of compute_{arch}"))?);
    }
    let of = |(arch, older)| PathReport { arch, jit: true, code_of: Some(older), ..PathReport::default() };
    whole.report.paths.extend(alike.into_iter().map(of));
    whole.report.paths.sort_by_key(|path| (path.jit, Reverse(path.arch)));
    whole.finish(lost)
}

/// The architecture of the first of some older targets with the same code, if there is one: one of the two is verified.
fn same_code(target: &Target, older: &[(&Target, bool)]) -> Result<Option<u32>> {
    for (other, _) in older {
        if target.has_code_of(other)? {
            return Ok(Some(other.arch));
        }
    }
    Ok(None)
}

/// Verifies the one code path of a build for one architecture, in a process that another verification or compute-sanitizer started.
/// `sanitized`: it is the card's machine code, for the tool.
pub(crate) fn run_path(project: &Project, build: &Build, choice: &Choice, sanitized: bool) -> Result<VerifyReport> {
    memory::keep_what_is_freed();
    let _muffle = Muffle::new();
    let mut run = Run { is_timed: false, ..Run::new(project, build, choice, &|_| {})? };
    if !sanitized {
        run.verdicts = Verdicts::from(std::io::stdin());
    }
    let mut lost = false;
    if let Some((target, jit)) = run.paths(sanitized)?.first() {
        lost = run.code_path(target, *jit, sanitized)?;
    }
    run.finish(lost)
}

/// A verification under way.
struct Run<'a> {
    project: &'a Project,
    build: &'a Build,
    choice: &'a Choice,
    tell: Tell<'a>,
    report: VerifyReport,
    /// Whether the first of its paths is the one that the bench times.
    is_timed: bool,
    /// Whether any case was run, here or in another process.
    any: bool,
    verdicts: Verdicts,
    memory: Memory,
    device: Device,
    turns: Turns,
}

impl<'a> Run<'a> {
    fn new(project: &'a Project, build: &'a Build, choice: &'a Choice, tell: Tell<'a>) -> Result<Self> {
        let device = Device::open(choice.ordinal)?;
        Ok(Self {
            project,
            build,
            choice,
            tell,
            report: VerifyReport {
                project: project.name.clone(),
                card: device.card.clone(),
                compiler: build.compiler.clone(),
                seed: choice.seed.unwrap_or_else(fresh_seed),
                confinement: Vec::new(),
                set: SET,
                operations: project.spec.operations.iter().map(OperationReport::new).collect(),
                paths: Vec::new(),
                findings: Vec::new(),
            },
            is_timed: true,
            any: false,
            verdicts: Verdicts::default(),
            memory: Memory::default(),
            device,
            turns: Turns::of(choice.turns.as_ref()),
        })
    }

    /// The targets that the card can run, each with whether the driver compiles it.
    fn paths(&self, native_only: bool) -> Result<Vec<(&'a Target, bool)>> {
        let card = &self.device.card;
        let paths = choose(self.build, card.arch, native_only);
        if paths.is_empty() {
            bail!(
                "nothing in this build runs on {} (sm_{}): build for it with --arch {}",
                card.name,
                card.arch,
                card.arch
            );
        }
        Ok(paths)
    }

    /// Adds the report of a code path.
    fn add(&mut self, other: VerifyReport) {
        self.any |= other.paths.iter().any(|path| path.cases > 0);
        if self.report.confinement.is_empty() {
            self.report.confinement = other.confinement;
        }
        for (here, there) in self.report.operations.iter_mut().zip(&other.operations) {
            here.add(there);
        }
        self.report.paths.extend(other.paths);
        self.report.findings.extend(other.findings);
    }

    /// Verifies one code path; returns whether the context is lost.
    fn code_path(&mut self, target: &Target, jit: bool, sanitized: bool) -> Result<bool> {
        let start = Instant::now();
        (self.tell)(&format!("loading the code for sm_{}", target.arch));
        let mut path = CodePath::read(self.choice.ordinal, self.project, target, jit)?;
        let mut summary = PathReport { arch: target.arch, jit, ..PathReport::default() };
        let operations = &self.project.spec.operations;
        let mut findings: Vec<_> = operations.iter().map(|operation| Findings::new(operation, path.name())).collect();
        let mut lost = !sanitized && self.cases(&mut path, &mut summary, &mut findings)?;
        if !lost {
            // Also where no case needed it: code that does not load is an error.
            path.modules(&self.device)?;
        }
        for (operation, findings) in operations.iter().zip(&mut findings) {
            if sanitized && !lost {
                lost = self.sanitized(&mut path, operation, &mut summary, findings)?;
            }
            if self.choice.is_whole() && !lost {
                self.refusals(&mut path, operation, &mut summary, findings)?;
            }
        }
        self.report.findings.extend(findings.into_iter().flat_map(Findings::shortened));
        if self.report.confinement.is_empty() {
            self.report.confinement = path.process.confinement();
        }
        // JSON has no infinity.
        summary.worst = summary.worst.min(1e300);
        summary.seconds = start.elapsed().as_secs_f64();
        self.report.paths.push(summary);
        if lost {
            if let Some(last) = self.report.findings.last_mut() {
                last.message.push_str(
                    " (the CUDA context is lost with this: nothing after it was run on this path; `kernels verify --sanitize` \
                     shows where it happens)",
                );
            }
            // Unloading would wait for a kernel that may never end.
            std::mem::forget(path);
        }
        Ok(lost)
    }

    /// Checks the cases of all operations, whose findings are in the order of operations; returns whether the context is lost. A path
    /// that hears what the first one left launches a case once or twice, and as often as the first one only if it left other bytes.
    fn cases(&mut self, path: &mut CodePath, summary: &mut PathReport, findings: &mut [Findings]) -> Result<bool> {
        let (project, seed) = (self.project, self.report.seed);
        let is_timed = self.is_timed && self.report.paths.is_empty();
        // Not from the run's seed, which a candidate could know.
        let random = &mut Random::new(fresh_seed(), 0);
        let mut cases = Vec::new();
        for (index, operation) in project.spec.operations.iter().enumerate() {
            let chosen = select::verified(self.choice, operation, (seed, is_timed), random)?;
            let listed = chosen.into_iter().enumerate();
            cases.extend(listed.map(|(number, chosen)| Listed { operation, place: (index, number), chosen }));
        }
        // Nothing more is told after these cases: the other paths judge what is left by themselves.
        let verdicts = std::mem::take(&mut self.verdicts);
        let all: Vec<usize> = (0..cases.len()).collect();
        let mut outcomes = BTreeMap::from_iter(self.launched(path, &cases, &all, &verdicts)?);
        drop(verdicts);
        let unlike = outcomes.iter().filter(|(_, outcome)| outcome.unlike);
        let unlike: Vec<usize> = unlike.map(|(index, _)| *index).collect();
        if !outcomes.values().any(|outcome| outcome.lost) {
            for (index, mut outcome) in self.launched(path, &cases, &unlike, &Verdicts::Apart)? {
                if let Some(before) = outcomes.get_mut(&index) {
                    outcome.launches += before.launches;
                    outcome.direct += before.direct;
                    *before = outcome;
                }
            }
        }
        let mut lost = false;
        for (index, outcome) in outcomes {
            let Listed { operation, place: (place, _), chosen } = &cases[index];
            self.count_operation(operation, chosen, &outcome);
            lost |= self.count(&chosen.case, outcome, summary, &mut findings[*place]);
        }
        Ok(lost)
    }

    /// Launches some of the cases, and judges them.
    fn launched(
        &mut self,
        path: &mut CodePath,
        cases: &[Listed],
        some: &[usize],
        verdicts: &Verdicts,
    ) -> Result<Vec<(usize, CaseOutcome)>> {
        let (project, seed, hears) = (self.project, self.report.seed, verdicts.are_heard());
        let in_python = |operation: &Operation| matches!(operation.oracle, OracleRef::Python { .. });
        let stages = Stages {
            bytes: &|listed| case::held_bytes(listed, hears),
            draw: &|Listed { operation, chosen, .. }| Prepared::new((project, operation), chosen, seed, hears),
            judge: &|Listed { operation, place, chosen }, launched| {
                launched.judge((project, operation, chosen), (verdicts, *place))
            },
            hears,
            // A reference in Python has processes of its own.
            threads: if project.spec.operations.iter().any(in_python) { [1, 1] } else { pipeline::threads(hears) },
        };
        let name = path.name();
        let CodePath { code, process, .. } = path;
        let mut outcomes = Vec::new();
        // All memory that is reserved is compared after each launch, so that small cases have little. Launches are recorded for an
        // address, which all cases of a group have.
        for (bytes, group) in case::by_memory(cases, some) {
            self.memory.free();
            let address = self.memory.reserve(&self.device, bytes)?.image.address();
            let ask = |Listed { operation, chosen, .. }: &Listed, prepared: Option<Prepared>| match prepared {
                Some(prepared) => prepared.ask((operation, chosen), process, address),
                None => Ok(Err(CaseOutcome { left_to_bench: true, ..CaseOutcome::default() })),
            };
            let some = stages.run((cases, &group), ask, |Listed { operation, chosen, .. }, asked| {
                (self.tell)(&format!("{name}: {} {}", operation.name, chosen.case.label));
                let modules = code.modules(&self.device)?;
                asked.launch((&self.device, &self.memory, modules), &self.turns, &chosen.case)
            })?;
            let lost = some.iter().any(|(_, outcome)| outcome.lost);
            outcomes.extend(some);
            if lost {
                break;
            }
        }
        Ok(outcomes)
    }

    /// Checks that the launcher refuses what kernel.toml says it refuses.
    fn refusals(
        &mut self,
        path: &mut CodePath,
        operation: &Operation,
        summary: &mut PathReport,
        findings: &mut Findings,
    ) -> Result<()> {
        for case in operation.cases(&operation.reject, self.report.seed)? {
            let base = self.memory.reserve(&self.device, 1 << 22)?.image.address();
            summary.cases += 1;
            if let Some(fault) = check_refusal(&mut path.process, operation, &case, base)? {
                findings.add(&case, fault);
            }
        }
        Ok(())
    }

    /// Runs the small cases of one operation under compute-sanitizer.
    fn sanitized(
        &mut self,
        path: &mut CodePath,
        operation: &Operation,
        summary: &mut PathReport,
        findings: &mut Findings,
    ) -> Result<bool> {
        let seed = self.report.seed;
        let cases = self.choice.cases(operation, &operation.verify, seed)?;
        for case in sanitize::thinned(operation, cases) {
            self.announce(path, operation, &case);
            let outcome = exact::run(&self.device, path, operation, &case, seed)?;
            if self.count(&case, outcome, summary, findings) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn announce(&self, path: &CodePath, operation: &Operation, case: &Case) {
        (self.tell)(&format!("{}: {} {}", path.name(), operation.name, case.label));
    }

    /// Adds a case to the report of its operation.
    fn count_operation(&mut self, operation: &Operation, chosen: &Chosen, outcome: &CaseOutcome) {
        let Some(report) = self.report.operations.iter_mut().find(|report| report.operation == operation.name) else {
            return;
        };
        report.add(&OperationReport {
            cases: 1,
            elements: outcome.elements,
            non_finite: u64::from(chosen.case.inputs == Inputs::NonFinite),
            direct: outcome.direct,
            timed: u64::from(chosen.timed),
            left_to_bench: u64::from(outcome.left_to_bench),
            ..OperationReport::default()
        });
    }

    /// Adds a case to the report; returns whether the context is lost.
    fn count(&mut self, case: &Case, outcome: CaseOutcome, summary: &mut PathReport, findings: &mut Findings) -> bool {
        self.any = true;
        summary.cases += 1;
        summary.launches += outcome.launches;
        summary.direct += outcome.direct;
        summary.elements += outcome.elements;
        summary.worst = summary.worst.max(outcome.worst);
        for fault in outcome.faults {
            findings.add(case, fault);
        }
        outcome.lost
    }

    fn finish(self, lost: bool) -> Result<VerifyReport> {
        if !lost && !self.any {
            bail!("no case is left of {}: --filter, --dtype or --shape leave nothing", self.project.name);
        }
        Ok(self.close(lost))
    }

    /// The report. Memory of a lost context is freed when the process ends: freeing here would wait for a kernel that may never
    /// end.
    fn close(self, lost: bool) -> VerifyReport {
        if lost {
            std::mem::forget(self.memory);
            std::mem::forget(self.device);
        }
        self.report
    }
}

/// The findings of one operation on one code path.
pub(super) struct Findings<'a> {
    operation: &'a Operation,
    path: String,
    found: Vec<Finding>,
}

impl<'a> Findings<'a> {
    pub(super) fn new(operation: &'a Operation, path: String) -> Self {
        Self { operation, path, found: Vec::new() }
    }

    pub(super) fn add(&mut self, case: &Case, (kind, message): Fault) {
        self.found.push(Finding {
            kind,
            operation: self.operation.name.clone(),
            case: Some(case.label.clone()),
            path: self.path.clone(),
            message,
        });
    }

    /// The first findings; the last of them says how many more there are.
    pub(super) fn shortened(mut self) -> Vec<Finding> {
        let more = self.found.len().saturating_sub(MOST_FINDINGS);
        self.found.truncate(MOST_FINDINGS);
        if let Some(last) = self.found.last_mut().filter(|_| more > 0) {
            let note = format!(" (and {more} more findings of this operation here)");
            last.message.push_str(&note);
        }
        self.found
    }
}
