//! The checks of one project: read, check, build, budgets, evidence, torch; then, where there is a card, verify; and, when nothing
//! else uses it, bench.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::machine::Lab;
use crate::base::arch;
use crate::base::plural;
use crate::base::text::for_shell;
use crate::bench::BenchReport;
use crate::check::{self, Severity};
use crate::compile::{Build, NotCompared, Target};
use crate::evidence::signature::{self, Signed};
use crate::evidence::{self, Evidence, Freshness};
use crate::oracle;
use crate::project::{Project, TorchProject};
use crate::report::check::{Check, Checks, Suite};
use crate::report::figure;
use crate::toolchain::Known;
use crate::verify::{Finding, OperationReport, SET, VerifyReport};

/// The options of the command line.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted<'a> {
    /// The evidence folder, if named; then missing evidence is a failure.
    pub evidence: Option<&'a Path>,
    /// A missing card is a failure.
    pub require_card: bool,
    /// The Python with torch, if named.
    pub python: Option<&'a PathBuf>,
    /// Anything missing for the checks of a project for torch is a failure.
    pub require_torch: bool,
    /// Who may have signed evidence, if named; then evidence that none of them signed is a failure.
    pub signers: Option<&'a Path>,
}

/// The checks of a project that have ended.
pub(crate) struct Checked {
    pub(crate) suite: Suite,
    /// What is to be verified, or timed, next.
    pub(crate) next: Option<(Project, Build)>,
}

impl Checked {
    /// Verifies the project, or takes what was found ahead.
    pub(crate) fn verified(self, lab: &dyn Lab, tell: &mut dyn FnMut(&Check)) -> Self {
        self.continued("verify", tell, |project, build, checks| verify(lab, project, build, checks))
    }

    /// Times the project.
    pub(crate) fn timed(self, lab: &dyn Lab, tell: &mut dyn FnMut(&Check)) -> Self {
        self.continued("bench", tell, |project, build, checks| {
            bench(lab, project, build, checks);
            false
        })
    }

    /// Makes more checks, of one group. `make` says whether others follow.
    fn continued(
        self,
        group: &str,
        tell: &mut dyn FnMut(&Check),
        make: impl FnOnce(&Project, &Build, &mut Checks) -> bool,
    ) -> Self {
        let Self { mut suite, next } = self;
        let Some((project, build)) = next else { return Self { suite, next } };
        let start = Instant::now();
        let mut checks = Checks::new(tell);
        let more = make(&project, &build, &mut checks);
        suite.checks.extend(checks.done);
        // What was done ahead took longer than it took to take it.
        let longest = suite.checks.iter().filter(|check| check.group == group).map(|check| check.seconds);
        let seconds = longest.fold(start.elapsed().as_secs_f64(), f64::max);
        suite.stages.insert(group.to_owned(), seconds);
        suite.seconds += seconds;
        Self { suite, next: more.then_some((project, build)) }
    }
}

/// Checks the project in a folder, but for what needs a card. `started` gets its name, and `tell` each check as it ends:
/// passed, failed, or skipped with its reason.
pub(crate) fn suite(
    lab: &dyn Lab,
    dir: &Path,
    wanted: &Wanted,
    started: &mut dyn FnMut(&Suite),
    tell: &mut dyn FnMut(&Check),
) -> Checked {
    let start = Instant::now();
    let name = dir.display().to_string();
    let mut suite = Suite { name: name.clone(), dir: name, checks: Vec::new(), seconds: 0.0, stages: BTreeMap::new() };
    let mut stages = BTreeMap::new();
    let mut last = start;
    let mut tell = |check: &Check| {
        let now = Instant::now();
        *stages.entry(check.group.clone()).or_insert(0.0) += (now - last).as_secs_f64();
        last = now;
        tell(check);
    };
    let mut checks = Checks::new(&mut tell);
    let project = Project::open(dir);
    if let Ok(project) = &project {
        suite.name.clone_from(&project.name);
    }
    started(&suite);
    let next = match project {
        Ok(project) => {
            let operations = plural(project.spec.operations.len(), "operation");
            checks.push(Check::passed("read", "build.toml and kernel.toml", operations));
            checks.push(text(dir));
            without_a_card(lab, &project, dir, wanted, &mut checks).map(|build| (project, build))
        }
        Err(error) => {
            checks.push(Check::failed("read", "build.toml and kernel.toml", format!("{error:#}")));
            for group in ["check", "build", "budgets", "evidence", "verify", "bench"] {
                checks.push(Check::skipped(group, "all", "the project cannot be read"));
            }
            None
        }
    };
    suite.checks = checks.done;
    suite.stages = stages;
    suite.seconds = start.elapsed().as_secs_f64();
    Checked { suite, next }
}

