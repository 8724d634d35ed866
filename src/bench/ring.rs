//! Buffer sets that rotate: each launch of a round has inputs of its own, which change before every round.

use anyhow::Result;

use crate::gpu::graph::driver_copy;
use crate::gpu::{Buffer, Device};
use crate::oracle::view::encode;
use crate::project::{Bound, BoundTensor, DType, Role};
use crate::verify::inputs::integer;
use crate::verify::layout::{Layout, runs};
use crate::verify::random::Random;
use crate::verify::slot::{Poison, Slot};

/// Numbers in the pool that inputs are cut from.
const POOL: usize = 1 << 21;
/// Elements that are overwritten in an input before a round.
const PATCH: u64 = 16;

/// Normally distributed numbers of one type, made once: drawing hundreds of megabytes takes longer than timing them.
#[derive(Debug)]
pub(super) struct Pool {
    dtype: DType,
    bytes: Vec<u8>,
}

impl Pool {
    /// Draws it.
    pub(super) fn new(dtype: DType, random: &mut Random) -> Self {
        let mut bytes = Vec::with_capacity(POOL * dtype.size());
        for _ in 0..POOL / 2 {
            for value in random.normals() {
                encode(
                    dtype,
                    if dtype.is_float() {
                        value
                    } else {
                        value * 100.0
                    },
                    &mut bytes,
                );
            }
        }
        Self { dtype, bytes }
    }

    /// Fills a run of elements, beginning anywhere in the pool, anew every 64 KB.
    fn fill(&self, into: &mut [u8], random: &mut Random) {
        let size = self.dtype.size();
        for piece in into.chunks_mut(1 << 16) {
            let room = self.bytes.len() - piece.len();
            let start = usize::try_from(random.below((room / size) as u64 + 1)).unwrap_or(0) * size;
            piece.copy_from_slice(&self.bytes[start..start + piece.len()]);
        }
    }
}

/// The slots of one case on the card, with their inputs on the host.
#[derive(Debug)]
pub(super) struct Ring {
    /// The slots' memory.
    pub memory: Buffer,
    /// How many.
    pub slots: u32,
    /// From one slot to the next.
    pub step: u64,
    /// What every slot held at first: inputs, and poison elsewhere.
    base: Vec<u8>,
    /// What was overwritten since in each slot, in order: where, and with what.
    patches: Vec<Vec<(usize, Vec<u8>)>>,
    /// The base on the card, where a tensor is input and output at once.
    fresh: Option<Buffer>,
}

/// What the rest of a slot holds.
const POISON: Poison = Poison::NotANumber;

impl Ring {
    /// Takes memory for `slots` slots, draws their inputs and poisons the rest.
    pub(super) fn new(
        device: &Device,
        bound: &Bound,
        layout: &Layout,
        slots: u32,
        pools: &mut Vec<Pool>,
        random: &mut Random,
    ) -> Result<Self> {
        // An odd number of pages, so that slots of a power-of-two size do not share their memory channels.
        let step = layout.bytes + 4096 * (1 - layout.bytes / 4096 % 2);
        let memory = device.allocate(step * u64::from(slots))?;
        let mut base = vec![POISON.byte(); usize::try_from(layout.bytes)?];
        for (index, tensor) in bound.tensors.iter().enumerate() {
            if !tensor.role.is_given() {
                continue;
            }
            let range = layout.range(bound, index);
            let into = &mut base[range];
            runs(tensor, |run| fill(tensor, &mut into[run], pools, random));
        }
        // All slots begin alike and are told apart by their patches: a launch that goes by a sample of its inputs takes
        // one slot for another, and is found out.
        device.upload(&memory, 0, &base)?;
        for slot in 1..u64::from(slots) {
            driver_copy(device, (&memory, slot * step), (&memory, 0), layout.bytes)?;
        }
        let fresh = if bound.tensors.iter().any(|t| t.role == Role::InOut) {
            let fresh = device.allocate(layout.bytes)?;
            driver_copy(device, (&fresh, 0), (&memory, 0), layout.bytes)?;
            Some(fresh)
        } else {
            None
        };
        device.finish("filling the slots")?;
        Ok(Self {
            memory,
            slots,
            step,
            base,
            patches: vec![Vec::new(); slots as usize],
            fresh,
        })
    }

