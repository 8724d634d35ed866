//! The rotary embedding of the three axes of a video (LTX-Video), alone or after an `RMSNorm` of q and k.
//!
//! Tokens are in the order (batch, frame, row, column). Each pair (x, y) of elements 2i and 2i + 1, over the whole
//! width `dim` of a token, becomes `(x·cos − y·sin, y·cos + x·sin)`. The first `dim % 6` elements are padding, rotated
//! by the first entry of the table, (1, 0); of the others, pair `3·frequency + axis` is rotated by the token's position
//! on the axis (diffusers' `LTXVideoRotaryPosEmbed` and `apply_rotary_emb`). `inverse` negates the sines. With the
//! norm, x is `rms_norm(x) · weight` over the whole token; with `round_first` that is rounded to the element type, as
//! by a norm module that stores its output.

use super::arguments::Arguments;
use super::rounding::{FP32, Grid};
use super::{Expected, Oracle, Tensors};
use crate::project::DType;

/// The axes of a video: frames, rows, columns.
const AXES: usize = 3;

/// The oracle of one case.
#[derive(Debug)]
pub(super) struct Rope3d {
    /// For each output: its name, its input, and the factors of its norm (empty: 1).
    tensors: Vec<(String, &'static str, Vec<f64>)>,
    lengths: [u64; AXES],
    rows: u64,
    dtype: DType,
    sign: f64,
    /// eps, where there is a norm.
    norm: Option<f64>,
    round_first: bool,
}

impl Rope3d {
    /// Needs the tensors `q` and `table`, and the values `frames`, `height` and `width`; takes the tensor `k`, and the value
    /// `inverse`. Outputs are `q_out` and `k_out`, or without these `q` and `k`. With the norm it needs the value `eps`, and
    /// takes the tensors `q_weight` and `k_weight`, and the value `round_first`.
    pub(super) fn new(given: &Arguments, norm: bool) -> anyhow::Result<Self> {
        let (q, table) = (given.tensor("q")?, given.tensor("table")?);
        let mut lengths = [0; AXES];
        for (length, axis) in lengths.iter_mut().zip(["frames", "height", "width"]) {
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            let size = given.value(axis)? as u64;
            *length = size;
        }
        let (dim, positions) = (q.row_length(), lengths.iter().sum::<u64>());
        anyhow::ensure!(
            table.shape.len() == 3 && table.shape[1..] == [positions, dim / 6 * 2 + 2],
            "the oracle {}: table has the shape {:?}, and {positions} positions of {dim} elements need {:?}",
            given.operation,
            table.shape,
            [positions, dim / 6 * 2 + 2]
        );
        let mut outputs = Vec::new();
        for (input, output, weight) in [("q", "q_out", "q_weight"), ("k", "k_out", "k_weight")] {
            if given.tensors.get(input).is_none() {
                continue;
            }
            given.tensor_like("q", &[input])?;
            let weight = given.tensors.row(weight, 0).filter(|_| norm).map(|row| row.clone());
            let separate = given.tensors.get(output).is_some();
            let output = if separate { output } else { input };
            outputs.push((output.to_owned(), input, weight.unwrap_or_default()));
        }
        let norm = norm.then(|| given.float("eps"));
        Ok(Self {
            tensors: outputs,
            lengths,
            rows: q.rows(),
            dtype: q.dtype,
            sign: if given.flag("inverse") { -1.0 } else { 1.0 },
            norm: norm.transpose()?,
            round_first: given.flag("round_first"),
        })
    }

