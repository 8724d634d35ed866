//! The device memory of a verification. The memory outside of the slot is guarded as well: a copy of the whole buffer
//! is kept on the card, and compared after each launch.

use super::random::fresh_seed;
use crate::gpu::contents::{Content, Contents, Region};
use crate::gpu::graph::driver_copy;
use crate::gpu::{Buffer, Device, GpuError};

/// The minimum size in bytes, so that small slots, too, are followed by much guarded memory.
const LEAST: u64 = 1 << 24;

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
    /// A buffer of at least `bytes`.
    pub(super) fn reserve(&mut self, device: &Device, bytes: u64) -> Result<&Buffer, GpuError> {
        let large = self.guarded.take().filter(|guarded| guarded.image.bytes() >= bytes);
        let guarded = if let Some(guarded) = large {
            guarded
        } else {
            // Less on a card with little free memory.
            let least = LEAST.min(device.free_bytes()? / 16);
            let bytes = if bytes > LARGE { bytes } else { bytes.max(least).next_power_of_two() };
            let contents = match self.contents.take() {
                Some(contents) => contents,
                None => Contents::new(device)?,
            };
            Guarded::new(device, self.contents.insert(contents), bytes.next_multiple_of(1 << 22))?
        };
        Ok(&self.guarded.insert(guarded).image)
    }

    /// Frees the memory: what follows needs less, and all of it is compared after each launch.
    pub(super) fn free(&mut self) {
        self.guarded = None;
    }

    /// What the last launch, on the slot at `place`, wrote outside of this slot.
    pub(super) fn disturbed(&self, device: &Device, place: u64, bytes: u64) -> Result<Option<String>, GpuError> {
        let (Some(contents), Some(Guarded { image, kept })) = (&self.contents, &self.guarded) else { return Ok(None) };
        driver_copy(device, (kept, place), (image, place), bytes)?;
        let Some(byte) = contents.compare(device, (image, 0), (kept, 0), image.bytes())? else {
            // Erases the results, which the host has downloaded: a second launch on the same inputs must not find them.
            device.fill(image, place, bytes, 0)?;
            device.fill(kept, place, bytes, 0)?;
            return Ok(None);
        };
        // Makes both buffers equal again for the next launch.
        driver_copy(device, (image, 0), (kept, 0), image.bytes())?;
        Ok(Some(distance(byte, place, bytes)))
    }
}

impl Guarded {
    fn new(device: &Device, contents: &Contents, bytes: u64) -> Result<Self, GpuError> {
        let (image, kept) = (device.allocate(bytes)?, device.allocate(bytes)?);
        let all = Region { at: 0, step: bytes, slots: 1, size: 4, dimensions: vec![(bytes / 4, 1)] };
        contents.write(device, &image, &all, Content::Word(fresh_seed()))?;
        driver_copy(device, (&kept, 0), (&image, 0), bytes)?;
        device.finish("filling the memory of a verification")?;
        Ok(Self { image, kept })
    }
}

/// Where the 16 bytes at `byte` lie relative to a slot.
fn distance(byte: u64, place: u64, bytes: u64) -> String {
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
