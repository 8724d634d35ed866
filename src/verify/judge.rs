//! The faults that the outputs of a case show.

use super::compare::{Comparison, Wrong};
use super::finding::Kind;
use super::layout::{Layout, runs};
use super::path::Fault;
use super::slot::{Damage, Poison, Slot};
use crate::project::{Bound, BoundTensor, Role};

/// The fault if a byte outside the outputs changed.
pub(crate) fn damaged(slot: &Slot, bound: &Bound, layout: &Layout, after: &[u8]) -> Option<Fault> {
    Some(match slot.damage(bound, layout, after)? {
        Damage::Input(what) => (Kind::InputModified, what),
        Damage::Zone(what) => (Kind::RedZone, what),
    })
}

/// The first output with elements that hold one poison after the first run and the other after the second: no launch
/// wrote them.
pub(super) fn unwritten(bound: &Bound, layout: &Layout, first: &[u8], second: &[u8]) -> Option<String> {
    let outputs = |tensor: &BoundTensor| tensor.role == Role::Output;
    let (tensor, place, count) = found(bound, layout, first, second, outputs, poisoned)?;
    Some(format!(
        "{}: {count} of {} elements were never written, the first at {}",
        tensor.name,
        tensor.elements(),
        coordinates(&tensor.shape, place)
    ))
}

/// The first element that differs between two runs on the same inputs.
pub(crate) fn differing(bound: &Bound, layout: &Layout, first: &[u8], second: &[u8]) -> Option<String> {
    let results = |tensor: &BoundTensor| tensor.role.is_result();
    let differ = |a: &[u8], b: &[u8], size: usize| {
        if a == b {
            return 0;
        }
        let pairs = a.chunks_exact(size).zip(b.chunks_exact(size));
        pairs.filter(|(a, b)| a != b).count() as u64
    };
    let (tensor, place, _) = found(bound, layout, first, second, results, differ)?;
    Some(format!(
        "{} at {}: the same launch on the same inputs gave other bytes",
        tensor.name,
        coordinates(&tensor.shape, place)
    ))
}

/// The first tensor in which `count` finds elements in a pair of slots, the index of the first such element, and their
/// number. `count` gets contiguous runs of elements, and the size of an element.
fn found<'a>(
    bound: &'a Bound,
    layout: &Layout,
    first: &[u8],
    second: &[u8],
    tensors: impl Fn(&BoundTensor) -> bool,
    count: impl Fn(&[u8], &[u8], usize) -> u64,
) -> Option<(&'a BoundTensor, u64, u64)> {
    for (index, tensor) in bound.tensors.iter().enumerate() {
        if !tensors(tensor) {
            continue;
        }
        let start = layout.range(bound, index).start;
        let size = tensor.dtype.size();
        let (mut total, mut seen, mut place) = (0, 0, None);
        runs(tensor, |run| {
            let run = start + run.start..start + run.end;
            let (a, b) = (&first[run.clone()], &second[run]);
            let here = count(a, b, size);
            if here > 0 && place.is_none() {
                let mut pairs = a.chunks_exact(size).zip(b.chunks_exact(size));
                let inside = pairs.position(|(a, b)| count(a, b, size) == 1);
                place = inside.map(|at| seen + at as u64);
            }
            total += here;
            seen += (a.len() / size) as u64;
        });
        if let Some(place) = place {
            return Some((tensor, place, total));
        }
    }
    None
}

/// How many elements hold one poison in `first` and the other in `second`.
fn poisoned(first: &[u8], second: &[u8], size: usize) -> u64 {
    let left = |bytes: &[u8], poison: Poison| bytes.iter().all(|byte| *byte == poison.byte());
    let both = |a: &[u8], b: &[u8]| left(a, Poison::NotANumber) && left(b, Poison::Finite);
    let pairs = first.chunks_exact(size).zip(second.chunks_exact(size));
    // For 2-byte types, comparisons of whole words.
    match size {
        2 => pairs.filter(|(a, b)| [a[0], a[1]] == [0xff; 2] && [b[0], b[1]] == [0x5a; 2]).count() as u64,
        _ => pairs.filter(|(a, b)| both(a, b)).count() as u64,
    }
}

