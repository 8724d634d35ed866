//! One case on one code path: some launches, and a comparison of every byte. The four stages (drawing the inputs, recording,
//! launching, judging) work on different cases at the same time.

use std::collections::BTreeMap;

use anyhow::{Result, anyhow, bail};

use super::compare::{Sample, Scope, compare};
use super::finding::Kind;
use super::function::{Call, Given, Unanswered};
use super::judge::{damaged, differing, judge, unwritten};
use super::layout::Layout;
use super::memory::{Area, LEAST, Memory, distance, size_for};
use super::path::{Direct, Fault, Process, foreign};
use super::random::fresh_seed;
use super::reference::oracle_for;
use super::select::{AGAIN, COMPARED, Chosen, LARGE, launches, numbers};
use super::slot::{Poison, Slot, results, tensors};
use super::turn::Turns;
use super::verdict::{Place, Verdict, Verdicts};
use crate::base::{SplitMix64, cores};
use crate::gpu::contents::first;
use crate::gpu::direct::digests;
use crate::gpu::recording::Outcome;
use crate::gpu::{Batch, Device, GpuError, Modules, Recording};
use crate::oracle::Oracle;
use crate::project::{Bound, BoundTensor, Case, Inputs, Operation, OracleRef, Project};

/// The result of one case.
#[derive(Debug, Default)]
pub(super) struct CaseOutcome {
    pub(super) faults: Vec<Fault>,
    /// Launches that were checked.
    pub(super) launches: u64,
    /// Elements that were compared with the oracle.
    pub(super) elements: u64,
    /// The largest error in units of its budget.
    pub(super) worst: f64,
    /// Launches outside of capture.
    pub(super) direct: u64,
    /// Whether its outputs are compared with the oracle only by the bench.
    pub(super) left_to_bench: bool,
    /// Whether all launches of the case are to be made and judged: another code path left other bytes, or told nothing.
    pub(super) unlike: bool,
    /// The context is lost: nothing more can be run.
    pub(super) lost: bool,
}

impl From<Fault> for CaseOutcome {
    fn from(fault: Fault) -> Self {
        Self { faults: vec![fault], ..Self::default() }
    }
}

/// The largest slot, in bytes, for a launch outside of capture: the recording process reads, copies and digests one at a time, within
/// its limit of processor time.
const MOST_DIRECT: u64 = 1 << 25;

/// A shape that the bench times is compared with the oracle only by the bench if it takes more operations than this:
/// the host computes some 10^11 operations per second.
const MANY_OPERATIONS: f64 = 5e10;

/// The largest slot, in bytes, of a shape that is verified because the bench times it: the host holds a dozen such
/// slots.
pub(super) const MOST_TIMED: u64 = 1 << 29;

/// Elements of an output of such a shape that are compared with the oracle; the bench compares up to 2^33 of a slot.
const TIMED_SAMPLE: u64 = 1 << 22;

/// References in Python that run at the same time for one code path; the other paths are verified at the same time.
const REFERENCES: usize = 3;

/// References in Python run in advance for cases of at most this many elements, because their results are kept in memory.
const MOST_ELEMENTS: u64 = 1 << 26;

/// A case of a project.
pub(super) struct Listed<'a> {
    pub(super) operation: &'a Operation,
    pub(super) place: Place,
    pub(super) chosen: Chosen,
}

/// Bytes of a slot; 0 of a case that is left to the bench. A case that cannot be bound gives an error when its inputs are drawn.
fn slot_bytes(Listed { operation, chosen, .. }: &Listed) -> u64 {
    let bytes = operation.bind(&chosen.case).map_or(0, |bound| Layout::new(&bound).bytes);
    if chosen.timed && bytes > MOST_TIMED { 0 } else { bytes }
}

/// The indices of some cases in groups, for each of which as much memory is reserved, from the least on, with the bytes of the two
/// slots of its largest case.
pub(super) fn by_memory(cases: &[Listed], some: &[usize]) -> Vec<(u64, Vec<usize>)> {
    let mut groups = BTreeMap::<u64, (u64, Vec<usize>)>::new();
    for index in some.iter().copied() {
        let bytes = 2 * slot_bytes(&cases[index]);
        let (most, group) = groups.entry(size_for(bytes, LEAST)).or_default();
        *most = bytes.max(*most);
        group.push(index);
    }
    groups.into_values().collect()
}

/// Bytes that the host holds of a case from drawing to judging: the slots of all launches, before and after them.
pub(super) fn held_bytes(listed: &Listed, hears: bool) -> u64 {
    let bytes = slot_bytes(listed);
    2 * bytes * launches(bytes, listed.chosen.timed, hears) as u64
}

