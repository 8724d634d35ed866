//! One case on one code path: four launches, every byte looked at.

use anyhow::{Result, bail};

use super::compare::{Comparison, Wrong, compare};
use super::finding::Kind;
use super::layout::{Layout, runs};
use super::path::{CodePath, Fault};
use super::slot::{Damage, Poison, Slot, results, tensors};
use crate::gpu::recording::Outcome;
use crate::gpu::{Buffer, Device, GpuError, Recording};
use crate::oracle::python::{Call, Python};
use crate::oracle::{self, Oracle, Tensors};
use crate::project::{Argument, Bound, BoundTensor, Case, Operation, OracleRef, Project, Role};

/// Device memory for the slots of one case after another.
#[derive(Debug, Default)]
pub struct Arena(Option<Buffer>);

impl Arena {
    /// At least `bytes` of it.
    pub fn reserve(&mut self, device: &Device, bytes: u64) -> Result<&Buffer, GpuError> {
        if self.0.as_ref().is_none_or(|buffer| buffer.bytes() < bytes) {
            self.0 = None;
            self.0 = Some(Buffer::new(device, bytes.next_multiple_of(1 << 22))?);
        }
        self.0.as_ref().ok_or_else(|| GpuError {
            doing: "taking memory".to_owned(),
            said: "none".to_owned(),
            sticky: false,
        })
    }
}

/// What one case came to.
#[derive(Debug, Default)]
pub struct CaseOutcome {
    /// What is wrong with it.
    pub faults: Vec<Fault>,
    /// Launches that were checked.
    pub launches: u64,
    /// Elements that were compared with the oracle.
    pub elements: u64,
    /// The largest error in units of its budget.
    pub worst: f64,
    /// The context is lost: nothing more can be run.
    pub lost: bool,
}

/// How many threads the machine runs at once.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The oracle of an operation for one set of inputs. One in Python may use so many `threads`.
pub fn oracle_for(
    project: &Project,
    operation: &Operation,
    bound: &Bound,
    given: &Tensors,
    threads: usize,
) -> Result<Box<dyn Oracle>> {
    let oracle: Box<dyn Oracle> = match &operation.oracle {
        OracleRef::Bundled(name) => oracle::bundled(name, given, &bound.values)?.ok_or_else(|| {
            anyhow::anyhow!(
                "{}: there is no bundled oracle named `{name}`; there are {}, or name a function of your own: \
                 oracle = {{ python = \"reference.py\", function = \"…\" }}",
                operation.name,
                oracle::BUNDLED.join(", ")
            )
        })?,
        OracleRef::Python { file, function } => {
            let absent: Vec<&str> = operation
                .arguments
                .iter()
                .filter_map(|argument| match argument {
                    Argument::Tensor { name, role, .. } if role.is_given() => Some(name.as_str()),
                    _ => None,
                })
                .filter(|name| bound.tensors.iter().all(|tensor| tensor.name != *name))
                .collect();
            let call = Call {
                project: &project.root,
                file,
                function,
                absent: &absent,
                threads,
            };
            let (tensors, values) = (&bound.tensors, &bound.values);
            Box::new(Python::run(&call, tensors, given, values, operation.tolerance)?)
        }
    };
    // What nobody compares is not right, it is unseen.
    let compared = oracle.outputs();
    if let Some(unseen) = bound.tensors.iter().find(|tensor| {
        tensor.role.is_result() && tensor.elements() > 0 && !compared.contains(&tensor.name)
    }) {
        anyhow::bail!(
            "{}: its oracle says nothing of the output `{}`; it knows {}",
            operation.name,
            unseen.name,
            compared.join(", ")
        );
    }
    Ok(oracle)
}

/// The runs that are compared with the oracle. The second differs from the first in nothing that a right kernel reads,
/// so it is held to the same bytes instead.
const COMPARED: [usize; 3] = [0, 2, 3];

/// References in Python that run at once for one code path, of which there may be three side by side.
const REFERENCES: usize = 3;

