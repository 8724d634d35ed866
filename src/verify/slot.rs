//! The content of a slot, on the host: tensors, red zones and gaps.

use crate::base::SplitMix64;
use crate::oracle::{Tensors, View};
use crate::project::{Bound, Inputs, Role};

use super::inputs::draw;
use super::layout::{Layout, runs, write};
use super::timed::{content, drawn};

/// Separates the seed of the choice of a generator from that of the inputs.
const AS_TIMED: u64 = 0x6265_6e63_6865_6421;

/// The byte in everything but the inputs before a launch. Runs use one or the other, so that an element that a
/// candidate does not write cannot pass for a result.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Poison {
    /// 0xff in every byte: NaN in each floating-point type, so that reading it affects the result.
    NotANumber,
    /// 0x5a in every byte: a large finite number.
    Finite,
}

impl Poison {
    /// The byte.
    pub(crate) fn byte(self) -> u8 {
        match self {
            Self::NotANumber => 0xff,
            Self::Finite => 0x5a,
        }
    }
}

/// A slot on the host.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    /// Its bytes.
    pub(crate) bytes: Vec<u8>,
}

impl Slot {
    /// Draws the inputs, and poisons everything else.
    pub(crate) fn new(bound: &Bound, layout: &Layout, poison: Poison, inputs: Inputs, seed: u64) -> Self {
        let length = usize::try_from(layout.bytes).unwrap_or(usize::MAX);
        let mut slot = Self { bytes: vec![poison.byte(); length] };
        // Half of the normal inputs are drawn as those of the bench, so that a kernel cannot tell from the inputs that
        // it is timed.
        let as_timed = inputs == Inputs::Normal && SplitMix64::mix(seed ^ AS_TIMED).is_multiple_of(2);
        for (index, tensor) in bound.tensors.iter().enumerate() {
            if !tensor.role.is_given() {
                continue;
            }
            write(tensor, &mut slot.bytes[layout.range(bound, index)], |into| {
                if as_timed {
                    drawn(tensor, content(tensor, index, seed), 0, into);
                } else {
                    draw(tensor, inputs, (seed, index as u64), into);
                }
            });
        }
        slot
    }

    /// The same inputs with another poison.
    #[must_use]
    pub(crate) fn repoisoned(&self, bound: &Bound, layout: &Layout, poison: Poison) -> Self {
        let mut other = Self { bytes: vec![poison.byte(); self.bytes.len()] };
        for (index, tensor) in bound.tensors.iter().enumerate() {
            if !tensor.role.is_given() {
                continue;
            }
            let start = layout.range(bound, index).start;
            runs(tensor, |run| {
                let run = start + run.start..start + run.end;
                other.bytes[run.clone()].copy_from_slice(&self.bytes[run]);
            });
        }
        other
    }

    /// The first byte that must not change and that differs in `after`, the slot after a launch.
    pub(crate) fn damage(&self, bound: &Bound, layout: &Layout, after: &[u8]) -> Option<Damage> {
        // Compares everything except the bytes that the launcher may write.
        let mut at = 0;
        for (index, tensor) in bound.tensors.iter().enumerate() {
            if !tensor.role.is_written() {
                continue;
            }
            let start = layout.range(bound, index).start;
            let mut found = None;
            runs(tensor, |run| {
                if found.is_none() {
                    found = self.first_difference(after, at, start + run.start);
                    at = start + run.end;
                }
            });
            if let Some(byte) = found {
                return Some(Self::name(bound, layout, byte));
            }
        }
        self.first_difference(after, at, self.bytes.len()).map(|byte| Self::name(bound, layout, byte))
    }

    fn first_difference(&self, after: &[u8], from: usize, to: usize) -> Option<usize> {
        if from >= to || self.bytes[from..to] == after[from..to] {
            return None;
        }
        (from..to).find(|byte| self.bytes[*byte] != after[*byte])
    }

    fn name(bound: &Bound, layout: &Layout, byte: usize) -> Damage {
        for (index, tensor) in bound.tensors.iter().enumerate() {
            let range = layout.range(bound, index);
            if range.contains(&byte) {
                let offset = byte - range.start;
                let mut inside = false;
                runs(tensor, |run| inside |= run.contains(&offset));
                let element = offset / tensor.dtype.size();
                return if inside {
                    Damage::Input(format!("input {} changed at element {element}", tensor.name))
                } else {
                    Damage::Zone(format!("the gap between rows of {} was written at element {element}", tensor.name))
                };
            }
        }
        // In a red zone: name the nearest tensor.
        let nearest = (0..bound.tensors.len())
            .map(|index| {
                let range = layout.range(bound, index);
                let (distance, side) =
                    if byte < range.start { (range.start - byte, "before") } else { (byte + 1 - range.end, "after") };
                (distance, side, index)
            })
            .min();
        Damage::Zone(nearest.map_or_else(
            || format!("a byte at {byte} of the slot was written"),
            |(distance, side, index)| format!("{distance} byte(s) {side} {} was written", bound.tensors[index].name),
        ))
    }
}

