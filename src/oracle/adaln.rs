//! Normalisation with modulation, alone and after a gated residual; `LayerNorm` is the case without modulation.
//!
//! `out = norm(x) · (1 + scale + scale_table) + (shift + shift_table)`, per row of the last dimension, where
//! `norm(x) = (x − mean) · rsqrt(variance + eps) · weight + bias` for `LayerNorm`, and the same with a mean of 0 for
//! `RMSNorm`. `scale` and `shift` have a row for every `rows_per_modulation` rows of `x`. An absent weight is 1, other
//! absent tensors are 0. After a gated residual, the norm is that of `sum = h + x · (gate + gate_table)`, as rounded
//! and stored.

use super::arguments::Arguments;
use super::gate_residual::{check_modulation, modulation, rows_per_modulation, sums};
use super::rounding::{FP32, Grid};
use super::view::Row;
use super::wide::{Work, totals, wide};
use super::{Expected, Oracle, Tensors};
use crate::project::DType;

/// The operation, and the tensor that it normalises.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    /// `layer_norm`: of `x`, without modulation.
    LayerNorm,
    /// `adaln`: of `x`.
    Modulated,
    /// `gate_residual_adaln`: of the output `sum`.
    Gated,
    /// `gate_residual_adaln_in_place`: of `h`, which the sum replaces.
    GatedInPlace,
}

/// The oracle of one case.
#[derive(Debug)]
pub(super) struct AdaLn {
    kind: Kind,
    layer: bool,
    eps: f64,
    dtype: DType,
    rows: u64,
    rows_per_modulation: u64,
    weight: Vec<f64>,
    bias: Vec<f64>,
    /// The relative error of a row's reciprocal root in fp32 arithmetic.
    root: f64,
    /// The error of a row's sum in fp32 arithmetic, relative to the sum of absolute values.
    sum: f64,
}

impl AdaLn {
    /// Needs the tensors `out` and `x`, after a residual also `h` and, unless in place, `sum`, and the value `eps`; takes
    /// `weight`, `bias`, `scale`, `shift`, `gate` and the tables, and the values `rows_per_modulation` and `norm` (0
    /// `RMSNorm`, 1 `LayerNorm`).
    pub(super) fn new(given: &Arguments, kind: Kind) -> anyhow::Result<Self> {
        let others: &[&str] = match kind {
            Kind::LayerNorm | Kind::Modulated => &["out"],
            Kind::Gated => &["out", "h", "sum"],
            Kind::GatedInPlace => &["out", "h"],
        };
        let x = given.tensor_like("x", others)?;
        let names = ["weight", "bias", "scale", "shift", "gate", "scale_table", "shift_table", "gate_table"];
        check_modulation(given, &names, x)?;
        let width = usize::try_from(x.row_length())?;
        let row =
            |name: &str, absent: f64| given.tensors.row(name, 0).map_or_else(|| vec![absent; width], |row| row.clone());
        #[allow(clippy::cast_precision_loss)]
        let terms = x.row_length().min(4096) as f64;
        Ok(Self {
            kind,
            layer: kind == Kind::LayerNorm || given.flag("norm"),
            eps: given.float("eps")?,
            dtype: x.dtype,
            rows: x.rows(),
            rows_per_modulation: rows_per_modulation(given),
            weight: row("weight", 1.0),
            bias: row("bias", 0.0),
            // As for RMSNorm: a plain loop over n terms of one sign may lose n/2 half-ulps, and the root halves
            // relative errors; above some thousand terms no kernel sums in one chain.
            root: (8.0 + terms / 8.0) * FP32,
            sum: (4.0 + terms / 4.0) * FP32,
        })
    }

    /// The input of the norm. Its slack is how far the value that the candidate stored may be from it.
    fn normalised(&self, tensors: &Tensors, row: u64) -> [Row; 2] {
        let mut input = [Row::new(), Row::new()];
        let [values, slack] = &mut input;
        let stored = match self.kind {
            Kind::LayerNorm | Kind::Modulated => tensors.get("x"),
            Kind::Gated => tensors.get("sum"),
            Kind::GatedInPlace => None,
        };
        if let Some(stored) = stored {
            stored.row(row, values);
            slack.resize(values.len(), 0.0);
            return input;
        }
        // In place, the sum replaces h, so the candidate's sum is not known. It is rounded here; near a tie, and in f32, the
        // candidate may have stored a neighbour.
        sums(tensors, row, self.rows_per_modulation, (values, slack));
        wide(Stored { grid: Grid::of(self.dtype), values, slack });
        input
    }
}