/// One launch of a case.
struct Run {
    /// Which of the launches of [`numbers`] it is.
    number: usize,
    slot: Slot,
    /// The index of its place in device memory.
    place: usize,
}

impl Run {
    /// The one of the same inputs whose results are compared with the oracle.
    fn inputs(&self) -> usize {
        if self.number == AGAIN { COMPARED[0] } else { self.number }
    }
}

/// A case and its inputs. Drawing takes the host about as long as everything else, and is done in advance.
pub(super) struct Prepared {
    bound: Bound,
    layout: Layout,
    /// In the order of their launches.
    runs: Vec<Run>,
    /// The references in Python for the runs of [`COMPARED`], where they ran in advance.
    references: Vec<Box<dyn Oracle>>,
}

impl Prepared {
    /// Binds the case and draws its inputs. None: a shape of the bench that is too large. `hears`: for comparison with what another
    /// path left. Otherwise references in Python run in advance.
    pub(super) fn new(
        (project, operation): (&Project, &Operation),
        Chosen { case, timed, .. }: &Chosen,
        seed: u64,
        hears: bool,
    ) -> Result<Option<Self>> {
        let bound = operation.bind(case)?;
        let layout = Layout::new(&bound);
        if *timed && layout.bytes > MOST_TIMED {
            return Ok(None);
        }
        // If all cases had the same numbers, a kernel that is wrong for some numbers would be tried on few of them.
        let own = case.label.bytes().fold(seed, |seed, byte| SplitMix64::mix(seed ^ u64::from(byte)));
        let draw = |number: usize| {
            let (poison, stream) = match number {
                0 => (Poison::NotANumber, 1),
                1 => (Poison::Finite, 1),
                2 => (Poison::NotANumber, 2),
                _ => (Poison::Finite, 3),
            };
            Slot::new(&bound, &layout, poison, case.inputs, own.wrapping_add(stream))
        };
        let numbers = numbers(layout.bytes, *timed, hears);
        let both = numbers.starts_with(&[COMPARED[0], AGAIN]);
        let distinct = numbers.iter().copied().filter(|number| !both || *number != AGAIN);
        let mut slots: Vec<Slot> = if layout.bytes >= LARGE {
            // Few large cases are under way at a time.
            let of = &draw;
            std::thread::scope(|scope| {
                let threads: Vec<_> = distinct.map(|number| scope.spawn(move || of(number))).collect();
                threads
                    .into_iter()
                    .map(|one| one.join().map_err(|_| anyhow!("drawing panicked")))
                    .collect::<Result<_>>()
            })?
        } else {
            distinct.map(draw).collect()
        };
        if both {
            slots.insert(AGAIN, slots[0].repoisoned(&bound, &layout, Poison::Finite));
        }
        // One of several launches is at the other place; where there are fewer than four, at either.
        let either = usize::from(SplitMix64::mix(own).is_multiple_of(2));
        let other = if numbers.len() < 4 { either } else { 1 };
        let last = numbers.len().min(3) - 1;
        let runs = numbers.into_iter().zip(slots).enumerate();
        let place = |index: usize| if index == last { other } else { 0 };
        let runs = runs.map(|(index, (number, slot))| Run { number, slot, place: place(index) }).collect();
        let mut prepared = Self { bound, layout, runs, references: Vec::new() };
        let elements: u64 = prepared.bound.tensors.iter().map(BoundTensor::elements).sum();
        if !hears && matches!(operation.oracle, OracleRef::Python { .. }) && elements <= MOST_ELEMENTS {
            prepared.references = prepared.references(project, operation)?;
        }
        Ok(Some(prepared))
    }

