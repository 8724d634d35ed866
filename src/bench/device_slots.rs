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
        self.contents.write(self.device, (&self.images.memory, 0), &all, Content::Word(round.around.into()))?;
        self.draw(round, Pairing { from: 0, source: 0, slots: self.slots })?;
        self.keep_all()?;
        self.blank(round.blanks[0])
    }

    /// Prepares the repeated launches: each slot gets the inputs of the next slot, the last one those of the first, and outputs
    /// and scratch get another word. If the results of a kernel depend on the slot, the repeated launches then differ from the timed ones.
    pub(super) fn again(&self, round: &Round) -> Result<(), GpuError> {
        self.pairings().try_for_each(|pairing| self.draw(round, pairing))?;
        self.blank(round.blanks[1])
    }

    /// Masks the results of the timed launches in `kept`, or unmasks them: the repeated launches must not find them on
    /// the card and copy them.
    pub(super) fn mask(&self, round: &Round) -> Result<(), GpuError> {
        self.of(Role::is_written).try_for_each(|region| {
            self.contents.write(self.device, (&self.images.kept, 0), region, Content::Mask(round.mask))
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
        self.difference(Pairing { from: 0, source: 0, slots: self.slots }, |_| false)
    }

    /// The slot whose inputs a slot has in the repeated launch.
    pub(super) fn source(&self, slot: u32) -> u32 {
        (slot + 1) % self.slots
    }

    fn pairings(&self) -> impl Iterator<Item = Pairing> {
        pairings(self.slots)
    }

    /// Draws the inputs of slots: those of the slots of their pairing.
    fn draw(&self, round: &Round, Pairing { from, source, slots }: Pairing) -> Result<(), GpuError> {
        let memory = (&self.images.memory, u64::from(from) * step(self.layout));
        for (index, (tensor, region)) in
            self.slot.tensors.iter().enumerate().filter(|(_, (one, _))| one.role.is_given())
        {
            let content = content(tensor, index, round.seed).shifted(source);
            self.contents.write(self.device, memory, &Region { slots, ..region.clone() }, content)?;
        }
        Ok(())
    }

    fn blank(&self, word: u32) -> Result<(), GpuError> {
        let word = u64::from(word) << 32 | u64::from(word);
        for region in self.of(|role| matches!(role, Role::Output | Role::Scratch)) {
            self.contents.write(self.device, (&self.images.memory, 0), region, Content::Word(word))?;
        }
        Ok(())
    }

    /// Copies the tensors that launches may write to `kept`, and compares everything else. Returns the first slot that
    /// changed.
    pub(super) fn keep(&self) -> Result<Option<u32>, GpuError> {
        self.difference(Pairing { from: 0, source: 0, slots: self.slots }, Role::is_written)
    }

    /// Compares the results of the repeated launches with those that the timed launches left on the same inputs.
    /// Returns the first slot that differs.
    pub(super) fn repeated(&self) -> Result<Option<u32>, GpuError> {
        for pairing in self.pairings() {
            if let Some(slot) = self.difference(pairing, |role| role == Role::Scratch)? {
                return Ok(Some(slot));
            }
        }
        Ok(None)
    }

    /// The first slot that differs from its source in `kept`, after copying the tensors of some roles.
    fn difference(
        &self,
        Pairing { from, source, slots }: Pairing,
        copied: impl Fn(Role) -> bool,
    ) -> Result<Option<u32>, GpuError> {
        let memory = (&self.images.memory, u64::from(from) * step(self.layout));
        let kept = (&self.images.kept, u64::from(source) * step(self.layout));
        for region in self.of(copied) {
            self.contents.copy(self.device, kept, memory, &Region { slots, ..region.clone() })?;
        }
        let first = self.contents.compare(self.device, memory, kept, u64::from(slots) * step(self.layout))?;
        Ok(first.map(|byte| from + u32::try_from(byte / step(self.layout)).unwrap_or(0)))
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

/// Slots one after another, with those in which the timed launches had the same inputs.
#[derive(Clone, Copy, Debug)]
struct Pairing {
    /// The first slot.
    from: u32,
    /// The slot that the first one is paired with; the others follow.
    source: u32,
    slots: u32,
}

/// The pairings of the repeated launches, by [`DeviceSlots::source`]. Each slot is the source of one, so that every timed output
/// is compared: where one is not, a launch could leave out its work there.
fn pairings(slots: u32) -> impl Iterator<Item = Pairing> {
    let followed = Pairing { from: 0, source: 1, slots: slots.saturating_sub(1) };
    let last = Pairing { from: slots.saturating_sub(1), source: 0, slots: 1 };
    [followed, last].into_iter().filter(|pairing| pairing.slots > 0)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_timed_slot_is_compared_with_one_repeated_launch() {
        for slots in 1..20 {
            let pairs = pairings(slots)
                .flat_map(|pairing| (0..pairing.slots).map(move |at| (pairing.from + at, pairing.source + at)));
            let (mut repeated, mut timed): (Vec<u32>, Vec<u32>) = pairs.unzip();
            assert!(repeated.iter().zip(&timed).all(|(slot, source)| *source == (slot + 1) % slots));
            repeated.sort_unstable();
            timed.sort_unstable();
            assert_eq!((repeated, timed), ((0..slots).collect::<Vec<_>>(), (0..slots).collect::<Vec<_>>()));
        }
    }
}
