//! A launch outside of capture, in the recording process, on device memory that this process allocates.

use std::ops::Range;

use cudarc::driver::{result, sys};
use sha2::{Digest, Sha256};

use super::driver::{GpuError, Said};
use super::launcher::Library;
use super::recording::{Ran, Run, Value};

/// Allocates, copies and frees once before the process is confined, so that the files that the driver needs for it are
/// open.
pub(super) fn warm_up(stream: sys::CUstream) -> Result<(), GpuError> {
    const DOING: &str = "allocating memory in the recording process";
    let mut bytes = vec![0_u8; 1 << 16];
    // SAFETY: allocated, copied and freed with its length.
    unsafe {
        let address = result::malloc_sync(bytes.len()).said(DOING)?;
        result::memcpy_htod_async(address, &bytes, stream).said(DOING)?;
        result::ctx::synchronize().said(DOING)?;
        result::memcpy_dtoh_sync(&mut bytes, address).said(DOING)?;
        result::free_sync(address).said(DOING)
    }
}

/// Calls a launcher on a slot whose content is in a file, waits for the card, and returns digests of the slot's parts.
pub(super) fn run(library: &Library, stream: sys::CUstream, request: &Run) -> Ran {
    match launched(library, stream, request) {
        Ok(ran) => ran,
        Err(error) => Ran::Failed(error.to_string()),
    }
}

fn launched(library: &Library, stream: sys::CUstream, request: &Run) -> Result<Ran, GpuError> {
    const DOING: &str = "launching outside of capture";
    let mut bytes = std::fs::read(&request.content).map_err(|error| GpuError::new(DOING, error.to_string()))?;
    // SAFETY: the memory has the slot's length, and is freed after the last use; addresses of the slot lie in it.
    unsafe {
        let address =
            result::malloc_sync(bytes.len().max(1)).said("allocating the slot of a launch outside of capture")?;
        result::memcpy_htod_async(address, &bytes, stream).said(DOING)?;
        result::ctx::synchronize().said(DOING)?;
        let returned = library.launch(&request.launcher, &placed(&request.values, address), stream as u64)?;
        result::ctx::synchronize().said(DOING)?;
        result::memcpy_dtoh_sync(&mut bytes, address).said(DOING)?;
        result::free_sync(address).said(DOING)?;
        Ok(if returned == 0 { Ran::Left(digests(&bytes, &request.parts)) } else { Ran::Code(returned) })
    }
}

/// Replaces offsets in a slot by addresses. No tensor lies at offset 0, which stands for a null pointer and stays one.
fn placed(values: &[Value], base: u64) -> Vec<Value> {
    let place = |value: &Value| match *value {
        Value::Pointer(offset @ 1..) => Value::Pointer(base + offset),
        other => other,
    };
    values.iter().map(place).collect()
}

/// SHA-256 of parts of a slot.
pub(crate) fn digests(bytes: &[u8], parts: &[Range<usize>]) -> Vec<String> {
    let of = |part: &Range<usize>| crate::base::hex(&Sha256::digest(bytes.get(part.clone()).unwrap_or_default()));
    parts.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_move_with_the_slot_and_null_stays_null() {
        let values = [Value::Pointer(0), Value::Pointer(8192), Value::I64(8192), Value::Stream];
        let expected = [Value::Pointer(0), Value::Pointer(0x7000_2000), Value::I64(8192), Value::Stream];
        assert_eq!(placed(&values, 0x7000_0000), expected);
    }

    #[test]
    fn each_part_has_a_digest_of_its_own() {
        let parts = [0..4, 4..8, 8..12];
        let (before, mut after) = ([7; 12], [7; 12]);
        after[5] = 8;
        let (before, after) = (digests(&before, &parts), digests(&after, &parts));
        assert_eq!((&before[0], &before[2]), (&after[0], &after[2]));
        assert_ne!(before[1], after[1]);
    }
}
