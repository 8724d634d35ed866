//! A sum over rows: `out[column] = Σ x[row, column]`, such as the gradient of a bias.
//!
//! Outputs are `out` (in the element type) and `out_f32`, or one of them.

use super::arguments::Arguments;
use super::rounding::FP32;
use super::threads::{share, threads_for};
use super::{Expected, Oracle, Tensors, View};
use crate::project::DType;

/// Running sums of a column, from which its result and slack follow after one pass over x.
#[derive(Clone, Copy, Debug, Default)]
struct Column {
    sum: f64,
    /// The sum of the magnitudes.
    magnitude: f64,
    /// The sum of the partial sums, and that of their squares.
    partial_sums: f64,
    partial_squares: f64,
}

impl Column {
    fn add(&mut self, value: f64) {
        self.sum += value;
        self.magnitude += value.abs();
        self.partial_sums += self.sum;
        self.partial_squares += self.sum * self.sum;
    }

    /// Appends the sums of the next `rows` rows, which began at zero.
    fn append(&mut self, below: &Self, rows: f64) {
        self.partial_squares +=
            rows * self.sum * self.sum + 2.0 * self.sum * below.partial_sums + below.partial_squares;
        self.partial_sums += rows * self.sum + below.partial_sums;
        self.sum += below.sum;
        self.magnitude += below.magnitude;
    }

    /// A bound of the error of a sum in fp32. In a plain loop each step rounds by up to half an ulp of the partial sum,
    /// up or down: in total about 0.4 half-ulps times the root of the sum of squared partial sums, ten times of which is
    /// never reached. Eight half-ulps of the sum of magnitudes allow for any other order, which has other partial sums.
    fn slack(&self) -> f64 {
        (4.0 * self.partial_squares.max(0.0).sqrt() + 8.0 * self.magnitude) * FP32
    }
}

/// The oracle of one case, computed in `new` in one pass over all rows.
#[derive(Debug)]
pub(super) struct ColumnSum {
    outputs: Vec<(String, DType)>,
    columns: Vec<Column>,
}

impl ColumnSum {
    /// Needs the tensor `x`, and `out` or `out_f32` or both.
    pub(super) fn new(given: &Arguments) -> anyhow::Result<Self> {
        let x = given.tensor("x")?;
        let mut outputs = Vec::new();
        for name in ["out", "out_f32"] {
            let view = given.vector(name, x.row_length())?;
            outputs.extend(view.map(|view| (name.to_owned(), view.dtype)));
        }
        anyhow::ensure!(!outputs.is_empty(), "the oracle {} needs a tensor named `out` or `out_f32`", given.operation);
        Ok(Self { outputs, columns: all(x) })
    }
}

/// The sums over all rows, computed on all cores.
fn all(x: &View) -> Vec<Column> {
    let width = usize::try_from(x.row_length()).unwrap_or(0);
    let pieces = share(x.rows(), threads_for(x.rows() * x.row_length()), |rows| {
        #[allow(clippy::cast_precision_loss)]
        let count = (rows.end - rows.start) as f64;
        let mut columns = vec![Column::default(); width];
        let mut values = Vec::new();
        for row in rows {
            x.row(row, &mut values);
            for (column, value) in columns.iter_mut().zip(&values) {
                column.add(*value);
            }
        }
        (columns, count)
    });
    let mut total = vec![Column::default(); width];
    for (piece, rows) in pieces {
        for (column, below) in total.iter_mut().zip(&piece) {
            column.append(below, rows);
        }
    }
    total
}

impl Oracle for ColumnSum {
    fn outputs(&self) -> Vec<String> {
        self.outputs.iter().map(|(name, _)| name.clone()).collect()
    }

    fn rows(&self, _output: usize) -> u64 {
        1
    }

    fn row(&self, _tensors: &Tensors, _output: usize, _row: u64, expected: &mut Expected) {
        expected.clear();
        for column in &self.columns {
            expected.push(column.sum, column.slack());
        }
    }

    /// In fp32 the only error is that of the arithmetic, relative to terms that may cancel. The error of the whole
    /// output may have half the norm of the slacks.
    fn relative_norm(&self, output: usize) -> Option<f64> {
        let (_, dtype) = self.outputs.get(output)?;
        let (sums, slacks) = self
            .columns
            .iter()
            .fold((0.0, 0.0), |(sums, slacks), c| (sums + c.sum * c.sum, slacks + c.slack().powi(2)));
        (*dtype == DType::F32).then(|| (slacks / f64::max(sums, f64::MIN_POSITIVE)).sqrt() / 2.0)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::cast_possible_truncation, clippy::cast_precision_loss)]
