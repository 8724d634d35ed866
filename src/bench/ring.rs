//! The slots of a case on the card, in two images: `memory`, on which launches work, and `kept`, with what they must leave.

use anyhow::Result;

use super::slots::{Round, Slots, step};
use crate::gpu::contents::{Content, Contents, Region};
use crate::gpu::graph::driver_copy;
use crate::gpu::{Buffer, Device, GpuError};
use crate::project::{Bound, BoundTensor, Role};
use crate::verify::layout::Layout;
use crate::verify::timed::{content, distinct};

/// The memory of all cases, one after another.
#[derive(Debug)]
pub(super) struct Images {
    pub(super) memory: Buffer,
    kept: Buffer,
}

impl Images {
    /// Two images of as many bytes.
    pub(super) fn new(device: &Device, bytes: u64) -> Result<Self, GpuError> {
        Ok(Self { memory: device.allocate(bytes)?, kept: device.allocate(bytes)? })
    }
}

/// The slots of one case.
#[derive(Debug)]
pub(super) struct Ring<'a> {
    device: &'a Device,
    contents: &'a Contents,
    images: &'a Images,
    layout: &'a Layout,
    /// How many.
    slots: u32,
    /// What is in one.
    pub(super) slot: Slots<'a>,
}

impl<'a> Ring<'a> {
    /// Slots at the beginning of the images.
    pub(super) fn new(
        (device, contents, images): (&'a Device, &'a Contents, &'a Images),
        slot: Slots<'a>,
        slots: u32,
    ) -> Self {
        Self { device, contents, images, layout: slot.layout, slots, slot }
    }

    fn bytes(&self) -> u64 {
        step(self.layout) * u64::from(self.slots)
    }

    /// Draws all contents: inputs in both images, a word around them, and a word in place of what launches write.
    pub(super) fn prepare(&self, round: &Round) -> Result<(), GpuError> {
        let all = Region {
            at: 0,
            step: step(self.layout),
            slots: self.slots,
            size: 4,
            dimensions: vec![(step(self.layout) / 4, 1)],
        };
        self.contents.write(self.device, &self.images.memory, &all, Content::Word(round.around.into()))?;
        self.draw(round, 0)?;
        self.keep_all()?;
        self.blank(round.blanks[0])
    }

    /// Makes a second launch possible: each slot gets the inputs of the next one, and another word in place of what is
    /// written. A kernel that computes something else in some slots then differs from itself.
    pub(super) fn again(&self, round: &Round) -> Result<(), GpuError> {
        self.draw(round, self.shift())?;
        self.blank(round.blanks[1])
    }

    /// Hides what timed launches left, or shows it again: the repeated ones must not find it on the card and copy it.
    pub(super) fn mask(&self, round: &Round) -> Result<(), GpuError> {
        self.of(Role::is_written).try_for_each(|region| {
            self.contents.write(self.device, &self.images.kept, region, Content::Mask(round.mask))
        })
    }

    /// Copies everything to `kept`, with the words in place of what launches write.
    pub(super) fn keep_all(&self) -> Result<(), GpuError> {
        driver_copy(self.device, (&self.images.kept, 0), (&self.images.memory, 0), self.bytes())
    }

    /// The first slot besides these that is not as it is kept.
    pub(super) fn changed_besides(&self, slots: &[usize]) -> Result<Option<u32>, GpuError> {
        for slot in slots {
            let at = step(self.layout) * *slot as u64;
            driver_copy(self.device, (&self.images.kept, at), (&self.images.memory, at), step(self.layout))?;
        }
        self.difference(0, |_| false)
    }

    /// How many slots further the inputs of the second launch come from.
    fn shift(&self) -> u32 {
        u32::from(self.slots > 1)
    }

    /// The slot whose inputs a slot has in the second launch.
    pub(super) fn source(&self, slot: u32) -> u32 {
        slot + self.shift()
    }

    fn draw(&self, round: &Round, shift: u32) -> Result<(), GpuError> {
        for (index, (tensor, region)) in
            self.slot.tensors.iter().enumerate().filter(|(_, (one, _))| one.role.is_given())
        {
            let content = content(tensor, index, round.seed).further(shift);
            self.contents.write(self.device, &self.images.memory, region, content)?;
        }
        Ok(())
    }

    fn blank(&self, word: u32) -> Result<(), GpuError> {
        let word = u64::from(word) << 32 | u64::from(word);
        for region in self.of(|role| matches!(role, Role::Output | Role::Scratch)) {
            self.contents.write(self.device, &self.images.memory, region, Content::Word(word))?;
        }
        Ok(())
    }

    /// Copies what launches may have written to `kept`, and compares everything: nothing else may have changed.
    pub(super) fn keep(&self) -> Result<Option<u32>, GpuError> {
        self.difference(0, Role::is_written)
    }

    /// Compares what a second launch left with what is kept of the slots whose inputs it had.
    pub(super) fn repeated(&self) -> Result<Option<u32>, GpuError> {
        self.difference(self.shift(), |role| role == Role::Scratch)
    }

    /// The first slot that differs from the kept one so many further, after copying the tensors of some roles.
    fn difference(&self, shift: u32, copied: impl Fn(Role) -> bool) -> Result<Option<u32>, GpuError> {
        let slots = self.slots - shift;
        let memory = (&self.images.memory, 0);
        let kept = (&self.images.kept, u64::from(shift) * step(self.layout));
        for region in self.of(copied) {
            self.contents.copy(self.device, kept, memory, &Region { slots, ..region.clone() })?;
        }
        let first = self.contents.compare(self.device, memory, kept, u64::from(slots) * step(self.layout))?;
        Ok(first.map(|byte| u32::try_from(byte / step(self.layout)).unwrap_or(u32::MAX)))
    }

    fn of(&self, wanted: impl Fn(Role) -> bool) -> impl Iterator<Item = &Region> {
        self.slot.tensors.iter().filter(move |(tensor, _)| wanted(tensor.role)).map(|(_, region)| region)
    }

    /// Reads all slots into the L2, behind work that keeps the stream busy.
    pub(super) fn warm(&self) -> Result<(), GpuError> {
        self.contents.warm(self.device, &self.images.memory, self.bytes())
    }

    /// A slot as the last launch left it.
    pub(super) fn left(&self, slot: u32) -> Result<Vec<u8>> {
        self.download(&self.images.memory, slot)
    }

    /// A slot as it is kept.
    pub(super) fn kept(&self, slot: u32) -> Result<Vec<u8>> {
        self.download(&self.images.kept, slot)
    }

    fn download(&self, image: &Buffer, slot: u32) -> Result<Vec<u8>> {
        let mut bytes = vec![0; usize::try_from(self.layout.bytes)?];
        self.device.download(image, u64::from(slot) * step(self.layout), &mut bytes)?;
        Ok(bytes)
    }
}

/// Bytes of memory that inputs and outputs occupy: the most that a launch need move. What is input and output counts twice.
pub(super) fn most_bytes(bound: &Bound) -> u64 {
    let of = |tensor: &BoundTensor| {
        let times = match tensor.role {
            Role::InOut => 2,
            Role::Scratch => 0,
            Role::Input | Role::Output => 1,
        };
        distinct(tensor).elements() * tensor.dtype.size() as u64 * times
    };
    bound.tensors.iter().map(of).sum()
}
