//! Softmax over rows: `out = exp(scale · x − max) / Σ exp(scale · x − max)`.
//!
//! An exponential magnifies errors of its argument: `e^(d + δ) = e^d (1 + δ)`. The argument that counts is the distance
//! from the row's maximum, `d = scale · (x − max)`, and its rounding is relative to `|d|`. A kernel that rounds `scale · x`
//! before it subtracts the maximum has larger errors than necessary where the logits are large.

use super::arguments::Arguments;
use super::rounding::FP32;
use super::wide::{LANES, Work, totals, wide};
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
        let max = wide(Distances { row, scale });
        super::exp::exponentials(row, exponentials);
        let [sum, distance] = wide(Weighted { exponentials, distances: row });
        // The errors of the terms, weighted, and that of the sum. A plain loop is allowed; its n/2 half-ulps of
        // rounding partly cancel on average.
        let adding = (row.len() as f64).min(4096.0) / 4.0;
        Self { max, sum, error: (EXPONENTIAL + ARGUMENT * distance / sum + adding) * FP32 }
    }
}

/// Makes a row of numbers the distances of their products with `scale` from the largest, and returns that.
struct Distances<'a> {
    row: &'a mut [f64],
    scale: f64,
}

impl Work for Distances<'_> {
    type Out = f64;

    #[inline(always)]
    fn run<const ROWS: usize>(self) -> f64 {
        let Self { row, scale } = self;
        let mut most = [f64::NEG_INFINITY; LANES];
        let (groups, rest) = row.as_chunks::<LANES>();
        for group in groups {
            for lane in 0..LANES {
                most[lane] = most[lane].max(scale * group[lane]);
            }
        }
        let max = most.into_iter().chain(rest.iter().map(|x| scale * x)).fold(f64::NEG_INFINITY, f64::max);
        for x in row {
            *x = scale * *x - max;
        }
        max
    }
}

/// The sums of exponentials, and of their products with the magnitudes of their arguments.
struct Weighted<'a> {
    exponentials: &'a [f64],
    distances: &'a [f64],
}

impl Work for Weighted<'_> {
    type Out = [f64; 2];

    #[inline(always)]
    fn run<const ROWS: usize>(self) -> [f64; 2] {
        // A term of 0 adds no error; for -inf the product would be NaN.
        totals(self.exponentials, self.distances, |e, d| [e, if e > 0.0 { e * d.abs() } else { 0.0 }])
    }
}

/// Divides exponentials by their sum, and adds their slacks.
struct Divide<'a> {
    total: RowSum,
    distances: &'a [f64],
    expected: &'a mut Expected,
}

impl Work for Divide<'_> {
    type Out = ();

    #[inline(always)]
    fn run<const ROWS: usize>(self) {
        let Self { total, distances, expected } = self;
        expected.slack.resize(distances.len(), 0.0);
        for ((value, slack), d) in expected.values.iter_mut().zip(&mut expected.slack).zip(distances) {
            *value /= total.sum;
            // The exponential, the sum, the GPU's approximate reciprocal (2) and the product with it (2).
            let error = (EXPONENTIAL + ARGUMENT * d.abs() + 4.0) * FP32 + total.error;
            *slack = UNDERFLOW + if *value > 0.0 { *value * error } else { 0.0 };
        }
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
        wide(Divide { total, distances: &distances, expected });
    }
}
