//! The contents of input tensors.

use std::sync::OnceLock;

use crate::oracle::threads::threads_for;
use crate::oracle::view::{encode, encode_all};
use crate::project::{BoundTensor, DType, Inputs, Integers};

use super::random::Random;

/// The number of normal numbers that are drawn once per process. Rows are copied from random places among them: drawing
/// each element would take most of the time of a verification.
const POOL: usize = 1 << 20;
/// Separates the seed of the places of NaN and infinity from other seeds.
const NOT_FINITE: u64 = 0x6e6f_7420_6669_6e69;

/// Writes the elements of a tensor in row-major order, without the gaps of its strides, as bytes.
///
/// Each row depends on the seed, the stream and its number alone. Tensors of one dimension (weights, scales) are always
/// normal: the distributions describe rows.
pub(crate) fn draw(tensor: &BoundTensor, inputs: Inputs, (seed, stream): (u64, u64), bytes: &mut [u8]) {
    let length = usize::try_from(tensor.shape.last().copied().unwrap_or(1)).unwrap_or(0);
    let row_bytes = length * tensor.dtype.size();
    if tensor.elements() == 0 || row_bytes == 0 {
        return;
    }
    let special = inputs == Inputs::NonFinite;
    let inputs = if tensor.shape.len() < 2 { Inputs::Normal } else { inputs };
    let fill = |first: usize, into: &mut [u8]| {
        let mut row = Vec::with_capacity(length);
        for (index, into) in into.chunks_mut(row_bytes).enumerate() {
            let number = (first + index) as u64;
            let mut random = Random::new(seed, stream.wrapping_mul(0x1_0000_0001).wrapping_add(number));
            if let Some(from) = &tensor.integers {
                row.clear();
                let unit = if tensor.dtype.is_float() { Integers::UNIT } else { 1.0 };
                row.extend((0..length).map(|_| integer(from, true, &mut random) * unit));
                within(&mut row, from, inputs, number);
            } else {
                fill(&mut row, number, length, tensor.dtype, inputs, &mut random);
            }
            encode_all(tensor.dtype, &row, into);
        }
    };
    let rows = bytes.len() / row_bytes;
    let threads = usize::try_from(threads_for(tensor.elements())).unwrap_or(1);
    if threads == 1 {
        fill(0, bytes);
    } else {
        let share = rows.div_ceil(threads);
        std::thread::scope(|scope| {
            for (piece, into) in bytes.chunks_mut(share * row_bytes).enumerate() {
                let fill = &fill;
                scope.spawn(move || fill(piece * share, into));
            }
        });
    }
    if special && tensor.dtype.is_float() {
        not_finite(bytes, tensor, length, &mut Random::new(seed ^ NOT_FINITE, stream));
    }
}

/// Puts NaN and infinity in place of one to three elements.
fn not_finite(bytes: &mut [u8], tensor: &BoundTensor, length: usize, random: &mut Random) {
    let size = tensor.dtype.size();
    let below = |random: &mut Random, bound: usize| usize::try_from(random.below(bound as u64)).unwrap_or(0);
    for _ in 0..=random.below(3) {
        let row = below(random, bytes.len() / size / length);
        // The ends of a row are likely places of errors.
        let column = match random.below(4) {
            0 => 0,
            1 => length - 1,
            _ => below(random, length),
        };
        let value = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY][below(random, 3)];
        let mut encoded = Vec::with_capacity(size);
        encode(tensor.dtype, value, &mut encoded);
        let at = (row * length + column) * size;
        bytes[at..at + size].copy_from_slice(&encoded);
    }
}

/// An integer from the range in kernel.toml; with `also`, one in eight from its list of other values. An empty range
/// gives its first number.
#[allow(clippy::cast_precision_loss, reason = "binding limits it to 2^53")]
pub(crate) fn integer(from: &Integers<i64>, also: bool, random: &mut Random) -> f64 {
    let count = from.also.len() as u64;
    if also && count > 0 && random.below(8) == 0 {
        let at = usize::try_from(random.below(count)).unwrap_or(0);
        return from.also[at] as f64;
    }
    let span = u64::try_from(from.last.saturating_sub(from.first)).unwrap_or(0);
    (from.first + random.below(span + 1).cast_signed()) as f64
}

