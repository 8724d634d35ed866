//! One code path of a project, machine code or PTX that the driver compiles, with the process that records its launches.

use std::cell::OnceCell;

use anyhow::{Context, Result};

use super::exports;
use super::finding::{Kind, path_name};
use crate::compile::{Build, Target, variables};
use crate::gpu::direct::digests;
use crate::gpu::recording::{Outcome, Ran, Value};
use crate::gpu::{Device, GpuError, Modules, RecordError, Recorder, Recording, State};
use crate::project::{Bound, BoundArgument, Project};

use super::files::Files;
use super::layout::Layout;

/// After so many recording processes of a path have ended early, no other is started.
const MOST_PROCESSES: u32 = 3;

/// A code path, loaded and ready.
#[derive(Debug)]
pub(crate) struct CodePath<'a> {
    /// The architecture that it was compiled for.
    pub(crate) target: &'a Target,
    /// Whether the driver compiles it from PTX.
    pub(crate) jit: bool,
    /// The device code.
    pub(super) code: Code,
    /// What records its launches.
    pub(crate) process: Process<'a>,
}

/// The device code of a path: read before a candidate's process runs, and loaded when it is first needed. The driver compiles PTX for
/// a long time, and as long again in the recording process, which can be at the same time.
#[derive(Debug)]
pub(super) struct Code {
    /// Each with a name for errors.
    images: Vec<(String, Vec<u8>)>,
    loaded: OnceCell<Modules>,
}

/// The process in which the launchers of a code path run, started when it is needed.
#[derive(Debug)]
pub(crate) struct Process<'a> {
    target: &'a Target,
    ordinal: usize,
    recorder: Option<Recorder>,
    files: Files,
    /// A fault of the library itself, because of which no process loads it.
    unfit: Option<Fault>,
    /// Recording processes that ended early.
    ended: u32,
}

/// What a launcher left that was called outside of capture.
#[derive(Debug)]
pub(crate) struct Direct {
    launcher: String,
    /// The run whose slot it was called on.
    pub(crate) run: usize,
    /// Digests of the slot's parts, or what failed.
    left: Result<Vec<String>, Fault>,
}

/// A kind of fault, and an explanation.
pub(crate) type Fault = (Kind, String);

impl Code {
    /// The modules, which are loaded now if they were not before.
    pub(super) fn modules(&self, device: &Device) -> Result<&Modules, GpuError> {
        if let Some(modules) = self.loaded.get() {
            return Ok(modules);
        }
        let modules = Modules::load(device, &self.images)?;
        Ok(self.loaded.get_or_init(|| modules))
    }
}

impl<'a> CodePath<'a> {
    /// Reads the code of one target.
    pub(crate) fn read(ordinal: usize, project: &Project, target: &'a Target, jit: bool) -> Result<Self> {
        let files = Files::of(project, target)?;
        let mut images = Vec::new();
        for unit in &target.units {
            let path = if jit { &unit.ptx } else { &unit.cubin };
            let bytes = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
            images.push((format!("{} for sm_{}", unit.source.display(), target.arch), bytes));
        }
        let unfit = exports::interposed(&target.library)?.map(|what| (Kind::Interposes, what));
        let process = Process { target, ordinal, recorder: None, files, unfit, ended: 0 };
        Ok(Self { target, jit, code: Code { images, loaded: OnceCell::new() }, process })
    }

    /// The device code, loaded.
    pub(crate) fn modules(&self, device: &Device) -> Result<&Modules, GpuError> {
        self.code.modules(device)
    }

    /// `sm_90`, or `compute_75 through the driver's compiler`.
    pub(crate) fn name(&self) -> String {
        path_name(self.target.arch, self.jit)
    }

    /// The device variables of the modules, with their contents before the first launch.
    pub(crate) fn state(&self, device: &Device) -> Result<State> {
        let mut names = Vec::new();
        for unit in &self.target.units {
            let cubin = std::fs::read(&unit.cubin).with_context(|| format!("reading {}", unit.cubin.display()))?;
            names.extend(variables(&cubin)?);
        }
        names.sort();
        names.dedup();
        Ok(self.modules(device)?.state(&names)?)
    }

    /// As [`Process::record`], and looks for the kernels in the code.
    ///
    /// # Errors
    /// Errors of the harness; faults of the candidate are in the result.
    pub(crate) fn record(
        &mut self,
        device: &Device,
        launcher: &str,
        (bound, layout): (&Bound, &Layout),
        bases: &[u64],
    ) -> Result<Result<Vec<Recording>, Fault>> {
        let recorded = self.process.record(launcher, bound, layout, bases)?;
        let modules = self.modules(device)?;
        Ok(recorded.and_then(|recordings| foreign(modules, &recordings).map_or(Ok(recordings), Err)))
    }
}

