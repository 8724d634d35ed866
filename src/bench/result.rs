//! The report of a benchmark.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::gpu::Card;
use crate::project::DType;
use crate::verify::Finding;

/// Microseconds per launch: the median and its spread.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct Spread {
    /// The median.
    pub median: f64,
    /// The tenth percentile.
    pub p10: f64,
    /// The ninetieth percentile.
    pub p90: f64,
    /// The minimum.
    pub min: f64,
    /// How many samples.
    pub samples: u32,
}

/// Microseconds per launch in each timed round, from which a [`Spread`] is computed.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Samples {
    /// The kernel.
    pub kernel: Vec<f64>,
    /// The copy.
    pub copy: Vec<f64>,
}

/// Where the inputs of a launch are.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Residency {
    /// In device memory: rotating buffers hold at least four times the L2.
    Cold,
    /// In the L2: the buffers of all launches together fill at most three quarters of it; `Ruler` uses one set.
    Hot,
}

/// Operations per byte above which a case is bound by arithmetic: about as many as tensor cores do in the time that
/// memory moves a byte (T4 200, A100 150 to 200, H100 300).
const COMPUTE_BOUND: f64 = 200.0;

/// The times of one case.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct CaseBench {
    /// The operation.
    pub operation: String,
    /// The case's label.
    pub case: String,
    /// The element type.
    pub dtype: DType,
    /// Sizes and options.
    pub values: BTreeMap<String, f64>,
    /// The least bytes that must move.
    pub bytes: u64,
    /// Floating-point operations.
    pub flops: f64,
    /// Cold or hot.
    pub residency: Residency,
    /// How many sets of buffers rotate.
    pub slots: u32,
    /// The kernel.
    pub kernel: Spread,
    /// A copy of the same number of bytes (half read, half written), timed in turn with the kernel.
    pub copy: Spread,
    /// The times of every round; absent in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounds: Option<Samples>,
    /// How the copy was made: the fastest of the ways tried.
    pub copy_by: String,
    /// The kernels of one launch in C++ notation, with grid, block and dynamic shared memory.
    pub launches: Vec<String>,
    /// How many timed launches were compared with untimed ones on the same inputs, every byte.
    #[serde(default)]
    pub compared: u64,
    /// How many timed slots were compared with the oracle.
    pub checked: u32,
    /// Remarks: throttled, busy, unsteady.
    pub remarks: Vec<String>,
    /// The times of `--against`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub against: Option<Against>,
}

/// Other libraries' kernels and this project's, captured in CUDA graphs and replayed in turn in one process.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Against {
    /// What timed the graphs: `kernels` (the harness's clock, through its Python module) or `torch`.
    pub clock: String,
    /// The project's kernel, in that process.
    pub kernel: Option<Spread>,
    /// A copy of the same bytes, in that process.
    pub copy: Option<Spread>,
    /// The peers, in the order of the command line.
    pub peers: Vec<Beside>,
    /// Remarks: the host was late, the card is shared, the project's kernel is wrong there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
}

/// A peer in one case.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Beside {
    /// Its name in `--against`.
    pub name: String,
    /// Its time; if there is none, `skipped` says why.
    #[serde(default)]
    pub time: Option<Spread>,
    /// The formulation that was timed: the fastest of several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chosen: Option<String>,
    /// What is wrong with its results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wrong: Option<String>,
    /// What it computes, if that is a different function.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other: Option<String>,
    /// Why it was not timed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skipped: Option<String>,
}

impl Against {
    /// A case in which nothing could be timed.
    pub fn failed(clock: &str, why: &str) -> Self {
        Self {
            clock: clock.to_owned(),
            kernel: None,
            copy: None,
            peers: Vec::new(),
            remarks: vec![format!("nothing was timed: {why}")],
        }
    }

    /// The fastest peer that is right and computes the same function.
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
    pub(crate) fn of_roof(&self) -> f64 {
        self.copy.median / self.kernel.median
    }

    /// The bandwidth in GB/s, for the least bytes that must move.
    #[allow(clippy::cast_precision_loss)]
    pub(crate) fn gbs(&self) -> f64 {
        self.bytes as f64 / self.kernel.median / 1e3
    }

    /// TFLOP/s of a case that is bound by arithmetic, for which the copy is no useful limit; none for other cases.
    #[allow(clippy::cast_precision_loss)]
    pub(crate) fn tflops(&self) -> Option<f64> {
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
    /// The faults; none: the timed outputs are right.
    pub findings: Vec<Finding>,
    /// Remarks on the whole run: a busy card, reduced clocks.
    pub remarks: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taking(median: f64) -> Spread {
        Spread { median, p10: median, p90: median, min: median, samples: 5 }
    }

    #[test]
    fn rates_are_of_the_median_and_arithmetic_binds_above_200_operations_a_byte() {
        let mut case = CaseBench {
            operation: "norm".to_owned(),
            case: "rows=3".to_owned(),
            dtype: DType::F32,
            values: BTreeMap::new(),
            bytes: 5_000_000,
            flops: 1e9,
            residency: Residency::Cold,
            slots: 8,
            kernel: taking(4.0),
            copy: taking(3.0),
            rounds: None,
            copy_by: String::new(),
            launches: Vec::new(),
            compared: 0,
            checked: 0,
            remarks: Vec::new(),
            against: None,
        };
        assert!((case.of_roof() - 0.75).abs() < 1e-12 && (case.gbs() - 1250.0).abs() < 1e-9);
        assert_eq!(case.tflops(), None);
        case.flops = 2e9;
        assert!(case.tflops().is_some_and(|rate| (rate - 500.0).abs() < 1e-9));
    }

    #[test]
    fn the_best_peer_is_right_and_computes_the_same() {
        let peer = |name: &str, median, wrong: Option<&str>, other: Option<&str>| Beside {
            name: name.to_owned(),
            time: (median > 0.0).then(|| taking(median)),
            chosen: None,
            wrong: wrong.map(str::to_owned),
            other: other.map(str::to_owned),
            skipped: None,
        };
        let mut against = Against::failed("torch", "no torch");
        assert!(against.remarks == ["nothing was timed: no torch"] && against.best().is_none());
        against.peers = vec![
            peer("wrong", 1.0, Some("NaN"), None),
            peer("other", 1.5, None, Some("no bias")),
            peer("slow", 3.0, None, None),
            peer("fast", 2.0, None, None),
            peer("absent", 0.0, None, None),
        ];
        assert_eq!(against.best().map(|(peer, time)| (peer.name.as_str(), time)), Some(("fast", taking(2.0))));
    }
}