    /// The indices of the runs that are compared with the oracle.
    fn compared(&self) -> &'static [usize] {
        &COMPARED[..self.runs.len() - 1]
    }

    fn references(&self, project: &Project, operation: &Operation) -> Result<Vec<Box<dyn Oracle>>> {
        let cores = cores();
        let at_once = (cores / REFERENCES).clamp(1, REFERENCES);
        let threads = (cores / (REFERENCES * at_once)).max(1);
        let mut all = Vec::new();
        for some in self.compared().chunks(at_once) {
            let some: Vec<_> = std::thread::scope(|scope| {
                let started: Vec<_> = some
                    .iter()
                    .map(|run| {
                        scope.spawn(|| {
                            let bytes = &self.runs[*run].slot.bytes;
                            let given = tensors(&self.bound, &self.layout, bytes, bytes);
                            oracle_for(project, operation, &self.bound, &given, threads)
                        })
                    })
                    .collect();
                started.into_iter().map(|one| one.join().unwrap_or_else(|_| bail!("a reference panicked"))).collect()
            });
            for one in some {
                all.push(one?);
            }
        }
        Ok(all)
    }

    /// Calls a function instead of launching, once per run. The inner error says why a call gave no results.
    pub(super) fn call(
        self,
        operation: &Operation,
        case: &Case,
        call: &mut Call,
    ) -> Result<Result<Launched, Unanswered>> {
        let (bound, layout) = (&self.bound, &self.layout);
        let mut after = Vec::new();
        for Run { slot, .. } in &self.runs {
            match call(&Given { operation, case, bound, layout, slot: &slot.bytes })? {
                Ok(bytes) => after.push(bytes),
                Err(why) => return Ok(Err(why)),
            }
        }
        let outcome = CaseOutcome { launches: after.len() as u64, ..CaseOutcome::default() };
        Ok(Ok(Launched { outcome, to_judge: Some((self, after)), direct: None }))
    }

    /// Records its launches, for slots from an address on, and calls the launcher outside of capture if that was chosen.
    pub(super) fn ask(
        self,
        (operation, chosen): (&Operation, &Chosen),
        process: &mut Process,
        address: u64,
    ) -> Result<Result<Asked, CaseOutcome>> {
        let (bound, layout, launcher) = (&self.bound, &self.layout, &operation.launcher);
        let bases = [address, address + layout.bytes];
        let recordings = match process.record(launcher, bound, layout, &bases)? {
            Ok(recordings) => recordings,
            Err(fault) => return Ok(Err(fault.into())),
        };
        // A large case has fewer runs.
        let run = chosen.direct.filter(|_| layout.bytes <= MOST_DIRECT).map(|run| run.min(self.runs.len() - 1));
        let of = |run: usize| process.direct(launcher, (bound, layout), (run, &self.runs[run].slot.bytes));
        let direct = run.map(of).transpose()?;
        Ok(Ok(Asked { prepared: self, recordings, direct }))
    }

    /// Digests of the results that a launch left.
    fn left(&self, after: &[u8]) -> Vec<String> {
        let tensors = self.bound.tensors.iter().enumerate().filter(|(_, tensor)| tensor.role.is_result());
        let ranges: Vec<_> = tensors.map(|(index, _)| self.layout.range(&self.bound, index)).collect();
        digests(after, &ranges)
    }

    /// What is told of a case without a fault.
    fn verdict(&self, after: &[Vec<u8>], outcome: &CaseOutcome) -> Verdict {
        let compared = self.compared();
        let left = compared.iter().map(|run| (self.runs[*run].number, self.left(&after[*run]))).collect();
        Verdict { left, elements: outcome.elements / compared.len() as u64, worst: outcome.worst }
    }

    /// The fault if a launch changed what it must not.
    fn damaged(&self, after: &[Vec<u8>]) -> Option<Fault> {
        let mut pairs = self.runs.iter().zip(after);
        pairs.find_map(|(run, after)| damaged(&run.slot, &self.bound, &self.layout, after))
    }

    /// Compares the slots after their launches with what another code path left, on which nothing wrong was found.
    fn compare(&self, after: &[Vec<u8>], told: &Verdict, outcome: &mut CaseOutcome) {
        outcome.faults.extend(self.damaged(after));
        let is_alike = |(run, after): (&Run, &Vec<u8>)| told.left.get(&run.inputs()) == Some(&self.left(after));
        if !outcome.faults.is_empty() {
            // Reported, whatever it left.
        } else if self.runs.iter().zip(after).all(is_alike) {
            outcome.elements += told.elements * self.runs.len() as u64;
            outcome.worst = outcome.worst.max(told.worst);
        } else {
            outcome.unlike = true;
        }
    }

    /// Judges the slots after all launches of a case.
    fn judge(&self, (project, operation, chosen): Judged, after: &[Vec<u8>], outcome: &mut CaseOutcome) -> Result<()> {
        let (bound, layout) = (&self.bound, &self.layout);
        outcome.faults.extend(self.damaged(after));
        if let Some(what) = unwritten(bound, layout, &after[0], &after[1]) {
            outcome.faults.push((Kind::Unwritten, what));
            return Ok(());
        }
        let Chosen { case, timed, .. } = chosen;
        outcome.left_to_bench = *timed && bound.flops > MANY_OPERATIONS;
        let compared = if outcome.left_to_bench { &[][..] } else { self.compared() };
        let scope = Scope {
            non_finite: case.inputs == Inputs::NonFinite,
            alike: case.inputs == Inputs::Constant,
            sampled: timed.then(|| Sample { seed: fresh_seed(), elements: TIMED_SAMPLE }),
        };
        for (place, index) in compared.iter().copied().enumerate() {
            let given = tensors(bound, layout, &self.runs[index].slot.bytes, &after[index]);
            let got = results(bound, layout, &after[index]);
            let comparison = if let Some(oracle) = self.references.get(place) {
                compare(oracle.as_ref(), &given, &got, scope)
            } else {
                let oracle = oracle_for(project, operation, bound, &given, cores())?;
                compare(oracle.as_ref(), &given, &got, scope)
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
        Ok(())
    }
}

/// A case with its recorded launches.
pub(super) struct Asked {
    prepared: Prepared,
    recordings: Vec<Recording>,
    direct: Option<Direct>,
}

impl Asked {
    /// Launches the case.
    pub(super) fn launch(
        self,
        (device, memory, modules): (&Device, &Memory, &Modules),
        turns: &Turns,
        case: &Case,
    ) -> Result<Launched> {
        let Self { prepared, recordings, direct } = self;
        let bytes = prepared.layout.bytes;
        if let Some(fault) = foreign(modules, &recordings) {
            return Ok(CaseOutcome::from(fault).into());
        }
        let area = memory.area().ok_or_else(|| anyhow!("no memory for {}", case.label))?;
        let runs = prepared.runs.iter();
        let runs: Vec<_> = runs.map(|run| (&run.slot, run.place as u64 * bytes, &recordings[run.place])).collect();
        let (after, disturbed) = match replay((device, modules), turns, area, &runs, &format!("running {}", case.label))
        {
            Ok(replayed) => replayed,
            Err(error) => {
                let mut outcome = CaseOutcome::from((Kind::LaunchFailed, error.to_string()));
                outcome.lost = error.sticky;
                if !outcome.lost {
                    // The slot lies in the memory, but not in its guarded copy.
                    area.restore(device)?;
                }
                return Ok(outcome.into());
            }
        };
        let mut outcome =
            CaseOutcome { launches: runs.len() as u64, direct: u64::from(direct.is_some()), ..CaseOutcome::default() };
        outcome.faults.extend(disturbed.map(|what| (Kind::RedZone, what)));
        Ok(Launched { outcome, to_judge: Some((prepared, after)), direct })
    }
}

/// The project, the operation and the case that are judged.
pub(super) type Judged<'a> = (&'a Project, &'a Operation, &'a Chosen);

