//! A whole benchmark: every operation and case, cold, and hot if enough launches fit in the L2 together.

use std::collections::BTreeMap;

use anyhow::{Result, bail};

use super::check::{Check, Checker};
use super::device_slots::{DeviceSlots, most_bytes};
use super::health::Health;
use super::result::{BenchReport, CaseBench, Residency, Samples, Spread};
use super::roof::Roof;
use super::rotation::Rotation;
use super::rounds::{self, Part, Rounds, halves};
use super::slots::{Slots, step};
use super::spread::per_launch;
use crate::base::plural;
use crate::compile::{Build, Kernel};
use crate::gpu::contents::Contents;
use crate::gpu::copy::Copier;
use crate::gpu::muffle::Muffle;
use crate::gpu::{Buffer, Card, Device, GpuError, Graph, Recording, State, memory};
use crate::project::{Bound, Case, Operation, Project};
use crate::verify::finding::{Finding, Kind, OperationReport};
use crate::verify::layout::Layout;
use crate::verify::path::{CodePath, Fault, choose};
use crate::verify::random::{Random, fresh_seed};
use crate::worker::Choice;

/// Above this many operations per launch, only one slot of a case is compared with the oracle: the host computes some 10^11
/// operations per second.
const MANY_OPERATIONS: f64 = 5e10;

/// Times a project on a card. `tell` gets progress messages.
pub(crate) fn run(
    project: &Project,
    build: &Build,
    choice: &Choice,
    rounds: u32,
    tell: &dyn Fn(&str),
) -> Result<BenchReport> {
    memory::keep_what_is_freed();
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
    let mut path = CodePath::read(choice.ordinal, project, target, *jit)?;
    let state = path.state(&device)?;
    let mut report = BenchReport {
        project: project.name.clone(),
        card: device.card.clone(),
        compiler: build.compiler.clone(),
        seed,
        cases: Vec::new(),
        findings: Vec::new(),
        remarks: before.remarks("before"),
    };
    report.remarks.extend(project.spec.operations.iter().flat_map(|operation| OperationReport::new(operation).own()));
    if state.bytes() > 0 {
        let bytes = plural(state.bytes() as u64, "byte");
        report.remarks.push(format!("{bytes} of device variables get their initial content again before each round"));
    }
    let timings = planned(&device, project, choice, seed)?;
    let largest = timings.iter().map(Timing::image).max().unwrap_or(0);
    let mut bench = Bench {
        device: &device,
        project,
        copier: Copier::new(&device)?,
        contents: Contents::new(&device)?,
        memory: device.allocate(largest)?,
        state,
        rounds: rounds.max(5),
        kernels: target.units.iter().flat_map(|unit| &unit.kernels).collect(),
    };
    let lost = bench.all(&mut path, &timings, &mut report, tell)?;
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

/// A case to be timed.
struct Timing<'a> {
    operation: &'a Operation,
    case: Case,
    bound: Bound,
    layout: Layout,
    rotation: Rotation,
}

impl Timing<'_> {
    /// Whether the oracle takes the host much longer than a launch takes the card.
    fn is_large(&self) -> bool {
        self.bound.flops > MANY_OPERATIONS
    }

    /// Bytes of its slots.
    fn image(&self) -> u64 {
        step(&self.layout) * u64::from(self.rotation.sets)
    }

    /// Why this case cannot be timed, if kernel.toml does not fit it.
    fn unfit(&self) -> Option<Fault> {
        let (bytes, most) = (self.bound.bytes, most_bytes(&self.bound));
        if bytes == 0 {
            return Some((Kind::LaunchFailed, "an empty case cannot be timed: it moves no bytes".to_owned()));
        }
        (bytes > most).then(|| {
            let why = format!(
                "`bytes` in kernel.toml is {bytes}, and the inputs and outputs have {most} bytes of memory (what is input and \
                 output counts twice, what is repeated by a stride of 0 once, scratch not at all)"
            );
            (Kind::TooManyBytes, why)
        })
    }
}