/// The fault if a recorded kernel is not in the code.
pub(crate) fn foreign(modules: &Modules, recordings: &[Recording]) -> Option<Fault> {
    let mut launches = recordings.iter().flat_map(|recording| &recording.launches);
    let foreign = launches.find(|launch| !modules.has(&launch.symbol))?;
    Some((Kind::ForeignKernel, format!("{} is not in the project's own machine code", foreign.symbol)))
}

impl Process<'_> {
    /// Ends the recording process; the next recording starts another.
    pub(crate) fn dismiss(&mut self) {
        self.recorder = None;
    }

    /// The restrictions of the recording process.
    pub(crate) fn confinement(&self) -> Vec<String> {
        self.recorder.as_ref().map(|recorder| recorder.confinement.clone()).unwrap_or_default()
    }

    /// Records one call of a launcher for each base address of a slot.
    ///
    /// # Errors
    /// Errors of the harness; faults of the candidate are in the result.
    pub(crate) fn record(
        &mut self,
        launcher: &str,
        bound: &Bound,
        layout: &Layout,
        bases: &[u64],
    ) -> Result<Result<Vec<Recording>, Fault>> {
        let outcomes = match self.ask((launcher, None), bound, layout, bases)? {
            Ok(outcomes) => outcomes,
            Err(fault) => return Ok(Err(fault)),
        };
        let mut recordings = Vec::with_capacity(outcomes.len());
        for outcome in outcomes {
            match outcome {
                Outcome::Done(recording) => recordings.push(recording),
                Outcome::Code { code, .. } => {
                    return Ok(Err((
                        Kind::LauncherFailed,
                        format!(
                            "{launcher} returned {code} (its launches are recorded, not run: copies and fills by the driver \
                             fail here, too; only kernels may be launched)"
                        ),
                    )));
                }
                Outcome::NotAKernel(why) => return Ok(Err((Kind::NotAKernel, why))),
                Outcome::Escaped(why) => {
                    // That process's context may be lost: the next case gets another process.
                    return Ok(Err(self.ended(Kind::EscapedStream, why)));
                }
            }
        }
        let writes = bound.tensors.iter().any(|tensor| tensor.role.is_result() && tensor.elements() > 0);
        if writes && recordings.iter().any(|recording| recording.launches.is_empty()) {
            return Ok(Err((Kind::NoLaunch, format!("{launcher} returned 0 and launched nothing"))));
        }
        Ok(Ok(recordings))
    }

    /// As [`CodePath::record`], but returns the outcomes as they are reported. `error` names the function that returns
    /// messages for the launcher's error codes.
    pub(crate) fn ask(
        &mut self,
        (launcher, error): (&str, Option<&str>),
        bound: &Bound,
        layout: &Layout,
        bases: &[u64],
    ) -> Result<Result<Vec<Outcome>, Fault>> {
        if let Some(fault) = &self.unfit {
            return Ok(Err(fault.clone()));
        }
        let calls = bases.iter().map(|base| values(bound, layout, *base)).collect();
        if self.recorder.is_none() {
            match Recorder::start(self.ordinal, &self.target.library) {
                Ok(recorder) => self.recorder = Some(recorder),
                Err(RecordError::Refused(why)) => {
                    anyhow::bail!("the recording process could not start: {why}")
                }
                Err(error) => return Ok(Err(self.fault(error))),
            }
        }
        let Some(recorder) = &mut self.recorder else {
            anyhow::bail!("no recording process");
        };
        let answer = recorder.record(launcher, error, calls);
        if let Some(changed) = self.files.changed() {
            return Ok(Err((Kind::FilesChanged, changed)));
        }
        Ok(answer.map_err(|error| self.fault(error)))
    }

    /// Calls a launcher once outside of capture, in the recording process, on a slot with the content `before`, that of a run. Called
    /// after a recording of the same case.
    ///
    /// # Errors
    /// Errors of the harness.
    pub(crate) fn direct(
        &mut self,
        launcher: &str,
        (bound, layout): (&Bound, &Layout),
        (run, before): (usize, &[u8]),
    ) -> Result<Direct> {
        let Some(recorder) = &mut self.recorder else {
            anyhow::bail!("no recording process");
        };
        let ranges = layout.parts(bound).into_iter().map(|(_, range)| range).collect();
        let answer = recorder.run(launcher, values(bound, layout, 0), before, ranges);
        let left = if let Some(changed) = self.files.changed() {
            Err((Kind::FilesChanged, changed))
        } else {
            match answer {
                Ok(Ran::Left(left)) => Ok(left),
                Ok(Ran::Code(code)) => Err(outside(launcher, &format!("returned {code}, and 0 under capture"))),
                // That process's context may be lost.
                Ok(Ran::Failed(why)) => {
                    let (kind, message) =
                        outside(launcher, &format!("failed, and its recorded launches did not: {why}"));
                    Err(self.ended(kind, message))
                }
                Err(RecordError::Refused(why)) => anyhow::bail!(why),
                Err(error) => Err(self.fault(error)),
            }
        };
        Ok(Direct { launcher: launcher.to_owned(), run, left })
    }

    fn fault(&mut self, error: RecordError) -> Fault {
        match error {
            RecordError::Stopped(why) => self.ended(Kind::ChildStopped, format!("the recording process: {why}")),
            RecordError::BadReport(why) => self.ended(Kind::BadReport, format!("the recording process: {why}")),
            RecordError::Refused(why) => self.ended(Kind::ChildStopped, why),
        }
    }

    /// Counts a process that ended, so that none is started for each case if a library ends every process.
    fn ended(&mut self, kind: Kind, why: String) -> Fault {
        self.recorder = None;
        self.ended += 1;
        if self.ended < MOST_PROCESSES {
            return (kind, why);
        }
        let fault = (
            kind,
            format!("{why} (this happened {MOST_PROCESSES} times: no other process is started for this library)"),
        );
        self.unfit = Some(fault.clone());
        fault
    }
}

