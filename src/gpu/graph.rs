//! CUDA graphs, which launch several kernels without host work in between.

use cudarc::driver::{result, sys};

use super::device::Event;
use super::driver::{GpuError, Said};
use super::{Buffer, Device};

/// An instantiated graph.
#[derive(Debug)]
pub struct Graph {
    /// Null if another library owns it.
    graph: sys::CUgraph,
    exec: sys::CUgraphExec,
}

impl Graph {
    /// Captures the launches of `work` on the device's stream, and instantiates the graph.
    pub(crate) fn capture(device: &Device, work: impl FnOnce() -> Result<(), GpuError>) -> Result<Self, GpuError> {
        const DOING: &str = "building a graph";
        // SAFETY: the stream is the device's own; the capture is ended in every case.
        let (worked, graph) = unsafe {
            result::stream::begin_capture(device.stream, sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)
                .said(DOING)?;
            let worked = work();
            (worked, result::stream::end_capture(device.stream).said(DOING))
        };
        worked?;
        let graph = graph?;
        // SAFETY: the graph was just made.
        match unsafe { instantiate(device, graph) } {
            Ok(exec) => Ok(Self { graph, exec }),
            Err(error) => {
                // SAFETY: destroyed once.
                let _ = unsafe { result::graph::destroy(graph) };
                Err(error)
            }
        }
    }

    /// Instantiates a graph that another library captured and keeps.
    ///
    /// # Safety
    /// `graph` is a live `CUgraph` of the device's context, and what its nodes access outlives the result.
    pub unsafe fn adopt(device: &Device, graph: u64) -> Result<Self, GpuError> {
        // SAFETY: by the caller. The executable graph is a copy.
        let exec = unsafe { instantiate(device, graph as sys::CUgraph) }?;
        Ok(Self { graph: std::ptr::null_mut(), exec })
    }

    /// Launches the graph on the device's stream.
    pub fn launch(&self, device: &Device) -> Result<(), GpuError> {
        // SAFETY: both are alive.
        unsafe { result::graph::launch(self.exec, device.stream) }.said("launching a graph")
    }

    /// Launches it and returns how long it ran in microseconds, by the card's clock.
    pub(crate) fn time(&self, device: &Device, doing: &str) -> Result<f64, GpuError> {
        let (start, end) = (Event::new()?, Event::new()?);
        start.record(device)?;
        self.launch(device)?;
        end.record(device)?;
        end.wait(doing)?;
        start.microseconds_to(&end)
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: made by `capture`, destroyed once.
        unsafe {
            let _ = result::graph::exec_destroy(self.exec);
            if !self.graph.is_null() {
                let _ = result::graph::destroy(self.graph);
            }
        }
    }
}

/// Instantiates a graph and uploads it, so that the first launch does not include the upload.
///
/// # Safety
/// The graph is alive.
unsafe fn instantiate(device: &Device, graph: sys::CUgraph) -> Result<sys::CUgraphExec, GpuError> {
    const DOING: &str = "building a graph";
    let mut exec = std::ptr::null_mut();
    // SAFETY: by the caller.
    unsafe { sys::cuGraphInstantiateWithFlags(&raw mut exec, graph, 0) }.said(DOING)?;
    // SAFETY: just made, and destroyed once.
    let uploaded = unsafe { result::graph::upload(exec, device.stream) }.said(DOING);
    if let Err(error) = uploaded {
        // SAFETY: as above.
        let _ = unsafe { result::graph::exec_destroy(exec) };
        return Err(error);
    }
    Ok(exec)
}

/// Copies from device to device with `cuMemcpyDtoDAsync`, in stream order. A place is a buffer and an offset in bytes.
pub(crate) fn driver_copy(
    device: &Device,
    to: (&Buffer, u64),
    from: (&Buffer, u64),
    bytes: u64,
) -> Result<(), GpuError> {
    let (to, from) = (to.0.range(to.1, bytes)?, from.0.range(from.1, bytes)?);
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    // SAFETY: both ranges lie in their buffers.
    unsafe { result::memcpy_dtod_async(to, from, bytes, device.stream) }.said("copying on the card")
}