/// The fault that a comparison shows.
pub(crate) fn judge(comparison: &Comparison) -> Option<Fault> {
    if let Some(wrong) = &comparison.first {
        let finite = wrong.expected.is_none_or(f64::is_finite);
        let kind = if wrong.got.is_finite() || !finite { Kind::WrongValue } else { Kind::NotFinite };
        return Some((kind, describe(wrong, comparison)));
    }
    comparison.norms.iter().find(|(_, norm, bound)| norm.is_nan() || norm > bound).map(|(name, norm, bound)| {
        (Kind::RelativeNorm, format!("{name}: ‖out − reference‖ / ‖reference‖ is {norm:.3e}, over {bound:.1e}"))
    })
}

fn describe(wrong: &Wrong, comparison: &Comparison) -> String {
    let off = match wrong.expected {
        Some(expected) if expected.is_finite() => format!(
            "expected {expected:e}, got {:e}, {:.4} ulps off where {:.4} are allowed",
            wrong.got, wrong.ulps, wrong.allowed
        ),
        Some(expected) => format!("expected {expected}, got {:e}", wrong.got),
        None => format!("got {:e}, and the oracle gives no value", wrong.got),
    };
    let Wrong { name, row, column, .. } = wrong;
    format!("{name}[{row}, {column}]: {off}; {} of {} elements are wrong", comparison.wrong, comparison.elements)
}

