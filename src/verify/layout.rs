//! The layout of a case in device memory: a slot with every tensor between two red zones.

use std::ops::Range;

use crate::project::{Bound, BoundTensor, Role};

/// The minimum size in bytes of the red zone on either side of a tensor.
pub(crate) const RED_ZONE: u64 = 4096;
/// Tensors start at a multiple of this, plus the offset that a case sets.
const ALIGNMENT: u64 = 256;
const PAGE: u64 = 4096;

/// The places of the tensors of [`Bound::tensors`] in a slot.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    /// The offset in bytes of each tensor's first element.
    pub(crate) starts: Vec<u64>,
    /// The slot's size, a multiple of the page.
    pub(crate) bytes: u64,
}

impl Layout {
    /// Lays the tensors out.
    pub(crate) fn new(bound: &Bound) -> Self {
        let mut starts = Vec::new();
        let mut end = 0u64;
        for (index, tensor) in bound.tensors.iter().enumerate() {
            // An odd number of pages apart, so that tensors whose size is a power of two use different memory channels.
            let stagger = PAGE * (2 * index as u64 + 1);
            let start =
                (end + RED_ZONE + stagger).next_multiple_of(ALIGNMENT) + tensor.offset * tensor.dtype.size() as u64;
            starts.push(start);
            end = start + span_bytes(tensor);
        }
        Self { starts, bytes: (end + RED_ZONE).next_multiple_of(PAGE) + PAGE }
    }

    /// The slot in parts, each with a name: every tensor, and what lies between them. Scratch is left out: its contents
    /// after a launch are unspecified.
    pub(crate) fn parts(&self, bound: &Bound) -> Vec<(String, Range<usize>)> {
        let mut parts = Vec::new();
        let mut end = 0;
        for (index, tensor) in bound.tensors.iter().enumerate() {
            let range = self.range(bound, index);
            parts.push((format!("the red zone before {}", tensor.name), end..range.start));
            end = range.end;
            if tensor.role != Role::Scratch {
                parts.push((tensor.name.clone(), range));
            }
        }
        parts.push(("the last red zone".to_owned(), end..usize::try_from(self.bytes).unwrap_or(usize::MAX)));
        parts
    }

    /// The bytes of a tensor in a slot, with the gaps between its rows.
    pub(crate) fn range(&self, bound: &Bound, index: usize) -> Range<usize> {
        let start = usize::try_from(self.starts[index]).unwrap_or(usize::MAX);
        start..start + usize::try_from(span_bytes(&bound.tensors[index])).unwrap_or(usize::MAX)
    }
}

/// Bytes from a tensor's first element to the end of its last.
pub(crate) fn span_bytes(tensor: &BoundTensor) -> u64 {
    tensor.span() * tensor.dtype.size() as u64
}

/// Writes a tensor's elements into its bytes in a slot, gaps left as they are. `draw` writes all elements without gaps.
pub(crate) fn write(tensor: &BoundTensor, into: &mut [u8], draw: impl FnOnce(&mut [u8])) {
    if tensor.span() == tensor.elements() {
        return draw(into);
    }
    let mut elements = vec![0; usize::try_from(tensor.elements()).unwrap_or(usize::MAX) * tensor.dtype.size()];
    draw(&mut elements);
    let mut left = elements.as_slice();
    runs(tensor, |run| {
        let (here, after) = left.split_at(run.len());
        into[run].copy_from_slice(here);
        left = after;
    });
}

/// Calls `each` with the byte range of every contiguous run of elements, counted from the tensor's first element.
pub(crate) fn runs(tensor: &BoundTensor, mut each: impl FnMut(Range<usize>)) {
    let size = tensor.dtype.size() as u64;
    if tensor.elements() == 0 {
        return;
    }
    let at = |elements: u64, count: u64| {
        let start = usize::try_from(elements * size).unwrap_or(usize::MAX);
        start..start + usize::try_from(count * size).unwrap_or(usize::MAX)
    };
    if tensor.span() == tensor.elements() {
        each(at(0, tensor.elements()));
        return;
    }
    let length = tensor.shape.last().copied().unwrap_or(1);
    let stride = tensor.strides.last().copied().unwrap_or(1);
    let rows = tensor.elements() / length;
    for row in 0..rows {
        let mut rest = row;
        let mut start = 0;
        for (size, stride) in tensor.shape.iter().zip(&tensor.strides).rev().skip(1) {
            start += rest % size * stride;
            rest /= size;
        }
        if stride == 1 {
            each(at(start, length));
        } else {
            for column in 0..length {
                each(at(start + column * stride, 1));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::project::{DType, Role};

    #[test]
    fn runs_are_rows_or_the_elements_of_rows_whose_elements_lie_apart() {
        let runs = |strides| {
            let tensor = BoundTensor::of(("x", Role::Input), DType::F16, ([2, 3], strides));
            let mut all = Vec::new();
            super::runs(&tensor, |run| all.push((run.start, run.end)));
            all
        };
        assert_eq!(runs([3, 1]), [(0, 12)]);
        assert_eq!(runs([5, 1]), [(0, 6), (10, 16)]);
        assert_eq!(runs([8, 2]), [(0, 2), (4, 6), (8, 10), (16, 18), (20, 22), (24, 26)]);
        let tensor = BoundTensor::of(("x", Role::Input), DType::F16, ([3, 2, 2], [20, 5, 1]));
        let mut starts = Vec::new();
        super::runs(&tensor, |run| starts.push(run.start));
        assert_eq!(starts, [0, 10, 40, 50, 80, 90]);
        super::runs(&BoundTensor::of(("x", Role::Input), DType::F16, ([2, 0], [5, 1])), |run| panic!("{run:?}"));
    }

    #[test]
    fn every_byte_of_a_slot_is_of_a_tensor_a_red_zone_or_scratch() {
        let tensor = |name, role| BoundTensor::of((name, role), DType::F32, ([2, 3], [5, 1]));
        let mut bound = Bound {
            tensors: vec![tensor("x", Role::Input), tensor("room", Role::Scratch), tensor("out", Role::Output)],
            arguments: Vec::new(),
            values: std::collections::BTreeMap::new(),
            bytes: 0,
            flops: 0.0,
        };
        bound.tensors[2].offset = 1;
        let layout = Layout::new(&bound);
        // Eight elements from the first to behind the last. One page and a red zone before x, three before the next, five before out.
        let starts = [8192, 8192 + 256 + 4 * 4096, 8192 + 512 + 10 * 4096 + 4];
        assert_eq!(layout.starts, starts);
        assert_eq!(layout.bytes, 15 * 4096);
        let starts = starts.map(|start| usize::try_from(start).unwrap_or(0));
        let parts = [
            ("the red zone before x", 0..starts[0]),
            ("x", starts[0]..starts[0] + 32),
            ("the red zone before room", starts[0] + 32..starts[1]),
            ("the red zone before out", starts[1] + 32..starts[2]),
            ("out", starts[2]..starts[2] + 32),
            ("the last red zone", starts[2] + 32..15 * 4096),
        ];
        assert_eq!(layout.parts(&bound), parts.map(|(name, range)| (name.to_owned(), range)));
    }

    #[test]
    fn elements_are_written_at_their_places_and_gaps_left_as_they_are() {
        let tensor = BoundTensor::of(("x", Role::Input), DType::I8, ([2, 3], [5, 1]));
        let mut into = [9; 8];
        write(&tensor, &mut into, |elements| elements.copy_from_slice(&[1, 2, 3, 4, 5, 6]));
        assert_eq!(into, [1, 2, 3, 9, 9, 4, 5, 6]);
    }
}