impl Oracle for AdaLn {
    fn outputs(&self) -> Vec<String> {
        let names: &[&str] = match self.kind {
            Kind::LayerNorm | Kind::Modulated => &["out"],
            Kind::Gated => &["out", "sum"],
            Kind::GatedInPlace => &["out", "h"],
        };
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn rows(&self, _output: usize) -> u64 {
        self.rows
    }

    fn row(&self, tensors: &Tensors, output: usize, row: u64, expected: &mut Expected) {
        if output == 1 {
            sums(tensors, row, self.rows_per_modulation, (&mut expected.values, &mut expected.slack));
            return;
        }
        expected.clear();
        let [values, slacks] = self.normalised(tensors, row);
        let each = self.rows_per_modulation;
        let mut scale = modulation(tensors, "scale", "scale_table", row, each);
        let mut shift = modulation(tensors, "shift", "shift_table", row, each);
        scale.resize(values.len(), 0.0);
        shift.resize(values.len(), 0.0);
        wide(Modulated { oracle: self, values: &values, slacks: &slacks, scale: &scale, shift: &shift, expected });
    }

    fn relative_norm(&self, output: usize) -> Option<f64> {
        // In rows of small variance, LayerNorm amplifies the rounding of the mean, so that the type alone does not
        // bound the relative error of fp32 results. Only the elements are judged, by their slack.
        (output == 0 && self.layer && self.dtype == DType::F32).then_some(f64::INFINITY)
    }
}

/// Rounds the sums of one row as the candidate did before it stored them.
struct Stored<'a> {
    grid: Grid,
    values: &'a mut [f64],
    slack: &'a mut [f64],
}

impl Work for Stored<'_> {
    type Out = ();

    #[inline(always)]
    fn run<const ROWS: usize>(self) {
        for (value, slack) in self.values.iter_mut().zip(self.slack) {
            (*value, *slack) = self.grid.round_within(*value, *slack);
        }
    }
}

/// The norm of one row, with its modulation.
struct Modulated<'a> {
    oracle: &'a AdaLn,
    values: &'a [f64],
    slacks: &'a [f64],
    scale: &'a [f64],
    shift: &'a [f64],
    expected: &'a mut Expected,
}

