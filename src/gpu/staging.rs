//! Page-locked host memory, through which copies go: from and to other memory the driver copies at less than 1 GB/s on a virtual
//! machine with an H100, and a verification copies gigabytes.

use std::ptr::{NonNull, copy_nonoverlapping};

use cudarc::driver::{result, sys};

use super::driver::{GpuError, Said};

/// Bytes of a piece. There are two: the card copies one while the host copies the other.
const PIECE: usize = 2 << 20;

/// The memory, of one card.
#[derive(Debug)]
pub(super) struct Staging(NonNull<u8>);

// SAFETY: it owns the memory, which any thread may use.
unsafe impl Send for Staging {}

impl Staging {
    /// Allocates in the current context. None: the system refuses to lock memory.
    pub(super) fn new() -> Option<Self> {
        // SAFETY: `free` frees it, once.
        let memory = unsafe { result::malloc_host(2 * PIECE, 0) }.ok()?;
        NonNull::new(memory.cast()).map(Self)
    }

    /// Copies to the card, in the order of a stream. `mark` marks a place in it, which `wait` waits for.
    pub(super) fn upload<M>(
        &mut self,
        stream: sys::CUstream,
        to: u64,
        bytes: &[u8],
        (mark, wait): (impl Fn() -> Result<M, GpuError>, impl Fn(M) -> Result<(), GpuError>),
    ) -> Result<(), GpuError> {
        let mut marks = [None, None];
        for (index, (piece, at)) in bytes.chunks(PIECE).zip((to..).step_by(PIECE)).enumerate() {
            if let Some(copied) = marks[index % 2].take() {
                wait(copied)?;
            }
            let place = self.place(index);
            // SAFETY: there is room for a piece, and the card has read the one that was there.
            let staged = unsafe {
                copy_nonoverlapping(piece.as_ptr(), place, piece.len());
                std::slice::from_raw_parts(place, piece.len())
            };
            // SAFETY: the caller has checked the range; the memory is not written again before the card has read it.
            unsafe { result::memcpy_htod_async(at, staged, stream) }.said("copying to the card")?;
            marks[index % 2] = Some(mark()?);
        }
        marks.into_iter().flatten().try_for_each(wait)
    }

    /// Copies from the card, in the order of a stream, as [`Staging::upload`] does.
    pub(super) fn download<M>(
        &mut self,
        stream: sys::CUstream,
        from: u64,
        length: usize,
        (mark, wait): (impl Fn() -> Result<M, GpuError>, impl Fn(M) -> Result<(), GpuError>),
    ) -> Result<Vec<u8>, GpuError> {
        let mut bytes = Vec::with_capacity(length);
        let pieces = length.div_ceil(PIECE);
        let size = |index: usize| PIECE.min(length - index * PIECE);
        let begin = |index: usize| {
            // SAFETY: there is room for a piece, and nothing else refers to it: the piece before was taken from there.
            let staged = unsafe { std::slice::from_raw_parts_mut(self.place(index), size(index)) };
            // SAFETY: the caller has checked the range, and the copy is waited for before the memory is read.
            unsafe { result::memcpy_dtoh_async(staged, from + (index * PIECE) as u64, stream) }
                .said("copying from the card")?;
            mark()
        };
        let first = |index: usize| if index < pieces { begin(index).map(Some) } else { Ok(None) };
        let mut marks = [first(0)?, first(1)?];
        for index in 0..pieces {
            if let Some(copied) = marks[index % 2].take() {
                wait(copied)?;
            }
            // SAFETY: the card has written a piece there.
            bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(self.place(index), size(index)) });
            if index + 2 < pieces {
                marks[index % 2] = Some(begin(index + 2)?);
            }
        }
        Ok(bytes)
    }

    /// Where a piece lies.
    fn place(&self, index: usize) -> *mut u8 {
        // SAFETY: inside of the memory.
        unsafe { self.0.as_ptr().add(index % 2 * PIECE) }
    }

    /// Frees it, while its context is alive.
    pub(super) fn free(self) {
        // SAFETY: allocated by `new`. After a lost context this fails, and nothing is left to free.
        let _ = unsafe { result::free_host(self.0.as_ptr().cast()) };
    }
}