/// What references in Python may hold of the results of one case that are not needed yet, in elements.
const HELD: u64 = 1 << 26;

/// A case with its inputs drawn. Drawing takes the host about as long as all the rest, so it is done ahead.
pub struct Prepared {
    bound: Bound,
    layout: Layout,
    /// Each slot with the place that it goes to: the same inputs under two poisons, then fresh inputs at another
    /// address, then fresh inputs at the first one.
    runs: [(Slot, usize); 4],
    /// What a reference in Python says to the runs of [`COMPARED`]: it looks at inputs alone, and takes the longest.
    ahead: Vec<Box<dyn Oracle>>,
}

impl Prepared {
    /// Fills the sizes in and draws the inputs.
    pub fn new(project: &Project, operation: &Operation, case: &Case, seed: u64) -> Result<Self> {
        let bound = operation.bind(case)?;
        let layout = Layout::new(&bound);
        let draw = |poison, stream: u64| {
            let seed = seed.wrapping_add(stream);
            Slot::new(&bound, &layout, poison, case.inputs, seed)
        };
        let first = draw(Poison::NotANumber, 1);
        let again = first.repoisoned(&bound, &layout, Poison::Finite);
        let runs = [
            (first, 0),
            (again, 0),
            (draw(Poison::NotANumber, 2), 1),
            (draw(Poison::Finite, 3), 0),
        ];
        let mut prepared = Self {
            bound,
            layout,
            runs,
            ahead: Vec::new(),
        };
        let elements: u64 = prepared
            .bound
            .tensors
            .iter()
            .map(BoundTensor::elements)
            .sum();
        if matches!(operation.oracle, OracleRef::Python { .. }) && elements <= HELD {
            prepared.ahead = prepared.references(project, operation)?;
        }
        Ok(prepared)
    }

    fn references(&self, project: &Project, operation: &Operation) -> Result<Vec<Box<dyn Oracle>>> {
        let cores = cores();
        let at_once = (cores / REFERENCES).clamp(1, REFERENCES);
        let threads = (cores / (REFERENCES * at_once)).max(1);
        let mut all = Vec::new();
        for some in COMPARED.chunks(at_once) {
            let some: Vec<_> = std::thread::scope(|scope| {
                let started: Vec<_> = some
                    .iter()
                    .map(|run| {
                        scope.spawn(|| {
                            let bytes = &self.runs[*run].0.bytes;
                            let given = tensors(&self.bound, &self.layout, bytes, bytes);
                            oracle_for(project, operation, &self.bound, &given, threads)
                        })
                    })
                    .collect();
                started
                    .into_iter()
                    .map(|one| one.join().unwrap_or_else(|_| bail!("a reference panicked")))
                    .collect()
            });
            for one in some {
                all.push(one?);
            }
        }
        Ok(all)
    }
}