/// The rules of `kernels check`; warnings are counted, but do not fail.
fn text(dir: &Path) -> Check {
    match check::check(dir) {
        Ok(report) if report.count(Severity::Error) == 0 => Check::passed("check", "text", report.summary()),
        Ok(report) => {
            let errors = errors(dir, &report);
            Check::failed("check", "text", errors.join("\n"))
        }
        Err(error) => Check::failed("check", "text", format!("{error:#}")),
    }
}

/// The errors, one per line.
fn errors(dir: &Path, report: &check::Report) -> Vec<String> {
    let of = |finding: &check::Finding| {
        format!(
            "{}:{}:{}: {} [{}]",
            dir.join(&finding.path).display(),
            finding.place.line,
            finding.place.column,
            finding.message,
            finding.rule
        )
    };
    report.findings.iter().filter(|finding| finding.severity == Severity::Error).map(of).collect()
}

/// The architectures that a project is built for, if its kernels are for them; `card` is the one of the card.
pub(super) fn archs(card: Option<u32>) -> Vec<u32> {
    let mut archs = BTreeSet::from_iter(arch::defaults());
    archs.extend(card);
    archs.into_iter().collect()
}

/// The checks of a project that was read, but for what needs a card; `dir` is its folder as given. Returns what is to be verified.
pub fn without_a_card(
    lab: &dyn Lab,
    project: &Project,
    dir: &Path,
    wanted: &Wanted,
    checks: &mut Checks,
) -> Option<Build> {
    let card = lab.card();
    let (ended, build) = match project.of_archs(&archs(card.as_ref().ok().map(|card| card.arch))) {
        Ok(archs) => build(lab, project, &archs),
        Err(why) => (vec![Check::failed("build", "all", why.to_string())], None),
    };
    checks.extend(ended);
    match &build {
        Some(build) => checks.extend(budgets(project, build)),
        None => checks.push(Check::skipped("budgets", "all", "the project did not build")),
    }
    checks.extend(evidence(lab, project, dir, build.is_some(), wanted));
    checks.extend(end_to_end(project, dir, wanted));
    match &build {
        _ if !TorchProject::is_one(&project.root) => {}
        Some(_) => lab.torch(project, wanted.python, wanted.require_torch, &mut |check| checks.push(check)),
        None => checks.push(Check::skipped("torch", "all", "the project did not build")),
    }
    if let Err(error) = oracle::check_names(project) {
        checks.push(Check::failed("verify", "all", format!("{error:#}")));
        checks.push(Check::skipped("bench", "all", "what is not verified is not timed"));
        return None;
    }
    match (card, build) {
        (Err(why), _) => {
            for group in ["verify", "bench"] {
                let reason = format!("no card here: {why}");
                checks.push(if wanted.require_card {
                    Check::failed(group, "all", format!("--require-card, and {reason}"))
                } else {
                    Check::skipped(group, "all", reason)
                });
            }
        }
        (Ok(_), None) => {
            for group in ["verify", "bench"] {
                checks.push(Check::skipped(group, "all", "the project did not build"));
            }
        }
        (Ok(_), Some(build)) => return Some(build),
    }
    None
}