/// A case after its launches, to be judged while the next one is launched.
pub(super) struct Launched {
    outcome: CaseOutcome,
    /// The case, and its slots after their launches; none if the launches did not complete.
    to_judge: Option<(Prepared, Vec<Vec<u8>>)>,
    /// What the launch outside of capture left. Its fault is reported only if there is no other.
    direct: Option<Direct>,
}

impl From<CaseOutcome> for Launched {
    fn from(outcome: CaseOutcome) -> Self {
        Self { outcome, to_judge: None, direct: None }
    }
}

impl Launched {
    /// Whether the context is lost.
    pub(super) fn is_lost(&self) -> bool {
        self.outcome.lost
    }

    /// Judges it for other code paths as well, or compares it with the verdict of another one.
    pub(super) fn judge(self, what: Judged, (verdicts, place): (&Verdicts, Place)) -> Result<CaseOutcome> {
        let mut outcome = self.outcome;
        let mut verdict = Verdict::default();
        if let Some((prepared, after)) = self.to_judge {
            if verdicts.are_heard() {
                prepared.compare(&after, &verdicts.hear(place), &mut outcome);
            } else {
                prepared.judge(what, &after, &mut outcome)?;
            }
            if verdicts.are_told() && outcome.faults.is_empty() && !outcome.left_to_bench {
                verdict = prepared.verdict(&after, &outcome);
            }
            if let Some(direct) = self.direct.filter(|_| outcome.faults.is_empty() && !outcome.unlike) {
                let run = direct.run;
                outcome.faults.extend(direct.compare(&prepared.bound, &prepared.layout, &after[run]));
            }
        }
        verdicts.tell(place, &verdict);
        Ok(outcome)
    }
}

/// A slot, its place in the card's memory, and the recording that is launched on it.
type Placed<'a> = (&'a Slot, u64, &'a Recording);

/// The largest slot, in bytes, whose copies are of one submission with the launch.
const SMALL: u64 = 1 << 22;
// A slot to upload, one to download, and the result of a comparison.
const _: () = assert!(2 * SMALL + Batch::UNIT <= Batch::ROOM);

