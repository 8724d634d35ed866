//! The report of a verification.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::base::plural;
use crate::gpu::Card;
use crate::project::{Operation, OracleRef, Tolerance};

/// The version of a verification's checks: of the cases that it adds to those of kernel.toml, and of the faults that it
/// detects. Evidence of an older version is stale.
///
/// 2: NaN and infinity among the inputs; launches outside of capture; the shapes of the bench; all memory guarded.
pub const SET: u32 = 2;

/// The version of reports that do not name one.
pub(crate) fn first_set() -> u32 {
    1
}

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
    /// Called outside of capture, the launcher leaves other bytes than its recorded launches.
    OutsideCapture,
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
    /// kernel.toml says that more bytes move than the tensors have.
    TooManyBytes,
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
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
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
    /// How many cases were launched outside of capture as well.
    #[serde(default)]
    pub direct: u64,
    /// The largest error in units of its budget; under 1 where all passed.
    pub worst: f64,
    /// Seconds.
    pub seconds: f64,
    /// The architecture whose code path it stands for: with the same PTX and the same launchers it was not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code_of: Option<u32>,
}

impl PathReport {
    /// `sm_90`, or `compute_75 through the driver's compiler`.
    pub(crate) fn name(&self) -> String {
        path_name(self.arch, self.jit)
    }

    /// Why it was not run, if it was not.
    pub(crate) fn alike(&self) -> Option<String> {
        let other = self.code_of?;
        Some(format!(
            "not run: its PTX, but for the name of the target, and its launchers are those of compute_{other}"
        ))
    }
}

/// The name of a code path in reports.
pub(super) fn path_name(arch: u32, jit: bool) -> String {
    if jit { format!("compute_{arch} through the driver's compiler") } else { format!("sm_{arch}") }
}

/// What was verified of one operation, on all code paths, and by what.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct OperationReport {
    /// Its name.
    pub operation: String,
    /// The source of the expected values: `built in: rms_norm`, or `the project's own: reference.py, rms_norm`.
    pub oracle: String,
    /// The project's own tolerance, as text; none: the defaults of this program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tolerance: Option<String>,
    /// Why NaN and infinity were not among the inputs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finite_only: Option<String>,
    /// Cases, without those that a launcher must refuse.
    pub cases: u64,
    /// Output elements that were compared.
    pub elements: u64,
    /// Cases with NaN and infinity among the inputs.
    pub non_finite: u64,
    /// Cases that were launched outside of capture as well.
    pub direct: u64,
    /// Cases that were added because the bench times their shape.
    pub timed: u64,
    /// Of these, those whose outputs are compared with the oracle only by the bench, because of their size.
    pub left_to_bench: u64,
}

impl OperationReport {
    /// The report of an operation before any case.
    pub(crate) fn new(operation: &Operation) -> Self {
        let Tolerance { ulps, relative_norm, absolute } = operation.tolerance;
        let parts = [("ulps", ulps), ("absolute", absolute), ("relative_norm", relative_norm)];
        let parts = parts.iter().filter_map(|(name, number)| number.map(|number| format!("{name} = {number:e}")));
        let tolerance = parts.collect::<Vec<_>>().join(", ");
        Self {
            operation: operation.name.clone(),
            oracle: match &operation.oracle {
                OracleRef::Bundled(name) => format!("built in: {name}"),
                OracleRef::Python { file, function } => {
                    format!("the project's own: {}, {function}", file.display())
                }
            },
            tolerance: (!tolerance.is_empty()).then_some(tolerance),
            finite_only: operation.finite_only.clone(),
            ..Self::default()
        }
    }

    /// Adds what another code path verified of the same operation.
    pub(crate) fn add(&mut self, other: &Self) {
        self.cases += other.cases;
        self.elements += other.elements;
        self.non_finite += other.non_finite;
        self.direct += other.direct;
        self.timed += other.timed;
        self.left_to_bench += other.left_to_bench;
    }

    /// What was verified, in one line.
    pub(crate) fn words(&self) -> String {
        let mut words = vec![
            plural(self.cases, "case"),
            format!("{} compared", plural(self.elements, "element")),
            format!("oracle {}", self.oracle),
            format!("{} with NaN and infinity", self.non_finite),
            format!("{} launched outside of capture as well", self.direct),
        ];
        if self.timed > 0 {
            words.push(format!("{} timed by bench", self.timed));
        }
        if self.left_to_bench > 0 {
            words.push(format!("{} of these compared with the oracle by bench alone", self.left_to_bench));
        }
        words.join(", ")
    }

    /// What the project defines in place of this program's oracle, tolerance and inputs, one line each.
    pub(crate) fn own(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if !self.oracle.starts_with("built in") {
            let word = self.oracle.trim_start_matches("the project's own: ");
            lines.push(format!("{}: what is right is said by the project's own {word}", self.operation));
        }
        if let Some(tolerance) = &self.tolerance {
            lines.push(format!("{}: judged by the project's own tolerance, {tolerance}", self.operation));
        }
        if let Some(why) = &self.finite_only {
            lines.push(format!("{}: not verified with NaN and infinity; kernel.toml says: {why}", self.operation));
        }
        lines
    }
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
    /// The version of the checks: [`SET`].
    #[serde(default = "first_set")]
    pub set: u32,
    /// The operations.
    #[serde(default)]
    pub operations: Vec<OperationReport>,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_the_projects_own_word_is_said_and_what_is_ours_is_not() {
        let mut report = OperationReport { oracle: "built in: rms_norm".to_owned(), ..OperationReport::default() };
        assert!(report.own().is_empty());
        report.oracle = "the project's own: reference.py, norm".to_owned();
        report.tolerance = Some("absolute = 1e9".to_owned());
        report.finite_only = Some("maxima drop NaN".to_owned());
        let own = report.own().join("\n");
        for words in ["reference.py, norm", "absolute = 1e9", "maxima drop NaN"] {
            assert!(own.contains(words), "{own}");
        }
        report.cases = 3;
        report.elements = 1;
        let words = "3 cases, 1 element compared, oracle the project's own: reference.py, norm, 0 with NaN and infinity, 0 launched \
                     outside of capture as well";
        assert_eq!(report.words(), words);
        (report.timed, report.left_to_bench) = (2, 1);
        let more = ", 2 timed by bench, 1 of these compared with the oracle by bench alone";
        assert_eq!(report.words(), format!("{words}{more}"));
    }

    #[test]
    fn what_several_code_paths_verified_is_added_up() {
        let of = |by: u64| OperationReport {
            operation: "norm".to_owned(),
            cases: 3 * by,
            elements: 5 * by,
            non_finite: 7 * by,
            direct: 11 * by,
            timed: 13 * by,
            left_to_bench: 17 * by,
            ..OperationReport::default()
        };
        let mut sum = of(2);
        sum.add(&of(3));
        assert_eq!(sum, of(5));
    }
}
