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
