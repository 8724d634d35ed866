//! The contents of timed slots: the kernels of `contents.cu` write and digest them on the card. Another kernel compares
//! the guarded memory of a verification with its copy.

use std::ops::Range;

use super::driver::GpuError;
use super::{Batch, Buffer, Device, Launch, Modules};
use crate::base::SplitMix64;

/// Threads per block.
const THREADS: u32 = 256;
/// The maximum number of blocks per slot, or for a comparison.
const MOST_BLOCKS: u64 = 2048;
/// The most slots of an image: the second size of a grid.
const MOST_SLOTS: u64 = 65_535;
/// How long the stream is kept busy while the host queues a round, in clock cycles: some 150 µs.
const WAIT: u64 = 250_000;

/// The elements of a tensor in every slot of an image; at most eight dimensions, no stride of zero.
#[derive(Clone, Debug)]
pub(crate) struct Region {
    /// The offset in bytes of the first element in a slot.
    pub(crate) at: u64,
    /// Bytes from one slot to the next.
    pub(crate) step: u64,
    /// The number of slots.
    pub(crate) slots: u32,
    /// Bytes of an element: 1, 2, 4 or 8.
    pub(crate) size: u64,
    /// Size and stride of each dimension, in elements; empty: one element.
    pub(crate) dimensions: Vec<(u64, u64)>,
}

impl Region {
    /// How many elements a slot has.
    pub(crate) fn elements(&self) -> u64 {
        self.dimensions.iter().map(|(size, _)| size).product()
    }

    /// The same bytes in words of eight, where they lie side by side and fill whole ones.
    fn in_words(&self) -> Self {
        let bytes = self.elements() * self.size;
        match self.dimensions[..] {
            [(_, 1)] if self.at % 8 == 0 && self.step % 8 == 0 && bytes.is_multiple_of(8) => {
                Self { size: 8, dimensions: vec![(bytes / 8, 1)], ..self.clone() }
            }
            _ => self.clone(),
        }
    }

    /// The bytes of the kernel's parameter `region`.
    fn bytes(&self) -> Vec<u8> {
        let mut words = vec![self.at, self.step, self.elements(), self.size, self.dimensions.len() as u64];
        let eight = |of: fn(&(u64, u64)) -> u64| {
            self.dimensions.iter().map(of).chain(std::iter::repeat(1)).take(8).collect::<Vec<_>>()
        };
        words.extend(eight(|(size, _)| *size));
        words.extend(eight(|(_, stride)| *stride));
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }
}

/// What is written to the elements of a region; the numbers of the kinds are those of `Operation` in `contents.cu`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Content {
    /// Random numbers of a type: 0 bf16, 1 f16, 2 f32, 3 e4m3, 4 e5m2, 5 integers. They are uniform among the `count`
    /// integers from `first` on, in units of 2^-20 for floating-point types, or normal if `count` is 0.
    Drawn { kind: u32, seed: u64, first: i64, count: u64 },
    /// The low bytes of a word, in every element.
    Word(u64),
}

impl Content {
    /// The content of the slot that is `slots` further on.
    pub(crate) fn shifted(self, slots: u32) -> Self {
        match self {
            Self::Drawn { kind, seed, first, count } => {
                Self::Drawn { kind, seed: seed.wrapping_add(slots.into()), first, count }
            }
            Self::Word(word) => Self::Word(word),
        }
    }
}

/// The kernels, loaded on one card.
#[derive(Debug)]
pub(crate) struct Contents {
    kernels: Modules,
    found: Buffer,
    /// A digest for each slot.
    sums: Buffer,
}

impl Contents {
    /// Loads the kernels.
    pub(crate) fn new(device: &Device) -> Result<Self, GpuError> {
        let image = include_bytes!("contents.ptx").to_vec();
        let kernels = Modules::load(device, &[("the kernels of slots' contents".to_owned(), image)])?;
        Ok(Self { kernels, found: device.allocate(16)?, sums: device.allocate(8 * MOST_SLOTS)? })
    }

    /// Writes a region of an image, given with the offset of its first slot, in stream order.
    pub(crate) fn write(
        &self,
        device: &Device,
        image: (&Buffer, u64),
        region: &Region,
        content: Content,
    ) -> Result<(), GpuError> {
        let (kind, seed, first, count) = match content {
            Content::Drawn { kind, seed, first, count } => (kind, seed, first.cast_unsigned(), count),
            Content::Word(word) => (6, word, 0, 0),
        };
        let mut arguments = words(&[seed, first, count]);
        arguments.push(kind.to_le_bytes().to_vec());
        self.each(device, "kernels_contents", image, region, arguments)
    }