impl Direct {
    /// Compares what it left with what a replay of the same run left: every byte but those of scratch.
    pub(crate) fn compare(self, bound: &Bound, layout: &Layout, after: &[u8]) -> Option<Fault> {
        let left = match self.left {
            Ok(left) => left,
            Err(fault) => return Some(fault),
        };
        let parts = layout.parts(bound);
        let ranges: Vec<_> = parts.iter().map(|(_, range)| range.clone()).collect();
        let differs =
            parts.iter().zip(digests(after, &ranges)).zip(&left).find(|((_, replayed), left)| replayed != *left);
        differs.map(|(((name, _), _), _)| {
            let what = format!("leaves other bytes in {name} than the recorded launches do on the same inputs");
            outside(&self.launcher, &what)
        })
    }
}

fn outside(launcher: &str, what: &str) -> Fault {
    (Kind::OutsideCapture, format!("called outside of capture, {launcher} {what}"))
}

/// The launcher's arguments for a slot at an address.
fn values(bound: &Bound, layout: &Layout, base: u64) -> Vec<Value> {
    bound
        .arguments
        .iter()
        .map(|argument| match *argument {
            BoundArgument::Tensor(index) => Value::Pointer(base + layout.starts[index]),
            BoundArgument::Beyond(index, bytes) => Value::Pointer(base + layout.starts[index] + bytes),
            BoundArgument::Null => Value::Pointer(0),
            BoundArgument::I32(number) => Value::I32(number),
            BoundArgument::I64(number) => Value::I64(number),
            BoundArgument::F32(number) => Value::F32(number.to_bits()),
            BoundArgument::F64(number) => Value::F64(number.to_bits()),
            BoundArgument::Stream => Value::Stream,
        })
        .collect()
}

/// The targets of a build that a card can run, each with whether the driver compiles it: machine code first, then older PTX.
pub fn choose(build: &Build, arch: u32, native_only: bool) -> Vec<(&Target, bool)> {
    let mut targets: Vec<&Target> = build.targets.iter().filter(|target| target.arch <= arch).collect();
    targets.sort_by_key(|target| std::cmp::Reverse(target.arch));
    let mut chosen = Vec::new();
    // Machine code runs on the same major compute capability, and the same or a later minor one.
    if let Some(native) = targets.iter().find(|target| target.arch / 10 == arch / 10) {
        chosen.push((*native, false));
    } else if let Some(nearest) = targets.first() {
        chosen.push((*nearest, true));
    }
    if !native_only {
        for target in &targets {
            if target.arch / 10 != arch / 10 && !chosen.iter().any(|(other, _)| other.arch == target.arch) {
                chosen.push((*target, true));
            }
        }
    }
    chosen
}
