//! The report of a verification.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::gpu::Card;

/// A kind of fault. Reports name it in kebab-case.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// An output element still holds the poison from before the launch.
    Unwritten,
    /// An element differs from the oracle by more than its error budget.
    WrongValue,
    /// NaN or infinity where the oracle expects a finite number.
    NotFinite,
    /// Each element is within its budget, but ‖out − ref‖ / ‖ref‖ is not.
    RelativeNorm,
    /// An input changed.
    InputModified,
    /// A byte outside a tensor changed.
    RedZone,
    /// The same launch on the same inputs gave other bytes.
    NotDeterministic,
    /// The launcher launched nothing.
    NoLaunch,
    /// The launcher returned an error code.
    LauncherFailed,
    /// The launcher accepted arguments that it must refuse, or launched for them.
    NotRefused,
    /// The launcher captured something other than a kernel.
    NotAKernel,
    /// The launcher launched a kernel that is not in the project's own machine code.
    ForeignKernel,
    /// Work escaped the captured stream: another stream, a synchronisation, an illegal access under capture.
    EscapedStream,
    /// The recording process died, exceeded its time or memory, or was stopped at a forbidden system call.
    ChildStopped,
    /// The recording process sent an invalid reply.
    BadReport,
    /// The shared object defines a symbol of the driver, the runtime or the C library.
    Interposes,
    /// A file of the build or the project changed while the recording process ran.
    FilesChanged,
    /// The launch failed on the card.
    LaunchFailed,
    /// An output of a timed launch is wrong.
    TimedOutput,
    /// The time is less than the memory needs to move the bytes.
    TooFast,
    /// compute-sanitizer found an error.
    Sanitizer,
}

impl Kind {
    /// The name in kebab-case.
    pub fn name(self) -> String {
        serde_json::to_value(self).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
    }
}

/// One fault.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Finding {
    /// Its kind.
    pub kind: Kind,
    /// The operation.
    pub operation: String,
    /// The case's label; none for the whole project.
    pub case: Option<String>,
    /// `sm_90`, or `compute_75 through the driver's compiler`.
    pub path: String,
    /// An explanation: where, expected and actual value, error.
    pub message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let case = self.case.as_deref().unwrap_or("");
        let (kind, operation, path) = (self.kind.name(), &self.operation, &self.path);
        write!(f, "{kind} {operation} {case} [{path}]\n    {}", self.message)
    }
}

/// The verification of one code path.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct PathReport {
    /// The architecture that the code was compiled for.
    pub arch: u32,
    /// Whether it was PTX through the driver's compiler.
    pub jit: bool,
    /// How many cases.
    pub cases: u64,
    /// How many launches were checked.
    pub launches: u64,
    /// How many output elements were compared.
    pub elements: u64,
    /// The largest error in units of its budget; under 1 where all passed.
    pub worst: f64,
    /// Seconds.
    pub seconds: f64,
}

/// A whole verification.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct VerifyReport {
    /// The project.
    pub project: String,
    /// The card.
    pub card: Card,
    /// The compiler's version.
    pub compiler: String,
    /// The seed of cases and inputs.
    pub seed: u64,
    /// The restrictions of the recording process.
    pub confinement: Vec<String>,
    /// The code paths.
    pub paths: Vec<PathReport>,
    /// The faults; none: the project passed.
    pub findings: Vec<Finding>,
}

impl VerifyReport {
    /// Whether there are no findings.
    pub fn passed(&self) -> bool {
        self.findings.is_empty()
    }
}
