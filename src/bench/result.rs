//! What a benchmark says.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::gpu::Card;
use crate::project::DType;
use crate::verify::Finding;

/// A median with its spread, microseconds a launch.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct Spread {
    /// The median.
    pub median: f64,
    /// The tenth percentile.
    pub p10: f64,
    /// The ninetieth percentile.
    pub p90: f64,
    /// The least.
    pub min: f64,
    /// How many samples.
    pub samples: u32,
}

/// Where a launch finds its inputs.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Residency {
    /// In device memory: the buffers rotate through at least four times the L2.
    Cold,
    /// One buffer again and again: in the L2, as far as it fits.
    Hot,
}

/// Operations a byte: about as many as tensor cores do while memory brings one (T4 200, A100 150 to 200, H100 300).
const COMPUTE_BOUND: f64 = 200.0;

/// One case timed.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct CaseBench {
    /// The operation.
    pub operation: String,
    /// The case's label.
    pub case: String,
    /// What `T` is.
    pub dtype: DType,
    /// Sizes and options.
    pub values: BTreeMap<String, f64>,
    /// The fewest bytes that must move.
    pub bytes: u64,
    /// Floating-point operations.
    pub flops: f64,
    /// Cold or hot.
    pub residency: Residency,
    /// How many buffer sets rotate.
    pub slots: u32,
    /// The kernel.
    pub kernel: Spread,
    /// A copy of the same number of bytes (half read, half written), alternated with the kernel.
    pub copy: Spread,
    /// How the copy was made: the fastest of those tried.
    pub copy_by: String,
    /// The kernels of one launch, as C++ writes them, with grid and block.
    pub launches: Vec<String>,
    /// How many timed outputs were compared with the oracle, whole.
    pub checked: u32,
    /// What a reader should know: throttled, busy, unsteady.
    pub remarks: Vec<String>,
    /// Others' kernels and ours, timed in turn in one process: `--against`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub against: Option<Against>,
}

/// Others' kernels beside ours: all of them, ours too, in torch's graphs, replayed in turn in one process.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Against {
    /// Whose clock replayed the graphs: `kernels` (the Python module's, which is the harness's) or `torch`.
    pub clock: String,
    /// Ours, in that process.
    pub kernel: Option<Spread>,
    /// A copy of the same bytes, in that process.
    pub copy: Option<Spread>,
    /// The others, in the order in which they were asked for.
    pub peers: Vec<Beside>,
    /// What a reader should know: the host was late, the card is shared, ours is wrong there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
}

/// One of the others, in one case.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Beside {
    /// As `--against` names it.
    pub name: String,
    /// Its time; none: `skipped` says why.
    #[serde(default)]
    pub time: Option<Spread>,
    /// Which of several ways to write it was the fastest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chosen: Option<String>,
    /// What is wrong with its results, where something is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wrong: Option<String>,
    /// What it computes, where that is another function.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other: Option<String>,
    /// Why it was not timed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skipped: Option<String>,
}

impl Against {
    /// Of a case in which nobody could be timed.
    pub fn failed(clock: &str, why: &str) -> Self {
        Self {
            clock: clock.to_owned(),
            kernel: None,
            copy: None,
            peers: Vec::new(),
            remarks: vec![format!("nobody was timed: {why}")],
        }
    }

    /// The fastest of those that are right and compute the same.
    pub fn best(&self) -> Option<(&Beside, Spread)> {
        self.peers
            .iter()
            .filter(|peer| peer.wrong.is_none() && peer.other.is_none())
            .filter_map(|peer| Some((peer, peer.time?)))
            .min_by(|(_, one), (_, other)| one.median.total_cmp(&other.median))
    }
}

impl CaseBench {
    /// Copy time over kernel time.
    pub fn of_roof(&self) -> f64 {
        self.copy.median / self.kernel.median
    }

    /// GB/s of the least bytes.
    #[allow(clippy::cast_precision_loss)]
    pub fn gbs(&self) -> f64 {
        self.bytes as f64 / self.kernel.median / 1e3
    }

    /// TFLOP/s, of a case that no card can feed from memory as fast as it multiplies: for it the roof says little.
    #[allow(clippy::cast_precision_loss)]
    pub fn tflops(&self) -> Option<f64> {
        let bound = self.flops > COMPUTE_BOUND * self.bytes as f64;
        bound.then(|| self.flops / self.kernel.median / 1e6)
    }
}

/// A whole benchmark.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct BenchReport {
    /// The project.
    pub project: String,
    /// The card.
    pub card: Card,
    /// The compiler's version.
    pub compiler: String,
    /// The seed.
    pub seed: u64,
    /// The cases.
    pub cases: Vec<CaseBench>,
    /// What is wrong; empty: all is right.
    pub findings: Vec<Finding>,
    /// What a reader should know of the whole run: a busy card, clocks held down.
    pub remarks: Vec<String>,
}
