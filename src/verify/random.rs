//! Random numbers for inputs: fast, the same on every machine for the same seed, of no use for secrets.

/// A generator (`SplitMix64`: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// From a seed and a stream number, so that every tensor has numbers of its own.
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut mixed = Self(seed ^ stream.wrapping_mul(0xd134_2543_de82_ef95));
        mixed.bits();
        mixed
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// An integer under `bound`, which is not zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        // The high half of the product: the bias is under bound / 2^64.
        u64::try_from((u128::from(self.bits()) * u128::from(bound)) >> 64).unwrap_or(0)
    }

    /// Uniform in (0, 1].
    #[allow(clippy::cast_precision_loss)]
    pub fn unit(&mut self) -> f64 {
        ((self.bits() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    /// Two independent standard normals (Box and Muller).
    pub fn normals(&mut self) -> [f64; 2] {
        let radius = (-2.0 * self.unit().ln()).sqrt();
        let (sine, cosine) = (std::f64::consts::TAU * self.unit()).sin_cos();
        [radius * cosine, radius * sine]
    }
}

/// A seed that differs every time.
pub fn fresh_seed() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    // Short enough to be typed again.
    std::collections::hash_map::RandomState::new()
        .build_hasher()
        .finish()
        % 1_000_000_000
}
