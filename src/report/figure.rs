//! Number formats. A number that is not finite is a dash, never `NaN`.

use crate::bench::{CaseBench, Residency, Spread};

/// Shown where there is no figure.
pub(crate) const NONE: &str = "–";

/// Three significant digits below a thousand, no decimals above.
fn three(value: f64) -> String {
    match value.abs() {
        size if size < 9.995 => format!("{value:.2}"),
        size if size < 99.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

fn finite(value: f64, show: impl FnOnce(f64) -> String) -> String {
    if value.is_finite() { show(value) } else { NONE.to_owned() }
}

/// Microseconds: `4.31`, `46.7`, `360`.
pub(crate) fn micros(value: f64) -> String {
    finite(value, three)
}

/// The median's microseconds; a dash if there is none.
pub(crate) fn median(spread: Option<Spread>) -> String {
    spread.map_or_else(|| NONE.to_owned(), |spread| micros(spread.median))
}

/// Microseconds with spread: `46.7 (46.3–47.7)`, in the given brackets.
pub(crate) fn spread(spread: Spread, open: char, close: char) -> String {
    let [median, p10, p90] = [spread.median, spread.p10, spread.p90].map(micros);
    format!("{median} {open}{p10}–{p90}{close}")
}

/// Megabytes (10⁶) of a number of bytes: `0.52`, `134`.
#[allow(clippy::cast_precision_loss, reason = "three digits are shown")]
pub(crate) fn megabytes(bytes: u64) -> String {
    three(bytes as f64 / 1e6)
}

/// GB/s: `2871`.
pub(crate) fn gbs(value: f64) -> String {
    finite(value, |value| format!("{value:.0}"))
}

/// A share as a percentage without its sign: 0.987 is `98.7`.
pub(crate) fn percent(share: f64) -> String {
    finite(share, |share| format!("{:.1}", share * 100.0))
}

/// A ratio: `1.77`.
pub(crate) fn times(ratio: f64) -> String {
    finite(ratio, |ratio| format!("{ratio:.2}"))
}

/// Rounds to significant digits, so that a recorded figure does not change with noise.
pub(crate) fn significant(value: f64, digits: usize) -> f64 {
    if !value.is_finite() || value == 0.0 {
        return value;
    }
    // Through text: the result is then the shortest number with these digits.
    format!("{value:.*e}", digits.saturating_sub(1)).parse().unwrap_or(value)
}

/// The share of the datasheet's bandwidth that a case reached, if the card reports its peak.
pub(crate) fn of_peak(case: &CaseBench, peak_gbs: Option<f64>) -> Option<f64> {
    peak_gbs.filter(|peak| *peak > 0.0).map(|peak| case.gbs() / peak)
}

/// The label of a case without the dtype at its end, which has its own column.
pub(crate) fn shape(case: &CaseBench) -> &str {
    case.case.strip_suffix(case.dtype.name()).map_or(case.case.as_str(), str::trim_end)
}

/// `shape` without strides, which describe a view's layout and not its size.
pub(crate) fn sizes(case: &CaseBench) -> String {
    shape(case).split(' ').filter(|word| !word.contains("_stride=")).collect::<Vec<_>>().join(" ")
}

/// `cold` or `hot`.
pub(crate) fn residency(case: &CaseBench) -> &'static str {
    match case.residency {
        Residency::Cold => "cold",
        Residency::Hot => "hot",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_the_digits_that_mean_something() {
        assert_eq!(micros(4.306), "4.31");
        assert_eq!(micros(9.996), "10.0");
        assert_eq!(micros(99.96), "100");
        assert_eq!(micros(46.71), "46.7");
        assert_eq!(micros(360.4), "360");
        assert_eq!(micros(f64::NAN), "–");
        assert_eq!(megabytes(134_225_920), "134");
        assert_eq!(percent(0.9874), "98.7");
        assert_eq!(percent(f64::INFINITY), "–");
    }

    #[test]
    #[allow(clippy::float_cmp, reason = "the same number, not one near it")]
    fn significant_digits_are_kept_and_no_more() {
        assert_eq!(significant(46.712_34, 4), 46.71);
        assert_eq!(significant(0.000_123_456, 4), 0.000_123_5);
        assert_eq!(significant(123_456.0, 4), 123_500.0);
        assert_eq!(significant(-2.0, 4), -2.0);
        assert_eq!(significant(0.0, 4), 0.0);
        assert!(significant(f64::NAN, 4).is_nan());
    }
}
