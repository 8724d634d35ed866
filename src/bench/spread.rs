//! Statistics of repeated timings.

use super::result::Spread;

/// The spread, (p90 − p10) / median, above which samples are unsteady.
const UNSTEADY: f64 = 0.15;

impl Spread {
    /// The spread of samples in microseconds; zeros if there are none.
    pub fn of(samples: &[f64]) -> Self {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        Self {
            median: quantile(&sorted, 0.5),
            p10: quantile(&sorted, 0.1),
            p90: quantile(&sorted, 0.9),
            min: sorted.first().copied().unwrap_or(0.0),
            samples: u32::try_from(sorted.len()).unwrap_or(u32::MAX),
        }
    }

    /// (p90 − p10) / median.
    pub(crate) fn relative(&self) -> f64 {
        (self.p90 - self.p10) / self.median
    }

    /// A remark if the spread is too large.
    pub(super) fn unsteady(&self, what: &str) -> Option<String> {
        let spread = self.relative();
        (spread > UNSTEADY).then(|| format!("{what} is unsteady: spread {:.0} %", 100.0 * spread))
    }
}

/// Times per launch, from times of graphs with `launches` launches.
pub(super) fn per_launch(times: &[f64], launches: u32) -> Vec<f64> {
    times.iter().map(|time| time / f64::from(launches)).collect()
}

/// A quantile of sorted numbers, interpolated linearly.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn quantile(sorted: &[f64], share: f64) -> f64 {
    if sorted.is_empty() {
        return 0.0;
    }
    let place = share * (sorted.len() - 1) as f64;
    let (low, high) = (place.floor() as usize, place.ceil() as usize);
    sorted[low] + (sorted[high] - sorted[low]) * (place - place.floor())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_lie_between_the_samples() {
        let spread = Spread::of(&[4.0, 1.0, 3.0, 2.0]);
        assert_eq!((spread.median, spread.min, spread.samples), (2.5, 1.0, 4));
        assert!((spread.p10 - 1.3).abs() < 1e-12 && (spread.p90 - 3.7).abs() < 1e-12);
        let thirds = Spread::of(&[1.0, 2.0, 3.0]);
        assert!((thirds.p10 - 1.2).abs() < 1e-12 && (thirds.p90 - 2.8).abs() < 1e-12);
        let one = Spread::of(&[7.0]);
        assert_eq!((one.p10, one.median, one.p90), (7.0, 7.0, 7.0));
    }

    #[test]
    fn samples_are_unsteady_above_a_spread_of_15_percent() {
        let spread = |p10, p90| Spread { median: 10.0, p10, p90, min: p10, samples: 9 };
        assert!((spread(9.0, 11.5).relative() - 0.25).abs() < 1e-12);
        assert_eq!(spread(9.0, 10.4).unsteady("x"), None);
        assert_eq!(Spread { median: 1.0, ..spread(0.0, 0.15) }.unsteady("x"), None);
        assert_eq!(spread(9.0, 11.5).unsteady("x").as_deref(), Some("x is unsteady: spread 25 %"));
        assert_eq!(per_launch(&[6.0, 9.0], 3), [2.0, 3.0]);
    }
}
