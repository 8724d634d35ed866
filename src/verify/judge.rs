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
