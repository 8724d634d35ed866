//! A whole verification: every code path, operation and case.

use std::collections::VecDeque;
use std::sync::mpsc::sync_channel;
use std::time::Instant;

use anyhow::{Result, bail};

use super::beside::Beside;
use super::check::{Arena, CaseOutcome, Prepared, check, check_refusal};
use super::finding::{Finding, PathReport, VerifyReport};
use super::path::{CodePath, choose};
use super::random::fresh_seed;
use super::{exact, sanitize};
use crate::compile::Build;
use crate::gpu::Device;
use crate::gpu::muffle::Muffle;
use crate::project::{Case, DType, Operation, Project};

/// Findings that are told of one operation on one path; the rest are counted.
const TOLD: usize = 12;

/// Cases whose inputs are drawn ahead.
const AHEAD: usize = 2;

/// What to verify.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// Only operations and cases whose name contains this.
    pub filter: Option<String>,
    /// Only these dtypes; empty: all.
    pub dtypes: Vec<DType>,
    /// Instead of the project's cases, these.
    pub shapes: Vec<String>,
    /// The seed; none: a fresh one.
    pub seed: Option<u64>,
    /// The card, by its number.
    pub ordinal: usize,
    /// Only the code for this card.
    pub native_only: bool,
    /// Only the code for this architecture.
    pub only_arch: Option<u32>,
}

impl Choice {
    /// The cases of an operation that are meant, of one of its tables.
    pub fn cases(
        &self,
        operation: &Operation,
        sets: &[crate::project::CaseSet],
        seed: u64,
    ) -> Result<Vec<Case>> {
        let mut cases = if self.shapes.is_empty() {
            operation.cases(sets, seed)?
        } else {
            let mut named = Vec::new();
            for shape in &self.shapes {
                for dtype in &operation.dtypes {
                    named.push(operation.case_of_shape(shape, *dtype)?);
                }
            }
            named
        };
        cases.retain(|case| self.dtypes.is_empty() || self.dtypes.contains(&case.dtype));
        if let Some(text) = &self.filter {
            cases.retain(|case| {
                operation.name.contains(text.as_str()) || case.label.contains(text.as_str())
            });
        }
        Ok(cases)
    }
}