fn build(lab: &dyn Lab, project: &Project, archs: &[u32]) -> (Vec<Check>, Option<Build>) {
    let start = Instant::now();
    let failed = |text: String| (vec![Check::failed("build", "all", text)], None);
    let toolchain = match lab.toolchain() {
        Ok(toolchain) => toolchain,
        Err(why) => return failed(why),
    };
    let (archs, others) = toolchain.divide(archs, &Known::nothing());
    if archs.is_empty()
        && let Err(why) = toolchain.must_compile_for(&others, &Known::nothing())
    {
        return failed(why.to_string());
    }
    let done = match lab.build(project, &archs, &toolchain) {
        Ok(done) => done,
        Err(error) => return failed(format!("{error:#}")),
    };
    let mut checks: Vec<Check> = done
        .targets
        .iter()
        .map(|target| Check::passed("build", format!("sm_{}", target.arch), kernels(target)))
        .collect();
    let there: Vec<u32> = done.targets.iter().map(|target| target.arch).collect();
    for arch in archs.iter().filter(|arch| !there.contains(arch)) {
        checks.push(Check::failed("build", format!("sm_{arch}"), "the build has no code for this architecture"));
    }
    let no_code = format!("nvcc {} does not compile for it", toolchain.version);
    checks.extend(others.iter().map(|arch| Check::skipped("build", format!("sm_{arch}"), no_code.clone())));
    if let Some(first) = checks.first_mut() {
        // All architectures are compiled at once.
        first.seconds = start.elapsed().as_secs_f64();
    }
    (checks, Some(done))
}

fn kernels(target: &Target) -> String {
    let kernels: Vec<_> = target.units.iter().flat_map(|unit| &unit.kernels).collect();
    let registers = kernels.iter().map(|kernel| kernel.registers).max();
    let spills: u64 = kernels.iter().map(|kernel| kernel.spilled()).sum();
    format!("{}, at most {} registers, {spills} bytes spilled", plural(kernels.len(), "kernel"), registers.unwrap_or(0))
}

/// One check of all budgets, and a skipped one for each that is for an architecture that was not built.
fn budgets(project: &Project, build: &Build) -> Vec<Check> {
    if project.spec.budgets.is_empty() {
        return vec![Check::skipped("budgets", "all", "kernel.toml sets none")];
    }
    let over = build.over_budget(project);
    let left = build.not_compared(project);
    let compared = project.spec.budgets.len() - left.iter().filter(|one| one.nowhere).count();
    let all = match (over.is_empty(), compared) {
        (false, _) => Some(Check::failed("budgets", "all", over.join("\n"))),
        (true, 0) => None,
        (true, _) => Some(Check::passed("budgets", "all", plural(compared, "budget"))),
    };
    let skipped = |one: &NotCompared| Check::skipped("budgets", one.name(), format!("it {}", one.why()));
    all.into_iter().chain(left.iter().map(skipped)).collect()
}

/// The records of whole models; a project need not have any. Only texts are compared, so nothing must be built.
fn end_to_end(project: &Project, named: &Path, wanted: &Wanted) -> Vec<Check> {
    let dir = evidence::folder(&project.root, wanted.evidence);
    let standings = match evidence::end_to_end::check(&dir, &project.root) {
        Ok(standings) => standings,
        Err(error) => return vec![Check::failed("evidence", "e2e", format!("{error:#}"))],
    };
    let check = |standing: evidence::Standing| {
        let card = standing.card.as_deref().unwrap_or("a card");
        let name = format!("{} on {card}", standing.operation);
        let file = standing.file.unwrap_or_default();
        let file = file.display();
        match standing.freshness {
            Freshness::Stale { what } => Check::failed(
                "evidence",
                name,
                format!(
                    "{file} is stale: {what}\n`kernels bench {} --e2e --record` on a card records it anew",
                    for_shell(named)
                ),
            ),
            _ => match signed(&file.to_string(), wanted.signers) {
                Ok(detail) => Check::passed("evidence", name, detail),
                Err(error) => Check::failed("evidence", name, format!("{error:#}")),
            },
        }
    };
    standings.into_iter().map(check).collect()
}

