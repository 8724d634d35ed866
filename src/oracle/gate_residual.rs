//! A gated residual: `sum = h + x · (gate + gate_table)`.
//!
//! `gate` has a row for every `rows_per_modulation` rows of `x` (one per batch element, or one per token); `gate_table`
//! is a single row for all of them. Without `gate` the factor is 1. In place, the sum replaces `h`.

use super::arguments::Arguments;
use super::rounding::FP32;
use super::view::Row;
use super::wide::{Work, wide};
use super::{Expected, Oracle, Tensors, View};

/// The row of a modulation tensor for a row of `x`, plus the row of its table. Empty if there is no such tensor.
///
/// The callers' slack includes the fp32 rounding of that sum.
pub(super) fn modulation(tensors: &Tensors, name: &str, table: &str, row: u64, each: u64) -> Row {
    let Some(mut values) = tensors.row(name, row / each) else {
        return Row::new();
    };
    if let Some(other) = tensors.row(table, 0) {
        for (value, other) in values.iter_mut().zip(other.iter()) {
            *value += other;
        }
    }
    values
}

/// How many rows of `x` share a row of modulation: the value `rows_per_modulation`, by default 1.
pub(super) fn rows_per_modulation(given: &Arguments) -> u64 {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let each = given.value_or("rows_per_modulation", 1.0) as u64;
    each.max(1)
}

/// Checks that modulation tensors have the rows and the width that `x` needs, and tables the width.
pub(super) fn check_modulation(given: &Arguments, names: &[&str], x: &View) -> anyhow::Result<()> {
    let (rows, width) = (x.rows().div_ceil(rows_per_modulation(given)), x.row_length());
    for name in names {
        let Some(view) = given.tensors.get(name) else {
            continue;
        };
        let least = if view.shape.len() < 2 { 1 } else { rows };
        anyhow::ensure!(
            view.row_length() == width && view.rows() >= least,
            "the oracle {}: {name} has the shape {:?} where {least} row(s) of {width} are needed",
            given.operation,
            view.shape
        );
    }
    Ok(())
}

/// The exact sums of a row, and how much fp32 arithmetic may add to each.
pub(super) fn sums(tensors: &Tensors, row: u64, each: u64, (values, slack): (&mut Vec<f64>, &mut Vec<f64>)) {
    values.clear();
    slack.clear();
    let (Some(h_row), Some(x_row)) = (tensors.row("h", row), tensors.row("x", row)) else {
        return;
    };
    let mut gate = modulation(tensors, "gate", "gate_table", row, each);
    gate.resize(x_row.len(), 1.0);
    values.resize(x_row.len(), 0.0);
    slack.resize(x_row.len(), 0.0);
    wide(Sums { h: &h_row, x: &x_row, gate: &gate, values, slack });
}

/// The sums of one row.
struct Sums<'a> {
    h: &'a [f64],
    x: &'a [f64],
    gate: &'a [f64],
    values: &'a mut [f64],
    slack: &'a mut [f64],
}

impl Work for Sums<'_> {
    type Out = ();

    #[inline(always)]
    fn run<const ROWS: usize>(self) {
        let into = self.values.iter_mut().zip(self.slack);
        for ((sum, slack), ((h, x), gate)) in into.zip(self.h.iter().zip(self.x).zip(self.gate)) {
            let product = x * gate;
            *sum = h + product;
            // Three roundings: gate plus table, the product, and the sum.
            *slack = product.abs() * 3.0 * FP32 + sum.abs() * 2.0 * FP32;
        }
    }
}

/// The oracle of one case.
#[derive(Debug)]
pub(super) struct GateResidual {
    output: &'static str,
    rows: u64,
    rows_per_modulation: u64,
}

impl GateResidual {
    /// Needs the tensors `h`, `x` and, unless it is in place, `out`; takes `gate` and `gate_table`.
    pub(super) fn new(given: &Arguments, in_place: bool) -> anyhow::Result<Self> {
        let output = if in_place { "h" } else { "out" };
        let x = given.tensor_like("x", &["h", output])?;
        check_modulation(given, &["gate", "gate_table"], x)?;
        Ok(Self { output, rows: x.rows(), rows_per_modulation: rows_per_modulation(given) })
    }
}

impl Oracle for GateResidual {
    fn outputs(&self) -> Vec<String> {
        vec![self.output.to_owned()]
    }

    fn rows(&self, _output: usize) -> u64 {
        self.rows
    }

    fn row(&self, tensors: &Tensors, _output: usize, row: u64, expected: &mut Expected) {
        sums(tensors, row, self.rows_per_modulation, (&mut expected.values, &mut expected.slack));
    }
}
