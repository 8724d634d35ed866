//! A whole benchmark: every operation and case, cold, and hot where the case fits in the L2.

use anyhow::{Result, bail};

use super::clock::Clock;
use super::health::Health;
use super::result::{BenchReport, CaseBench, Residency, Spread};
use super::ring::{Pool, Ring};
use super::roof::Roof;
use super::rotation::Rotation;
use super::spread::per_launch;
use crate::base::cores;
use crate::compile::{Build, Kernel};
use crate::gpu::copy::Copier;
use crate::gpu::muffle::Muffle;
use crate::gpu::{Card, Device, GpuError, Graph, Recording};
use crate::project::{Bound, Case, Operation, Project, Role};
use crate::verify::compare::compare;
use crate::verify::finding::{Finding, Kind};
use crate::verify::judge::{damaged, judge};
use crate::verify::layout::Layout;
use crate::verify::path::{CodePath, Fault, choose};
use crate::verify::random::{Random, fresh_seed};
use crate::verify::reference::oracle_for;
use crate::verify::slot::{results, tensors};
use crate::worker::Choice;

/// Random rounds after which timed outputs are compared, besides the last round.
const CHECKED_ROUNDS: usize = 3;
/// Above this many operations a launch, check as few slots as for a large case: the host computes some 10^11 a second.
const MANY_OPERATIONS: f64 = 5e10;

/// Times a project on a card. `tell` is called with what is being done.
pub(crate) fn run(
    project: &Project,
    build: &Build,
    choice: &Choice,
    rounds: u32,
    tell: &dyn Fn(&str),
) -> Result<BenchReport> {
    // Dropped last, after the context has printed everything.
    let _muffle = Muffle::new();
    let device = Device::open(choice.ordinal)?;
    let seed = choice.seed.unwrap_or_else(fresh_seed);
    let before = Health::ask(choice.ordinal);
    let paths = choose(build, device.card.arch, true);
    let Some((target, jit)) = paths.first() else {
        bail!(
            "nothing in this build runs on {} (sm_{}): build for it with --arch {}",
            device.card.name,
            device.card.arch,
            device.card.arch
        );
    };
    let mut path = CodePath::load(&device, choice.ordinal, project, target, *jit)?;
    let mut report = BenchReport {
        project: project.name.clone(),
        card: device.card.clone(),
        compiler: build.compiler.clone(),
        seed,
        cases: Vec::new(),
        findings: Vec::new(),
        remarks: before.remarks("before"),
    };
    let mut bench = Bench {
        device: &device,
        project,
        copier: Copier::new(&device)?,
        pools: Vec::new(),
        random: Random::new(seed, 0xbe_9c),
        rounds: rounds.max(5),
        kernels: target.units.iter().flat_map(|unit| &unit.kernels).collect(),
    };
    let lost = bench.all(&mut path, choice, &mut report, tell)?;
    let after = Health::ask(choice.ordinal).remarks("after");
    report.remarks.extend(after);
    if lost {
        // Freed when the process ends; freeing here would wait for a kernel that may never end.
        std::mem::forget(bench);
        std::mem::forget(path);
        std::mem::forget(device);
    }
    Ok(report)
}

/// What the cases of a run share.
struct Bench<'a> {
    device: &'a Device,
    project: &'a Project,
    copier: Copier,
    pools: Vec<Pool>,
    random: Random,
    rounds: u32,
    kernels: Vec<&'a Kernel>,
}

/// A case to be timed.
struct Timing<'a> {
    operation: &'a Operation,
    case: &'a Case,
    bound: &'a Bound,
    layout: Layout,
    rotation: Rotation,
}

impl Timing<'_> {
    /// Whether comparing a slot takes the host much longer than a launch takes the card.
    fn is_large(&self) -> bool {
        self.layout.bytes > 1 << 26 || self.bound.flops > MANY_OPERATIONS
    }
}

