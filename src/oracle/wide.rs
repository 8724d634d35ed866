//! Loops over doubles, compiled for the vector registers of the processor that the program runs on. The compiler
//! neither reorders sums nor contracts products and sums to FMAs, so that the results do not depend on the register
//! width.
#![allow(unsafe_code, reason = "a function compiled for AVX is called behind a check that the processor has it")]

/// Work whose loops are faster in wide registers.
pub(crate) trait Work {
    type Out;
    /// Does the work, `ROWS` rows at a time: as many as have their sums in registers. This function is
    /// `#[inline(always)]`, and so is everything that it calls and that is to be compiled for these registers.
    fn run<const ROWS: usize>(self) -> Self::Out;
}

/// Does the work with the widest registers that the processor has.
pub(crate) fn wide<W: Work>(work: W) -> W::Out {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx512f")]
        fn avx512<W: Work>(work: W) -> W::Out {
            work.run::<4>()
        }
        #[target_feature(enable = "avx2")]
        fn avx2<W: Work>(work: W) -> W::Out {
            work.run::<2>()
        }
        if std::arch::is_x86_feature_detected!("avx512f") {
            // SAFETY: the processor has AVX-512.
            return unsafe { avx512(work) };
        }
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has AVX2.
            return unsafe { avx2(work) };
        }
    }
    work.run::<1>()
}

/// Elements that are worked on at a time. A loop over fewer is unrolled, and then compiled for single numbers.
pub(crate) const LANES: usize = 32;

/// The sum of all lanes.
#[inline(always)]
pub(crate) fn sum_of(mut lanes: [f64; LANES]) -> f64 {
    let mut half = LANES / 2;
    while half > 0 {
        let (low, high) = lanes.split_at_mut(half);
        for (sum, other) in low.iter_mut().zip(high) {
            *sum += *other;
        }
        half /= 2;
    }
    lanes[0]
}

/// Sums over the elements of two slices of equal lengths, in [`LANES`] chains.
#[inline(always)]
pub(super) fn totals<const COUNT: usize>(
    one: &[f64],
    other: &[f64],
    terms: impl Fn(f64, f64) -> [f64; COUNT],
) -> [f64; COUNT] {
    let mut lanes = [[0.0; LANES]; COUNT];
    let (ones, rest) = one.as_chunks::<LANES>();
    let (others, left) = other.as_chunks::<LANES>();
    for (ones, others) in ones.iter().zip(others) {
        for lane in 0..LANES {
            let terms = terms(ones[lane], others[lane]);
            for sum in 0..COUNT {
                lanes[sum][lane] += terms[sum];
            }
        }
    }
    let mut total = lanes.map(sum_of);
    for (one, other) in rest.iter().zip(left) {
        for (sum, term) in total.iter_mut().zip(terms(*one, *other)) {
            *sum += term;
        }
    }
    total
}
