//! The device memory of a verification. The memory outside of the slot is guarded as well: a copy of the whole buffer
//! is kept on the card, and compared after each launch.

use std::ops::Range;

use super::random::fresh_seed;
use crate::gpu::contents::{Content, Contents, Region};
use crate::gpu::graph::driver_copy;
use crate::gpu::{Batch, Buffer, Device, GpuError};

/// The minimum size in bytes, so that small slots, too, are followed by much guarded memory.
pub(super) const LEAST: u64 = 1 << 24;

/// Above this size memory grows as little as it can; below, to the next power of two.
const LARGE: u64 = 1 << 28;

/// Device memory that cases use one after another.
#[derive(Debug, Default)]
pub(super) struct Memory {
    contents: Option<Contents>,
    guarded: Option<Guarded>,
}

#[derive(Debug)]
struct Guarded {
    image: Buffer,
    kept: Buffer,
}

impl Memory {
    /// Memory of at least `bytes`.
    pub(super) fn reserve(&mut self, device: &Device, bytes: u64) -> Result<Area<'_>, GpuError> {
        let contents = match self.contents.take() {
            Some(contents) => contents,
            None => Contents::new(device)?,
        };
        let contents = &*self.contents.insert(contents);
        let large = self.guarded.take().filter(|guarded| guarded.image.bytes() >= bytes);
        let guarded = if let Some(guarded) = large {
            guarded
        } else {
            // Less on a card with little free memory.
            let least = LEAST.min(device.free_bytes()? / 16);
            Guarded::new(device, contents, size_for(bytes, least))?
        };
        let Guarded { image, kept } = &*self.guarded.insert(guarded);
        Ok(Area { contents, image, kept })
    }

    /// What was reserved last.
    pub(super) fn area(&self) -> Option<Area<'_>> {
        let (contents, Guarded { image, kept }) = (self.contents.as_ref()?, self.guarded.as_ref()?);
        Some(Area { contents, image, kept })
    }

    /// Frees the memory: what follows needs less, and all of it is compared after each launch.
    pub(super) fn free(&mut self) {
        self.guarded = None;
    }
}

/// The size of the memory that is reserved for so many bytes, where `least` is reserved for few.
pub(super) fn size_for(bytes: u64, least: u64) -> u64 {
    let bytes = if bytes > LARGE { bytes } else { bytes.max(least).next_power_of_two() };
    bytes.next_multiple_of(1 << 22)
}

/// Memory for the slots of a case.
#[derive(Clone, Copy, Debug)]
pub(super) struct Area<'a> {
    contents: &'a Contents,
    /// Where the slots lie.
    pub(super) image: &'a Buffer,
    kept: &'a Buffer,
}

impl Area<'_> {
    /// Compares everything outside of the slot at `place` with what it was before the last launch, as part of a submission, and
    /// erases the slot, which has been downloaded: a second launch on the same inputs must not find results there.
    pub(super) fn guard(
        &self,
        (device, batch): (&Device, &mut Batch),
        place: u64,
        bytes: u64,
    ) -> Result<Range<usize>, GpuError> {
        let Self { contents, image, kept } = *self;
        driver_copy(device, (kept, place), (image, place), bytes)?;
        let found = contents.comparing((device, batch), (image, 0), (kept, 0), image.bytes())?;
        device.fill(image, place, bytes, 0)?;
        device.fill(kept, place, bytes, 0)?;
        Ok(found)
    }

    /// Makes memory that a launch wrote outside of its slot what it was, for the next launch.
    pub(super) fn restore(&self, device: &Device) -> Result<(), GpuError> {
        driver_copy(device, (self.image, 0), (self.kept, 0), self.image.bytes())
    }
}

impl Guarded {
    fn new(device: &Device, contents: &Contents, bytes: u64) -> Result<Self, GpuError> {
        let (image, kept) = (device.allocate(bytes)?, device.allocate(bytes)?);
        let all = Region { at: 0, step: bytes, slots: 1, size: 4, dimensions: vec![(bytes / 4, 1)] };
        contents.write(device, (&image, 0), &all, Content::Word(fresh_seed()))?;
        driver_copy(device, (&kept, 0), (&image, 0), bytes)?;
        device.finish("filling the memory of a verification")?;
        Ok(Self { image, kept })
    }
}

/// Where the 16 bytes at `byte`, which a launch wrote, lie relative to its slot.
pub(super) fn distance(byte: u64, place: u64, bytes: u64) -> String {
    if byte < place {
        format!("memory {} bytes before the case's own was written", place - byte)
    } else {
        format!("memory {} bytes behind the case's own was written", (byte + 1).saturating_sub(place + bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_told_by_its_distance_from_the_slot() {
        assert_eq!(distance(0, 4096, 8192), "memory 4096 bytes before the case's own was written");
        assert_eq!(distance(1 << 20, 4096, 8192), "memory 1036289 bytes behind the case's own was written");
    }
}
