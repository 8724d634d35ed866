//! Inputs of timed launches: the numbers that `gpu/contents.cu` draws on the card, computed on the host. Half of the normal inputs
//! of a verification are drawn like this as well, so that no kernel can tell from them that it is timed.

use crate::base::SplitMix64;
use crate::gpu::contents::Content;
use crate::oracle::threads::threads_for;
use crate::oracle::view::encode_all;
use crate::oracle::wide::{Work, wide};
use crate::project::{BoundTensor, DType, Integers};

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// What tensor number `index` contains in the round with this seed.
pub(crate) fn content(tensor: &BoundTensor, index: usize, round: u64) -> Content {
    let kind = match tensor.dtype {
        DType::BF16 => 0,
        DType::F16 => 1,
        DType::F32 => 2,
        DType::E4M3 => 3,
        DType::E5M2 => 4,
        DType::I32 | DType::I64 | DType::I8 | DType::U8 | DType::Bool => 5,
    };
    // An empty range gives its first number, as in verification.
    let (first, count) = tensor
        .integers
        .as_ref()
        .map_or((0, 0), |from| (from.first, u64::try_from(from.last.saturating_sub(from.first)).unwrap_or(0) + 1));
    Content::Drawn { kind, seed: SplitMix64::mix(round ^ (index as u64 + 1).wrapping_mul(GOLDEN)), first, count }
}

/// The tensor without its dimensions of stride 0, along which all elements are the same memory.
pub(crate) fn distinct(tensor: &BoundTensor) -> BoundTensor {
    let mut distinct = tensor.clone();
    let kept = |place: &usize| tensor.strides[*place] != 0 || tensor.shape[*place] == 0;
    let places: Vec<usize> = (0..tensor.shape.len()).filter(kept).collect();
    distinct.shape = places.iter().map(|place| tensor.shape[*place]).collect();
    distinct.strides = places.iter().map(|place| tensor.strides[*place]).collect();
    distinct
}

/// Writes the bytes of a tensor's elements in a slot, in row-major order without gaps.
pub(crate) fn drawn(tensor: &BoundTensor, content: Content, slot: u32, bytes: &mut [u8]) {
    let Content::Drawn { seed, first, count, .. } = content else { return };
    let key = SplitMix64::mix(seed.wrapping_add(u64::from(slot)));
    let size = tensor.dtype.size();
    let threads = usize::try_from(threads_for(tensor.elements())).unwrap_or(1);
    let share = (bytes.len() / size).div_ceil(threads).max(1);
    let is_float = tensor.dtype.is_float();
    let number = |bits: u64| {
        let high = || u64::try_from((u128::from(bits) * u128::from(count)) >> 64).unwrap_or(0);
        let drawn = match count {
            0 => i64::from(normal(bits) >> 12),
            _ => first.wrapping_add(high().cast_signed()),
        };
        #[allow(clippy::cast_precision_loss, reason = "binding limits it to 2^53")]
        let exact = drawn as f64;
        // The card converts to fp32 before it rounds to a shorter type.
        #[allow(clippy::cast_possible_truncation, reason = "as the card does")]
        if is_float { f64::from(exact as f32) * Integers::UNIT } else { exact }
    };
    let fill = |first: usize, into: &mut [u8]| {
        // A part at a time, which the nearest cache holds.
        let mut exact = [0.0; 512];
        for (part, into) in into.chunks_mut(exact.len() * size).enumerate() {
            let first = (first + part * exact.len()) as u64;
            let exact = &mut exact[..into.len() / size];
            if is_float && count == 0 {
                wide(Normals { key, first, into: exact });
            } else {
                for (element, exact) in (first..).zip(&mut *exact) {
                    *exact = number(bits_of(key, element));
                }
            }
            encode_all(tensor.dtype, exact, into);
        }
    };
    if threads == 1 {
        fill(0, bytes);
        return;
    }
    std::thread::scope(|scope| {
        for (piece, into) in bytes.chunks_mut(share * size).enumerate() {
            let fill = &fill;
            scope.spawn(move || fill(piece * share, into));
        }
    });
}

/// The random bits of an element.
#[inline(always)]
fn bits_of(key: u64, element: u64) -> u64 {
    SplitMix64::mix(key.wrapping_add(element.wrapping_mul(GOLDEN)))
}

/// Normal numbers for elements from `first` on.
struct Normals<'a> {
    key: u64,
    first: u64,
    into: &'a mut [f64],
}

