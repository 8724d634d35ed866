//! The slots of a case on the card. Nothing that a launch must leave is kept there, where it could be read or changed: the host
//! keeps digests of it, whose keys it draws when the launches have ended.

use anyhow::Result;

use super::slots::{Round, Slots, step};
use crate::gpu::contents::{Content, Contents, Region};
use crate::gpu::{Buffer, Device, GpuError};
use crate::project::{Bound, BoundTensor, Role};
use crate::verify::layout::Layout;
use crate::verify::random::system_word;
use crate::verify::timed::{content, distinct};

/// The slots of one case, at the beginning of the memory that all cases use, one after another.
#[derive(Debug)]
pub(super) struct DeviceSlots<'a> {
    device: &'a Device,
    contents: &'a Contents,
    memory: &'a Buffer,
    layout: &'a Layout,
    /// The number of slots.
    slots: u32,
    /// The tensors of a slot, and their regions.
    pub(super) slot: Slots<'a>,
}

/// A digest of each slot, by a key.
#[derive(Debug)]
pub(super) struct Digests {
    key: u64,
    slots: Vec<u64>,
}

impl Digests {
    /// The first slot that differs, where each has the contents that another one had.
    fn first_other(&self, later: &[u64], source: impl Fn(u32) -> u32) -> Option<u32> {
        (0u32..)
            .zip(later)
            .find(|(slot, sum)| self.slots.get(source(*slot) as usize) != Some(sum))
            .map(|(slot, _)| slot)
    }
}

