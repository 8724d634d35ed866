//! The slots of a case: their places, what the host draws at random for a round, and the content of a slot before it.

use crate::base::cores;
use crate::gpu::contents::Region;
use crate::project::{Bound, BoundTensor};
use crate::verify::layout::{Layout, span_bytes, write};
use crate::verify::random::system_word;
use crate::verify::slot::Slot;
use crate::verify::timed::{content, distinct, drawn};

/// Bytes from one slot to the next: an odd number of pages, so that slots whose size is a power of two use different memory
/// channels.
pub(super) fn step(layout: &Layout) -> u64 {
    layout.bytes + 4096 * (1 - layout.bytes / 4096 % 2)
}

/// What the host draws at random for a round, after the previous round has ended, so that no earlier launch can know
/// it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Round {
    /// The seed of the inputs.
    pub(super) seed: u64,
    /// The word in the memory around the tensors.
    pub(super) around: u32,
    /// The words in outputs and scratch before the timed and before the repeated launches. They differ in every byte.
    pub(super) blanks: [u32; 2],
}

impl Round {
    /// Draws new values.
    pub(super) fn draw() -> Self {
        let low = || u32::try_from(system_word() & 0xffff_ffff).unwrap_or(0);
        let blank = low();
        Self { seed: system_word(), around: low(), blanks: [blank, blank ^ (low() | 0x0101_0101)] }
    }
}

/// The tensors of the slots of a case.
#[derive(Clone, Debug)]
pub(super) struct Slots<'a> {
    pub(super) bound: &'a Bound,
    pub(super) layout: &'a Layout,
    /// Each tensor, without dimensions of stride 0, and its region.
    pub(super) tensors: Vec<(BoundTensor, Region)>,
}

impl<'a> Slots<'a> {
    /// For a case with `slots` slots, one after the other.
    pub(super) fn new(bound: &'a Bound, layout: &'a Layout, slots: u32) -> Self {
        let tensors = bound.tensors.iter().zip(&layout.starts).map(|(tensor, at)| {
            let tensor = distinct(tensor);
            let dimensions = if tensor.span() == tensor.elements() {
                vec![(tensor.elements(), 1)]
            } else {
                tensor.shape.iter().copied().zip(tensor.strides.iter().copied()).collect()
            };
            let region = Region { at: *at, step: step(layout), slots, size: tensor.dtype.size() as u64, dimensions };
            (tensor, region)
        });
        Self { bound, layout, tensors: tensors.collect() }
    }

    /// The content of a slot before a round, computed on the host.
    pub(super) fn expected(&self, round: &Round, slot: u32) -> Slot {
        let mut bytes = filled(usize::try_from(self.layout.bytes).unwrap_or(0), round.around);
        for (index, (tensor, region)) in self.tensors.iter().enumerate() {
            if !tensor.role.is_given() {
                continue;
            }
            let start = usize::try_from(region.at).unwrap_or(usize::MAX);
            let end = start + usize::try_from(span_bytes(tensor)).unwrap_or(usize::MAX);
            write(tensor, &mut bytes[start..end], |into| {
                drawn(tensor, content(tensor, index, round.seed), slot, into);
            });
        }
        Slot { bytes }
    }
}

/// Bytes that repeat a word, written on all cores.
fn filled(length: usize, word: u32) -> Vec<u8> {
    let mut bytes = vec![0; length];
    let share = length.div_ceil(cores()).next_multiple_of(4).max(1 << 20);
    std::thread::scope(|scope| {
        for piece in bytes.chunks_mut(share) {
            scope.spawn(move || piece.as_chunks_mut::<4>().0.fill(word.to_le_bytes()));
        }
    });
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_lie_an_odd_number_of_pages_apart_and_do_not_overlap() {
        for pages in 1..9 {
            let bytes = pages * 4096;
            let step = step(&Layout { starts: Vec::new(), bytes });
            assert!(step / 4096 % 2 == 1 && (bytes..=bytes + 4096).contains(&step), "{pages} pages: {step}");
        }
    }

    #[test]
    fn what_launches_find_in_place_of_their_outputs_differs_in_every_byte() {
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..1000 {
            let Round { seed, around, blanks: [first, second] } = Round::draw();
            let differing = first.to_le_bytes().iter().zip(second.to_le_bytes()).all(|(one, other)| *one != other);
            assert!(differing, "{first:x} {second:x}");
            seen.extend([seed, around.into(), first.into(), second.into()]);
        }
        assert!(seen.len() > 3990, "{} of 4000", seen.len());
    }
}
