//! Root-mean-square normalisation, alone and after a residual add.
//!
//! `out = x · rsqrt(mean(x²) + eps) · (weight + weight_offset)`, per row of the last dimension. Without `weight` the
//! factor is 1. `weight_offset` is 1 in Gemma. With `round_first` the normalised value is rounded to the element type
//! before it is multiplied, as transformers' Llama and Qwen modules do (`LlamaRMSNorm.forward`).
//! With the add, `sum = x + residual` is rounded and stored, and the norm is of the stored values.

use super::arguments::Arguments;
use super::rounding::{FP32, Grid};
use super::wide::{Work, totals, wide};
use super::{Expected, Oracle, Tensors};
use crate::project::DType;

/// The norm of a row, which the oracles of other operations use as well.
#[derive(Debug)]
pub(super) struct Norm {
    eps: f64,
    round_first: bool,
    /// What each column is multiplied by.
    factors: Vec<f64>,
    /// The relative error of fp32 arithmetic over a row.
    arithmetic: f64,
}

impl Norm {
    /// For rows of `width` elements. Needs the value `eps`; takes the tensor `weight`, and the values `weight_offset` and
    /// `round_first`.
    pub(super) fn new(given: &Arguments, weight: &str, width: u64) -> anyhow::Result<Self> {
        let mut factors = vec![1.0; usize::try_from(width)?];
        if let Some(weight) = given.vector(weight, width)? {
            weight.row(0, &mut factors);
            let offset = given.float_or("weight_offset", 0.0);
            for factor in &mut factors {
                *factor += offset;
            }
        }
        #[allow(clippy::cast_precision_loss)]
        let terms = width.min(4096) as f64;
        Ok(Self {
            eps: given.float("eps")?,
            round_first: given.flag("round_first"),
            factors,
            // A plain loop over n squares is allowed. Its roundings add up to at most n/2 half-ulps, and the root
            // halves relative errors; above some thousand elements no kernel sums in one chain.
            arithmetic: (8.0 + terms / 8.0) * FP32,
        })
    }

    /// Normalises the values in place, and sets their slacks.
    pub(super) fn apply(&self, dtype: DType, values: &mut [f64], slack: &mut Vec<f64>) {
        slack.clear();
        slack.resize(values.len(), 0.0);
        wide(Apply { norm: self, grid: Grid::of(dtype), values, slack });
    }
}

/// The norm of one row.
struct Apply<'a> {
    norm: &'a Norm,
    grid: Grid,
    values: &'a mut [f64],
    slack: &'a mut [f64],
}

impl Work for Apply<'_> {
    type Out = ();

    #[inline(always)]
    #[allow(clippy::cast_precision_loss)]
    fn run<const ROWS: usize>(self) {
        let Self { norm, grid, values, slack } = self;
        let [squares] = totals(values, values, |v, _| [v * v]);
        let inverse = 1.0 / (squares / values.len() as f64 + norm.eps).sqrt();
        let each = values.iter_mut().zip(slack).zip(&norm.factors);
        let finish = |normed: f64, slack: f64, factor: f64| {
            let value = normed * factor;
            (value, slack * factor.abs() + value.abs() * 2.0 * FP32)
        };
        if norm.round_first {
            for ((value, slack), factor) in each {
                let normed = *value * inverse;
                let (normed, off) = grid.round_within(normed, normed.abs() * norm.arithmetic);
                (*value, *slack) = finish(normed, off, *factor);
            }
        } else {
            for ((value, slack), factor) in each {
                let normed = *value * inverse;
                (*value, *slack) = finish(normed, normed.abs() * norm.arithmetic, *factor);
            }
        }
    }
}

/// The sum of one row with the residual.
struct Sum<'a> {
    x: &'a [f64],
    residual: &'a [f64],
    expected: &'a mut Expected,
}

impl Work for Sum<'_> {
    type Out = ();

    #[inline(always)]
    fn run<const ROWS: usize>(self) {
        let into = self.expected.values.iter_mut().zip(&mut self.expected.slack);
        for ((value, slack), (x, residual)) in into.zip(self.x.iter().zip(self.residual)) {
            *value = x + residual;
            *slack = value.abs() * 2.0 * FP32;
        }
    }
}

/// The oracle of one case.
#[derive(Debug)]
pub(super) struct RmsNorm {
    add: bool,
    norm: Norm,
    dtype: DType,
    rows: u64,
}

impl RmsNorm {
    /// Needs the tensors `out` and `x`, with the add also `sum` and `residual`, and what [`Norm`] needs.
    pub(super) fn new(given: &Arguments, add: bool) -> anyhow::Result<Self> {
        let others: &[&str] = if add { &["out", "sum", "residual"] } else { &["out"] };
        let x = given.tensor_like("x", others)?;
        Ok(Self { add, norm: Norm::new(given, "weight", x.row_length())?, dtype: x.dtype, rows: x.rows() })
    }
}

impl Oracle for RmsNorm {
    fn outputs(&self) -> Vec<String> {
        let names: &[&str] = if self.add { &["out", "sum"] } else { &["out"] };
        names.iter().map(|&name| name.to_owned()).collect()
    }

    fn rows(&self, _output: usize) -> u64 {
        self.rows
    }

    fn row(&self, tensors: &Tensors, output: usize, row: u64, expected: &mut Expected) {
        expected.clear();
        if output == 1 {
            let (Some(x), Some(residual)) = (tensors.row("x", row), tensors.row("residual", row)) else {
                return;
            };
            expected.zeros(x.len());
            wide(Sum { x: &x, residual: &residual, expected });
            return;
        }
        let input = if self.add { "sum" } else { "x" };
        let Some(input) = tensors.get(input) else {
            return;
        };
        input.row(row, &mut expected.values);
        self.norm.apply(self.dtype, &mut expected.values, &mut expected.slack);
    }
}
