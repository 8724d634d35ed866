//! A whole benchmark: every operation and case, cold, and hot where it fits in the L2.

use anyhow::{Result, bail};

use super::clock::Clock;
use super::health::Health;
use super::result::{BenchReport, CaseBench, Residency, Spread};
use super::ring::{Pool, Ring};
use super::roof::Roof;
use super::rotation::Rotation;
use super::spread::per_launch;
use crate::compile::{Build, Kernel};
use crate::gpu::copy::Copier;
use crate::gpu::muffle::Muffle;
use crate::gpu::{Card, Device, GpuError, Graph, Recording};
use crate::project::{Bound, Case, Operation, Project, Role};
use crate::verify::check::{cores, judge, oracle_for};
use crate::verify::compare::compare;
use crate::verify::finding::{Finding, Kind};
use crate::verify::layout::Layout;
use crate::verify::path::{CodePath, choose};
use crate::verify::random::{Random, fresh_seed};
use crate::verify::run::Choice;
use crate::verify::slot::{Damage, results, tensors};

/// Rounds after which timed outputs are compared, besides the last.
const CHECKED_ROUNDS: usize = 3;
/// Operations of a launch from which on the host, which does some 10^11 a second, checks as little as of a large one.
const MANY_OPERATIONS: f64 = 5e10;

/// Everything that the cases of a run share.
struct Bench<'a> {
    device: &'a Device,
    project: &'a Project,
    copier: Copier,
    pools: Vec<Pool>,
    random: Random,
    rounds: u32,
    kernels: Vec<&'a Kernel>,
}

/// Times a project on a card. `tell` is called with what is being done.
pub fn run(
    project: &Project,
    build: &Build,
    choice: &Choice,
    rounds: u32,
    tell: &dyn Fn(&str),
) -> Result<BenchReport> {
    // Dropped last, when the context has printed all that it will.
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
    let mut any = false;
    let mut lost = false;
    'all: for operation in &project.spec.operations {
        for case in choice.cases(operation, &operation.bench, seed)? {
            any = true;
            let bound = operation.bind(&case)?;
            let fits = bound.bytes <= device.card.l2_bytes / 2
                && bound
                    .tensors
                    .iter()
                    .all(|tensor| tensor.role != Role::InOut);
            let mut wanted = vec![Residency::Cold];
            if fits {
                wanted.push(Residency::Hot);
            }
            for residency in wanted {
                tell(&format!("{} {}", operation.name, case.label));
                let timed = bench.case(&mut path, operation, &case, &bound, residency)?;
                if let Some(case) = timed.bench {
                    report.cases.push(case);
                }
                for (kind, message) in timed.faults {
                    report.findings.push(Finding {
                        kind,
                        operation: operation.name.clone(),
                        case: Some(case.label.clone()),
                        path: path.name(),
                        message,
                    });
                }
                lost = timed.lost;
                if lost {
                    break 'all;
                }
            }
        }
    }
    if !any {
        bail!(
            "no case is left of {} to time: its kernel.toml has no [[operation.bench]], or --filter, --dtype and \
             --shape leave nothing",
            project.name
        );
    }
    report
        .remarks
        .extend(Health::ask(choice.ordinal).remarks("after"));
    if lost {
        std::mem::forget(bench);
        std::mem::forget(path);
        std::mem::forget(device);
    }
    Ok(report)
}

/// What timing one case came to.
#[derive(Default)]
struct Timed {
    bench: Option<CaseBench>,
    faults: Vec<(Kind, String)>,
    lost: bool,
}

impl Timed {
    fn fault(kind: Kind, message: String) -> Self {
        Self {
            faults: vec![(kind, message)],
            ..Self::default()
        }
    }

    fn from_gpu(error: &GpuError) -> Self {
        Self {
            lost: error.sticky,
            ..Self::fault(Kind::LaunchFailed, error.to_string())
        }
    }
}