fn evidence(lab: &dyn Lab, project: &Project, named: &Path, built: bool, wanted: &Wanted) -> Vec<Check> {
    let dir = evidence::folder(&project.root, wanted.evidence);
    let operations: Vec<String> = project.spec.operations.iter().map(|operation| operation.name.clone()).collect();
    let none = match Evidence::read_all(&dir) {
        Ok(all) => !all.iter().any(|(_, evidence)| evidence.project == project.name),
        Err(error) => return vec![Check::failed("evidence", "all", format!("{error:#}"))],
    };
    let record = format!("`kernels bench {} --record` on a card records it", for_shell(named));
    if none && wanted.evidence.is_none() {
        return vec![Check::skipped("evidence", "all", format!("none recorded in {}; {record}", dir.display()))];
    }
    let pinned = match (built, lab.pinned()) {
        (false, _) => Err("the project did not build".to_owned()),
        (true, pinned) => pinned,
    };
    let mut digest;
    let digest: Option<evidence::Digest> = match &pinned {
        Ok(toolchain) => {
            digest = |archs: &[u32]| lab.device_digest(&lab.build(project, archs, toolchain)?);
            Some(&mut digest)
        }
        Err(_) => None,
    };
    let standings = match evidence::check(&dir, &project.name, &operations, project.into(), digest) {
        Ok(standings) => standings,
        Err(error) => return vec![Check::failed("evidence", "all", format!("{error:#}"))],
    };
    let missing = format!("none recorded in {}; {record}", dir.display());
    let check = |standing: evidence::Standing| {
        let name = match &standing.card {
            Some(card) => format!("{} on {card}", standing.operation),
            None => standing.operation.clone(),
        };
        let file = standing.file.unwrap_or_default();
        let file = file.display().to_string();
        let fail = |text| Check::failed("evidence", &name, text);
        let skip = |reason| Check::skipped("evidence", &name, reason);
        // Whoever changes a record could make it look like one that is skipped: a signature is asked of every one.
        let signed = match standing.freshness {
            Freshness::Missing => Ok(String::new()),
            _ => signed(&file, wanted.signers),
        };
        match (standing.freshness, signed) {
            (Freshness::Stale { what }, _) => fail(format!("{file} is stale: {what}\n{record} anew")),
            (_, Err(error)) => fail(format!("{error:#}")),
            (Freshness::Fresh, Ok(detail)) => Check::passed("evidence", &name, detail),
            (Freshness::Unknown, _) => skip(pinned.as_ref().err().cloned().unwrap_or_default()),
            (Freshness::OlderSet { set }, _) => {
                skip(format!("{file} was verified under set {set}, and set {SET} is verified now; {record} anew"))
            }
            (Freshness::Missing, _) if wanted.evidence.is_some() => fail(missing.clone()),
            (Freshness::Missing, _) => skip(missing.clone()),
        }
    };
    standings.into_iter().map(check).collect()
}

/// The detail of a record's check: who signed it.
fn signed(file: &str, signers: Option<&Path>) -> anyhow::Result<String> {
    let signed = match signature::verify(Path::new(file), signers)? {
        Signed::Not => "unsigned".to_owned(),
        Signed::Unverified => "signed; --signers FILE says by whom".to_owned(),
        Signed::By(who) => format!("signed by {who}"),
    };
    Ok(format!("{file}, {signed}"))
}

/// Verifies a project; whether it is to be timed.
pub fn verify(lab: &dyn Lab, project: &Project, build: &Build, checks: &mut Checks) -> bool {
    let start = Instant::now();
    let (mut done, right) = match lab.verify(project, build) {
        Ok(report) => (verified(&report), report.passed()),
        Err(error) => (vec![Check::failed("verify", "all", format!("{error:#}"))], false),
    };
    if let Some(first) = done.first_mut()
        && first.seconds == 0.0
    {
        first.seconds = start.elapsed().as_secs_f64();
    }
    checks.extend(done);
    let none = project.spec.operations.iter().all(|operation| operation.bench.is_empty());
    if !right {
        checks.push(Check::skipped("bench", "all", "what is not right is not timed"));
    } else if none {
        checks.push(Check::skipped("bench", "all", "kernel.toml has no cases to time"));
    }
    right && !none
}

/// Times a project that was verified.
pub fn bench(lab: &dyn Lab, project: &Project, build: &Build, checks: &mut Checks) {
    let start = Instant::now();
    let mut timed = match lab.bench(project, build) {
        Ok(report) => timed(&report),
        Err(error) => vec![Check::failed("bench", "all", format!("{error:#}"))],
    };
    if let Some(first) = timed.first_mut() {
        first.seconds = start.elapsed().as_secs_f64();
    }
    checks.extend(timed);
}

