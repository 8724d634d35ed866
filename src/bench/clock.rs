//! The clock: a graph between two copies, by the card's own events, held against the host's clock.

use std::time::Instant;

use crate::gpu::device::Event;
use crate::gpu::{Device, GpuError, Graph};

/// Three points in the stream, used again and again.
#[derive(Debug)]
pub(super) struct Clock([Event; 3]);

impl Clock {
    /// Makes the events.
    pub(super) fn new() -> Result<Self, GpuError> {
        Ok(Self([Event::new()?, Event::new()?, Event::new()?]))
    }

    /// Microseconds that `graph` ran, and that the copy right behind it did.
    ///
    /// The copy runs in front as well, untimed: all that is timed is queued behind it, so that no launch by the host
    /// is.
    ///
    /// # Errors
    /// What the driver says; or that the card's clock shows more than the host waited, which cannot be.
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
        let timed = (
            before.microseconds_to(between)?,
            between.microseconds_to(behind)?,
        );
        let card = timed.0 + timed.1;
        if card > host * 1.01 + 5.0 {
            return Err(GpuError {
                doing: doing.to_owned(),
                said: format!("the card's clock says {card:.1} µs, the host's {host:.1} µs"),
                sticky: false,
            });
        }
        Ok(timed)
    }
}