/// Makes the elements of a row equal, or some of them or all 0 if the range contains 0.
fn within(row: &mut [f64], from: &Integers<i64>, inputs: Inputs, number: u64) {
    match inputs {
        Inputs::Constant => row.fill(row.first().copied().unwrap_or(0.0)),
        Inputs::Sparse if (from.first..=from.last).contains(&0) => {
            let zeros = row.iter_mut().enumerate().filter(|(at, _)| number % 3 == 1 || at % 3 == 0);
            zeros.for_each(|(_, value)| *value = 0.0);
        }
        _ => {}
    }
}

fn pool() -> &'static [f64] {
    static NUMBERS: OnceLock<Vec<f64>> = OnceLock::new();
    NUMBERS.get_or_init(|| {
        let mut random = Random::new(0, 0);
        (0..POOL / 2).flat_map(|_| random.normals()).collect()
    })
}

/// Draws one row.
fn fill(row: &mut Vec<f64>, index: u64, length: usize, dtype: DType, inputs: Inputs, random: &mut Random) {
    row.clear();
    if !dtype.is_float() {
        row.extend((0..length).map(|_| {
            let number = u32::try_from(random.below(2001)).unwrap_or(0);
            f64::from(number) - 1000.0
        }));
        return;
    }
    while row.len() < length {
        let start = usize::try_from(random.below(POOL as u64)).unwrap_or(0);
        let count = (length - row.len()).min(POOL - start).min(4096);
        // A random sign and scale, so that no two pieces are equal.
        let factor = (0.75 + 0.5 * random.unit()) * if random.below(2) == 0 { -1.0 } else { 1.0 };
        row.extend(pool()[start..start + count].iter().map(|number| number * factor));
    }
    // The exponents by which rows are scaled, the least and how many, and that of tiny rows, as the range of the type
    // allows.
    let (least, range, tiny) = match dtype {
        DType::F16 => (-8, 15, -14),
        DType::E5M2 => (-8, 13, -12),
        DType::E4M3 => (-4, 9, -6),
        _ => (-12, 25, -30),
    };
    match inputs {
        Inputs::Normal | Inputs::NonFinite => {}
        Inputs::Wide => {
            // f16 has exponents from -24 to 15; a row spans several around its own.
            let exponent = least + i32::try_from(random.below(range)).unwrap_or(0);
            scale(row, 2f64.powi(exponent));
        }
        Inputs::Tiny => scale(row, 2f64.powi(tiny)),
        Inputs::Sparse => replace(row, 0.0, index, random),
        Inputs::Masked => replace(row, least_number(dtype), index, random),
        Inputs::Constant => {
            let value = random.normals()[0];
            row.fill(value);
        }
        Inputs::Spike => {
            scale(row, 2f64.powi(-6));
            let at = usize::try_from(random.below(length as u64)).unwrap_or(0);
            row[at] = 64.0 + random.unit();
        }
    }
}

/// Replaces a third of the elements, and those of every third row.
fn replace(row: &mut [f64], by: f64, index: u64, random: &mut Random) {
    let whole = index % 3 == 1;
    for value in row {
        if whole || random.below(3) == 0 {
            *value = by;
        }
    }
}

/// The least finite number of a floating-point type.
fn least_number(dtype: DType) -> f64 {
    -match dtype {
        DType::F16 => 65_504.0,
        DType::BF16 => (2.0 - 2f64.powi(-7)) * 2f64.powi(127),
        DType::E4M3 => 448.0,
        DType::E5M2 => 57_344.0,
        _ => f64::from(f32::MAX),
    }
}