    /// A digest of some regions in each slot of an image. A launch that does not know the key cannot leave other bytes with the
    /// same digest.
    pub(crate) fn digests<'r>(
        &self,
        device: &Device,
        image: &Buffer,
        regions: impl IntoIterator<Item = &'r Region>,
        key: u64,
    ) -> Result<Vec<u64>, GpuError> {
        let mut slots = 0;
        for (index, region) in (0u64..).zip(regions) {
            let bytes = 8 * u64::from(region.slots);
            if bytes > slots {
                device.fill(&self.sums, slots, bytes - slots, 0)?;
                slots = bytes;
            }
            let key = SplitMix64::mix(key.wrapping_add(index));
            let arguments = words(&[key, self.sums.address()]);
            self.each(device, "kernels_digest", (image, 0), &region.in_words(), arguments)?;
        }
        let sums = if slots == 0 { Vec::new() } else { device.download(&self.sums, 0, slots)? };
        Ok(sums.as_chunks().0.iter().map(|sum| u64::from_le_bytes(*sum)).collect())
    }

    /// Launches a kernel on the elements of a region in every slot.
    fn each(
        &self,
        device: &Device,
        symbol: &str,
        (image, at): (&Buffer, u64),
        region: &Region,
        more: Vec<Vec<u8>>,
    ) -> Result<(), GpuError> {
        if region.elements() == 0 || region.slots == 0 {
            return Ok(());
        }
        let first = image.range(at, region.step * u64::from(region.slots))?;
        let mut arguments = vec![region.bytes()];
        arguments.extend(words(&[first]));
        arguments.extend(more);
        let blocks = region.elements().div_ceil(u64::from(THREADS)).min(MOST_BLOCKS);
        self.launch(device, symbol, [blocks, u64::from(region.slots)], THREADS, arguments)
    }

    /// Compares two images, each from an offset on, as part of a submission; [`first`] reads the result from the bytes.
    pub(crate) fn comparing(
        &self,
        (device, batch): (&Device, &mut Batch),
        one: (&Buffer, u64),
        other: (&Buffer, u64),
        bytes: u64,
    ) -> Result<Range<usize>, GpuError> {
        device.fill(&self.found, 0, 8, 0)?;
        device.fill(&self.found, 8, 8, 0xff)?;
        self.read(device, one, other, bytes)?;
        batch.download(&self.found, 0, 16)
    }

    /// Launches the comparison of two images, in stream order.
    fn read(
        &self,
        device: &Device,
        (one, from): (&Buffer, u64),
        (other, there): (&Buffer, u64),
        bytes: u64,
    ) -> Result<(), GpuError> {
        let arguments = words(&[one.range(from, bytes)?, other.range(there, bytes)?, bytes / 16, self.found.address()]);
        let blocks = (bytes / 16).div_ceil(u64::from(THREADS)).clamp(1, MOST_BLOCKS);
        self.launch(device, "kernels_compare", [blocks, 1], THREADS, arguments)
    }

    /// Keeps the stream busy for some 150 µs, while the host queues the timed work, and then reads an image into the
    /// L2.
    pub(crate) fn warm(&self, device: &Device, image: &Buffer, bytes: u64) -> Result<(), GpuError> {
        self.launch(device, "kernels_wait", [1, 1], 1, vec![WAIT.to_le_bytes().to_vec()])?;
        self.read(device, (image, 0), (image, 0), bytes)?;
        self.read(device, (image, 0), (image, 0), bytes)
    }

    fn launch(
        &self,
        device: &Device,
        symbol: &str,
        [x, y]: [u64; 2],
        threads: u32,
        arguments: Vec<Vec<u8>>,
    ) -> Result<(), GpuError> {
        let count = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        let launch = Launch {
            symbol: symbol.to_owned(),
            grid: [count(x), count(y), 1],
            block: [threads, 1, 1],
            shared: 0,
            attributes: Vec::new(),
            function: Vec::new(),
            arguments,
        };
        self.kernels.launch(device, &launch)
    }
}

/// Parameters of eight bytes.
fn words(words: &[u64]) -> Vec<Vec<u8>> {
    words.iter().map(|word| word.to_le_bytes().to_vec()).collect()
}

/// The distance to the first 16 bytes that differ, from the 16 bytes that a comparison leaves.
pub(crate) fn first(found: &[u8]) -> Option<u64> {
    let (count, first) = found.split_at(8);
    let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
    (word(count) > 0).then(|| word(first) * 16)
}
