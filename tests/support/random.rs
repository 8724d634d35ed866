//! Reproducible pseudo-random numbers.

use super::number;

/// `SplitMix64`.
pub struct Random(u64);

impl Random {
    /// Seeded by `KERNELS_TEST_SEED`, or by `otherwise`; prints the seed.
    pub fn seeded(test: &str, otherwise: u64) -> Self {
        let seed = number("KERNELS_TEST_SEED", otherwise);
        println!("{test}: KERNELS_TEST_SEED={seed}");
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        let number = self.next() % u64::try_from(limit.max(1)).unwrap();
        usize::try_from(number).unwrap()
    }

    /// One of these.
    pub fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }
}
