//! Device memory.

use cudarc::driver::{result, sys};

use super::driver::{GpuError, Said};

/// Device memory, freed when dropped.
#[derive(Debug)]
pub(crate) struct Buffer {
    address: sys::CUdeviceptr,
    bytes: u64,
}

impl Buffer {
    /// Allocates in the current context; at least one byte, so that every buffer has an address.
    pub(super) fn new(bytes: u64) -> Result<Self, GpuError> {
        let length = usize::try_from(bytes.max(1)).unwrap_or(usize::MAX);
        // SAFETY: `drop` frees it, once.
        let address = unsafe { result::malloc_sync(length) }
            .said(&format!("allocating {:.1} MB of the card's memory", megabytes(bytes)))?;
        Ok(Self { address, bytes })
    }

    /// The device address.
    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    /// The size in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The device address of a range, which must lie in the buffer.
    pub(super) fn range(&self, at: u64, length: u64) -> Result<u64, GpuError> {
        match at.checked_add(length) {
            Some(end) if end <= self.bytes => Ok(self.address + at),
            _ => Err(GpuError::new("accessing a buffer", format!("{length} bytes at {at} of {}", self.bytes))),
        }
    }
}

#[allow(clippy::cast_precision_loss)]
fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: allocated by `new`, freed once. After a lost context this fails, and nothing is left to free.
        let _ = unsafe { result::free_sync(self.address) };
    }
}
