//! Copies and launches of one submission, for which the host waits once. Several processes that use a card take turns on it, so
//! that each wait costs a turn of the others.

use std::ops::Range;
use std::sync::{MutexGuard, PoisonError};

use super::driver::GpuError;
use super::staging::{ROOM, Staging};
use super::{Buffer, Device};

/// Bytes to a multiple of which a copy is rounded up.
const UNIT: usize = 256;

/// A submission under way. All other copies of the device wait for its end.
#[derive(Debug)]
pub(crate) struct Batch<'a> {
    device: &'a Device,
    staging: MutexGuard<'a, Staging>,
    used: usize,
    waited: bool,
}

impl<'a> Batch<'a> {
    /// Bytes that its copies may have together, each of them rounded up to a multiple of [`Batch::UNIT`].
    pub(crate) const ROOM: u64 = ROOM as u64;
    /// The alignment of a copy.
    pub(crate) const UNIT: u64 = UNIT as u64;

    /// Begins a submission.
    pub(crate) fn new(device: &'a Device) -> Self {
        let staging = device.staging.lock().unwrap_or_else(PoisonError::into_inner);
        Self { device, staging, used: 0, waited: false }
    }

    /// Copies from host to device, in stream order.
    pub(crate) fn upload(&mut self, to: &Buffer, at: u64, bytes: &[u8]) -> Result<(), GpuError> {
        let address = to.range(at, bytes.len() as u64)?;
        let place = self.take(bytes.len())?;
        if bytes.is_empty() {
            return Ok(());
        }
        self.staging.send(self.device.stream, place.start, (address, bytes))
    }

    /// Copies from device to host, in stream order. [`Batch::bytes`] has them later.
    pub(crate) fn download(&mut self, from: &Buffer, at: u64, length: u64) -> Result<Range<usize>, GpuError> {
        let address = from.range(at, length)?;
        let place = self.take(usize::try_from(length).unwrap_or(usize::MAX))?;
        if !place.is_empty() {
            self.staging.fetch(self.device.stream, place.start, (address, place.len()))?;
        }
        Ok(place)
    }

    /// Waits for everything.
    pub(crate) fn finish(&mut self, doing: &str) -> Result<(), GpuError> {
        self.waited = true;
        self.device.finish(doing)
    }

    /// What a download brought; after [`Batch::finish`].
    pub(crate) fn bytes(&self, place: &Range<usize>) -> &[u8] {
        self.staging.bytes(place.start, place.len())
    }

    fn take(&mut self, length: usize) -> Result<Range<usize>, GpuError> {
        let place = self.used..self.used.saturating_add(length);
        if place.end > ROOM {
            return Err(GpuError::new("copying", format!("{} bytes do not fit into {ROOM}", place.end)));
        }
        self.used = place.end.next_multiple_of(UNIT);
        Ok(place)
    }
}

impl Drop for Batch<'_> {
    /// The memory is used again: a copy that is under way after an error must end before.
    fn drop(&mut self) {
        if !self.waited {
            let _ = self.device.finish("waiting for copies after an error");
        }
    }
}
