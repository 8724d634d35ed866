//! Host memory through which all copies go. It is page-locked: from and to other memory the driver copies at less than 1 GB/s on a
//! virtual machine with an H100, and a verification copies gigabytes.

use std::ptr::{NonNull, copy_nonoverlapping};

use cudarc::driver::{result, sys};

use super::driver::{GpuError, Said};

/// Bytes of the memory.
pub(super) const ROOM: usize = 32 << 20;
/// Bytes of a piece of a copy that is made piece by piece: the card copies one while the host copies the other.
const PIECE: usize = 2 << 20;

/// The memory, of one card.
#[derive(Debug)]
pub(super) struct Staging {
    memory: NonNull<u8>,
    /// The same memory, if the system refused to lock any.
    pageable: Option<Vec<u8>>,
}

// SAFETY: it owns the memory, which any thread may use.
unsafe impl Send for Staging {}

impl Staging {
    /// Allocates in the current context.
    pub(super) fn new() -> Self {
        // SAFETY: `free` frees it, once.
        let locked = unsafe { result::malloc_host(ROOM, 0) }.ok().and_then(|memory| NonNull::new(memory.cast()));
        if let Some(memory) = locked {
            return Self { memory, pageable: None };
        }
        let mut pageable = vec![0; ROOM];
        Self { memory: NonNull::from(pageable.as_mut_slice()).cast(), pageable: Some(pageable) }
    }

    /// Copies to the card by way of the bytes from `offset` on, in the order of a stream. The caller checks the range on the card,
    /// and waits for the copy before it uses these bytes again.
    pub(super) fn send(
        &mut self,
        stream: sys::CUstream,
        offset: usize,
        (to, bytes): (u64, &[u8]),
    ) -> Result<(), GpuError> {
        let place = self.place(offset, bytes.len());
        // SAFETY: there is room, nothing refers to it, and the card has read what was there before.
        let staged = unsafe {
            copy_nonoverlapping(bytes.as_ptr(), place, bytes.len());
            std::slice::from_raw_parts(place, bytes.len())
        };
        // SAFETY: by the caller.
        unsafe { result::memcpy_htod_async(to, staged, stream) }.said("copying to the card")
    }

    /// Copies from the card to the bytes from `offset` on, in the order of a stream; [`Staging::bytes`] has them after a wait. The
    /// caller checks the range on the card.
    pub(super) fn fetch(
        &mut self,
        stream: sys::CUstream,
        offset: usize,
        (from, length): (u64, usize),
    ) -> Result<(), GpuError> {
        // SAFETY: there is room, and nothing refers to it.
        let staged = unsafe { std::slice::from_raw_parts_mut(self.place(offset, length), length) };
        // SAFETY: by the caller.
        unsafe { result::memcpy_dtoh_async(staged, from, stream) }.said("copying from the card")
    }

    /// Bytes of the memory that no copy under way writes.
    pub(super) fn bytes(&self, offset: usize, length: usize) -> &[u8] {
        // SAFETY: inside of the memory, which is initialised: by the system, or by a copy.
        unsafe { std::slice::from_raw_parts(self.place(offset, length), length) }
    }

    /// Copies any number of bytes to the card, in the order of a stream, and waits. `mark` marks a place in it, which `wait` waits for.
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
            self.send(stream, index % 2 * PIECE, (at, piece))?;
            marks[index % 2] = Some(mark()?);
        }
        marks.into_iter().flatten().try_for_each(wait)
    }

    /// Copies any number of bytes from the card, as [`Staging::upload`] does.
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
        let begin = |staging: &mut Self, index: usize| {
            staging.fetch(stream, index % 2 * PIECE, (from + (index * PIECE) as u64, size(index)))?;
            mark()
        };
        let mut marks = [None, None];
        for (index, mark) in marks.iter_mut().enumerate().take(pieces) {
            *mark = Some(begin(self, index)?);
        }
        for index in 0..pieces {
            if let Some(copied) = marks[index % 2].take() {
                wait(copied)?;
            }
            bytes.extend_from_slice(self.bytes(index % 2 * PIECE, size(index)));
            if index + 2 < pieces {
                marks[index % 2] = Some(begin(self, index + 2)?);
            }
        }
        Ok(bytes)
    }

    /// Where bytes lie.
    fn place(&self, offset: usize, length: usize) -> *mut u8 {
        assert!(offset <= ROOM && length <= ROOM - offset, "copies of {length} bytes at {offset} of {ROOM}");
        // SAFETY: inside of the memory.
        unsafe { self.memory.as_ptr().add(offset) }
    }

    /// Frees it, while its context is alive.
    pub(super) fn free(&mut self) {
        if self.pageable.is_none() {
            // SAFETY: allocated by `new`, freed once: by the owner's drop. After a lost context this fails, and nothing is left.
            let _ = unsafe { result::free_host(self.memory.as_ptr().cast()) };
        }
    }
}
