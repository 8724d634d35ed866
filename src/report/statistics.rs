//! Statistics of small samples: how far off a mean may be, and how likely a result is by chance.

use crate::base::SplitMix64;

/// The number of resamples behind an interval.
const SAMPLES: usize = 10_000;

/// The mean; `None` without values.
#[allow(clippy::cast_precision_loss, reason = "counts of runs")]
pub(crate) fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The standard deviation of a sample; `None` for fewer than two values.
#[allow(clippy::cast_precision_loss, reason = "counts of runs")]
pub(crate) fn deviation(values: &[f64]) -> Option<f64> {
    let mean = mean(values).filter(|_| values.len() > 1)?;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Some((squares / (values.len() - 1) as f64).sqrt())
}

/// The 95 % interval of the mean by the percentile bootstrap: the same for the same seed. `None` for fewer than two values,
/// which allow no estimate.
pub(crate) fn bootstrap(values: &[f64], seed: u64) -> Option<(f64, f64)> {
    if values.len() < 2 {
        return None;
    }
    let mut random = SplitMix64(SplitMix64::mix(seed));
    let count = values.len() as u128;
    let pick = |bits: u64| values[usize::try_from((u128::from(bits) * count) >> 64).unwrap_or(0)];
    let mut means: Vec<f64> = (0..SAMPLES)
        .filter_map(|_| mean(&(0..values.len()).map(|_| pick(random.bits())).collect::<Vec<_>>()))
        .collect();
    means.sort_by(f64::total_cmp);
    let last = means.len() - 1;
    Some((means[last * 25 / 1000], means[last - last * 25 / 1000]))
}

/// The exact two-sided sign test: the probability of a split at least as uneven if both sides are equally likely. The caller
/// leaves out ties. Five of five: 0.0625.
pub(crate) fn sign_test(wins: u32, losses: u32) -> f64 {
    let (count, fewer) = (wins + losses, wins.min(losses));
    // The terms of the binomial distribution, each from the one before.
    let mut term = 0.5_f64.powi(i32::try_from(count).unwrap_or(i32::MAX));
    let mut tail = 0.0;
    for k in 0..=fewer {
        tail += term;
        term *= f64::from(count - k) / f64::from(k + 1);
    }
    (2.0 * tail).min(1.0)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::float_cmp, reason = "a test")]
mod tests {
    use super::*;

    #[test]
    fn sign_tests_are_those_of_the_tables() {
        for (wins, losses, p) in
            [(5, 0, 0.0625), (6, 0, 0.03125), (0, 0, 1.0), (1, 1, 1.0), (0, 5, 0.0625), (7, 1, 0.070_312_5)]
        {
            assert!((sign_test(wins, losses) - p).abs() < 1e-12, "{wins} {losses}: {}", sign_test(wins, losses));
        }
    }

    #[test]
    fn intervals_are_the_same_for_a_seed_and_hold_the_mean() {
        let values = [1.0, 0.0, 0.5, 1.0, 0.0, 1.0, 1.0, 0.0];
        let (low, high) = bootstrap(&values, 7).unwrap();
        assert_eq!(bootstrap(&values, 7).unwrap(), (low, high));
        let middle = mean(&values).unwrap();
        assert!(low < middle && middle < high && low >= 0.0 && high <= 1.0, "{low} {high}");
        // The normal approximation gives 0.5625 ± 0.31.
        assert!((high - low - 0.62).abs() < 0.1, "{low} {high}");
        assert_eq!(bootstrap(&[0.25; 4], 1), Some((0.25, 0.25)));
        assert_eq!(bootstrap(&[1.0], 1), None);
        assert_eq!(deviation(&[2.0, 4.0]).unwrap(), std::f64::consts::SQRT_2);
    }
}