/// A message about a changed byte.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Damage {
    /// An input.
    Input(String),
    /// A red zone or a gap.
    Zone(String),
}

/// The tensors of a slot without scratch: inputs from `inputs`, outputs from `after`.
pub(crate) fn tensors<'a>(bound: &Bound, layout: &Layout, inputs: &'a [u8], after: &'a [u8]) -> Tensors<'a> {
    let mut all = Tensors::default();
    for (index, tensor) in bound.tensors.iter().enumerate() {
        let range = layout.range(bound, index);
        let bytes = match tensor.role {
            Role::Output => &after[range],
            Role::Input | Role::InOut => &inputs[range],
            Role::Scratch => continue,
        };
        all.views.insert(tensor.name.clone(), View::new(tensor, bytes));
    }
    all
}

/// The results of a launch: outputs, and tensors that are input and output, from `after`.
pub(crate) fn results<'a>(bound: &Bound, layout: &Layout, after: &'a [u8]) -> Tensors<'a> {
    let mut all = Tensors::default();
    for (index, tensor) in bound.tensors.iter().enumerate() {
        if tensor.role.is_result() {
            let range = layout.range(bound, index);
            all.views.insert(tensor.name.clone(), View::new(tensor, &after[range]));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::project::{BoundTensor, DType};

    fn bound() -> Bound {
        let tensor = |name: &str, role, strides, offset| BoundTensor {
            offset,
            ..BoundTensor::of((name, role), DType::BF16, ([3, 5], strides))
        };
        Bound {
            tensors: vec![tensor("out", Role::Output, [8, 1], 1), tensor("x", Role::Input, [5, 1], 0)],
            arguments: Vec::new(),
            values: std::collections::BTreeMap::new(),
            bytes: 60,
            flops: 0.0,
        }
    }

    #[test]
    fn every_byte_outside_the_outputs_is_guarded() {
        let bound = bound();
        let layout = Layout::new(&bound);
        let slot = Slot::new(&bound, &layout, Poison::Finite, Inputs::Normal, 7);
        let out = layout.range(&bound, 0);
        let mut writable = 0;
        for byte in 0..slot.bytes.len() {
            let mut after = slot.bytes.clone();
            after[byte] ^= 1;
            match slot.damage(&bound, &layout, &after) {
                None => {
                    assert!(out.contains(&byte) && (byte - out.start) % 16 < 10, "byte {byte}");
                    writable += 1;
                }
                Some(Damage::Input(_)) => assert!(layout.range(&bound, 1).contains(&byte)),
                Some(Damage::Zone(_)) => assert!(!layout.range(&bound, 1).contains(&byte)),
            }
        }
        assert_eq!(writable, 30);
    }

    #[test]
    fn scratch_is_poisoned_each_time_guarded_at_its_borders_and_looked_at_by_nobody() {
        let mut bound = bound();
        let scratch = BoundTensor::of(("scratch", Role::Scratch), DType::F32, ([2, 5], [5, 1]));
        bound.tensors.push(BoundTensor { offset: 1, ..scratch });
        let layout = Layout::new(&bound);
        let slot = Slot::new(&bound, &layout, Poison::NotANumber, Inputs::Normal, 7);
        let again = slot.repoisoned(&bound, &layout, Poison::Finite);
        let scratch = layout.range(&bound, 2);
        assert_eq!(scratch.len(), 40);
        assert!(slot.bytes[scratch.clone()].iter().all(|byte| *byte == 0xff));
        assert!(again.bytes[scratch.clone()].iter().all(|byte| *byte == 0x5a));
        let mut after = slot.bytes.clone();
        after[scratch.clone()].fill(3);
        assert_eq!(slot.damage(&bound, &layout, &after), None);
        after[scratch.end] ^= 1;
        assert_eq!(
            slot.damage(&bound, &layout, &after),
            Some(Damage::Zone("1 byte(s) after scratch was written".to_owned()))
        );
        let given = tensors(&bound, &layout, &slot.bytes, &after);
        assert!(given.get("scratch").is_none() && given.get("out").is_some());
        let got = results(&bound, &layout, &after);
        assert!(got.get("scratch").is_none() && got.get("out").is_some());
    }

    #[test]
    fn a_changed_byte_is_named_by_what_it_is_near() {
        let bound = bound();
        let layout = Layout::new(&bound);
        let slot = Slot::new(&bound, &layout, Poison::NotANumber, Inputs::Normal, 7);
        let out = layout.range(&bound, 0);
        let name = |byte: usize| {
            let mut after = slot.bytes.clone();
            after[byte] ^= 1;
            slot.damage(&bound, &layout, &after)
        };
        assert_eq!(name(out.start - 1), Some(Damage::Zone("1 byte(s) before out was written".to_owned())));
        assert_eq!(name(out.end), Some(Damage::Zone("1 byte(s) after out was written".to_owned())));
        assert_eq!(
            name(out.start + 10),
            Some(Damage::Zone("the gap between rows of out was written at element 5".to_owned()))
        );
        let x = layout.range(&bound, 1);
        assert_eq!(name(x.start + 7), Some(Damage::Input("input x changed at element 3".to_owned())));
    }
}