mod tests {
    use super::*;
    use crate::oracle::rounding::round;

    /// A number between -1 and 1.
    fn drawn(at: usize) -> f32 {
        let mut bits = at as u64 + 1;
        for _ in 0..3 {
            bits = (bits ^ bits >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
        (bits >> 40) as f32 / 8_388_608.0 - 1.0
    }

    /// Columns of these terms, and the oracle of them.
    fn oracle(rows: usize, width: usize, term: &dyn Fn(usize, usize) -> f32) -> ColumnSum {
        let x: Vec<u8> = (0..rows * width).flat_map(|at| term(at / width, at % width).to_le_bytes()).collect();
        let out = vec![0; 4 * width];
        let mut tensors = Tensors::default();
        let given = View::dense(DType::F32, &[rows as u64, width as u64], &x);
        tensors.views.insert("x".to_owned(), given);
        let sums = View::dense(DType::F32, &[width as u64], &out);
        tensors.views.insert("out_f32".to_owned(), sums);
        ColumnSum::new(&Arguments::of("", &tensors)).unwrap()
    }

    /// The largest error of these sums, in units of the slack.
    fn share(oracle: &ColumnSum, sums: &[f64]) -> f64 {
        let mut expected = Expected::default();
        oracle.row(&Tensors::default(), 0, 0, &mut expected);
        assert_eq!(expected.values.len(), sums.len());
        sums.iter()
            .zip(expected.values.iter().zip(&expected.slack))
            .fold(0.0, |most: f64, (sum, (value, slack))| most.max((sum - value).abs() / slack))
    }

    #[test]
    fn a_plain_loop_is_right_and_one_in_a_narrower_type_is_not() {
        const ROWS: usize = 20_000;
        const WIDTH: usize = 12;
        for offset in [0.0, 0.25, 3.0] {
            let term = |row: usize, column: usize| drawn(row * WIDTH + column) + offset;
            let oracle = oracle(ROWS, WIDTH, &term);
            let summed = |narrow: &dyn Fn(f64) -> f64, order: &dyn Fn(usize) -> usize| {
                let sums: Vec<f64> = (0..WIDTH)
                    .map(|column| (0..ROWS).fold(0.0, |sum, at| narrow(sum + f64::from(term(order(at), column)))))
                    .collect();
                share(&oracle, &sums)
            };
            let fp32 = |x: f64| f64::from(x as f32);
            for order in [&(|at| at) as &dyn Fn(usize) -> usize, &|at| ROWS - 1 - at, &|at| at * 7919 % ROWS] {
                let worst = summed(&fp32, order);
                assert!(worst < 0.5, "offset {offset}: {worst}");
            }
            for narrower in [DType::F16, DType::BF16] {
                let worst = summed(&|x| round(narrower, x), &|at| at);
                assert!(worst > 20.0, "offset {offset}, {narrower:?}: {worst}");
            }
            // A row that is left out, and one that is there twice.
            let mut expected = Expected::default();
            oracle.row(&Tensors::default(), 0, 0, &mut expected);
            for factor in [-1.0, 1.0] {
                let off: Vec<f64> = (0..WIDTH).map(|c| expected.values[c] + factor * f64::from(term(77, c))).collect();
                assert!(share(&oracle, &off) > 1.0);
            }
        }
    }

    #[test]
    fn pieces_are_one_loop() {
        let values: Vec<f64> = (0..50).map(|at| f64::from(drawn(at)) + 0.5).collect();
        let mut whole = Column::default();
        let (mut above, mut below) = (Column::default(), Column::default());
        for (at, value) in values.iter().enumerate() {
            whole.add(*value);
            if at < 20 { &mut above } else { &mut below }.add(*value);
        }
        above.append(&below, 30.0);
        for (one, other) in [
            (whole.sum, above.sum),
            (whole.magnitude, above.magnitude),
            (whole.partial_sums, above.partial_sums),
            (whole.partial_squares, above.partial_squares),
        ] {
            assert!((one / other - 1.0).abs() < 1e-12, "{one} {other}");
        }
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let bytes = vec![0; 64];
        let view = |shape: &[u64]| View::dense(DType::F32, shape, &bytes);
        let mut tensors = Tensors::default();
        tensors.views.insert("x".to_owned(), view(&[2, 4]));
        let error = ColumnSum::new(&Arguments::of("", &tensors)).unwrap_err().to_string();
        assert!(error.contains("`out_f32`"), "{error}");
        tensors.views.insert("out".to_owned(), view(&[2]));
        let error = ColumnSum::new(&Arguments::of("", &tensors)).unwrap_err().to_string();
        assert!(error.contains("out has the shape [2]"), "{error}");
    }
}
