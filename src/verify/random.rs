//! Pseudo-random numbers for inputs: fast, and the same on every machine for the same seed.

use crate::base::SplitMix64;

/// A generator of floating-point numbers and small integers.
#[derive(Clone, Debug)]
pub(crate) struct Random(SplitMix64);

impl Random {
    /// A sequence for each pair of seed and stream.
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        let mut mixed = Self(SplitMix64(seed ^ stream.wrapping_mul(0xd134_2543_de82_ef95)));
        mixed.bits();
        mixed
    }

    /// A sequence that nobody can compute from what is drawn elsewhere.
    pub(crate) fn unforeseen() -> Self {
        Self::new(system_word(), 0)
    }

    /// 64 random bits.
    pub(crate) fn bits(&mut self) -> u64 {
        self.0.bits()
    }

    /// An integer below `bound`, which is not zero.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        // The high half of the product, with a bias below bound / 2^64.
        u64::try_from((u128::from(self.bits()) * u128::from(bound)) >> 64).unwrap_or(0)
    }

    /// Puts items into a random order.
    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = usize::try_from(self.below(last as u64 + 1)).unwrap_or(last);
            items.swap(last, other);
        }
    }

    /// Uniform in (0, 1].
    #[allow(clippy::cast_precision_loss)]
    pub(crate) fn unit(&mut self) -> f64 {
        ((self.bits() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    /// Two independent standard normals (Box and Muller).
    pub(crate) fn normals(&mut self) -> [f64; 2] {
        let radius = (-2.0 * self.unit().ln()).sqrt();
        let (sine, cosine) = (std::f64::consts::TAU * self.unit()).sin_cos();
        [radius * cosine, radius * sine]
    }
}

/// 64 bits of the system's random numbers.
pub(crate) fn system_word() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}

/// A new seed of nine digits, short enough to type. A launch could try all of them: what it must not know is drawn otherwise.
pub(crate) fn fresh_seed() -> u64 {
    system_word() % 1_000_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_and_a_stream_give_the_same_numbers_on_every_machine() {
        let mut random = Random::new(7, 3);
        assert_eq!([(); 4].map(|()| random.below(1000)), [994, 339, 220, 698]);
        assert_eq!(random.unit().to_bits(), 0x3fd8_aade_7640_bdbe);
        let [one, other] = random.normals();
        assert!((one - 0.983_468_872_839_758_5).abs() < 1e-14 && (other + 0.213_053_328_936_844_7).abs() < 1e-14);
        assert_ne!(Random::new(7, 4).bits(), Random::new(7, 3).bits());
        assert_ne!(Random::new(8, 3).bits(), Random::new(7, 3).bits());
    }

    #[test]
    fn every_order_of_three_is_drawn_about_as_often() {
        let mut counts = std::collections::BTreeMap::<_, u32>::new();
        for seed in 0..600 {
            let mut items = [1, 2, 3];
            Random::new(seed, 0).shuffle(&mut items);
            *counts.entry(items).or_default() += 1;
        }
        assert!(counts.len() == 6 && counts.values().all(|count| (60..140).contains(count)), "{counts:?}");
    }

    #[test]
    fn normal_numbers_are_so_in_both_directions() {
        let mut random = Random::new(1, 1);
        for place in 0..2 {
            let all: Vec<f64> = (0..10_000).map(|_| random.normals()[place]).collect();
            let mean = all.iter().sum::<f64>() / 1e4;
            let square = all.iter().map(|one| one * one).sum::<f64>() / 1e4;
            assert!(mean.abs() < 0.05 && (square - 1.0).abs() < 0.05, "{mean} {square}");
        }
    }

    #[test]
    fn a_fresh_seed_is_another_each_time_and_has_nine_digits_at_most() {
        let seeds: std::collections::BTreeSet<u64> = (0..50).map(|_| fresh_seed()).collect();
        assert!(seeds.len() > 45 && seeds.iter().all(|seed| *seed < 1_000_000_000), "{seeds:?}");
    }
}