impl Bench<'_> {
    fn case(
        &mut self,
        path: &mut CodePath,
        operation: &Operation,
        case: &Case,
        bound: &Bound,
        residency: Residency,
    ) -> Result<Timed> {
        let device = self.device;
        let layout = Layout::new(bound);
        if bound.bytes == 0 {
            return Ok(Timed::fault(
                Kind::LaunchFailed,
                "an empty case cannot be timed: it moves no bytes".to_owned(),
            ));
        }
        // A tensor that is input and output must be launched on once a round, or its contents are nobody's.
        let in_place = bound
            .tensors
            .iter()
            .any(|tensor| tensor.role == Role::InOut);
        let rotation = Rotation::of(bound.bytes, device.card.l2_bytes, residency, in_place);
        let Rotation {
            sets: slots,
            launches,
            residency,
        } = rotation;
        let needed = u64::from(slots) * (layout.bytes + bound.bytes) * 11 / 10;
        if needed > device.free_bytes()? {
            bail!(
                "{} {}: timing it takes {:.1} GB of the card's memory, which are not free; make the case smaller",
                operation.name,
                case.label,
                gigabytes(needed)
            );
        }
        let mut ring = Ring::new(
            device,
            bound,
            &layout,
            slots,
            &mut self.pools,
            &mut self.random,
        )?;
        let bases: Vec<u64> = (0..slots).map(|slot| ring.base(slot)).collect();
        let recordings = match path.record(&operation.launcher, bound, &layout, &bases)? {
            Ok(recordings) => recordings,
            Err((kind, message)) => return Ok(Timed::fault(kind, message)),
        };
        let graph = match Graph::capture(device, || {
            for _ in 0..launches / slots {
                for launch in recordings.iter().flat_map(|recording| &recording.launches) {
                    path.modules.launch(device, launch)?;
                }
            }
            Ok(())
        }) {
            Ok(graph) => graph,
            Err(error) => return Ok(Timed::from_gpu(&error)),
        };
        let roof = Roof::measure(device, &self.copier, bound.bytes, slots, launches)?;
        match self.rounds(&mut ring, bound, &layout, &graph, &roof, operation, case) {
            Ok(Ok((kernel, copy, checked, mut faults))) => {
                let mut bench = CaseBench {
                    operation: operation.name.clone(),
                    case: case.label.clone(),
                    dtype: case.dtype,
                    values: case.values.clone(),
                    bytes: bound.bytes,
                    flops: bound.flops,
                    residency,
                    slots,
                    kernel: per_launch(&kernel, launches),
                    copy: per_launch(&copy, roof.copies),
                    copy_by: roof.manner.name().to_owned(),
                    launches: recordings
                        .first()
                        .map(|recording| self.describe(recording))
                        .unwrap_or_default(),
                    checked,
                    remarks: Vec::new(),
                    against: None,
                };
                bench.remarks.extend(bench.kernel.unsteady("the kernel"));
                bench.remarks.extend(bench.copy.unsteady("the copy"));
                let why = too_fast(bench.kernel, bench.bytes, residency, &device.card);
                if let Some(why) = why {
                    faults.push((Kind::TooFast, why));
                }
                Ok(Timed {
                    bench: Some(bench),
                    faults,
                    lost: false,
                })
            }
            Ok(Err(error)) => Ok(Timed::from_gpu(&error)),
            Err(error) => Err(error),
        }
    }

    /// Rounds of: change the inputs, poison what will be checked, copy (untimed, so that all that is timed is queued
    /// behind it), kernel, copy, check.
    #[allow(clippy::type_complexity, clippy::too_many_arguments)]
    fn rounds(
        &mut self,
        ring: &mut Ring,
        bound: &Bound,
        layout: &Layout,
        graph: &Graph,
        roof: &Roof,
        operation: &Operation,
        case: &Case,
    ) -> Result<Result<(Vec<f64>, Vec<f64>, u32, Vec<(Kind, String)>), GpuError>> {
        let device = self.device;
        let rounds = self.rounds as usize;
        let mut checked_rounds = vec![rounds - 1];
        // A large slot takes the host longer to compare than the card to time, and so does one of many operations.
        let large = layout.bytes > 1 << 26 || bound.flops > MANY_OPERATIONS;
        while checked_rounds.len() <= if large { 1 } else { CHECKED_ROUNDS } {
            let round = usize::try_from(self.random.below(rounds as u64))?;
            // The first rounds warm up as well; a check there would catch less.
            checked_rounds.push(round);
        }
        let clock = Clock::new()?;
        let (mut kernel, mut copy) = (Vec::new(), Vec::new());
        let mut checked = 0;
        let mut faults: Vec<(Kind, String)> = Vec::new();
        let doing = format!("timing {} {}", operation.name, case.label);
        let warm = || -> Result<(), GpuError> {
            for _ in 0..2 {
                roof.graph.launch(device)?;
                graph.launch(device)?;
            }
            device.finish(&doing)
        };
        if let Err(error) = warm() {
            return Ok(Err(error));
        }
        for round in 0..rounds {
            ring.restore(device, bound, layout)?;
            ring.patch(device, bound, layout, &mut self.pools, &mut self.random)?;
            let mut picked = Vec::new();
            if checked_rounds.contains(&round) {
                // One slot poisoned, and one left as the round before left it but for its new inputs: a launch must not
                // learn from an output that it will be looked at. Of large slots one or the other.
                let draw = |random: &mut Random| u32::try_from(random.below(u64::from(ring.slots)));
                if !large || checked % 2 == 0 {
                    let slot = draw(&mut self.random)?;
                    ring.poison(device, bound, layout, slot)?;
                    picked.push(slot);
                }
                if !large || picked.is_empty() {
                    let slot = draw(&mut self.random)?;
                    if !picked.contains(&slot) {
                        picked.push(slot);
                    }
                }
            }
            match clock.time(device, graph, &roof.graph, &doing) {
                Ok((one, other)) => {
                    kernel.push(one);
                    copy.push(other);
                }
                Err(error) => return Ok(Err(error)),
            }
            for slot in picked {
                checked += 1;
                if let Some((kind, message)) = self.compare(ring, slot, bound, layout, operation)? {
                    faults.push((kind, format!("round {round}, slot {slot}: {message}")));
                }
            }
            if !faults.is_empty() {
                break;
            }
        }
        Ok(Ok((kernel, copy, checked, faults)))
    }

    /// Compares a slot that was just timed, whole.
    fn compare(
        &self,
        ring: &Ring,
        slot: u32,
        bound: &Bound,
        layout: &Layout,
        operation: &Operation,
    ) -> Result<Option<(Kind, String)>> {
        let after = ring.download(self.device, slot)?;
        let expected = ring.expected(slot);
        match expected.damage(bound, layout, &after) {
            Some(Damage::Input(what)) => return Ok(Some((Kind::InputModified, what))),
            Some(Damage::Zone(what)) => return Ok(Some((Kind::RedZone, what))),
            None => {}
        }
        let given = tensors(bound, layout, &expected.bytes, &after);
        let got = results(bound, layout, &after);
        let oracle = oracle_for(self.project, operation, bound, &given, cores())?;
        let comparison = compare(oracle.as_ref(), &given, &got);
        Ok(judge(&comparison).map(|(kind, message)| {
            (
                Kind::TimedOutput,
                format!("{} in a timed launch: {message}", kind.name()),
            )
        }))
    }

    /// The kernels of one launch, for people.
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
                format!(
                    "{name} <<<{}, {}, {}>>>",
                    dims(launch.grid),
                    dims(launch.block),
                    launch.shared
                )
            })
            .collect()
    }
}

/// Whether a time is under what the bytes need at the memory's peak.
#[allow(clippy::cast_precision_loss)]
pub(super) fn too_fast(
    launch: Spread,
    bytes: u64,
    residency: Residency,
    card: &Card,
) -> Option<String> {
    let peak = card.peak_gbs?;
    let reached = bytes as f64 / launch.median / 1e3;
    if residency != Residency::Cold || reached <= peak {
        return None;
    }
    Some(format!(
        "{:.2} µs for {:.1} MB is {reached:.0} GB/s, above the {peak:.0} GB/s that the memory can do: the launch does not \
         move the bytes that it is said to, or the harness is being fooled",
        launch.median,
        gigabytes(bytes) * 1e3,
    ))
}

#[allow(clippy::cast_precision_loss)]
fn gigabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e9
}
