//! Rotating buffers: each launch of a round has its own inputs, which change before every round.

use anyhow::Result;

use crate::gpu::graph::driver_copy;
use crate::gpu::{Buffer, Device};
use crate::oracle::view::encode;
use crate::project::{Bound, BoundTensor, DType, Role};
use crate::verify::inputs::integer;
use crate::verify::layout::{Layout, runs};
use crate::verify::random::Random;
use crate::verify::slot::{Poison, Slot};

/// Numbers in the pool that inputs are copied from.
const POOL: usize = 1 << 21;
/// Elements of an input that are overwritten before a round.
const PATCH: u64 = 16;

/// Normally distributed numbers of one type. Drawing hundreds of megabytes would take longer than timing.
#[derive(Debug)]
pub(super) struct Pool {
    dtype: DType,
    bytes: Vec<u8>,
}

impl Pool {
    /// Draws the numbers.
    pub(super) fn new(dtype: DType, random: &mut Random) -> Self {
        let mut bytes = Vec::with_capacity(POOL * dtype.size());
        for _ in 0..POOL / 2 {
            for value in random.normals() {
                encode(dtype, if dtype.is_float() { value } else { value * 100.0 }, &mut bytes);
            }
        }
        Self { dtype, bytes }
    }

    /// Fills a run of elements from random places of the pool, 64 KB at a time.
    fn fill(&self, into: &mut [u8], random: &mut Random) {
        let size = self.dtype.size();
        for piece in into.chunks_mut(1 << 16) {
            let room = self.bytes.len() - piece.len();
            let start = usize::try_from(random.below((room / size) as u64 + 1)).unwrap_or(0) * size;
            piece.copy_from_slice(&self.bytes[start..start + piece.len()]);
        }
    }
}

/// The slots of one case on the card, and their expected content on the host.
#[derive(Debug)]
pub(super) struct Ring {
    /// The slots' memory.
    pub memory: Buffer,
    /// How many.
    pub slots: u32,
    /// Bytes from one slot to the next.
    pub step: u64,
    /// The initial content of every slot: inputs, and poison elsewhere.
    base: Vec<u8>,
    /// The overwritten inputs of each slot, in order: offset and bytes.
    patches: Vec<Vec<(usize, Vec<u8>)>>,
    /// The initial content on the card, where a tensor is input and output.
    fresh: Option<Buffer>,
}

/// The content of a slot other than inputs.
const POISON: Poison = Poison::NotANumber;

impl Ring {
    /// Allocates `slots` slots, draws their inputs and poisons the rest.
    pub(super) fn new(
        device: &Device,
        bound: &Bound,
        layout: &Layout,
        slots: u32,
        pools: &mut Vec<Pool>,
        random: &mut Random,
    ) -> Result<Self> {
        // An odd number of pages, so that slots whose size is a power of two use different memory channels.
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
        // Slots are equal at first and differ by their patches: a launch that recognises a slot by a sample of its inputs
        // confuses it with another.
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
        Ok(Self { memory, slots, step, base, patches: vec![Vec::new(); slots as usize], fresh })
    }

    /// Restores tensors that are input and output, in every slot.
    pub(super) fn restore(&self, device: &Device, bound: &Bound, layout: &Layout) -> Result<()> {
        let Some(fresh) = &self.fresh else {
            return Ok(());
        };
        for (index, tensor) in bound.tensors.iter().enumerate() {
            let (at, bytes) = (layout.starts[index], layout.range(bound, index).len() as u64);
            if tensor.role != Role::InOut || bytes == 0 {
                continue;
            }
            for slot in 0..u64::from(self.slots) {
                driver_copy(device, (&self.memory, slot * self.step + at), (fresh, at), bytes)?;
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

    /// Poisons the outputs and scratch of a slot.
    pub(super) fn poison(&self, device: &Device, bound: &Bound, layout: &Layout, slot: u32) -> Result<()> {
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

    /// The expected content of a slot.
    pub(super) fn expected(&self, slot: u32) -> Slot {
        let mut bytes = self.base.clone();
        for (at, patch) in &self.patches[slot as usize] {
            bytes[*at..*at + patch.len()].copy_from_slice(patch);
        }
        Slot { bytes }
    }

    /// Downloads a slot.
    pub(super) fn download(&self, device: &Device, slot: u32) -> Result<Vec<u8>> {
        let mut bytes = vec![0; self.base.len()];
        device.download(&self.memory, u64::from(slot) * self.step, &mut bytes)?;
        Ok(bytes)
    }
}

/// Fills a run of elements from the pool of the tensor's type, or with integers from the range in kernel.toml. Its list of
/// other values is for verification alone.
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

/// The pool of a tensor's type, drawn when first needed.
fn pool_of<'a>(tensor: &BoundTensor, pools: &'a mut Vec<Pool>, random: &mut Random) -> &'a Pool {
    let found = pools.iter().position(|pool| pool.dtype == tensor.dtype);
    let index = found.unwrap_or_else(|| {
        pools.push(Pool::new(tensor.dtype, random));
        pools.len() - 1
    });
    &pools[index]
}
