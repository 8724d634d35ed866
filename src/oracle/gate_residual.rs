//! A gated residual: `sum = h + x · (gate + gate_table)`.
//!
//! `gate` has a row for every `rows_per_modulation` rows of `x` (one a batch element, or one a token); `gate_table` is
//! one row for all. Without `gate` the factor is 1. In place, the sum replaces `h`.

use std::collections::BTreeMap;

use super::rounding::FP32;
use super::{Expected, Oracle, Tensors};

/// The row of a modulation tensor that belongs to a row of `x`, with the table's added. Empty: there is none.
///
/// The one fp32 rounding of that sum is in the slack of whoever multiplies or adds it.
pub(super) fn modulation(
    tensors: &Tensors,
    name: &str,
    table: &str,
    row: u64,
    each: u64,
) -> Vec<f64> {
    let mut values = Vec::new();
    let Some(view) = tensors.get(name) else {
        return values;
    };
    view.row(row / each, &mut values);
    if let Some(table) = tensors.get(table) {
        let mut other = Vec::new();
        table.row(0, &mut other);
        for (value, other) in values.iter_mut().zip(&other) {
            *value += other;
        }
    }
    values
}

/// Rows for each row of modulation: the value `rows_per_modulation`, 1 without it.
pub(super) fn rows_per_modulation(values: &BTreeMap<String, f64>) -> u64 {
    let given = values.get("rows_per_modulation").copied().unwrap_or(1.0);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let each = given as u64;
    each.max(1)
}

/// Demands that a modulation tensor has the rows and the width that `x` needs, and a table the width.
pub(super) fn check_modulation(
    tensors: &Tensors,
    operation: &str,
    names: &[&str],
    rows: u64,
    width: u64,
) -> anyhow::Result<()> {
    for name in names {
        let Some(view) = tensors.get(name) else {
            continue;
        };
        let least = if view.shape.len() < 2 { 1 } else { rows };
        anyhow::ensure!(
            view.row_length() == width && view.rows() >= least,
            "the oracle {operation}: {name} has the shape {:?} where {least} row(s) of {width} are needed",
            view.shape
        );
    }
    Ok(())
}

/// The exact sums of a row, and how much fp32 arithmetic may add to each.
pub(super) fn sums(tensors: &Tensors, row: u64, each: u64, into: &mut Expected) {
    into.clear();
    let (Some(h), Some(x)) = (tensors.get("h"), tensors.get("x")) else {
        return;
    };
    let (mut h_row, mut x_row) = (Vec::new(), Vec::new());
    h.row(row, &mut h_row);
    x.row(row, &mut x_row);
    let gate = modulation(tensors, "gate", "gate_table", row, each);
    for (column, (h, x)) in h_row.iter().zip(&x_row).enumerate() {
        let product = x * gate.get(column).copied().unwrap_or(1.0);
        let sum = h + product;
        // The gate's sum with its table and the product are rounded, then the sum.
        into.push(sum, product.abs() * 3.0 * FP32 + sum.abs() * 2.0 * FP32);
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
    /// For tensors of these sizes. Needs `h`, `x` and, unless it is in place, `out`; takes `gate` and `gate_table`
    /// where they are there.
    pub(super) fn new(
        tensors: &Tensors,
        values: &BTreeMap<String, f64>,
        in_place: bool,
    ) -> anyhow::Result<Self> {
        let (name, output) = if in_place {
            ("gate_residual_in_place", "h")
        } else {
            ("gate_residual", "out")
        };
        let x = tensors.need("x", name)?;
        for view in [tensors.need("h", name)?, tensors.need(output, name)?] {
            anyhow::ensure!(
                view.shape == x.shape,
                "the oracle {name}: shapes differ, {:?} and {:?}",
                view.shape,
                x.shape
            );
        }
        let each = rows_per_modulation(values);
        let modulations = x.rows().div_ceil(each);
        check_modulation(
            tensors,
            name,
            &["gate", "gate_table"],
            modulations,
            x.row_length(),
        )?;
        Ok(Self {
            output,
            rows: x.rows(),
            rows_per_modulation: each,
        })
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
        sums(tensors, row, self.rows_per_modulation, expected);
    }
}