/// Uploads slots, replays recordings on them, and downloads them, one after another. Returns the slots, and what the first launch
/// that wrote outside of its slot wrote there. Each launch is waited for: the card can write page-locked memory, where results of an
/// earlier launch must not lie while a later one runs. Small slots are copied within one turn on the card; large ones outside of it,
/// and each of their launches has one.
fn replay(
    (device, modules): (&Device, &Modules),
    turns: &Turns,
    area: Area,
    runs: &[Placed],
    doing: &str,
) -> Result<(Vec<Vec<u8>>, Option<String>), GpuError> {
    let small = runs.iter().all(|(slot, ..)| slot.bytes.len() as u64 <= SMALL);
    let _turn = small.then(|| turns.take());
    let mut after = Vec::new();
    let mut disturbed = None;
    for (slot, place, recording) in runs {
        let bytes = slot.bytes.len() as u64;
        let launch = || recording.launches.iter().try_for_each(|launch| modules.launch(device, launch));
        if !small {
            device.upload(area.image, *place, &slot.bytes)?;
            let turn = turns.take();
            launch()?;
            device.finish(doing)?;
            drop(turn);
            after.push(device.download(area.image, *place, bytes)?);
        }
        let _turn = (!small).then(|| turns.take());
        let mut batch = Batch::new(device);
        let mut left = None;
        if small {
            batch.upload(area.image, *place, &slot.bytes)?;
            launch()?;
            left = Some(batch.download(area.image, *place, bytes)?);
        }
        let found = area.guard((device, &mut batch), *place, bytes)?;
        batch.finish(doing)?;
        disturbed = disturbed.or_else(|| first(batch.bytes(&found)).map(|byte| distance(byte, *place, bytes)));
        after.extend(left.map(|left| batch.bytes(&left).to_vec()));
    }
    if disturbed.is_some() {
        area.restore(device)?;
    }
    Ok((after, disturbed))
}

/// Checks that the launcher refuses a case: it returns an error code, and launches nothing.
pub(super) fn check_refusal(
    process: &mut Process,
    operation: &Operation,
    case: &Case,
    base: u64,
) -> Result<Option<Fault>> {
    let bound = operation.bind(case)?;
    let layout = Layout::new(&bound);
    let launcher = &operation.launcher;
    let functions = (launcher.as_str(), operation.error.as_deref());
    let outcomes = match process.ask(functions, &bound, &layout, &[base])? {
        Ok(outcomes) => outcomes,
        Err(fault) => return Ok(Some(fault)),
    };
    let accepted = format!("{launcher} accepted arguments that kernel.toml says it refuses");
    let message = match outcomes.first() {
        Some(Outcome::Code { code, nodes, .. }) if *nodes > 0 => {
            format!("{launcher} returned {code}, having launched {nodes} kernel(s)")
        }
        Some(Outcome::Code { code, said, .. }) => {
            let fault = case.refusal.fault(launcher, *code, said.as_deref());
            return Ok(fault.map(|message| (Kind::NotRefused, message)));
        }
        Some(Outcome::Done(recording)) if case.refusal.code == Some(0) && recording.launches.is_empty() => {
            return Ok(None);
        }
        Some(Outcome::Done(recording)) => {
            let kernels = recording.launches.len();
            format!("{accepted}, and launched {kernels} kernel(s)")
        }
        Some(Outcome::Escaped(why) | Outcome::NotAKernel(why)) => format!("{accepted}: {why}"),
        None => accepted,
    };
    Ok(Some((Kind::NotRefused, message)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;
    use crate::verify::random::Random;
    use crate::verify::select;
    use crate::worker::Choice;

    #[test]
    fn the_slots_of_all_launches_of_a_case_are_held_before_and_after_them() {
        let toml = format!("{}rows = [100, 1000000]\ncolumns = 1\n", Project::TRANSPOSE);
        let project = Project::of(&toml).unwrap();
        let operation = &project.spec.operations[0];
        let chosen = select::verified(&Choice::default(), operation, (0, false), &mut Random::new(0, 0)).unwrap();
        for chosen in chosen {
            let bytes = Layout::new(&operation.bind(&chosen.case).unwrap()).bytes;
            let (alone, hears) = if bytes < 1 << 21 { (4, 2) } else { (3, 1) };
            let listed = Listed { operation, place: (0, 0), chosen };
            assert_eq!([held_bytes(&listed, false), held_bytes(&listed, true)], [2 * alone * bytes, 2 * hears * bytes]);
        }
    }
}