/// `[3, 17]`
fn coordinates(shape: &[u64], index: u64) -> String {
    let mut rest = index;
    let mut places: Vec<String> = shape
        .iter()
        .rev()
        .map(|size| {
            let at = rest % size;
            rest /= size;
            at.to_string()
        })
        .collect();
    places.reverse();
    format!("[{}]", places.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::project::DType;

    /// An input that is output too, of two bytes an element, and an output of four bytes; both have gaps.
    fn bound() -> Bound {
        Bound {
            tensors: vec![
                BoundTensor::of(("both", Role::InOut), DType::F16, ([3, 4], [6, 1])),
                BoundTensor::of(("room", Role::Scratch), DType::F16, ([3, 4], [6, 1])),
                BoundTensor::of(("half", Role::Output), DType::F16, ([3, 4], [6, 1])),
                BoundTensor::of(("out", Role::Output), DType::F32, ([3, 4], [6, 1])),
            ],
            arguments: Vec::new(),
            values: std::collections::BTreeMap::new(),
            bytes: 0,
            flops: 0.0,
        }
    }

    /// A slot of zeros in which the bytes of some elements of a tensor are this one. Elements are counted with the gaps.
    fn slot(bound: &Bound, layout: &Layout, tensor: usize, elements: &[usize], byte: u8) -> Vec<u8> {
        let mut bytes = vec![0; usize::try_from(layout.bytes).unwrap_or(0)];
        let size = bound.tensors[tensor].dtype.size();
        for element in elements {
            let at = layout.range(bound, tensor).start + element * size;
            bytes[at..at + size].fill(byte);
        }
        bytes
    }

    #[test]
    fn what_holds_one_poison_and_then_the_other_was_never_written() {
        let bound = bound();
        let layout = Layout::new(&bound);
        let of = |tensor, first: &[usize], second: &[usize]| {
            let (first, second) =
                (slot(&bound, &layout, tensor, first, 0xff), slot(&bound, &layout, tensor, second, 0x5a));
            unwritten(&bound, &layout, &first, &second)
        };
        for (tensor, name) in [(2, "half"), (3, "out")] {
            let found = |count: u64, at: &str| {
                Some(format!("{name}: {count} of 12 elements were never written, the first at {at}"))
            };
            assert_eq!(of(tensor, &[8], &[8]), found(1, "[1, 2]"));
            assert_eq!(of(tensor, &[1, 8, 9], &[1, 3, 8, 9]), found(3, "[0, 1]"));
            assert_eq!(of(tensor, &[12, 14], &[14]), found(1, "[2, 2]"));
            assert_eq!(of(tensor, &[2], &[3]), None);
            assert_eq!(of(tensor, &[4, 5], &[4, 5]), None, "a gap");
        }
        // What was given before the launch, and what nobody reads after it.
        assert_eq!(of(0, &[1], &[1]), None);
        assert_eq!(of(1, &[1], &[1]), None);
        // A part of an element.
        for (tensor, byte) in [(2, 0), (2, 1), (3, 2)] {
            let (mut first, mut second) =
                (slot(&bound, &layout, tensor, &[1], 0xff), slot(&bound, &layout, tensor, &[1], 0x5a));
            let at = layout.range(&bound, tensor).start + bound.tensors[tensor].dtype.size() + byte;
            first[at] = 7;
            assert_eq!(unwritten(&bound, &layout, &first, &second), None, "{tensor} {byte}");
            (first[at], second[at]) = (0xff, 7);
            assert_eq!(unwritten(&bound, &layout, &first, &second), None, "{tensor} {byte}");
        }
    }

    #[test]
    fn the_first_result_that_differs_is_named() {
        let bound = bound();
        let layout = Layout::new(&bound);
        let of = |tensor, first: &[usize], second: &[usize]| {
            let (first, second) = (slot(&bound, &layout, tensor, first, 3), slot(&bound, &layout, tensor, second, 3));
            differing(&bound, &layout, &first, &second)
        };
        for (tensor, name) in [(0, "both"), (3, "out")] {
            let found = |at: &str| Some(format!("{name} at {at}: the same launch on the same inputs gave other bytes"));
            assert_eq!(of(tensor, &[1, 7, 9], &[1, 8, 9]), found("[1, 1]"));
            assert_eq!(of(tensor, &[3, 15], &[3]), found("[2, 3]"));
            assert_eq!(of(tensor, &[4], &[5]), None, "a gap");
        }
        assert_eq!(of(1, &[1], &[2]), None);
    }

    #[test]
    fn a_comparison_shows_its_first_element_and_then_its_norms() {
        const NAN: f64 = f64::NAN;
        const INF: f64 = f64::INFINITY;
        let of = |first: Option<(Option<f64>, f64)>, norm: f64| {
            let first = first.map(|(expected, got)| {
                let (name, ulps, allowed) = ("out".to_owned(), 2.5, 0.5);
                Wrong { name, row: 3, column: 17, expected, got, ulps, allowed }
            });
            judge(&Comparison {
                elements: 90,
                wrong: 4,
                first,
                norms: vec![("out".to_owned(), norm, 0.25)],
                worst: 0.0,
            })
        };
        let some = |kind, message: &str| Some((kind, message.to_owned()));
        let after = "; 4 of 90 elements are wrong";
        let finite = "out[3, 17]: expected 1.5e0, got 2e0, 2.5000 ulps off where 0.5000 are allowed";
        assert_eq!(of(Some((Some(1.5), 2.0)), 0.0), some(Kind::WrongValue, &format!("{finite}{after}")));
        let kind = |expected, got| of(Some((expected, got)), 0.0).map(|(kind, _)| kind);
        assert_eq!(kind(Some(1.5), NAN), Some(Kind::NotFinite));
        assert_eq!(kind(None, INF), Some(Kind::NotFinite));
        assert_eq!(kind(None, 1.0), Some(Kind::WrongValue));
        let infinite = format!("out[3, 17]: expected inf, got NaN{after}");
        assert_eq!(of(Some((Some(INF), NAN)), 0.0), some(Kind::WrongValue, &infinite));
        let none = format!("out[3, 17]: got 1e0, and the oracle gives no value{after}");
        assert_eq!(of(Some((None, 1.0)), 0.0), some(Kind::WrongValue, &none));
        assert_eq!(of(None, 0.25), None);
        let norm = "out: ‖out − reference‖ / ‖reference‖ is 5.000e-1, over 2.5e-1";
        assert_eq!(of(None, 0.5), some(Kind::RelativeNorm, norm));
        assert_eq!(of(None, NAN).map(|(kind, _)| kind), Some(Kind::RelativeNorm));
    }
}