    /// Gives tensors that are input and output at once their first contents again, in every slot.
    pub(super) fn restore(&self, device: &Device, bound: &Bound, layout: &Layout) -> Result<()> {
        let Some(fresh) = &self.fresh else {
            return Ok(());
        };
        for (index, tensor) in bound.tensors.iter().enumerate() {
            let (at, bytes) = (
                layout.starts[index],
                layout.range(bound, index).len() as u64,
            );
            if tensor.role != Role::InOut || bytes == 0 {
                continue;
            }
            for slot in 0..u64::from(self.slots) {
                driver_copy(
                    device,
                    (&self.memory, slot * self.step + at),
                    (fresh, at),
                    bytes,
                )?;
            }
        }
        Ok(())
    }

    /// The address of a slot.
    pub(super) fn base(&self, slot: u32) -> u64 {
        self.memory.address() + u64::from(slot) * self.step
    }

    /// Overwrites a few elements of every input of every slot.
    pub(super) fn patch(
        &mut self,
        device: &Device,
        bound: &Bound,
        layout: &Layout,
        pools: &mut Vec<Pool>,
        random: &mut Random,
    ) -> Result<()> {
        for slot in 0..self.slots {
            for (index, tensor) in bound.tensors.iter().enumerate() {
                if tensor.role != Role::Input || tensor.elements() == 0 {
                    continue;
                }
                let size = tensor.dtype.size() as u64;
                let length = tensor.shape.last().copied().unwrap_or(1);
                let row = random.below(tensor.elements() / length);
                let view = crate::oracle::View::new(tensor, &[]);
                let unit = tensor.strides.last().copied().unwrap_or(1) == 1;
                let count = if unit { PATCH.min(length) } else { 1 };
                let column = random.below(length - count + 1);
                let stride = tensor.strides.last().copied().unwrap_or(1);
                let at = layout.starts[index] + (view.row_start(row) + column * stride) * size;
                let range = usize::try_from(at)?..usize::try_from(at + count * size)?;
                let mut bytes = vec![0; range.len()];
                fill(tensor, &mut bytes, pools, random);
                device.upload(&self.memory, u64::from(slot) * self.step + at, &bytes)?;
                self.patches[slot as usize].push((range.start, bytes));
            }
        }
        Ok(())
    }

    /// Poisons a slot's outputs and scratch.
    pub(super) fn poison(
        &self,
        device: &Device,
        bound: &Bound,
        layout: &Layout,
        slot: u32,
    ) -> Result<()> {
        let base = u64::from(slot) * self.step;
        for (index, tensor) in bound.tensors.iter().enumerate() {
            let range = layout.range(bound, index);
            let at = base + layout.starts[index];
            if matches!(tensor.role, Role::Output | Role::Scratch) {
                device.fill(&self.memory, at, range.len() as u64, POISON.byte())?;
            }
        }
        Ok(())
    }

    /// What a slot should hold, as a slot of a verification.
    pub(super) fn expected(&self, slot: u32) -> Slot {
        let mut bytes = self.base.clone();
        for (at, patch) in &self.patches[slot as usize] {
            bytes[*at..*at + patch.len()].copy_from_slice(patch);
        }
        Slot { bytes }
    }

    /// A slot as it is on the card.
    pub(super) fn download(&self, device: &Device, slot: u32) -> Result<Vec<u8>> {
        let mut bytes = vec![0; self.base.len()];
        device.download(&self.memory, u64::from(slot) * self.step, &mut bytes)?;
        Ok(bytes)
    }
}

/// Fills a run of a tensor's elements: from the pool of its type, or with the integers that kernel.toml asks for, less
/// those that it has for verification alone.
fn fill(tensor: &BoundTensor, into: &mut [u8], pools: &mut Vec<Pool>, random: &mut Random) {
    let Some(from) = &tensor.integers else {
        pool_of(tensor, pools, random).fill(into, random);
        return;
    };
    let mut bytes = Vec::with_capacity(into.len());
    for _ in 0..into.len() / tensor.dtype.size() {
        encode(tensor.dtype, integer(from, false, random), &mut bytes);
    }
    into.copy_from_slice(&bytes);
}

/// The pool of a tensor's type, drawn when it is first needed.
fn pool_of<'a>(tensor: &BoundTensor, pools: &'a mut Vec<Pool>, random: &mut Random) -> &'a Pool {
    let found = pools.iter().position(|pool| pool.dtype == tensor.dtype);
    let index = found.unwrap_or_else(|| {
        pools.push(Pool::new(tensor.dtype, random));
        pools.len() - 1
    });
    &pools[index]
}
