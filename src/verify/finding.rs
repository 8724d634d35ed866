//! What verification says.

use serde::{Deserialize, Serialize};

use crate::gpu::Card;

/// What is wrong with a candidate, by name. The text in kebab-case is the name that people and tests see.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// An output element still holds the poison it was given before the launch.
    Unwritten,
    /// An element is further from the oracle than its error budget.
    WrongValue,
    /// NaN or infinity where the oracle has a number.
    NotFinite,
    /// Every element is inside its budget, and the whole is not: ‖out − ref‖ / ‖ref‖.
    RelativeNorm,
    /// An input changed.
    InputModified,
    /// A byte outside a tensor changed.
    RedZone,
    /// The same launch on the same bytes gave other bytes.
    NotDeterministic,
    /// The launcher launched nothing.
    NoLaunch,
    /// The launcher returned an error code.
    LauncherFailed,
    /// The launcher accepted arguments that it must refuse, or launched for them.
    NotRefused,
    /// A node of the recording is no kernel.
    NotAKernel,
    /// A kernel that is not in the project's own machine code.
    ForeignKernel,
    /// Work escaped the captured stream: another stream, a synchronisation, an illegal access under capture.
    EscapedStream,
    /// The child died, ran out of time or memory, or was stopped at a forbidden call.
    ChildStopped,
    /// The child's report is not one.
    BadReport,
    /// The shared object defines a symbol of the driver, the runtime or the C library.
    Interposes,
    /// A file of the build or the project changed while the child ran.
    FilesChanged,
    /// The launch failed on the card.
    LaunchFailed,
    /// A timed output is wrong although the same case passed before.
    TimedOutput,
    /// Faster than the bytes can move.
    TooFast,
    /// compute-sanitizer found something.
    Sanitizer,
}

impl Kind {
    /// The name in kebab-case.
    pub fn name(self) -> String {
        serde_json::to_value(self)
            .ok()
            .and_then(|value| value.as_str().map(str::to_owned))
            .unwrap_or_default()
    }
}

/// One thing that is wrong.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Finding {
    /// What.
    pub kind: Kind,
    /// The operation.
    pub operation: String,
    /// The case's label; none when it is about the whole project.
    pub case: Option<String>,
    /// `sm_90`, or `compute_75 through the driver's compiler`.
    pub path: String,
    /// For people, with coordinates, expected, got, ulps where there are such.
    pub message: String,
}

/// What was verified on one code path.
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
    /// The seed that draws the same cases and inputs again.
    pub seed: u64,
    /// What held the child: `seccomp`, `landlock`, `no network namespace`, …
    pub confinement: Vec<String>,
    /// The code paths.
    pub paths: Vec<PathReport>,
    /// What is wrong; empty: all is right.
    pub findings: Vec<Finding>,
}

impl VerifyReport {
    /// Whether nothing is wrong.
    pub fn passed(&self) -> bool {
        self.findings.is_empty()
    }
}
