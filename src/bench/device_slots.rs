//! The slots of a case on the card, in two images: `memory`, on which launches work, and `kept`, with the content that
//! they must leave.

use anyhow::Result;

use super::slots::{Round, Slots, step};
use crate::gpu::contents::{Content, Contents, Region};
use crate::gpu::graph::driver_copy;
use crate::gpu::{Buffer, Device, GpuError};
use crate::project::{Bound, BoundTensor, Role};
use crate::verify::layout::Layout;
use crate::verify::timed::{content, distinct};

/// The memory that all cases use, one after another.
#[derive(Debug)]
pub(super) struct Images {
    pub(super) memory: Buffer,
    kept: Buffer,
}

impl Images {
    /// Allocates two images of `bytes` bytes each.
    pub(super) fn new(device: &Device, bytes: u64) -> Result<Self, GpuError> {
        Ok(Self { memory: device.allocate(bytes)?, kept: device.allocate(bytes)? })
    }
}

/// The slots of one case, at the beginning of both images.
#[derive(Debug)]
pub(super) struct DeviceSlots<'a> {
    device: &'a Device,
    contents: &'a Contents,
    images: &'a Images,
    layout: &'a Layout,
    /// The number of slots.
    slots: u32,
    /// The tensors of a slot, and their regions.
    pub(super) slot: Slots<'a>,
}

impl<'a> DeviceSlots<'a> {
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

    /// Writes new contents: drawn inputs, and a word around the tensors, in both images; then another word to outputs
    /// and scratch in `memory`.
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

    /// Prepares the repeated launches: each slot gets the inputs of the next slot, and outputs and scratch get another
    /// word. If the results of a kernel depend on the slot, the repeated launches then differ from the timed ones.
    pub(super) fn again(&self, round: &Round) -> Result<(), GpuError> {
        self.draw(round, self.shift())?;
        self.blank(round.blanks[1])
    }

    /// Masks the results of the timed launches in `kept`, or unmasks them: the repeated launches must not find them on
    /// the card and copy them.
    pub(super) fn mask(&self, round: &Round) -> Result<(), GpuError> {
        self.of(Role::is_written).try_for_each(|region| {
            self.contents.write(self.device, &self.images.kept, region, Content::Mask(round.mask))
        })
    }

    /// Copies all slots to `kept`, with the words in outputs and scratch.
    pub(super) fn keep_all(&self) -> Result<(), GpuError> {
        driver_copy(self.device, (&self.images.kept, 0), (&self.images.memory, 0), self.bytes())
    }

    /// The first slot, other than these, that differs from `kept`.
    pub(super) fn changed_besides(&self, slots: &[usize]) -> Result<Option<u32>, GpuError> {
        for slot in slots {
            let at = step(self.layout) * *slot as u64;
            driver_copy(self.device, (&self.images.kept, at), (&self.images.memory, at), step(self.layout))?;
        }
        self.difference(0, |_| false)
    }

    /// The distance in slots from which the inputs of a repeated launch come.
    fn shift(&self) -> u32 {
        u32::from(self.slots > 1)
    }

    /// The slot whose inputs a slot has in the repeated launch.
    pub(super) fn source(&self, slot: u32) -> u32 {
        slot + self.shift()
    }

    fn draw(&self, round: &Round, shift: u32) -> Result<(), GpuError> {
        for (index, (tensor, region)) in
            self.slot.tensors.iter().enumerate().filter(|(_, (one, _))| one.role.is_given())
        {
            let content = content(tensor, index, round.seed).shifted(shift);
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

    /// Copies the tensors that launches may write to `kept`, and compares everything else. Returns the first slot that
    /// changed.
    pub(super) fn keep(&self) -> Result<Option<u32>, GpuError> {
        self.difference(0, Role::is_written)
    }

    /// Compares the results of the repeated launches with those that the timed launches left on the same inputs.
    /// Returns the first slot that differs.
    pub(super) fn repeated(&self) -> Result<Option<u32>, GpuError> {
        self.difference(self.shift(), |role| role == Role::Scratch)
    }

    /// The first slot that differs from the slot in `kept` that is `shift` further on, after copying the tensors of
    /// some roles.
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

    /// Reads all slots into the L2, after work that keeps the stream busy.
    pub(super) fn warm(&self) -> Result<(), GpuError> {
        self.contents.warm(self.device, &self.images.memory, self.bytes())
    }

    /// Downloads a slot as the last launch left it.
    pub(super) fn left(&self, slot: u32) -> Result<Vec<u8>> {
        self.download(&self.images.memory, slot)
    }

    /// Downloads a slot of `kept`.
    pub(super) fn kept(&self, slot: u32) -> Result<Vec<u8>> {
        self.download(&self.images.kept, slot)
    }

    fn download(&self, image: &Buffer, slot: u32) -> Result<Vec<u8>> {
        Ok(self.device.download(image, u64::from(slot) * step(self.layout), self.layout.bytes)?)
    }
}

/// The bytes of memory that inputs and outputs occupy: the most that a launch needs to move. A tensor that is input and
/// output counts twice.
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