/// Verifies a project on a card. `tell` is called with what is being done.
pub fn run(
    project: &Project,
    build: &Build,
    choice: &Choice,
    tell: &dyn Fn(&str),
) -> Result<VerifyReport> {
    // Dropped last, when the context has printed all that it will.
    let _muffle = Muffle::new();
    let device = Device::open(choice.ordinal)?;
    let seed = choice.seed.unwrap_or_else(fresh_seed);
    let mut report = VerifyReport {
        project: project.name.clone(),
        card: device.card.clone(),
        compiler: build.compiler.clone(),
        seed,
        confinement: Vec::new(),
        paths: Vec::new(),
        findings: Vec::new(),
    };
    let mut paths = choose(build, device.card.arch, choice.native_only);
    if let Some(arch) = choice.only_arch {
        paths.retain(|(target, _)| target.arch == arch);
    }
    if paths.is_empty() {
        bail!(
            "nothing in this build runs on {} (sm_{}): build for it with --arch {}",
            device.card.name,
            device.card.arch,
            device.card.arch
        );
    }
    let mut arena = Arena::default();
    let mut any = false;
    // The first path is checked here, the others beside it.
    let mut here: VecDeque<_> = paths.into();
    let mut beside = Vec::new();
    if sanitize::inside().is_none() {
        for (target, _) in here.drain(1..) {
            beside.push(Beside::start(project, target, choice, seed)?);
        }
    }
    loop {
        let Some((target, jit)) = here.pop_front() else {
            if beside.is_empty() {
                break;
            }
            let mut one = beside.remove(0);
            tell(&format!(
                "waiting for the code for compute_{}",
                one.target.arch
            ));
            match one.finish() {
                Ok(other) => {
                    any = true;
                    report.paths.extend(other.paths);
                    report.findings.extend(other.findings);
                }
                // Whatever kept it from reporting, here it will show.
                Err(_) => here.push_back((one.target, true)),
            }
            continue;
        };
        let start = Instant::now();
        tell(&format!("loading the code for sm_{}", target.arch));
        let mut path = CodePath::load(&device, choice.ordinal, project, target, jit)?;
        let mut summary = PathReport {
            arch: target.arch,
            jit,
            cases: 0,
            launches: 0,
            elements: 0,
            worst: 0.0,
            seconds: 0.0,
        };
        let mut lost = false;
        let name = path.name();
        for operation in &project.spec.operations {
            let mut cases = choice.cases(operation, &operation.verify, seed)?;
            if sanitize::inside().is_some() {
                cases = sanitize::thinned(operation, cases);
            }
            let mut findings = Vec::new();
            let mut each = |case: &Case, outcome: CaseOutcome| {
                any = true;
                summary.cases += 1;
                summary.launches += outcome.launches;
                summary.elements += outcome.elements;
                summary.worst = summary.worst.max(outcome.worst);
                for (kind, message) in outcome.faults {
                    findings.push(Finding {
                        kind,
                        operation: operation.name.clone(),
                        case: Some(case.label.clone()),
                        path: name.clone(),
                        message,
                    });
                }
                lost |= outcome.lost;
                !lost
            };
            if sanitize::inside().is_some() {
                for case in &cases {
                    tell(&format!("{name}: {} {}", operation.name, case.label));
                    let outcome = exact::run(&device, &mut path, operation, case, seed)?;
                    if !each(case, outcome) {
                        break;
                    }
                }
            } else {
                std::thread::scope(|scope| -> Result<()> {
                    let (ahead, prepared) = sync_channel(AHEAD);
                    let cases = &cases;
                    // Ends with the last case, or when nobody receives any more.
                    scope.spawn(move || {
                        cases.iter().all(|case| {
                            ahead
                                .send(Prepared::new(project, operation, case, seed))
                                .is_ok()
                        })
                    });
                    for (case, prepared) in cases.iter().zip(prepared) {
                        tell(&format!("{name}: {} {}", operation.name, case.label));
                        let outcome = check(
                            &device, &mut arena, project, &mut path, operation, case, &prepared?,
                        )?;
                        if !each(case, outcome) {
                            break;
                        }
                    }
                    Ok(())
                })?;
            }
            if !lost && choice.shapes.is_empty() && choice.filter.is_none() {
                for case in operation.cases(&operation.reject, seed)? {
                    let base = arena.reserve(&device, 1 << 22)?.address();
                    summary.cases += 1;
                    if let Some((kind, message)) = check_refusal(&mut path, operation, &case, base)?
                    {
                        findings.push(Finding {
                            kind,
                            operation: operation.name.clone(),
                            case: Some(case.label.clone()),
                            path: path.name(),
                            message,
                        });
                    }
                }
            }
            shorten(&mut findings);
            report.findings.append(&mut findings);
            if lost {
                break;
            }
        }
        if report.confinement.is_empty() {
            report.confinement = path.confinement();
        }
        // JSON has no infinity.
        summary.worst = summary.worst.min(1e300);
        summary.seconds = start.elapsed().as_secs_f64();
        report.paths.push(summary);
        if lost {
            if let Some(last) = report.findings.last_mut() {
                last.message.push_str(
                    " (the card's context is lost with this: nothing after it was run on this path; `kernels verify --sanitize` \
                     shows where it happens)",
                );
            }
            // What is still on the card dies with the process, which must not wait for a kernel that never ends.
            std::mem::forget(path);
            std::mem::forget(arena);
            std::mem::forget(device);
            for other in beside.iter_mut().filter_map(|one| one.finish().ok()) {
                report.paths.extend(other.paths);
                report.findings.extend(other.findings);
            }
            return Ok(report);
        }
    }
    if !any {
        bail!(
            "no case is left of {}: --filter, --dtype or --shape leave nothing",
            project.name
        );
    }
    Ok(report)
}

/// The first findings of each kind, and how many more there are.
fn shorten(findings: &mut Vec<Finding>) {
    let all = findings.len();
    if all > TOLD {
        findings.truncate(TOLD);
        if let Some(last) = findings.last_mut() {
            use std::fmt::Write;
            let _ = write!(
                last.message,
                " (and {} more findings of this operation here)",
                all - TOLD
            );
        }
    }
}