    /// The values to rotate, and the slack of each.
    fn normed(&self, input: &[f64], factors: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let Some(eps) = self.norm else {
            let slack = vec![0.0; input.len()];
            return (input.to_vec(), slack);
        };
        #[allow(clippy::cast_precision_loss)]
        let width = input.len() as f64;
        let inverse = 1.0 / (input.iter().map(|v| v * v).sum::<f64>() / width + eps).sqrt();
        // As for rms_norm, a plain loop over the row is allowed. Two more half-ulps for the weight.
        let arithmetic = (10.0 + width.min(4096.0) / 8.0) * FP32;
        input
            .iter()
            .enumerate()
            .map(|(column, value)| {
                let exact = value * inverse * factors.get(column).copied().unwrap_or(1.0);
                let slack = exact.abs() * arithmetic;
                if !self.round_first {
                    return (exact, slack);
                }
                Grid::of(self.dtype).round_within(exact, slack)
            })
            .unzip()
    }

    /// The rows of the table for a token, one per axis.
    fn table_rows(&self, tensors: &Tensors, token: u64) -> Option<[Vec<f64>; AXES]> {
        let table = tensors.get("table")?;
        let [frames, height, width] = self.lengths;
        let batch = token / (frames * height * width);
        let own = if table.shape[0] == 1 { 0 } else { batch } * (frames + height + width);
        let mut rows = [Vec::new(), Vec::new(), Vec::new()];
        for (row, position) in rows.iter_mut().zip([
            token / (height * width) % frames,
            frames + token / width % height,
            frames + height + token % width,
        ]) {
            table.row(own + position, row);
        }
        Some(rows)
    }
}

impl Oracle for Rope3d {
    fn outputs(&self) -> Vec<String> {
        self.tensors.iter().map(|(name, ..)| name.clone()).collect()
    }

    fn rows(&self, _output: usize) -> u64 {
        self.rows
    }