/// One check per code path, and one per group of findings about something else.
pub(crate) fn verified(report: &VerifyReport) -> Vec<Check> {
    let mut left: Vec<&Finding> = report.findings.iter().collect();
    // What only the project itself vouches for goes into the first line, which every report shows.
    let own: Vec<String> = report.operations.iter().flat_map(OperationReport::own).collect();
    let words = |operation: &OperationReport| format!("{}, all paths: {}", operation.operation, operation.words());
    let operations: Vec<String> = report.operations.iter().map(words).collect();
    let mut checks: Vec<Check> = report
        .paths
        .iter()
        .map(|path| {
            let name = path.name();
            if let Some(alike) = path.alike() {
                return Check::passed("verify", name, alike);
            }
            let here = take(&mut left, |finding| finding.path == name);
            let detail = format!(
                "{}, {}, {}, worst error {} of its budget",
                plural(path.cases, "case"),
                plural(path.launches, "launch"),
                plural(path.elements, "element"),
                figure::times(path.worst),
            );
            let detail = std::iter::once(detail).chain(own.iter().cloned()).collect::<Vec<_>>().join("; ");
            let detail = std::iter::once(detail).chain(operations.iter().cloned()).collect::<Vec<_>>().join("\n");
            check("verify", name, detail, &here).taking(path.seconds)
        })
        .collect();
    checks.extend(others("verify", &left));
    if checks.is_empty() {
        checks.push(Check::failed("verify", "all", "nothing was verified"));
    }
    checks
}

/// One check per timed case, and one per case of a finding that was not timed.
pub(crate) fn timed(report: &BenchReport) -> Vec<Check> {
    let mut left: Vec<&Finding> = report.findings.iter().collect();
    let mut checks: Vec<Check> = report
        .cases
        .iter()
        .map(|case| {
            let here = take(&mut left, |finding| {
                finding.operation == case.operation && finding.case.as_ref() == Some(&case.case)
            });
            let detail = format!(
                "{} µs [{}–{}], {} GB/s, {} % of roof, {}",
                figure::micros(case.kernel.median),
                figure::micros(case.kernel.p10),
                figure::micros(case.kernel.p90),
                figure::gbs(case.gbs()),
                figure::percent(case.of_roof()),
                figure::residency(case),
            );
            let detail = std::iter::once(detail).chain(case.remarks.iter().cloned()).collect::<Vec<_>>().join("\n");
            check("bench", format!("{}: {}", case.operation, case.case), detail, &here)
        })
        .collect();
    checks.extend(others("bench", &left));
    if checks.is_empty() {
        checks.push(Check::failed("bench", "all", "nothing was timed"));
    }
    checks
}

/// Removes and returns the findings that match.
fn take<'a>(left: &mut Vec<&'a Finding>, about: impl Fn(&Finding) -> bool) -> Vec<&'a Finding> {
    let (here, elsewhere) = left.iter().partition(|finding| about(finding));
    *left = elsewhere;
    here
}

fn check(group: &str, name: String, detail: String, findings: &[&Finding]) -> Check {
    if findings.is_empty() {
        return Check::passed(group, name, detail);
    }
    let text: Vec<String> = findings.iter().map(|finding| sentence(finding)).collect();
    Check { detail, ..Check::failed(group, name, text.join("\n")) }
}

/// Findings without a check of their own, grouped by operation, case and path.
fn others(group: &str, left: &[&Finding]) -> Vec<Check> {
    let mut names: Vec<(String, Vec<&Finding>)> = Vec::new();
    for finding in left {
        let name = match &finding.case {
            Some(case) => format!("{}: {case}", finding.operation),
            None => finding.operation.clone(),
        };
        let name = format!("{name} ({})", finding.path);
        match names.iter_mut().find(|(there, _)| *there == name) {
            Some((_, findings)) => findings.push(finding),
            None => names.push((name, vec![finding])),
        }
    }
    names.into_iter().map(|(name, findings)| check(group, name, String::new(), &findings)).collect()
}

/// `wrong-value, rms_norm, rows=3 width=7 bf16: element [0, 3] is …`
fn sentence(finding: &Finding) -> String {
    let kind = serde_json::to_value(finding.kind).unwrap_or_default();
    let case = finding.case.as_ref().map(|case| format!(", {case}")).unwrap_or_default();
    format!("{}, {}{case}: {}", kind.as_str().unwrap_or("finding"), finding.operation, finding.message)
}
