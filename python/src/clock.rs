//! The harness's ruler on one card.

#![allow(
    unsafe_code,
    reason = "graphs come from torch as handles, and torch's word is taken for them"
)]

use kernels::bench::{Residency, Rotation, Ruler};
use kernels::gpu::Graph;
use pyo3::prelude::*;
use serde_json::json;

use crate::error::{json as text, raised};

/// Copies and replays graphs between events, on a stream of its own. For the thread that made it.
#[pyclass(unsendable)]
pub(crate) struct Clock(Ruler);

fn residency(hot: bool) -> Residency {
    if hot { Residency::Hot } else { Residency::Cold }
}

#[pymethods]
impl Clock {
    #[new]
    fn new(device: usize) -> PyResult<Self> {
        Ruler::open(device).map(Self).map_err(raised)
    }

    /// What the card is, as JSON.
    fn card(&self) -> PyResult<String> {
        text(self.0.card())
    }

    /// How many sets must rotate for `bytes`, how many launches make a graph, and whether that is cold.
    fn rotation(&self, bytes: u64, hot: bool, once: bool) -> (u32, u32, bool) {
        let rotation = self.0.rotation(bytes, residency(hot), once);
        let cold = rotation.residency == Residency::Cold;
        (rotation.sets, rotation.launches, cold)
    }

    /// A copy of `bytes` (half read, half written) alone, as JSON.
    fn copy(&self, bytes: u64, rounds: u32, hot: bool) -> PyResult<String> {
        let (spread, by, rotation) = self.0.copy(bytes, residency(hot), rounds).map_err(raised)?;
        text(&json!({
            "spread": spread,
            "by": by,
            "sets": rotation.sets,
            "launches": rotation.launches,
            "residency": rotation.residency,
        }))
    }

    /// Replays graphs of `launches` launches each in turn, each between two copies of `bytes`; as JSON. A graph is a
    /// `cudaGraph_t`, alive until this returns, and so is what it touches.
    #[allow(clippy::too_many_arguments, reason = "the package names them")]
    fn replay(
        &self,
        py: Python<'_>,
        graphs: Vec<(String, u64)>,
        bytes: u64,
        sets: u32,
        launches: u32,
        cold: bool,
        rounds: u32,
    ) -> PyResult<String> {
        let rotation = Rotation {
            sets: sets.max(1),
            launches: launches.max(1),
            residency: residency(!cold),
        };
        self.0
            .device
            .make_current()
            .map_err(|error| raised(error.into()))?;
        let adopted = graphs
            .into_iter()
            .map(|(name, graph)| {
                // SAFETY: the package holds torch's graph, and by it its memory pool, until this call is over.
                let graph = unsafe { Graph::adopt(&self.0.device, graph) }?;
                Ok((name, graph))
            })
            .collect::<anyhow::Result<Vec<_>>>()
            .map_err(raised)?;
        let measured = self
            .0
            .measure(&adopted, bytes, rotation, rounds, &mut || {
                Ok(py.check_signals()?)
            })
            .map_err(raised)?;
        let timed: Vec<_> = adopted
            .iter()
            .zip(&measured.timed)
            .map(|((name, _), timed)| {
                json!({
                    "name": name,
                    "launch": timed.launch,
                    "copy": timed.copy,
                    "remarks": timed.remarks,
                })
            })
            .collect();
        text(&json!({
            "timed": timed,
            "copy_by": measured.copy_by,
            "remarks": measured.remarks,
        }))
    }
}
