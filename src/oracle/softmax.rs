//! Softmax over rows: `out = exp(scale · x − max) / Σ exp(scale · x − max)`.
//!
//! An exponential magnifies errors of its argument: `e^(d + δ) = e^d (1 + δ)`. The argument that counts is the distance
//! from the row's maximum, `d = scale · (x − max)`, and its rounding is relative to `|d|`. A kernel that rounds `scale · x`
//! before it subtracts the maximum has larger errors than necessary where the logits are large.

use super::arguments::Arguments;
use super::rounding::FP32;
use super::wide::totals;
use super::{Expected, Oracle, Tensors};

/// The error of an exponential's argument, in half-ulps of fp32, relative to its distance from the maximum: one each
/// for the difference or product, the product with log2(e), the constant log2(e), and a maximum of only a part of the
/// row.
pub(super) const ARGUMENT: f64 = 4.0;
/// The error of a term, in half-ulps of fp32, relative to the term: the GPU's approximate exponential (4: 2^-22),
/// another one that rescales from a part's maximum to the row's (4), and a product (2).
pub(super) const EXPONENTIAL: f64 = 10.0;
/// The absolute error of flushing exponentials in the subnormal range of fp32 to zero.
pub(super) const UNDERFLOW: f64 = f32::MIN_POSITIVE as f64;

/// The sum of a row's exponentials.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowSum {
    /// The largest argument.
    pub(crate) max: f64,
    /// Σ exp(argument − max).
    pub(crate) sum: f64,
    /// The relative error that `sum` may have.
    pub(crate) error: f64,
}

impl RowSum {
    /// Of `scale · x` over a row, which becomes the distances from the maximum, with their exponentials.
    #[allow(clippy::cast_precision_loss)]
    pub(super) fn of(row: &mut [f64], scale: f64, exponentials: &mut Vec<f64>) -> Self {
        let max = row.iter().fold(f64::NEG_INFINITY, |most, x| most.max(scale * x));
        for x in row.iter_mut() {
            *x = scale * *x - max;
        }
        super::exp::exponentials(row, exponentials);
        // A term of 0 adds no error; for -inf the product would be NaN.
        let [sum, distance] = totals(exponentials, row, |e, d| [e, if e > 0.0 { e * d.abs() } else { 0.0 }]);
        // The errors of the terms, weighted, and that of the sum. A plain loop is allowed; its n/2 half-ulps of
        // rounding partly cancel on average.
        let adding = (row.len() as f64).min(4096.0) / 4.0;
        Self { max, sum, error: (EXPONENTIAL + ARGUMENT * distance / sum + adding) * FP32 }
    }
}

/// The oracle of one case.
#[derive(Debug)]
pub(super) struct Softmax {
    scale: f64,
    rows: u64,
}

impl Softmax {
    /// Needs the tensors `out` and `x`; takes the value `scale`.
    pub(super) fn new(given: &Arguments) -> anyhow::Result<Self> {
        Ok(Self { scale: given.float_or("scale", 1.0), rows: given.tensor_like("x", &["out"])?.rows() })
    }
}

impl Oracle for Softmax {
    fn outputs(&self) -> Vec<String> {
        vec!["out".to_owned()]
    }

    fn rows(&self, _output: usize) -> u64 {
        self.rows
    }

    fn row(&self, tensors: &Tensors, _output: usize, row: u64, expected: &mut Expected) {
        expected.clear();
        let Some(mut distances) = tensors.row("x", row) else {
            return;
        };
        let total = RowSum::of(&mut distances, self.scale, &mut expected.values);
        for (value, d) in expected.values.iter_mut().zip(&distances) {
            *value /= total.sum;
            // The exponential, the sum, the GPU's approximate reciprocal (2) and the product with it (2).
            let error = (EXPONENTIAL + ARGUMENT * d.abs() + 4.0) * FP32 + total.error;
            expected.slack.push(UNDERFLOW + if *value > 0.0 { *value * error } else { 0.0 });
        }
    }
}
