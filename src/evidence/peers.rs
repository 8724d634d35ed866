//! Times of other projects' kernels on the same card: `peers-<gpu>.json`, written by benches/gpu/peers.py.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Result, ensure};
use serde::Deserialize;

use crate::bench::CaseBench;
use crate::gpu::slug;

/// A run of the script on one card.
#[derive(Clone, Debug, Deserialize)]
pub struct Peers {
    /// The card's name, as its driver gives it.
    pub(crate) card: String,
    /// torch's version.
    pub(crate) torch: String,
    /// One per shape and dtype.
    pub(crate) rows: Vec<PeerRow>,
}

/// One shape, all contenders. `kernels` is this project's kernel in the same run: only times within a row
/// may be compared.
#[derive(Clone, Debug, Deserialize)]
pub struct PeerRow {
    /// The operation.
    pub(crate) operation: String,
    /// Sizes and options by name: those of the bench case, or fewer.
    pub(crate) shape: BTreeMap<String, f64>,
    /// The data type `T`.
    pub(crate) dtype: crate::project::DType,
    /// Megabytes that must be moved.
    pub(crate) mb: f64,
    /// Median microseconds by name; absent or null where a peer cannot do the operation.
    pub(crate) times_us: BTreeMap<String, Option<f64>>,
    /// Those with a wrong result: their times are ignored.
    #[serde(default)]
    pub(crate) wrong: Vec<String>,
    /// Those that compute another function than the model, and which: they are compared with by name, and are
    /// never the best peer.
    #[serde(default)]
    pub(crate) other: BTreeMap<String, String>,
    /// The fastest variant, for peers that have several: `torch (cudnn)`.
    #[serde(default)]
    pub(crate) chosen: BTreeMap<String, String>,
}

impl Peers {
    /// The peers of the card with this short name, if they were timed; an error where the file is another card's.
    pub fn of_card(dir: &Path, card: &str) -> Result<Option<Self>> {
        let path = dir.join(format!("peers-{card}.json"));
        if !path.exists() {
            return Ok(None);
        }
        let peers: Self = super::read(&path)?;
        ensure!(
            slug(&peers.card) == card,
            "{} holds times of {}, which belong in peers-{}.json",
            path.display(),
            peers.card,
            slug(&peers.card)
        );
        Ok(Some(peers))
    }

    /// The row of a case: same operation and dtype, every size in the row equal, the same bytes within 2 %,
    /// and nothing in the case's label that the row does not name: `weight=0` is another operation. If several match,
    /// the one that names most.
    pub fn row(&self, case: &CaseBench) -> Option<&PeerRow> {
        #[allow(clippy::cast_precision_loss, reason = "compared within 2 %")]
        let megabytes = case.bytes as f64 / 1e6;
        self.rows
            .iter()
            .filter(|row| row.operation == case.operation && row.dtype == case.dtype)
            .filter(|row| {
                row.shape.iter().all(|(name, value)| {
                    case.values.get(name).is_some_and(|there| (there - value).abs() <= f64::EPSILON * value.abs())
                })
            })
            .filter(|row| {
                let mut named = case.case.split([' ', ',']).filter_map(|word| word.split_once('='));
                named.all(|(name, _)| !case.values.contains_key(name) || row.shape.contains_key(name))
            })
            .filter(|row| (row.mb - megabytes).abs() <= 0.02 * megabytes + 0.05)
            .max_by_key(|row| row.shape.len())
    }
}

impl PeerRow {
    /// The time of a contender, if its result was right.
    pub(crate) fn time(&self, name: &str) -> Option<f64> {
        if self.wrong.iter().any(|wrong| wrong == name) {
            return None;
        }
        self.times_us.get(name).copied().flatten().filter(|time| time.is_finite() && *time > 0.0)
    }

    /// The speedup of this project's kernel over the fastest of `names`, in the same run.
    pub fn times_faster(&self, names: &[&str]) -> Option<f64> {
        let ours = self.time("kernels")?;
        let theirs = names.iter().filter_map(|name| self.time(name)).reduce(f64::min)?;
        Some(theirs / ours)
    }

    /// The fastest peer that computes the same and was right, and this project's speedup over it.
    pub(crate) fn best_peer(&self) -> Option<(&str, f64)> {
        let ours = self.time("kernels")?;
        self.times_us
            .keys()
            .filter(|name| *name != "kernels" && !self.other.contains_key(*name))
            .filter_map(|name| Some((name.as_str(), self.time(name)? / ours)))
            .min_by(|(_, one), (_, other)| one.total_cmp(other))
    }
}