/// The result of timing one case.
#[derive(Default)]
struct Timed {
    bench: Option<CaseBench>,
    faults: Vec<Fault>,
    /// Whether the context is lost.
    lost: bool,
}

impl From<Fault> for Timed {
    fn from(fault: Fault) -> Self {
        Self { faults: vec![fault], ..Self::default() }
    }
}

impl From<GpuError> for Timed {
    fn from(error: GpuError) -> Self {
        Self { lost: error.sticky, ..Self::from((Kind::LaunchFailed, error.to_string())) }
    }
}

/// The rounds of a case: microseconds of the graph and of the copies behind it, and the comparisons.
#[derive(Default)]
struct Rounds {
    kernel: Vec<f64>,
    copy: Vec<f64>,
    checked: u32,
    faults: Vec<Fault>,
}

fn in_place(bound: &Bound) -> bool {
    let mut tensors = bound.tensors.iter();
    tensors.any(|tensor| tensor.role == Role::InOut)
}

impl Bench<'_> {
    /// Times all cases; returns whether the context is lost.
    fn all(
        &mut self,
        path: &mut CodePath,
        choice: &Choice,
        report: &mut BenchReport,
        tell: &dyn Fn(&str),
    ) -> Result<bool> {
        let mut any = false;
        for operation in &self.project.spec.operations {
            for case in choice.cases(operation, &operation.bench, report.seed)? {
                any = true;
                let bound = operation.bind(&case)?;
                let mut wanted = vec![Residency::Cold];
                if bound.bytes <= self.device.card.l2_bytes / 2 && !in_place(&bound) {
                    wanted.push(Residency::Hot);
                }
                for residency in wanted {
                    tell(&format!("{} {}", operation.name, case.label));
                    let timed = self.case(path, operation, &case, &bound, residency)?;
                    report.cases.extend(timed.bench);
                    let findings = timed.faults.into_iter().map(|(kind, message)| Finding {
                        kind,
                        operation: operation.name.clone(),
                        case: Some(case.label.clone()),
                        path: path.name(),
                        message,
                    });
                    report.findings.extend(findings);
                    if timed.lost {
                        return Ok(true);
                    }
                }
            }
        }
        if !any {
            bail!(
                "no case is left of {} to time: its kernel.toml has no [[operation.bench]], or --filter, --dtype and \
                 --shape leave nothing",
                self.project.name
            );
        }
        Ok(false)
    }

    fn case(
        &mut self,
        path: &mut CodePath,
        operation: &Operation,
        case: &Case,
        bound: &Bound,
        residency: Residency,
    ) -> Result<Timed> {
        let device = self.device;
        if bound.bytes == 0 {
            let why = "an empty case cannot be timed: it moves no bytes".to_owned();
            return Ok((Kind::LaunchFailed, why).into());
        }
        // A tensor that is input and output must be launched on once a round, or its content is undefined.
        let rotation = Rotation::of(bound.bytes, device.card.l2_bytes, residency, in_place(bound));
        let layout = Layout::new(bound);
        let timing = Timing { operation, case, bound, layout, rotation };
        let mut ring = self.ring(&timing)?;
        let bases: Vec<u64> = (0..rotation.sets).map(|slot| ring.base(slot)).collect();
        let recordings = match path.record(&operation.launcher, bound, &timing.layout, &bases)? {
            Ok(recordings) => recordings,
            Err(fault) => return Ok(fault.into()),
        };
        let graph = match Graph::capture(device, || {
            for _ in 0..rotation.launches / rotation.sets {
                for launch in recordings.iter().flat_map(|recording| &recording.launches) {
                    path.modules.launch(device, launch)?;
                }
            }
            Ok(())
        }) {
            Ok(graph) => graph,
            Err(error) => return Ok(error.into()),
        };
        let roof = Roof::measure(device, &self.copier, bound.bytes, rotation.sets, rotation.launches)?;
        Ok(match self.rounds(&timing, &mut ring, &graph, &roof)? {
            Ok(rounds) => self.timed(&timing, rounds, &roof, &recordings),
            Err(error) => error.into(),
        })
    }

    /// The slots of a case, where the card has the memory.
    fn ring(&mut self, timing: &Timing) -> Result<Ring> {
        let slots = timing.rotation.sets;
        let needed = u64::from(slots) * (timing.layout.bytes + timing.bound.bytes) * 11 / 10;
        if needed > self.device.free_bytes()? {
            bail!(
                "{} {}: timing it needs {:.1} GB, and the card has not enough free memory; make the case smaller",
                timing.operation.name,
                timing.case.label,
                gigabytes(needed)
            );
        }
        Ring::new(self.device, timing.bound, &timing.layout, slots, &mut self.pools, &mut self.random)
    }

    /// The figures of a case after its rounds.
    fn timed(&self, timing: &Timing, rounds: Rounds, roof: &Roof, recordings: &[Recording]) -> Timed {
        let (case, bound) = (timing.case, timing.bound);
        let first = recordings.first();
        let mut bench = CaseBench {
            operation: timing.operation.name.clone(),
            case: case.label.clone(),
            dtype: case.dtype,
            values: case.values.clone(),
            bytes: bound.bytes,
            flops: bound.flops,
            residency: timing.rotation.residency,
            slots: timing.rotation.sets,
            kernel: per_launch(&rounds.kernel, timing.rotation.launches),
            copy: per_launch(&rounds.copy, roof.copies),
            copy_by: roof.manner.name().to_owned(),
            launches: first.map_or_else(Vec::new, |recording| self.describe(recording)),
            checked: rounds.checked,
            remarks: Vec::new(),
            against: None,
        };
        bench.remarks.extend(bench.kernel.unsteady("the kernel"));
        bench.remarks.extend(bench.copy.unsteady("the copy"));
        let card = &self.device.card;
        let why = too_fast(bench.kernel, bench.bytes, bench.residency, card);
        let mut faults = rounds.faults;
        faults.extend(why.map(|why| (Kind::TooFast, why)));
        Timed { bench: Some(bench), faults, lost: false }
    }

    /// Each round: change the inputs, poison what will be checked, copy (untimed: what is timed is queued behind it), kernel,
    /// copy, check.
    fn rounds(
        &mut self,
        timing: &Timing,
        ring: &mut Ring,
        graph: &Graph,
        roof: &Roof,
    ) -> Result<Result<Rounds, GpuError>> {
        let (device, bound, layout) = (self.device, timing.bound, &timing.layout);
        let checked_rounds = self.checked_rounds(timing.is_large())?;
        let clock = Clock::new()?;
        let doing = format!("timing {} {}", timing.operation.name, timing.case.label);
        if let Err(error) = warm_up(device, graph, roof, &doing) {
            return Ok(Err(error));
        }
        let mut all = Rounds::default();
        for round in 0..self.rounds as usize {
            ring.restore(device, bound, layout)?;
            ring.patch(device, bound, layout, &mut self.pools, &mut self.random)?;
            let picked =
                if checked_rounds.contains(&round) { self.pick(timing, ring, all.checked)? } else { Vec::new() };
            match clock.time(device, graph, &roof.graph, &doing) {
                Ok((kernel, copy)) => {
                    all.kernel.push(kernel);
                    all.copy.push(copy);
                }
                Err(error) => return Ok(Err(error)),
            }
            for slot in picked {
                all.checked += 1;
                if let Some((kind, message)) = self.compare(timing, ring, slot)? {
                    let message = format!("round {round}, slot {slot}: {message}");
                    all.faults.push((kind, message));
                }
            }
            if !all.faults.is_empty() {
                break;
            }
        }
        Ok(Ok(all))
    }

    /// The rounds after which slots are compared: the last, and random ones.
    fn checked_rounds(&mut self, large: bool) -> Result<Vec<usize>> {
        let mut checked = vec![self.rounds as usize - 1];
        while checked.len() <= if large { 1 } else { CHECKED_ROUNDS } {
            checked.push(usize::try_from(self.random.below(u64::from(self.rounds)))?);
        }
        Ok(checked)
    }

    /// The slots to compare after a round: one whose outputs are poisoned before it, and one whose outputs are those of the round
    /// before, so that a launch cannot infer from them whether it will be checked. Of a large case, alternately one or the
    /// other.
    fn pick(&mut self, timing: &Timing, ring: &Ring, checked: u32) -> Result<Vec<u32>> {
        let mut picked = Vec::new();
        let large = timing.is_large();
        let draw = |random: &mut Random| u32::try_from(random.below(u64::from(ring.slots)));
        if !large || checked.is_multiple_of(2) {
            let slot = draw(&mut self.random)?;
            ring.poison(self.device, timing.bound, &timing.layout, slot)?;
            picked.push(slot);
        }
        if !large || picked.is_empty() {
            let slot = draw(&mut self.random)?;
            if !picked.contains(&slot) {
                picked.push(slot);
            }
        }
        Ok(picked)
    }

    /// Compares a slot after a timed launch, every byte.
    fn compare(&self, timing: &Timing, ring: &Ring, slot: u32) -> Result<Option<Fault>> {
        let (bound, layout) = (timing.bound, &timing.layout);
        let after = ring.download(self.device, slot)?;
        let expected = ring.expected(slot);
        if let Some(fault) = damaged(&expected, bound, layout, &after) {
            return Ok(Some(fault));
        }
        let given = tensors(bound, layout, &expected.bytes, &after);
        let got = results(bound, layout, &after);
        let oracle = oracle_for(self.project, timing.operation, bound, &given, cores())?;
        let comparison = compare(oracle.as_ref(), &given, &got);
        Ok(judge(&comparison).map(|(kind, message)| {
            let message = format!("{} in a timed launch: {message}", kind.name());
            (Kind::TimedOutput, message)
        }))
    }

    /// The kernels of one launch, as the report shows them.
    fn describe(&self, recording: &Recording) -> Vec<String> {
        recording
            .launches
            .iter()
            .map(|launch| {
                let name = self
                    .kernels
                    .iter()
                    .find(|kernel| kernel.symbol == launch.symbol)
                    .map_or(launch.symbol.as_str(), |kernel| kernel.name.as_str());
                let dims = |d: [u32; 3]| match d {
                    [x, 1, 1] => x.to_string(),
                    [x, y, 1] => format!("{x}×{y}"),
                    [x, y, z] => format!("{x}×{y}×{z}"),
                };
                format!("{name} <<<{}, {}, {}>>>", dims(launch.grid), dims(launch.block), launch.shared)
            })
            .collect()
    }
}

/// Runs copies and launches before the first round, so that clocks rise and code is loaded.
fn warm_up(device: &Device, graph: &Graph, roof: &Roof, doing: &str) -> Result<(), GpuError> {
    for _ in 0..2 {
        roof.graph.launch(device)?;
        graph.launch(device)?;
    }
    device.finish(doing)
}

/// Why a time cannot be: the memory's peak bandwidth does not suffice for the bytes.
#[allow(clippy::cast_precision_loss)]
pub(super) fn too_fast(launch: Spread, bytes: u64, residency: Residency, card: &Card) -> Option<String> {
    let peak = card.peak_gbs?;
    let reached = bytes as f64 / launch.median / 1e3;
    if residency != Residency::Cold || reached <= peak {
        return None;
    }
    Some(format!(
        "{:.2} µs for {:.1} MB is {reached:.0} GB/s, above the memory's peak of {peak:.0} GB/s: the launch does not move \
         the bytes that kernel.toml says, or the harness is being fooled",
        launch.median,
        gigabytes(bytes) * 1e3,
    ))
}

#[allow(clippy::cast_precision_loss)]
fn gigabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e9
}
