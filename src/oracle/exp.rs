//! The exponential function of many numbers in wide registers.

use super::wide::{Work, wide};

/// Arguments up to this size have normal results.
const MOST: f64 = 700.0;
/// ln 2 in two parts; products of the first with integers of up to 20 bits are exact.
const LN_2: [f64; 2] = [6.931_471_803_691_238e-1, 1.908_214_929_270_587_7e-10];
/// 1 / n! from n = 13 down to 2. For arguments of at most ln 2 / 2 the next term is 2^-58.
const TAYLOR: [f64; 12] = [
    1.0 / 6_227_020_800.0,
    1.0 / 479_001_600.0,
    1.0 / 39_916_800.0,
    1.0 / 3_628_800.0,
    1.0 / 362_880.0,
    1.0 / 40_320.0,
    1.0 / 5_040.0,
    1.0 / 720.0,
    1.0 / 120.0,
    1.0 / 24.0,
    1.0 / 6.0,
    0.5,
];

/// Replaces the content of `into` by the exponentials, with a relative error of at most 2 · 2^-53.
pub(super) fn exponentials(of: &[f64], into: &mut Vec<f64>) {
    into.clear();
    into.resize(of.len(), 0.0);
    wide(Exponentials { of, into });
}

struct Exponentials<'a> {
    of: &'a [f64],
    into: &'a mut [f64],
}

impl Work for Exponentials<'_> {
    type Out = ();

    #[inline(always)]
    fn run<const ROWS: usize>(self) {
        const LANES: usize = 16;
        for (of, into) in self.of.chunks(LANES).zip(self.into.chunks_mut(LANES)) {
            // A comparison with NaN is false.
            if of.iter().all(|x| x.abs() <= MOST) {
                for (x, into) in of.iter().zip(into) {
                    *into = exponential(*x);
                }
            } else {
                for (x, into) in of.iter().zip(into) {
                    *into = x.exp();
                }
            }
        }
    }
}

/// `2^k · e^r` with the integer `k` nearest to `x / ln 2`.
#[inline(always)]
fn exponential(x: f64) -> f64 {
    // Its sum with a number of this size is rounded to an integer, which the low bits hold.
    const SHIFT: f64 = 6_755_399_441_055_744.0;
    let shifted = x * std::f64::consts::LOG2_E + SHIFT;
    let k = shifted - SHIFT;
    let r = (x - k * LN_2[0]) - k * LN_2[1];
    let series = TAYLOR.iter().fold(0.0, |sum, coefficient| sum * r + coefficient);
    let power = f64::from_bits((shifted.to_bits() << 52).wrapping_add(1023 << 52));
    power * (1.0 + (r + r * r * series))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_those_of_the_system_s_library() {
        let mut of: Vec<f64> = (0..200_000).map(|at| (f64::from(at) * 0.618).sin() * 10f64.powi(at % 7 - 3)).collect();
        of.extend([
            0.0,
            -0.0,
            700.0,
            -700.0,
            -745.0,
            -800.0,
            800.0,
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
            1e-300,
        ]);
        let mut got = Vec::new();
        exponentials(&of, &mut got);
        for (x, got) in of.iter().zip(got) {
            let exact = x.exp();
            let near = (got - exact).abs() <= exact * 3.4e-16;
            assert!(near || got.to_bits() == exact.to_bits(), "{x}: {got:e}, and not {exact:e}");
        }
    }
}