/// Checks one case.
pub fn check(
    device: &Device,
    arena: &mut Arena,
    project: &Project,
    path: &mut CodePath,
    operation: &Operation,
    case: &Case,
    prepared: &Prepared,
) -> Result<CaseOutcome> {
    let Prepared {
        bound,
        layout,
        runs,
        ahead,
    } = prepared;
    let buffer = arena.reserve(device, 2 * layout.bytes)?;
    let places = [0, layout.bytes];
    let bases = places.map(|place| buffer.address() + place);
    let mut outcome = CaseOutcome::default();
    let recordings = match path.record(&operation.launcher, bound, layout, &bases)? {
        Ok(recordings) => recordings,
        Err(fault) => {
            outcome.faults.push(fault);
            return Ok(outcome);
        }
    };
    let mut after: Vec<Vec<u8>> = Vec::new();
    for (slot, place) in runs {
        let launched = replay(
            device,
            path,
            buffer,
            places[*place],
            slot,
            &recordings[*place],
            &case.label,
        );
        match launched {
            Ok(bytes) => after.push(bytes),
            Err(error) => {
                outcome.lost = error.sticky;
                outcome.faults.push((Kind::LaunchFailed, error.to_string()));
                return Ok(outcome);
            }
        }
        outcome.launches += 1;
    }
    for ((slot, _), after) in runs.iter().zip(&after) {
        match slot.damage(bound, layout, after) {
            Some(Damage::Input(what)) => outcome.faults.push((Kind::InputModified, what)),
            Some(Damage::Zone(what)) => outcome.faults.push((Kind::RedZone, what)),
            None => continue,
        }
        break;
    }
    let unwritten = unwritten(bound, layout, &after[0], &after[1]);
    if let Some(what) = unwritten {
        outcome.faults.push((Kind::Unwritten, what));
        return Ok(outcome);
    }
    for (place, index) in COMPARED.into_iter().enumerate() {
        let given = tensors(bound, layout, &runs[index].0.bytes, &after[index]);
        let got = results(bound, layout, &after[index]);
        let comparison = if let Some(oracle) = ahead.get(place) {
            compare(oracle.as_ref(), &given, &got)
        } else {
            let oracle = oracle_for(project, operation, bound, &given, cores())?;
            compare(oracle.as_ref(), &given, &got)
        };
        outcome.elements += comparison.elements;
        outcome.worst = outcome.worst.max(comparison.worst);
        if let Some(fault) = judge(&comparison) {
            outcome.faults.push(fault);
            break;
        }
    }
    if let Some(what) = differing(bound, layout, &after[0], &after[1]) {
        outcome.faults.push((Kind::NotDeterministic, what));
    }
    Ok(outcome)
}

/// Uploads a slot, replays a recording on it, and brings the slot back.
fn replay(
    device: &Device,
    path: &CodePath,
    buffer: &Buffer,
    place: u64,
    slot: &Slot,
    recording: &Recording,
    label: &str,
) -> Result<Vec<u8>, GpuError> {
    device.upload(buffer, place, &slot.bytes)?;
    for launch in &recording.launches {
        path.modules.launch(device, launch)?;
    }
    device.finish(&format!("running {label}"))?;
    let mut after = vec![0; slot.bytes.len()];
    device.download(buffer, place, &mut after)?;
    Ok(after)
}

/// Arguments that the launcher must refuse: an error code, and nothing launched.
pub fn check_refusal(
    path: &mut CodePath,
    operation: &Operation,
    case: &Case,
    base: u64,
) -> Result<Option<Fault>> {
    let bound = operation.bind(case)?;
    let layout = Layout::new(&bound);
    Ok(
        match path.ask(&operation.launcher, &bound, &layout, &[base])? {
            Err(fault) => Some(fault),
            Ok(outcomes) => match outcomes.first() {
                Some(Outcome::Code { nodes: 0, .. }) => None,
                Some(Outcome::Code { code, nodes }) => Some((
                    Kind::NotRefused,
                    format!(
                        "{} returned {code}, having launched {nodes} kernel(s)",
                        operation.launcher
                    ),
                )),
                other => Some((
                    Kind::NotRefused,
                    format!(
                        "{} accepted arguments that kernel.toml says it refuses{}",
                        operation.launcher,
                        match other {
                            Some(Outcome::Done(recording)) =>
                                format!(", and launched {} kernel(s)", recording.launches.len()),
                            Some(Outcome::Escaped(why) | Outcome::NotAKernel(why)) =>
                                format!(": {why}"),
                            _ => String::new(),
                        }
                    ),
                )),
            },
        },
    )
}

/// The first element that holds one poison after the first run, and the other after the second.
fn unwritten(bound: &Bound, layout: &Layout, first: &[u8], second: &[u8]) -> Option<String> {
    for (index, tensor) in bound.tensors.iter().enumerate() {
        if tensor.role != Role::Output {
            continue;
        }
        let start = layout.range(bound, index).start;
        let size = tensor.dtype.size();
        let (mut count, mut seen, mut place) = (0u64, 0u64, None);
        runs(tensor, |run| {
            let run = start + run.start..start + run.end;
            let (a, b) = (&first[run.clone()], &second[run]);
            let found = poisoned(a, b, size);
            if found > 0 && place.is_none() {
                let mut pairs = a.chunks_exact(size).zip(b.chunks_exact(size));
                let inside = pairs.position(|(a, b)| poisoned(a, b, size) == 1);
                place = inside.map(|at| seen + at as u64);
            }
            count += found;
            seen += (a.len() / size) as u64;
        });
        if let Some(place) = place {
            return Some(format!(
                "{}: {count} of {} elements were never written, the first at {}",
                tensor.name,
                tensor.elements(),
                coordinates(&tensor.shape, place)
            ));
        }
    }
    None
}