/// The cases to time, each with as many sets as the card has memory for.
fn planned<'a>(device: &Device, project: &'a Project, choice: &Choice, seed: u64) -> Result<Vec<Timing<'a>>> {
    let free = device.free_bytes()? / 10 * 9;
    let mut timings = Vec::new();
    for operation in &project.spec.operations {
        for case in choice.cases(operation, &operation.bench, seed)? {
            let bound = operation.bind(&case)?;
            let layout = Layout::new(&bound);
            // The slots in half of the memory, the copies' buffers in the other.
            let most = (free / 2 / step(&layout)).min(free / 2 / (bound.bytes + (1 << 17)));
            if most == 0 {
                bail!(
                    "{} {}: timing it needs {:.1} GB, and the card has not enough free memory; make the case smaller",
                    operation.name,
                    case.label,
                    gigabytes(2 * step(&layout).max(bound.bytes))
                );
            }
            for residency in [Residency::Cold, Residency::Hot] {
                let Some(rotation) = Rotation::distinct(bound.bytes, device.card.l2_bytes, residency, most) else {
                    continue;
                };
                let (case, bound, layout) = (case.clone(), bound.clone(), layout.clone());
                timings.push(Timing { operation, case, bound, layout, rotation });
            }
        }
    }
    if timings.is_empty() {
        bail!(
            "no case is left of {} to time: its kernel.toml has no [[operation.bench]], or --filter, --dtype and --shape \
             leave nothing",
            project.name
        );
    }
    Ok(timings)
}

/// What the cases of a run share.
struct Bench<'a> {
    device: &'a Device,
    project: &'a Project,
    copier: Copier,
    contents: Contents,
    /// Where the slots of a case lie.
    memory: Buffer,
    state: State,
    rounds: u32,
    kernels: Vec<&'a Kernel>,
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

impl<'a> Bench<'a> {
    /// Times all cases; returns whether the context is lost.
    fn all(
        &mut self,
        path: &mut CodePath,
        timings: &[Timing],
        report: &mut BenchReport,
        tell: &dyn Fn(&str),
    ) -> Result<bool> {
        // All launches are recorded before the first is timed: the candidate's process has ended by then.
        let mut recorded = Vec::with_capacity(timings.len());
        for timing in timings {
            recorded.push(match timing.unfit() {
                Some(fault) => Err(fault),
                None => self.record(path, timing)?,
            });
        }
        path.process.dismiss();
        // What takes the oracle longest comes first: it is compared while the others are timed.
        let mut order: Vec<_> = timings.iter().zip(recorded).enumerate().collect();
        order.sort_by(|(_, (one, _)), (_, (other, _))| other.bound.flops.total_cmp(&one.bound.flops));
        let timed = std::thread::scope(|scope| -> Result<BTreeMap<usize, Timed>> {
            let checker = Checker::start(scope);
            let mut all = BTreeMap::new();
            for (index, (timing, recordings)) in order {
                tell(&format!("{} {}", timing.operation.name, timing.case.label));
                let (timed, kept) = match recordings {
                    Ok(recordings) => self.case(path, timing, &recordings)?,
                    Err(fault) => (fault.into(), None),
                };
                if let Some(check) = kept {
                    checker.check(index, check);
                }
                let lost = timed.lost;
                all.insert(index, timed);
                if lost {
                    break;
                }
            }
            tell("comparing timed launches with the oracle");
            for (index, (checked, fault)) in checker.finish()? {
                let Some(timed) = all.get_mut(&index) else { continue };
                timed.faults.extend(fault);
                if let Some(bench) = &mut timed.bench {
                    bench.checked = checked;
                }
            }
            Ok(all)
        })?;
        let lost = timed.values().any(|timed| timed.lost);
        for (index, timed) in timed {
            let Timing { operation, case, .. } = &timings[index];
            report.cases.extend(timed.bench);
            report.findings.extend(timed.faults.into_iter().map(|(kind, message)| Finding {
                kind,
                operation: operation.name.clone(),
                case: Some(case.label.clone()),
                path: path.name(),
                message,
            }));
        }
        Ok(lost)
    }

