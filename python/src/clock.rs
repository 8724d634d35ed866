//! The harness's ruler on one GPU.

#![allow(unsafe_code, reason = "graphs come from torch as handles, and torch's word is taken for them")]

use kernels::bench::{Residency, Rotation, Ruler};
use kernels::gpu::Graph;
use kernels::gpu::device::Before;
use pyo3::prelude::*;
use serde_json::json;

use crate::error::{Error, json as text, raised};

/// Copies and replays graphs between events, on a private stream. Only for the thread that created it, whose current device
/// is restored, because torch may use another.
#[pyclass(unsendable)]
pub(crate) struct Clock(Option<Ruler>);

impl Clock {
    /// Runs `work` with the ruler's GPU as the current device.
    fn with<T>(&self, work: impl FnOnce(&Ruler) -> anyhow::Result<T>) -> PyResult<T> {
        let _before = Before::remember();
        let ruler = self.0.as_ref().ok_or_else(|| Error::new_err("the ruler is gone"))?;
        ruler.device.make_current().map_err(anyhow::Error::from).and_then(|()| work(ruler)).map_err(raised)
    }
}

impl Drop for Clock {
    fn drop(&mut self) {
        // Events, streams and modules are released on the current device.
        let _before = Before::remember();
        if let Some(ruler) = self.0.take()
            && ruler.device.make_current().is_ok()
        {
            drop(ruler);
        }
    }
}

fn residency(hot: bool) -> Residency {
    if hot { Residency::Hot } else { Residency::Cold }
}

#[pymethods]
impl Clock {
    #[new]
    fn new(device: usize) -> PyResult<Self> {
        let _before = Before::remember();
        let ruler = Ruler::open(device).map_err(raised)?;
        Ok(Self(Some(ruler)))
    }

    /// A description of the GPU, as JSON.
    fn card(&self) -> PyResult<String> {
        self.with(|ruler| Ok(ruler.card().clone())).and_then(|card| text(&card))
    }

    /// The number of rotating sets for `bytes`, the number of launches in a graph, and whether the launches are cold.
    fn rotation(&self, bytes: u64, hot: bool, once: bool) -> PyResult<(u32, u32, bool)> {
        let rotation = self.with(|ruler| Ok(ruler.rotation(bytes, residency(hot), once)))?;
        let cold = rotation.residency == Residency::Cold;
        Ok((rotation.sets, rotation.launches, cold))
    }

    /// A copy of `bytes` (half read, half written) alone, as JSON.
    fn copy(&self, bytes: u64, rounds: u32, hot: bool) -> PyResult<String> {
        let (spread, by, rotation) = self.with(|ruler| ruler.copy(bytes, residency(hot), rounds))?;
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
        let rotation = Rotation { sets: sets.max(1), launches: launches.max(1), residency: residency(!cold) };
        let (names, handles): (Vec<String>, Vec<u64>) = graphs.into_iter().unzip();
        let measured = self.with(|ruler| {
            let adopted = names
                .iter()
                .zip(handles)
                .map(|(name, graph)| {
                    // SAFETY: the package keeps torch's graph, and so its memory pool, until this call returns.
                    let graph = unsafe { Graph::adopt(&ruler.device, graph) }?;
                    Ok((name.clone(), graph))
                })
                .collect::<anyhow::Result<Vec<_>>>()?;
            ruler.measure(&adopted, bytes, rotation, rounds, &mut || Ok(py.check_signals()?))
        })?;
        let timed: Vec<_> = names
            .iter()
            .zip(&measured.timed)
            .map(|(name, timed)| {
                json!({
                    "name": name,
                    "launch": timed.launch,
                    "copy": timed.copy,
                    "remarks": timed.remarks,
                    "impossible": timed.impossible,
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