    fn row(&self, tensors: &Tensors, output: usize, row: u64, expected: &mut Expected) {
        expected.clear();
        let (_, input, factors) = &self.tensors[output];
        let (Some(x), Some(table_rows)) = (tensors.row(input, row), self.table_rows(tensors, row)) else {
            return;
        };
        let padding = x.len() % 6 / 2;
        let (x, slack) = self.normed(&x, factors);
        for (pair, (x, slack)) in x.chunks_exact(2).zip(slack.chunks_exact(2)).enumerate() {
            // Entry 0 of every table row is that of the padding: with this offset, pairs of the padding have entry 0.
            let place = pair + AXES - padding;
            let (axis, entry) = (place % AXES, place / AXES);
            let (cos, sin) = (table_rows[axis][2 * entry], self.sign * table_rows[axis][2 * entry + 1]);
            for (one, other) in [([x[0], -x[1]], [slack[0], slack[1]]), ([x[1], x[0]], [slack[1], slack[0]])] {
                let terms = [one[0] * cos, one[1] * sin];
                // Each product is rounded once and so is their sum: relative to the terms, which may cancel.
                let arithmetic = 2.0 * FP32 * (terms[0].abs() + terms[1].abs());
                let inherited = other[0] * cos.abs() + other[1] * sin.abs();
                expected.push(terms[0] + terms[1], arithmetic + inherited);
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::float_cmp)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::oracle::View;

    /// Bytes of fp32 tensors, by name, with their shapes.
    type Given = BTreeMap<&'static str, (Vec<u64>, Vec<u8>)>;

    fn put(given: &mut Given, name: &'static str, shape: &[u64], values: &[f64]) {
        let mut bytes = Vec::new();
        for value in values {
            crate::oracle::view::encode(DType::F32, *value, &mut bytes);
        }
        given.insert(name, (shape.to_vec(), bytes));
    }

    fn tensors(given: &Given) -> Tensors<'_> {
        let mut all = Tensors::default();
        for (name, (shape, bytes)) in given {
            let view = View::dense(DType::F32, shape, bytes);
            all.views.insert((*name).to_owned(), view);
        }
        all
    }

    /// Two batch elements of 2 x 1 x 3 tokens of 8 elements: 2 of padding, and one frequency of each axis. The table
    /// of position p of batch element b has (1, 0), (10 b + p + 1, 100).
    fn given() -> (Given, BTreeMap<String, f64>) {
        let mut given = Given::new();
        let x: Vec<f64> = (0..96).map(|i| f64::from(i % 7) - 3.0).collect();
        put(&mut given, "q", &[12, 8], &x);
        put(&mut given, "q_out", &[12, 8], &[0.0; 96]);
        let table: Vec<f64> = (0..2u8)
            .flat_map(|b| (0..6u8).map(move |p| 10.0 * f64::from(b) + f64::from(p) + 1.0))
            .flat_map(|cos| [1.0, 0.0, cos, 100.0])
            .collect();
        put(&mut given, "table", &[2, 6, 4], &table);
        let values = [("frames", 2.0), ("height", 1.0), ("width", 3.0), ("eps", 0.5)];
        let values = values.map(|(name, value)| (name.to_owned(), value)).into_iter().collect();
        (given, values)
    }

    #[test]
    fn a_pair_turns_with_its_axis_and_the_padding_stays() {
        let (mut given, mut values) = given();
        let all = tensors(&given);
        let oracle = Rope3d::new(&Arguments::with("", &all, &values), false).unwrap();
        assert_eq!(oracle.outputs(), ["q_out"]);
        let mut expected = Expected::default();
        // The second batch element, second frame, third column: positions 1, 2 and 5 of the second table.
        oracle.row(&all, 0, 11, &mut expected);
        let x: Vec<f64> = (88..96).map(|i| f64::from(i % 7) - 3.0).collect();
        let mut by_hand = x[..2].to_vec();
        for (pair, cos) in x[2..].chunks_exact(2).zip([12.0, 13.0, 16.0]) {
            by_hand.extend([pair[0] * cos - pair[1] * 100.0, pair[1] * cos + pair[0] * 100.0]);
        }
        assert_eq!(expected.values, by_hand);
        // Axes in another order are outside the slack.
        let swapped = x[2] * 13.0 - x[3] * 100.0;
        assert!((swapped - expected.values[2]).abs() > 1000.0 * expected.slack[2]);

        values.insert("inverse".to_owned(), 1.0);
        let inverse = Rope3d::new(&Arguments::with("", &all, &values), false).unwrap();
        inverse.row(&all, 0, 11, &mut expected);
        assert_eq!(expected.values[2], x[2] * 12.0 + x[3] * 100.0);

        // A shared table, and in place.
        given.remove("q_out");
        given.get_mut("table").unwrap().0[0] = 1;
        let all = tensors(&given);
        let oracle = Rope3d::new(&Arguments::with("", &all, &values), false).unwrap();
        assert_eq!(oracle.outputs(), ["q"]);
        oracle.row(&all, 0, 11, &mut expected);
        assert_eq!(expected.values[2], x[2] * 2.0 + x[3] * 100.0);

        values.insert("width".to_owned(), 4.0);
        let error = Rope3d::new(&Arguments::with("", &all, &values), false).unwrap_err();
        assert!(error.to_string().contains("7 positions"), "{error}");
    }

    #[test]
    fn the_norm_is_over_the_whole_token_and_before_the_rotation() {
        let (mut given, values) = given();
        let weight: Vec<f64> = (1..9u8).map(f64::from).collect();
        put(&mut given, "q_weight", &[8], &weight);
        let all = tensors(&given);
        let oracle = Rope3d::new(&Arguments::with("", &all, &values), true).unwrap();
        let mut expected = Expected::default();
        oracle.row(&all, 0, 0, &mut expected);
        // Token 0 is -3, -2, -1, 0, 1, 2, 3, -3: positions 0, 2 and 3 of the first table.
        let scale = 1.0 / (37.0f64 / 8.0 + 0.5).sqrt();
        let third = -3.0 * scale;
        assert!((expected.values[0] + 3.0 * scale).abs() < 1e-12);
        assert!((expected.values[2] - third).abs() < 1e-12);
        assert!((expected.values[3] - third * 100.0).abs() < 1e-12);
        // The weight after the rotation instead of before it.
        let late = -scale * 100.0 * 4.0;
        assert!((late - expected.values[3]).abs() > 1000.0 * expected.slack[3]);
    }
}
