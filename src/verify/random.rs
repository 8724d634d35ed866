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
