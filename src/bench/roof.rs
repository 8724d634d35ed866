//! The copy roof: a copy of the same number of bytes, timed in turn with the kernel.

use anyhow::Result;

use crate::gpu::copy::{Copier, Manner};
use crate::gpu::{Buffer, Device, Graph};

const PAGE: u64 = 4096;

/// A copy to time beside a kernel.
#[derive(Debug)]
pub(super) struct Roof {
    /// The copies, over rotating pairs of buffers.
    pub(crate) graph: Graph,
    /// How many copies the graph makes.
    pub(crate) copies: u32,
    /// The fastest manner.
    pub(crate) manner: Manner,
    _memory: Buffer,
}

impl Roof {
    /// Finds the fastest manner of copying `bytes` (half read, half written) over `slots` pairs of buffers, `copies` times
    /// per graph.
    ///
    /// On an H100, copies of partial pages are a fifth slower, and buffers whose distance is a power of two share memory
    /// channels: sizes are rounded up to pages, and buffers lie an odd number of pages apart.
    pub(super) fn measure(device: &Device, tool: &Copier, bytes: u64, slots: u32, copies: u32) -> Result<Self> {
        let half = (bytes / 2).next_multiple_of(PAGE).max(PAGE);
        let step = half + PAGE * (1 + 2 * 7);
        let memory = device.allocate(2 * step * u64::from(slots))?;
        device.fill(&memory, 0, memory.bytes(), 0x3c)?;
        let mut best: Option<(f64, Graph, Manner)> = None;
        for manner in Manner::ALL {
            let graph = Graph::capture(device, || {
                for copy in 0..copies {
                    let pair = 2 * u64::from(copy % slots) * step;
                    tool.copy(device, manner, (&memory, pair), (&memory, pair + step), half)?;
                }
                Ok(())
            })?;
            graph.time(device, "warming up the copy")?;
            let mut times = Vec::new();
            for _ in 0..7 {
                times.push(graph.time(device, "timing the copy")?);
            }
            times.sort_by(f64::total_cmp);
            if best.as_ref().is_none_or(|(time, ..)| times[3] < *time) {
                best = Some((times[3], graph, manner));
            }
        }
        let Some((_, graph, manner)) = best else {
            anyhow::bail!("no copy could be timed");
        };
        Ok(Self { graph, copies, manner, _memory: memory })
    }
}