impl<'a> DeviceSlots<'a> {
    pub(super) fn new(
        (device, contents, memory): (&'a Device, &'a Contents, &'a Buffer),
        slot: Slots<'a>,
        slots: u32,
    ) -> Self {
        Self { device, contents, memory, layout: slot.layout, slots, slot }
    }

    fn bytes(&self) -> u64 {
        step(self.layout) * u64::from(self.slots)
    }

    /// All bytes of all slots.
    fn whole(&self) -> Region {
        let step = step(self.layout);
        Region { at: 0, step, slots: self.slots, size: 4, dimensions: vec![(step / 4, 1)] }
    }

    /// Writes new contents: drawn inputs, a word around the tensors, and another word to outputs and scratch. Returns digests of
    /// what launches must not write.
    pub(super) fn prepare(&self, round: &Round) -> Result<Digests, GpuError> {
        self.contents.write(self.device, (self.memory, 0), &self.whole(), Content::Word(round.around.into()))?;
        self.draw(round, Pairing { from: 0, source: 0, slots: self.slots }, |role| role == Role::Input)?;
        self.blank(round.blanks[0])?;
        let rest = self.digests(&[self.whole()])?;
        self.draw(round, Pairing { from: 0, source: 0, slots: self.slots }, |role| role == Role::InOut)?;
        Ok(rest)
    }

    /// Prepares the repeated launches: each slot gets the inputs of the next slot, the last one those of the first, and outputs
    /// and scratch get another word. If the results of a kernel depend on the slot, the repeated launches then differ from the timed ones.
    pub(super) fn again(&self, round: &Round) -> Result<(), GpuError> {
        self.blank(round.blanks[1])?;
        let followed = Pairing { from: 0, source: 1, slots: self.slots - 1 };
        let last = Pairing { from: self.slots - 1, source: 0, slots: 1 };
        [followed, last].into_iter().try_for_each(|pairing| self.draw(round, pairing, Role::is_given))
    }

    /// The slot whose inputs a slot has in the repeated launch. Each slot is the source of one, so that every timed output is
    /// compared: where one is not, a launch could leave out its work there.
    pub(super) fn source(&self, slot: u32) -> u32 {
        (slot + 1) % self.slots
    }

    /// The slot that has the inputs of this one in the repeated launch.
    pub(super) fn repeat_of(&self, slot: u32) -> u32 {
        (slot + self.slots - 1) % self.slots
    }

    /// Digests of the outputs of all slots, tensor by tensor, by a new key.
    pub(super) fn outputs(&self) -> Result<Vec<Digests>, GpuError> {
        self.results().map(|(_, region)| self.digests(std::slice::from_ref(region))).collect()
    }

    /// The first slot whose repeated launch left other outputs than the timed one on the same inputs, and the tensor.
    pub(super) fn repeated(&self, timed: &[Digests]) -> Result<Option<(u32, &str)>, GpuError> {
        for ((tensor, region), timed) in self.results().zip(timed) {
            let again = self.digests_by(timed.key, std::slice::from_ref(region))?;
            if let Some(slot) = timed.first_other(&again, |slot| self.source(slot)) {
                return Ok(Some((slot, &tensor.name)));
            }
        }
        Ok(None)
    }

    /// The first slot in which something was written that is no output and no scratch. These are erased. `source` says whose
    /// inputs a slot has.
    pub(super) fn damaged(
        &self,
        round: &Round,
        rest: &Digests,
        source: impl Fn(u32) -> u32,
    ) -> Result<Option<u32>, GpuError> {
        self.blank(round.blanks[0])?;
        Ok(rest.first_other(&self.digests_by(rest.key, &[self.whole()])?, source))
    }

    /// Digests of all bytes of all slots.
    pub(super) fn all(&self) -> Result<Digests, GpuError> {
        self.digests(&[self.whole()])
    }

    /// The first slot, other than these, that differs from what it was.
    pub(super) fn changed_besides(&self, before: &Digests, slots: &[usize]) -> Result<Option<u32>, GpuError> {
        let mut after = self.digests_by(before.key, &[self.whole()])?;
        for slot in slots {
            after[*slot] = before.slots[*slot];
        }
        Ok(before.first_other(&after, |slot| slot))
    }

    fn digests(&self, regions: &[Region]) -> Result<Digests, GpuError> {
        let key = system_word();
        Ok(Digests { key, slots: self.digests_by(key, regions)? })
    }

    fn digests_by(&self, key: u64, regions: &[Region]) -> Result<Vec<u64>, GpuError> {
        self.contents.digests(self.device, self.memory, regions, key)
    }

    /// Draws the inputs of slots that have one of these roles: those of the slots of their pairing.
    fn draw(
        &self,
        round: &Round,
        Pairing { from, source, slots }: Pairing,
        wanted: impl Fn(Role) -> bool,
    ) -> Result<(), GpuError> {
        let memory = (self.memory, u64::from(from) * step(self.layout));
        for (index, (tensor, region)) in self.slot.tensors.iter().enumerate().filter(|(_, (one, _))| wanted(one.role)) {
            let content = content(tensor, index, round.seed).shifted(source);
            self.contents.write(self.device, memory, &Region { slots, ..region.clone() }, content)?;
        }
        Ok(())
    }

    /// Writes a word to all that launches write.
    fn blank(&self, word: u32) -> Result<(), GpuError> {
        let word = u64::from(word) << 32 | u64::from(word);
        for (_, region) in self.slot.tensors.iter().filter(|(tensor, _)| tensor.role.is_written()) {
            self.contents.write(self.device, (self.memory, 0), region, Content::Word(word))?;
        }
        Ok(())
    }

    fn results(&self) -> impl Iterator<Item = &(BoundTensor, Region)> {
        self.slot.tensors.iter().filter(|(tensor, _)| tensor.role.is_result())
    }

    /// Reads all slots into the L2, after work that keeps the stream busy.
    pub(super) fn warm(&self) -> Result<(), GpuError> {
        self.contents.warm(self.device, self.memory, self.bytes())
    }

    /// Downloads a slot as the last launch left it.
    pub(super) fn left(&self, slot: u32) -> Result<Vec<u8>> {
        Ok(self.device.download(self.memory, u64::from(slot) * step(self.layout), self.layout.bytes)?)
    }
}

/// Slots one after another, which get the inputs of others.
#[derive(Clone, Copy, Debug)]
struct Pairing {
    /// The first slot.
    from: u32,
    /// The slot whose inputs the first one gets; the others follow.
    source: u32,
    slots: u32,
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
    use crate::project::DType;

    #[test]
    fn the_most_that_moves_is_read_once_and_written_once() {
        let tensor = |role, dtype, strides| BoundTensor::of(("x", role), dtype, ([3, 5], strides));
        let most = |tensors: Vec<BoundTensor>| {
            let values = std::collections::BTreeMap::new();
            most_bytes(&Bound { tensors, arguments: Vec::new(), values, bytes: 0, flops: 0.0 })
        };
        assert_eq!(most(vec![tensor(Role::Input, DType::F32, [9, 1])]), 60, "without the gaps");
        assert_eq!(most(vec![tensor(Role::Input, DType::F16, [0, 1])]), 10, "one row for all");
        assert_eq!(most(vec![tensor(Role::InOut, DType::F32, [5, 1]), tensor(Role::Output, DType::I8, [5, 1])]), 135);
        assert_eq!(most(vec![tensor(Role::Scratch, DType::F32, [5, 1])]), 0);
    }
}
