//! Times a graph and a copy by CUDA events, and checks them against the host's clock.

use std::time::Instant;

use crate::gpu::device::Event;
use crate::gpu::{Device, GpuError, Graph};

/// Four events: before and after the graph, before and after the copy.
#[derive(Debug)]
pub(super) struct Clock([Event; 4]);

impl Clock {
    /// Creates the events.
    pub(super) fn new() -> Result<Self, GpuError> {
        Ok(Self([Event::new()?, Event::new()?, Event::new()?, Event::new()?]))
    }

    /// Returns the microseconds of `graph` and of the copy that follows it. With `twice` the copy is launched twice,
    /// and the second launch is timed, whose buffers are in the L2. None: the stream ran out of work before the host
    /// had queued the timed work, so that the time would include the launches.
    ///
    /// `before` queues untimed work, which keeps the stream busy while the host queues the timed work.
    ///
    /// # Errors
    /// An error of the driver, or events that measured more time than passed on the host.
    pub(super) fn time(
        &self,
        device: &Device,
        before: impl FnOnce() -> Result<(), GpuError>,
        graph: &Graph,
        (copy, twice): (&Graph, bool),
        doing: &str,
    ) -> Result<Option<(f64, f64)>, GpuError> {
        let [start, end, copying, copied] = &self.0;
        let host = Instant::now();
        before()?;
        start.record(device)?;
        graph.launch(device)?;
        end.record(device)?;
        let mut late = start.reached()?;
        if twice {
            copy.launch(device)?;
        }
        copying.record(device)?;
        copy.launch(device)?;
        copied.record(device)?;
        late |= copying.reached()?;
        copied.wait(doing)?;
        let host = host.elapsed().as_secs_f64() * 1e6;
        let timed = (start.microseconds_to(end)?, copying.microseconds_to(copied)?);
        let card = timed.0 + timed.1;
        if card > host * 1.01 + 5.0 {
            return Err(GpuError {
                doing: doing.to_owned(),
                said: format!(
                    "the card's clock measured {card:.1} µs and the host's {host:.1} µs: the events cannot be right"
                ),
                sticky: false,
            });
        }
        Ok((!late).then_some(timed))
    }
}