fn scale(row: &mut [f64], factor: f64) {
    for value in row {
        *value *= factor;
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;
    use crate::project::Role;

    fn tensor(rows: u64, width: u64, dtype: DType) -> BoundTensor {
        BoundTensor {
            name: "x".to_owned(),
            role: Role::Input,
            dtype,
            shape: vec![rows, width],
            strides: vec![width, 1],
            offset: 0,
            integers: None,
            alternatives: 1,
        }
    }

    fn drawn(tensor: &BoundTensor, inputs: Inputs, seed: u64, stream: u64) -> Vec<u8> {
        let mut bytes = vec![0; usize::try_from(tensor.elements()).unwrap() * tensor.dtype.size()];
        draw(tensor, inputs, (seed, stream), &mut bytes);
        bytes
    }

    #[test]
    fn integers_come_from_their_range_and_the_others_now_and_then() {
        let mut targets = tensor(400, 10, DType::I64);
        targets.integers = Some(Integers { first: -1, last: 6, also: vec![-100, 1 << 40] });
        let drawn: Vec<i64> = drawn(&targets, Inputs::Normal, 5, 2)
            .chunks_exact(8)
            .map(|eight| i64::from_le_bytes(eight.try_into().unwrap()))
            .collect();
        for wanted in (-1..=6).chain([-100, 1 << 40]) {
            assert!(drawn.contains(&wanted), "{wanted} was never drawn");
        }
        let others = drawn.iter().filter(|one| !(-1..=6).contains(*one));
        assert!(others.clone().all(|one| [-100, 1 << 40].contains(one)));
        assert!((300..=700).contains(&others.count()), "about one in eight");
        let mut random = Random::new(1, 1);
        let from = targets.integers.unwrap();
        assert!((0..1000).all(|_| (-1.0..=6.0).contains(&integer(&from, false, &mut random))));
        // As many classes as none.
        let none = Integers { first: 0, last: -1, also: Vec::new() };
        assert!(integer(&none, true, &mut random).abs() < 0.5);
    }

    #[test]
    fn rows_are_their_own_whatever_the_threads() {
        let few = drawn(&tensor(3, 1000, DType::F32), Inputs::Wide, 7, 1);
        let many = drawn(&tensor(300, 1000, DType::F32), Inputs::Wide, 7, 1);
        assert_eq!(few, many[..few.len()]);
        assert_ne!(few, drawn(&tensor(3, 1000, DType::F32), Inputs::Wide, 8, 1));
        assert_ne!(few, drawn(&tensor(3, 1000, DType::F32), Inputs::Wide, 7, 2));
        assert_ne!(many[..4000], many[4000..8000]);
    }

    #[test]
    fn few_elements_are_not_finite_wherever_they_lie_and_of_every_kind() {
        for dtype in [DType::F32, DType::F16, DType::BF16] {
            let (mut kinds, mut edges) = (std::collections::BTreeSet::new(), 0);
            for seed in 0..100 {
                let bytes = drawn(&tensor(40, 33, dtype), Inputs::NonFinite, seed, 0);
                let values =
                    bytes.chunks_exact(dtype.size()).map(|element| crate::oracle::view::decode(dtype, element));
                let found: Vec<(usize, f64)> = values.enumerate().filter(|(_, value)| !value.is_finite()).collect();
                assert!((1..=3).contains(&found.len()), "{dtype:?} {seed}: {found:?}");
                kinds.extend(found.iter().map(|(_, value)| value.to_string()));
                edges += found.iter().filter(|(at, _)| at % 33 == 32).count();
            }
            assert_eq!(kinds.into_iter().collect::<Vec<_>>(), ["-inf", "NaN", "inf"]);
            assert!((20..120).contains(&edges), "{edges} at the end of a row");
        }
    }

    #[test]
    fn every_distribution_is_finite_in_every_type() {
        for dtype in [DType::F32, DType::F16, DType::BF16, DType::E4M3, DType::E5M2] {
            for inputs in Inputs::ALL {
                let bytes = drawn(&tensor(40, 33, dtype), inputs, 1, 0);
                for element in bytes.chunks_exact(dtype.size()) {
                    let value = crate::oracle::view::decode(dtype, element);
                    assert!(value.is_finite(), "{dtype:?} {inputs:?}: {value}");
                }
            }
        }
    }
}