impl Work for Modulated<'_> {
    type Out = ();

    #[inline(always)]
    #[allow(clippy::cast_precision_loss)]
    fn run<const ROWS: usize>(self) {
        let Self { oracle, values, slacks, .. } = self;
        let over = |total: f64| total / values.len() as f64;
        let [total, sizes, slack] = totals(values, slacks, |v, s| [v, v.abs(), s]).map(over);
        let (mean, mean_slack) = if oracle.layer { (total, oracle.sum * sizes + slack) } else { (0.0, 0.0) };
        let [variance, stored] =
            totals(values, slacks, |v, s| [(v - mean) * (v - mean), (v - mean).abs() * s]).map(over);
        let inverse = 1.0 / (variance + oracle.eps).sqrt();
        // The relative error of the root: its own arithmetic; an error d of the mean, which adds d² to the variance; and the
        // slack of the input. With an infinite variance the reciprocal root is 0, and has no error.
        let off = (0.5 * mean_slack * mean_slack + stored) * inverse * inverse;
        let root = oracle.root + if inverse > 0.0 { off } else { 0.0 };
        self.expected.zeros(values.len());
        let into = self.expected.values.iter_mut().zip(&mut self.expected.slack);
        let affine = oracle.weight.iter().zip(&oracle.bias).zip(self.scale.iter().zip(self.shift));
        for ((into, (value, slack)), ((weight, bias), (scale, shift))) in
            into.zip(values.iter().zip(slacks)).zip(affine)
        {
            let normed = (value - mean) * inverse;
            let factor = weight * (1.0 + scale);
            // Each later step rounds once or twice, relative to the terms that it adds.
            let terms = (normed.abs() * weight.abs() + bias.abs()) * (1.0 + scale.abs()) + shift.abs();
            let slack = (normed.abs() * root + (slack + mean_slack) * inverse) * factor.abs();
            (*into.0, *into.1) = ((normed * weight + bias) * (1.0 + scale) + shift, slack + terms * 4.0 * FP32);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::oracle::View;

    const WIDTH: usize = 64;

    fn bytes(values: impl Iterator<Item = f32>) -> Vec<u8> {
        values.flat_map(f32::to_le_bytes).collect()
    }

    fn view(bytes: &[u8], rows: u64) -> View<'_> {
        let shape = [rows, WIDTH as u64];
        let shape = if rows == 0 { &shape[1..] } else { &shape };
        View::dense(DType::F32, shape, bytes)
    }

    /// Numbers that look random, around `centre`.
    fn noise(seed: u32, rows: usize, centre: f32) -> Vec<u8> {
        let count = u32::try_from(rows.max(1) * WIDTH).unwrap_or(0);
        bytes((0..count).map(|i| {
            let mixed = (i + 977 * seed).wrapping_mul(2_654_435_761) >> 16;
            #[allow(clippy::cast_precision_loss)]
            let unit = (mixed & 0x3ff) as f32 / 512.0 - 1.0;
            centre + unit
        }))
    }

    fn within(expected: &Expected, got: impl Fn(usize) -> f32) -> bool {
        expected
            .values
            .iter()
            .zip(&expected.slack)
            .enumerate()
            .all(|(column, (value, slack))| (f64::from(got(column)) - value).abs() <= slack + value.abs() * FP32)
    }

    fn f32s(bytes: &[u8]) -> Vec<f32> {
        bytes.chunks_exact(4).map(|c| f32::from_le_bytes([c[0], c[1], c[2], c[3]])).collect()
    }

    #[test]
    #[allow(clippy::cast_precision_loss)]
    fn a_plain_f32_loop_passes_and_what_is_wrong_does_not() {
        let (x, scale, shift, table) = (noise(1, 4, 30.0), noise(2, 2, 0.0), noise(3, 2, 0.0), noise(4, 0, 0.0));
        let out = vec![0; x.len()];
        let mut tensors = Tensors::default();
        for (name, bytes, rows) in
            [("x", &x, 4), ("out", &out, 4), ("scale", &scale, 2), ("shift", &shift, 2), ("scale_table", &table, 0)]
        {
            tensors.views.insert(name.to_owned(), view(bytes, rows));
        }
        let values = BTreeMap::from([
            ("eps".to_owned(), 1e-6),
            ("norm".to_owned(), 1.0),
            ("rows_per_modulation".to_owned(), 2.0),
        ]);
        let oracle =
            AdaLn::new(&Arguments::with("", &tensors, &values), Kind::Modulated).unwrap_or_else(|_| unreachable!());
        let (x, scale, shift, table) = (f32s(&x), f32s(&scale), f32s(&shift), f32s(&table));
        // The third row, whose modulation is the second.
        let row = &x[2 * WIDTH..3 * WIDTH];
        let n = WIDTH as f32;
        let mean = row.iter().sum::<f32>() / n;
        let variance = row.iter().map(|v| (v - mean) * (v - mean)).sum::<f32>() / n;
        let formula = |variance: f32, modulation: usize, with_table: f32| {
            let inverse = 1.0 / (variance + 1e-6).sqrt();
            let (x, scale, shift, table) = (&x, &scale, &shift, &table);
            move |c: usize| {
                let i = modulation * WIDTH + c;
                (x[2 * WIDTH + c] - mean) * inverse * (1.0 + scale[i] + with_table * table[c]) + shift[i]
            }
        };
        let mut expected = Expected::default();
        oracle.row(&tensors, 0, 2, &mut expected);
        assert!(within(&expected, formula(variance, 1, 1.0)));
        assert!(!within(&expected, formula(variance, 0, 1.0)), "the first row of modulation");
        assert!(!within(&expected, formula(variance, 1, 0.0)), "no table");
        assert!(!within(&expected, formula(variance * n / (n - 1.0), 1, 1.0)), "the sample's variance");
        let squares = row.iter().map(|v| v * v).sum::<f32>() / n;
        assert!(!within(&expected, formula(squares - mean * mean, 1, 1.0)), "E[x²] − E[x]²");
        assert!(!within(&expected, formula(squares, 1, 1.0)), "RMSNorm's root");
    }

    #[test]
    fn the_norm_after_a_residual_is_of_what_was_stored() {
        let (h, x, gate) = (noise(5, 2, 0.0), noise(6, 2, 0.0), noise(7, 1, 0.0));
        let out = vec![0; h.len()];
        // A sum that differs from the exact one, as if rounded to bf16: the norm must be that of this sum.
        let sum = bytes(f32s(&noise(8, 2, 0.0)).into_iter());
        let mut tensors = Tensors::default();
        for (name, bytes, rows) in [("h", &h, 2), ("x", &x, 2), ("gate", &gate, 1), ("sum", &sum, 2), ("out", &out, 2)]
        {
            tensors.views.insert(name.to_owned(), view(bytes, rows));
        }
        let values = BTreeMap::from([("eps".to_owned(), 1e-6), ("rows_per_modulation".to_owned(), 2.0)]);
        let row = |kind: Kind, output: usize| {
            let oracle = AdaLn::new(&Arguments::with("", &tensors, &values), kind).unwrap_or_else(|_| unreachable!());
            let mut expected = Expected::default();
            oracle.row(&tensors, output, 1, &mut expected);
            expected
        };
        let (h, x, gate, sum) = (f32s(&h), f32s(&x), f32s(&gate), f32s(&sum));
        let added: Vec<f32> = (0..WIDTH).map(|c| h[WIDTH + c] + x[WIDTH + c] * gate[c]).collect();
        assert!(within(&row(Kind::Gated, 1), |c| added[c]));
        assert!(!within(&row(Kind::Gated, 1), |c| h[WIDTH + c] + x[WIDTH + c]));
        let norm = |of: &[f32]| -> Vec<f32> {
            #[allow(clippy::cast_precision_loss)]
            let mean = of.iter().map(|v| v * v).sum::<f32>() / of.len() as f32;
            of.iter().map(|v| v / (mean + 1e-6).sqrt()).collect()
        };
        let (of_stored, of_added) = (norm(&sum[WIDTH..]), norm(&added));
        assert!(within(&row(Kind::Gated, 0), |c| of_stored[c]));
        assert!(!within(&row(Kind::Gated, 0), |c| of_added[c]));
        // In place, the stored sum is not known.
        assert!(within(&row(Kind::GatedInPlace, 0), |c| of_added[c]));
        assert!(!within(&row(Kind::GatedInPlace, 0), |c| of_stored[c]));
    }
}
