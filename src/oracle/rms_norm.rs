//! Root-mean-square normalisation, alone and after a residual add.
//!
//! `out = x · rsqrt(mean(x²) + eps) · (weight + weight_offset)`, per row of the last dimension. Without `weight` the
//! factor is 1. `weight_offset` is 1 in Gemma. With `round_first` the normalised value is rounded to the element type
//! before it is multiplied, as transformers' Llama and Qwen modules do (`LlamaRMSNorm.forward`).
//! With the add, `sum = x + residual` is rounded and stored, and the norm is of the stored values.

use std::collections::BTreeMap;

use super::rounding::{FP32, round};
use super::{Expected, Oracle, Tensors};
use crate::project::DType;

/// The oracle of one case.
#[derive(Debug)]
pub(super) struct RmsNorm {
    add: bool,
    eps: f64,
    round_first: bool,
    dtype: DType,
    rows: u64,
    /// What each column is multiplied with; empty: 1.
    factors: Vec<f64>,
    /// Relative error that fp32 arithmetic may add over a row of this width.
    arithmetic: f64,
}

impl RmsNorm {
    /// For tensors of these sizes. Needs `out` and `x`, and with the add `sum` and `residual`; takes `weight` where
    /// it is there, and the values `eps`, `weight_offset` and `round_first` where they are.
    pub(super) fn new(
        tensors: &Tensors,
        values: &BTreeMap<String, f64>,
        add: bool,
    ) -> anyhow::Result<Self> {
        let name = if add { "add_rms_norm" } else { "rms_norm" };
        let x = tensors.need("x", name)?;
        let mut all = vec![tensors.need("out", name)?, x];
        if add {
            all.extend([tensors.need("sum", name)?, tensors.need("residual", name)?]);
        }
        for view in &all {
            anyhow::ensure!(
                view.shape == x.shape,
                "the oracle {name}: shapes differ, {:?} and {:?}",
                view.shape,
                x.shape
            );
        }
        let mut factors = Vec::new();
        if let Some(weight) = tensors.get("weight") {
            weight.row(0, &mut factors);
            anyhow::ensure!(
                weight.shape == [x.row_length()],
                "the oracle {name}: weight has the shape {:?} for rows of {}",
                weight.shape,
                x.row_length()
            );
        }
        let value = |name: &str, default: f64| values.get(name).copied().unwrap_or(default);
        let eps = values
            .get("eps")
            .copied()
            .ok_or_else(|| anyhow::anyhow!("the oracle {name} needs a value named `eps`"))?;
        #[allow(clippy::cast_precision_loss)]
        let width = x.row_length() as f64;
        #[allow(clippy::cast_possible_truncation)]
        let offset = f64::from(value("weight_offset", 0.0) as f32);
        for factor in &mut factors {
            *factor += offset;
        }
        #[allow(clippy::cast_possible_truncation)]
        Ok(Self {
            add,
            // The launcher takes a float.
            eps: f64::from(eps as f32),
            factors,
            round_first: value("round_first", 0.0) != 0.0,
            dtype: x.dtype,
            rows: x.rows(),
            // A plain loop over n squares is honest too, and its roundings add up to as much as n/2 half-units, of which
            // half reaches the root; beyond some thousand elements nobody sums in one chain.
            arithmetic: (8.0 + width.min(4096.0) / 8.0) * FP32,
        })
    }
}

impl Oracle for RmsNorm {
    fn outputs(&self) -> Vec<String> {
        if self.add {
            vec!["out".to_owned(), "sum".to_owned()]
        } else {
            vec!["out".to_owned()]
        }
    }

    fn rows(&self, _output: usize) -> u64 {
        self.rows
    }

    fn row(&self, tensors: &Tensors, output: usize, row: u64, expected: &mut Expected) {
        expected.clear();
        let Some(x) = tensors.get("x") else { return };
        let mut input = Vec::new();
        x.row(row, &mut input);
        if self.add {
            let (Some(residual), Some(stored)) = (tensors.get("residual"), tensors.get("sum"))
            else {
                return;
            };
            if output == 1 {
                let mut other = Vec::new();
                residual.row(row, &mut other);
                for (a, b) in input.iter().zip(&other) {
                    expected.push(a + b, (a + b).abs() * 2.0 * FP32);
                }
                return;
            }
            stored.row(row, &mut input);
        }
        #[allow(clippy::cast_precision_loss)]
        let mean = input.iter().map(|v| v * v).sum::<f64>() / input.len() as f64;
        let inverse = 1.0 / (mean + self.eps).sqrt();
        for (column, value) in input.iter().enumerate() {
            let factor = self.factors.get(column).copied().unwrap_or(1.0);
            let mut normed = value * inverse;
            let mut slack = normed.abs() * self.arithmetic;
            if self.round_first {
                // Near a tie the fp32 value may round to the other side: then that neighbour is right as well.
                let (low, high) = (
                    round(self.dtype, normed - slack),
                    round(self.dtype, normed + slack),
                );
                normed = round(self.dtype, normed);
                slack = (high - normed).max(normed - low);
            }
            let value = normed * factor;
            expected.push(value, slack * factor.abs() + value.abs() * 2.0 * FP32);
        }
    }
}