    fn record(&self, path: &mut CodePath, timing: &Timing) -> Result<Result<Vec<Recording>, Fault>> {
        let first = self.memory.address();
        let bases: Vec<u64> =
            (0..u64::from(timing.rotation.sets)).map(|slot| first + slot * step(&timing.layout)).collect();
        path.record(self.device, &timing.operation.launcher, (&timing.bound, &timing.layout), &bases)
    }

    fn case<'t>(
        &mut self,
        path: &CodePath,
        timing: &'t Timing,
        recordings: &[Recording],
    ) -> Result<(Timed, Option<Check<'t>>)>
    where
        'a: 't,
    {
        let Rotation { sets, residency, .. } = timing.rotation;
        let mut order: Vec<usize> = (0..recordings.len()).collect();
        let first = self.graph(path, recordings, &order);
        Random::unforeseen().shuffle(&mut order);
        let graphs = match (first, self.graph(path, recordings, &order)) {
            (Ok(first), Ok(second)) => [first, second],
            (Err(error), _) | (_, Err(error)) => return Ok((error.into(), None)),
        };
        let part = |slots: Vec<usize>| Ok(Part { graph: self.graph(path, recordings, &slots)?, slots });
        let parts = match halves(&order).into_iter().map(part).collect::<Result<_, GpuError>>() {
            Ok(parts) => parts,
            Err(error) => return Ok((error.into(), None)),
        };
        let slots = Slots::new(&timing.bound, &timing.layout, sets);
        let images = DeviceSlots::new((self.device, &self.contents, &self.memory), slots.clone(), sets);
        let case = rounds::Case {
            device: self.device,
            doing: format!("timing {} {}", timing.operation.name, timing.case.label),
            residency,
            images,
            state: &self.state,
            graphs,
            roof: Roof::measure(self.device, &self.copier, timing.bound.bytes, sets, sets)?,
            slots: sets,
            parts,
            large: timing.is_large(),
        };
        Ok(match case.rounds(self.rounds)? {
            Ok(mut rounds) => {
                let kept = std::mem::take(&mut rounds.kept);
                let check = Check { project: self.project, operation: timing.operation, slots, kept };
                // A case that has faults already is not compared with the oracle.
                let check = rounds.faults.is_empty().then_some(check);
                (self.timed(timing, rounds, &case.roof, recordings), check)
            }
            Err(error) => (error.into(), None),
        })
    }

    /// A graph with a launch on each slot of `order`, in this order.
    fn graph(&self, path: &CodePath, recordings: &[Recording], order: &[usize]) -> Result<Graph, GpuError> {
        let modules = path.modules(self.device)?;
        Graph::capture(self.device, || {
            let launches = order.iter().flat_map(|slot| &recordings[*slot].launches);
            launches.into_iter().try_for_each(|launch| modules.launch(self.device, launch))
        })
    }

    /// The figures of a case after its rounds.
    fn timed(&self, timing: &Timing, rounds: Rounds, roof: &Roof, recordings: &[Recording]) -> Timed {
        let (case, bound) = (&timing.case, &timing.bound);
        let first = recordings.first();
        let samples = Samples {
            kernel: per_launch(&rounds.kernel, timing.rotation.launches),
            copy: per_launch(&rounds.copy, roof.copies),
        };
        let mut bench = CaseBench {
            operation: timing.operation.name.clone(),
            case: case.label.clone(),
            dtype: case.dtype,
            values: case.values.clone(),
            bytes: bound.bytes,
            flops: bound.flops,
            residency: timing.rotation.residency,
            slots: timing.rotation.sets,
            kernel: Spread::of(&samples.kernel),
            copy: Spread::of(&samples.copy),
            rounds: Some(samples),
            copy_by: roof.manner.name().to_owned(),
            launches: first.map_or_else(Vec::new, |recording| self.describe(recording)),
            compared: rounds.compared,
            checked: 0,
            remarks: Vec::new(),
            against: None,
        };
        if rounds.dropped > 0 {
            let dropped = plural(u64::from(rounds.dropped), "round");
            bench.remarks.push(format!("{dropped} left out: the host was too late to queue the launches"));
        }
        let mut faults = rounds.faults;
        if !rounds.kernel.is_empty() {
            bench.remarks.extend(bench.kernel.unsteady("the kernel"));
            bench.remarks.extend(bench.copy.unsteady("the copy"));
            let card = &self.device.card;
            let why = too_fast(bench.kernel, bench.bytes, bench.residency, card);
            let why = why.or_else(|| too_many_operations(bench.kernel, bench.flops, card));
            faults.extend(why.map(|why| (Kind::TooFast, why)));
        }
        Timed { bench: Some(bench), faults, lost: false }
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

/// Why a time is impossible: moving the bytes in this time takes more than the peak bandwidth of the memory or of the
/// L2.
#[allow(clippy::cast_precision_loss)]
pub(super) fn too_fast(launch: Spread, bytes: u64, residency: Residency, card: &Card) -> Option<String> {
    let (of, peak) = match residency {
        Residency::Cold => ("the memory", card.peak_gbs?),
        Residency::Hot => ("the L2", card.peak_l2_gbs?),
    };
    let reached = bytes as f64 / launch.median / 1e3;
    (reached > peak).then(|| {
        format!(
            "{:.2} µs for {:.1} MB is {reached:.0} GB/s, above the peak of {of}, {peak:.0} GB/s: the launch does not move \
             the bytes that kernel.toml says, or the harness is being fooled",
            launch.median,
            gigabytes(bytes) * 1e3,
        )
    })
}

/// Why a time is impossible: `flops` operations take longer on all tensor cores. What kernel.toml says of them decides how many
/// slots are compared with the oracle, and is in the tables.
fn too_many_operations(launch: Spread, flops: f64, card: &Card) -> Option<String> {
    let (reached, peak) = (flops / launch.median / 1e3, card.peak_gflops()?);
    (reached > peak).then(|| {
        format!(
            "{:.2} µs for {flops:.3e} operations is {:.0} TFLOP/s, above the peak of the tensor cores, {:.0}: `flops` in \
             kernel.toml says too many, or the harness is being fooled",
            launch.median,
            reached / 1e3,
            peak / 1e3,
        )
    })
}

#[allow(clippy::cast_precision_loss)]
fn gigabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card() -> Card {
        Card {
            name: "a card".to_owned(),
            arch: 75,
            sms: 16,
            l2_bytes: 1 << 16,
            memory_bytes: 1 << 28,
            driver: None,
            cuda: "13.0".to_owned(),
            peak_gbs: Some(1000.0),
            peak_l2_gbs: Some(2000.0),
        }
    }

    fn taking(median: f64) -> Spread {
        Spread { median, p10: median, p90: median, min: median, samples: 5 }
    }

    #[test]
    fn a_time_is_impossible_above_a_peak_and_not_at_it() {
        let why = |bytes, residency| too_fast(taking(2.0), bytes, residency, &card());
        assert_eq!(why(2_000_000, Residency::Cold), None);
        assert_eq!(why(4_000_000, Residency::Hot), None);
        let said = |most: &str| {
            format!(
                "2.00 µs for {most}: the launch does not move the bytes that kernel.toml says, or the harness is being fooled"
            )
        };
        let memory = said("2.5 MB is 1250 GB/s, above the peak of the memory, 1000 GB/s");
        assert_eq!(why(2_500_000, Residency::Cold), Some(memory));
        let l2 = said("5.0 MB is 2500 GB/s, above the peak of the L2, 2000 GB/s");
        assert_eq!(why(5_000_000, Residency::Hot), Some(l2));
        let unknown = Card { peak_gbs: None, ..card() };
        assert_eq!(too_fast(taking(2.0), 2_500_000, Residency::Cold, &unknown), None);
    }

    #[test]
    fn so_it_is_for_operations() {
        // 2000 / 64 · 4096 · 10^9 a second.
        let why = |flops| too_many_operations(taking(2.0), flops, &card());
        assert_eq!(why(2.56e8), None);
        let said = "2.00 µs for 5.120e8 operations is 256 TFLOP/s, above the peak of the tensor cores, 128: `flops` in kernel.toml \
                    says too many, or the harness is being fooled";
        assert_eq!(why(5.12e8).as_deref(), Some(said));
    }
}
