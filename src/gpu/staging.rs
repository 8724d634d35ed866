//! Page-locked host memory, through which copies go: from and to other memory the driver copies at less than 1 GB/s on a virtual
//! machine with an H100, and a verification copies gigabytes.

use std::ptr::{NonNull, copy_nonoverlapping};

use cudarc::driver::{result, sys};

use super::driver::{GpuError, Said};

/// Its size in bytes; larger copies are made in pieces.
const BYTES: usize = 32 << 20;

/// The memory, of one card.
#[derive(Debug)]
pub(super) struct Staging(NonNull<u8>);

// SAFETY: it owns the memory, which any thread may use.
unsafe impl Send for Staging {}

impl Staging {
    /// Allocates in the current context. None: the system refuses to lock memory.
    pub(super) fn new() -> Option<Self> {
        // SAFETY: `free` frees it, once.
        let memory = unsafe { result::malloc_host(BYTES, 0) }.ok()?;
        NonNull::new(memory.cast()).map(Self)
    }

    /// Copies to the card, in the order of a stream, which `finish` waits for.
    pub(super) fn upload(
        &mut self,
        stream: sys::CUstream,
        to: u64,
        bytes: &[u8],
        finish: impl Fn() -> Result<(), GpuError>,
    ) -> Result<(), GpuError> {
        for (piece, at) in bytes.chunks(BYTES).zip((to..).step_by(BYTES)) {
            // SAFETY: the memory has room for a piece, and the stream has read the one before.
            let staged = unsafe {
                copy_nonoverlapping(piece.as_ptr(), self.0.as_ptr(), piece.len());
                std::slice::from_raw_parts(self.0.as_ptr(), piece.len())
            };
            // SAFETY: the caller has checked the range; the stream is waited for before the memory is written again.
            unsafe { result::memcpy_htod_async(at, staged, stream) }.said("copying to the card")?;
            finish()?;
        }
        Ok(())
    }

    /// Copies from the card, in the order of a stream, which `finish` waits for.
    pub(super) fn download(
        &mut self,
        stream: sys::CUstream,
        from: u64,
        bytes: &mut [u8],
        finish: impl Fn() -> Result<(), GpuError>,
    ) -> Result<(), GpuError> {
        for (piece, at) in bytes.chunks_mut(BYTES).zip((from..).step_by(BYTES)) {
            // SAFETY: the memory has room for a piece, and nothing else refers to it.
            let staged = unsafe { std::slice::from_raw_parts_mut(self.0.as_ptr(), piece.len()) };
            // SAFETY: the caller has checked the range, and the stream is waited for before the memory is read.
            unsafe { result::memcpy_dtoh_async(staged, at, stream) }.said("copying from the card")?;
            finish()?;
            piece.copy_from_slice(staged);
        }
        Ok(())
    }

    /// Frees it, while its context is alive.
    pub(super) fn free(self) {
        // SAFETY: allocated by `new`. After a lost context this fails, and nothing is left to free.
        let _ = unsafe { result::free_host(self.0.as_ptr().cast()) };
    }
}
