//! Times a graph between two copies by CUDA events, and checks them against the host's clock.

use std::time::Instant;

use crate::gpu::device::Event;
use crate::gpu::{Device, GpuError, Graph};

/// Three events.
#[derive(Debug)]
pub(super) struct Clock([Event; 3]);

impl Clock {
    /// Creates the events.
    pub(super) fn new() -> Result<Self, GpuError> {
        Ok(Self([Event::new()?, Event::new()?, Event::new()?]))
    }

    /// Microseconds of `graph`, and of the copy that follows it.
    ///
    /// An untimed copy runs first: what is timed is queued behind it, so that the host's launches are not part of the time.
    ///
    /// # Errors
    /// An error of the driver, or events that span more time than the host waited.
    pub(super) fn time(
        &self,
        device: &Device,
        graph: &Graph,
        copy: &Graph,
        doing: &str,
    ) -> Result<(f64, f64), GpuError> {
        let [before, between, behind] = &self.0;
        let host = Instant::now();
        copy.launch(device)?;
        before.record(device)?;
        graph.launch(device)?;
        between.record(device)?;
        copy.launch(device)?;
        behind.record(device)?;
        behind.wait(doing)?;
        let host = host.elapsed().as_secs_f64() * 1e6;
        let timed = (before.microseconds_to(between)?, between.microseconds_to(behind)?);
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
        Ok(timed)
    }
}