/// How many elements hold one poison in `first` and the other in `second`.
fn poisoned(first: &[u8], second: &[u8], size: usize) -> u64 {
    let left = |bytes: &[u8], poison: Poison| bytes.iter().all(|byte| *byte == poison.byte());
    let both = |a: &[u8], b: &[u8]| left(a, Poison::NotANumber) && left(b, Poison::Finite);
    let pairs = first.chunks_exact(size).zip(second.chunks_exact(size));
    // Of the usual sizes the comparison is one of whole words.
    match size {
        2 => pairs
            .filter(|(a, b)| [a[0], a[1]] == [0xff; 2] && [b[0], b[1]] == [0x5a; 2])
            .count() as u64,
        _ => pairs.filter(|(a, b)| both(a, b)).count() as u64,
    }
}

/// The first element that differs between two runs on the same inputs.
fn differing(bound: &Bound, layout: &Layout, first: &[u8], second: &[u8]) -> Option<String> {
    for (index, tensor) in bound.tensors.iter().enumerate() {
        if !tensor.role.is_result() {
            continue;
        }
        let start = layout.range(bound, index).start;
        let size = tensor.dtype.size();
        let (mut seen, mut place) = (0u64, None);
        runs(tensor, |run| {
            let run = start + run.start..start + run.end;
            if place.is_none() && first[run.clone()] != second[run.clone()] {
                let inside = first[run.clone()]
                    .chunks_exact(size)
                    .zip(second[run.clone()].chunks_exact(size))
                    .position(|(a, b)| a != b);
                place = inside.map(|at| seen + at as u64);
            }
            seen += (run.len() / size) as u64;
        });
        if let Some(place) = place {
            return Some(format!(
                "{} at {}: the same launch on the same inputs gave other bytes",
                tensor.name,
                coordinates(&tensor.shape, place)
            ));
        }
    }
    None
}

/// What a comparison says against a candidate.
pub fn judge(comparison: &Comparison) -> Option<Fault> {
    if let Some(wrong) = &comparison.first {
        let kind = if wrong.got.is_finite() || !wrong.expected.is_finite() {
            Kind::WrongValue
        } else {
            Kind::NotFinite
        };
        return Some((kind, describe(wrong, comparison)));
    }
    comparison
        .norms
        .iter()
        .find(|(_, norm, bound)| norm.is_nan() || norm > bound)
        .map(|(name, norm, bound)| {
            (
                Kind::RelativeNorm,
                format!("{name}: ‖out − reference‖ / ‖reference‖ is {norm:.3e}, over {bound:.1e}"),
            )
        })
}

fn describe(wrong: &Wrong, comparison: &Comparison) -> String {
    format!(
        "{}[{}, {}]: expected {:e}, got {:e}, {:.4} ulps off where {:.4} are allowed; {} of {} elements are wrong",
        wrong.name,
        wrong.row,
        wrong.column,
        wrong.expected,
        wrong.got,
        wrong.ulps,
        wrong.allowed,
        comparison.wrong,
        comparison.elements
    )
}

/// `[3, 17]`
fn coordinates(shape: &[u64], index: u64) -> String {
    let mut rest = index;
    let mut places: Vec<String> = shape
        .iter()
        .rev()
        .map(|size| {
            let at = rest % size;
            rest /= size;
            at.to_string()
        })
        .collect();
    places.reverse();
    format!("[{}]", places.join(", "))
}
