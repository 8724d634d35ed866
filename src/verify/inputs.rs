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
        BoundTensor::of(("x", Role::Input), dtype, ([rows, width], [width, 1]))
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
        // Several threads, where there are several cores.
        assert_eq!(many, drawn(&tensor(2003, 1000, DType::F32), Inputs::Wide, 7, 1)[..many.len()]);
        let last = &drawn(&tensor(2003, 1000, DType::F32), Inputs::Wide, 7, 1)[2002 * 4000..];
        assert_eq!(last, &drawn(&tensor(2403, 1000, DType::F32), Inputs::Wide, 7, 1)[2002 * 4000..2003 * 4000]);
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

    /// The rows of a tensor of 90 rows of 64 elements, as numbers.
    fn rows(dtype: DType, inputs: Inputs) -> Vec<Vec<f64>> {
        let tensor = tensor(90, 64, dtype);
        let bytes = drawn(&tensor, inputs, 3, 1);
        let row =
            |row: &[u8]| row.chunks_exact(dtype.size()).map(|one| crate::oracle::view::decode(dtype, one)).collect();
        bytes.chunks_exact(64 * dtype.size()).map(row).collect()
    }

    #[allow(clippy::cast_precision_loss, reason = "few")]
    fn size(row: &[f64]) -> f64 {
        (row.iter().map(|x| x * x).sum::<f64>() / row.len() as f64).sqrt()
    }

    #[test]
    fn rows_have_the_sizes_of_their_distribution() {
        for (dtype, least, most, tiny) in [
            (DType::F32, -12, 12, -30),
            (DType::BF16, -12, 12, -30),
            (DType::F16, -8, 6, -14),
            (DType::E5M2, -8, 4, -12),
            (DType::E4M3, -4, 4, -6),
        ] {
            let normal = rows(dtype, Inputs::Normal);
            assert!(normal.iter().all(|row| (0.4..2.0).contains(&size(row))), "{dtype:?}");
            let negative = normal.iter().flatten().filter(|x| **x < 0.0).count();
            assert!((2600..3160).contains(&negative), "{dtype:?}: {negative} of 5760");
            let wide = rows(dtype, Inputs::Wide);
            let exponents: Vec<f64> = wide.iter().map(|row| size(row).log2()).collect();
            let (low, high) = exponents.iter().fold((99.0, -99.0), |(low, high), x| (x.min(low), x.max(high)));
            let (least, most) = (f64::from(least), f64::from(most));
            assert!(low > least - 1.5 && low < least + 2.0, "{dtype:?}: {low}");
            assert!(high < most + 1.5 && high > most - 2.0, "{dtype:?}: {high}");
            let all = rows(dtype, Inputs::Tiny);
            assert!(all.iter().all(|row| (size(row).log2() - f64::from(tiny)).abs() < 1.6), "{dtype:?}");
        }
    }

    #[test]
    fn rows_have_the_elements_of_their_distribution() {
        for (inputs, by) in [(Inputs::Sparse, 0.0), (Inputs::Masked, -f64::from(f32::MAX))] {
            let replaced = |row: &Vec<f64>| row.iter().filter(|x| x.total_cmp(&by).is_eq()).count();
            let counts: Vec<usize> = rows(DType::F32, inputs).iter().map(replaced).collect();
            assert!(counts.iter().skip(1).step_by(3).all(|count| *count == 64), "{inputs:?}: {counts:?}");
            let others: Vec<usize> = counts.chunks(3).flat_map(|three| [three[0], three[2]]).collect();
            assert!(others.iter().all(|count| (5..45).contains(count)), "{inputs:?}: {counts:?}");
            let sum: usize = others.iter().sum();
            assert!((60 * 64 / 4..60 * 64 / 2).contains(&sum), "{inputs:?}: a third, not {sum}");
        }
        for (dtype, least) in [
            (DType::F16, -65_504.0),
            (DType::BF16, -3.389_531_389_251_535e38),
            (DType::E4M3, -448.0),
            (DType::E5M2, -57_344.0),
        ] {
            let masked = rows(dtype, Inputs::Masked);
            assert!((masked[1][0] / least - 1.0).abs() < 1e-9, "{dtype:?}: {}", masked[1][0]);
        }
        let constant = rows(DType::F32, Inputs::Constant);
        assert!(constant.iter().all(|row| row.iter().all(|x| x.total_cmp(&row[0]).is_eq())));
        assert!(constant.windows(2).all(|two| two[0][0].total_cmp(&two[1][0]).is_ne()));
        let place = |row: &Vec<f64>| row.iter().position(|x| (64.0..65.0).contains(x));
        let spiked = rows(DType::F32, Inputs::Spike);
        let places: std::collections::BTreeSet<_> = spiked.iter().map(|row| place(row).unwrap()).collect();
        assert!(places.len() > 30, "{places:?}");
        assert!(spiked.iter().all(|row| row.iter().filter(|x| x.abs() > 0.5).count() == 1));
    }

    #[test]
    fn integers_without_a_range_are_from_minus_1000_to_1000() {
        let drawn = drawn(&tensor(90, 64, DType::I64), Inputs::Normal, 5, 2);
        let all: Vec<i64> = drawn.chunks_exact(8).map(|eight| i64::from_le_bytes(eight.try_into().unwrap())).collect();
        assert!((-1000..-990).contains(all.iter().min().unwrap()) && (991..=1000).contains(all.iter().max().unwrap()));
    }

    #[test]
    fn integers_of_a_range_are_constant_or_zero_as_the_distribution_says() {
        let of = |first, inputs| {
            let mut tensor = tensor(90, 64, DType::F32);
            tensor.integers = Some(Integers { first, last: first + 7, also: Vec::new() });
            let bytes = drawn(&tensor, inputs, 5, 2);
            let unit = |four: &[u8]| f64::from(f32::from_le_bytes(four.try_into().unwrap())) / Integers::UNIT;
            let all: Vec<f64> = bytes.chunks_exact(4).map(unit).collect();
            all.chunks_exact(64).map(<[f64]>::to_vec).collect::<Vec<_>>()
        };
        let zeros = |row: &Vec<f64>| row.iter().filter(|x| x.abs() < 0.5).count();
        // Floating-point tensors have them in small units.
        let plain = of(1, Inputs::Normal);
        assert!(plain.iter().flatten().all(|x| (0.9..8.1).contains(x) && (x - x.round()).abs() < 1e-6));
        assert!(of(1, Inputs::Constant).iter().all(|row| row.iter().all(|x| x.total_cmp(&row[0]).is_eq())));
        // 0 only where it is in the range.
        assert!(of(1, Inputs::Sparse).iter().all(|row| zeros(row) == 0));
        let sparse = of(0, Inputs::Sparse);
        assert!(sparse.iter().skip(1).step_by(3).all(|row| zeros(row) == 64));
        assert!(sparse.iter().step_by(3).all(|row| (22..45).contains(&zeros(row)) && row[0].abs() < 0.5));
    }

    #[test]
    fn a_long_row_is_of_pieces_of_both_signs_and_several_sizes() {
        let bytes = drawn(&tensor(4, 40_000, DType::F32), Inputs::Normal, 5, 2);
        let all: Vec<f64> =
            bytes.chunks_exact(4).map(|four| f64::from(f32::from_le_bytes(four.try_into().unwrap()))).collect();
        let sizes: Vec<f64> = all.chunks_exact(40_000).flat_map(|row| row.chunks_exact(4096).map(size)).collect();
        let (low, high) = sizes.iter().fold((9.0f64, 0.0f64), |(low, high), x| (low.min(*x), high.max(*x)));
        assert!(low > 0.7 && low < 0.9 && high > 1.1 && high < 1.3, "{sizes:?}");
        // A piece that comes again does so with another sign or scale: no number is there twice as often as by chance.
        let distinct: std::collections::BTreeSet<u64> = all.iter().map(|x| x.to_bits()).collect();
        assert!(distinct.len() * 100 > all.len() * 95, "{}", distinct.len());
    }

    /// A seed that a report names gives the inputs of that report.
    #[test]
    fn a_seed_gives_the_same_inputs_on_every_machine() {
        let fold = |sum: u64, byte: &u8| crate::base::SplitMix64::mix(sum ^ u64::from(*byte));
        let sums = Inputs::ALL.into_iter().chain([Inputs::NonFinite]).map(|inputs| {
            let of = |dtype| drawn(&tensor(40, 33, dtype), inputs, 1, 5);
            let types = [DType::BF16, DType::F16, DType::E4M3, DType::E5M2, DType::I64];
            let sum = types.into_iter().flat_map(of).collect::<Vec<u8>>().iter().fold(0, fold);
            format!("{inputs:?} {:08x}", sum >> 32)
        });
        let known = [
            "Normal 7c2cd3c8",
            "Wide 452ffa40",
            "Tiny fe71ee56",
            "Sparse 6319a744",
            "Constant ace01b0b",
            "Spike 8b28b1bd",
            "Masked 71c4aa87",
            "NonFinite c3d320d5",
        ];
        assert_eq!(sums.collect::<Vec<_>>(), known);
    }

    #[test]
    fn a_vector_is_normal_whatever_the_distribution_of_rows() {
        let mut vector = tensor(1, 512, DType::F32);
        (vector.shape, vector.strides) = (vec![512], vec![1]);
        let normal = drawn(&vector, Inputs::Normal, 3, 1);
        for inputs in [Inputs::Constant, Inputs::Masked, Inputs::Tiny] {
            assert_eq!(drawn(&vector, inputs, 3, 1), normal, "{inputs:?}");
        }
    }
}