impl Work for Normals<'_> {
    type Out = ();

    #[inline(always)]
    fn run<const ROWS: usize>(self) {
        for (index, into) in self.into.iter_mut().enumerate() {
            *into = f64::from(normal(bits_of(self.key, self.first + index as u64))) * Integers::UNIT;
        }
    }
}

/// An integer of 23 bits, which fp32 represents exactly, nearly normally distributed with a standard deviation of 0.82 · 2^20.
#[inline(always)]
#[allow(clippy::cast_possible_truncation, reason = "the results of the shifts have 16 and 12 bits")]
fn normal(bits: u64) -> i32 {
    // The sum of the eight bytes: of neighbours, and of all pairs in the highest of four products.
    let pairs = (bits & 0x00ff_00ff_00ff_00ff) + (bits >> 8 & 0x00ff_00ff_00ff_00ff);
    let sum = (pairs.wrapping_mul(0x0001_0001_0001_0001) >> 48) as i32;
    let fraction = (bits.wrapping_mul(GOLDEN) >> 52) as i32;
    (sum - 1020) * 4096 + fraction - 2048
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;
    use crate::project::Role;

    fn tensor(dtype: DType, integers: Option<Integers<i64>>) -> BoundTensor {
        BoundTensor { integers, ..BoundTensor::of(("x", Role::Input), dtype, ([100, 3, 100], [100, 0, 1])) }
    }

    fn values(tensor: &BoundTensor, round: u64, slot: u32) -> Vec<f64> {
        let mut bytes = vec![0; usize::try_from(tensor.elements()).unwrap() * tensor.dtype.size()];
        drawn(tensor, content(tensor, 0, round), slot, &mut bytes);
        bytes.chunks_exact(tensor.dtype.size()).map(|one| crate::oracle::view::decode(tensor.dtype, one)).collect()
    }

    #[test]
    fn numbers_are_normal_and_differ_by_round_slot_and_tensor() {
        for dtype in [DType::F32, DType::F16, DType::BF16] {
            let all = values(&distinct(&tensor(dtype, None)), 7, 3);
            assert_eq!(all.len(), 10_000, "a dimension of stride 0 has no memory of its own");
            let count = 10_000.0;
            let mean: f64 = all.iter().sum::<f64>() / count;
            let square = all.iter().map(|value| value * value).sum::<f64>() / count;
            assert!(mean.abs() < 0.03 && (square.sqrt() - 0.82).abs() < 0.03, "{mean} {square}");
            let same = |other: Vec<f64>| all.iter().zip(other).filter(|(a, b)| (*a - b).abs() < 1e-9).count();
            assert!(same(values(&distinct(&tensor(dtype, None)), 8, 3)) < 100);
            assert!(same(values(&distinct(&tensor(dtype, None)), 7, 4)) < 100);
        }
    }

    #[test]
    fn an_element_depends_on_its_place_alone_however_many_there_are() {
        // Several threads, where there are several cores, and parts of other sizes.
        let of = |elements| {
            let tensor = BoundTensor::of(("x", Role::Input), DType::F16, ([elements], [1]));
            let mut bytes = vec![0; usize::try_from(elements).unwrap() * 2];
            drawn(&tensor, content(&tensor, 0, 7), 3, &mut bytes);
            bytes
        };
        let (few, many, more) = (of(5000), of(1 << 20), of(5 << 18));
        assert!(many[..few.len()] == few && more[..many.len()] == many);
    }

    #[test]
    fn every_tensor_and_round_has_a_seed_of_its_own() {
        let seed = |index, round| match content(&tensor(DType::F32, None), index, round) {
            Content::Drawn { seed, .. } => seed,
            Content::Word(_) => 0,
        };
        assert_eq!(seed(0, 7), SplitMix64::mix(7 ^ GOLDEN));
        assert_eq!(seed(2, u64::MAX), SplitMix64::mix(!GOLDEN.wrapping_mul(3)));
    }

    #[test]
    fn integers_are_of_their_range() {
        let from = Integers { first: -2, last: 5, also: vec![99] };
        let all = values(&distinct(&tensor(DType::I64, Some(from))), 1, 0);
        assert!((-2..=5).all(|wanted| all.contains(&f64::from(wanted))));
        assert!(all.iter().all(|one| (-2.0..=5.0).contains(one)));
        let empty = Integers { first: 4, last: 3, also: Vec::new() };
        assert!(values(&tensor(DType::I32, Some(empty)), 1, 0).iter().all(|one| (one - 4.0).abs() < 0.5));
    }
}
