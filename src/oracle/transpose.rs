//! Transposed matrices: `out[batch, column, row] = x[batch, row, column]`.
//!
//! Values are copied, not rounded: a negative slack reduces the half ulp that the comparison allows.

use super::arguments::Arguments;
use super::rounding::ulp;
use super::{Expected, Oracle, Tensors};
use crate::project::DType;

/// The oracle of one case.
#[derive(Debug)]
pub(super) struct Transpose {
    dtype: DType,
    batch: u64,
    rows: u64,
    columns: u64,
}

impl Transpose {
    /// For tensors `x` [batch, rows, columns] and `out` [batch, columns, rows] of one type.
    pub(super) fn new(given: &Arguments) -> anyhow::Result<Self> {
        let (x, out) = (given.tensor("x")?, given.tensor("out")?);
        match x.shape[..] {
            [batch, rows, columns] if out.shape == [batch, columns, rows] && out.dtype == x.dtype => {
                Ok(Self { dtype: x.dtype, batch, rows, columns })
            }
            _ => anyhow::bail!(
                "the oracle transpose: x has the shape {:?} and out {:?}, where [batch, rows, columns] and [batch, \
                 columns, rows] of one type are needed",
                x.shape,
                out.shape
            ),
        }
    }

    /// Reduces the budget below the distance to the next number, which is half an ulp just below a power of two.
    fn slack(&self, value: f64) -> f64 {
        -ulp(self.dtype, value) / 8.0
    }
}

impl Oracle for Transpose {
    fn outputs(&self) -> Vec<String> {
        vec!["out".to_owned()]
    }

    fn rows(&self, _output: usize) -> u64 {
        self.batch * self.columns
    }

    fn row(&self, tensors: &Tensors, _output: usize, row: u64, expected: &mut Expected) {
        expected.clear();
        let Some(x) = tensors.get("x") else { return };
        let &[matrix, down, along] = &x.strides[..] else {
            return;
        };
        let start = row / self.columns * matrix + row % self.columns * along;
        for at in 0..self.rows {
            let value = x.element(start + at * down);
            expected.push(value, self.slack(value));
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::oracle::View;
    use crate::oracle::view::encode;
    use crate::verify::compare::compare;

    fn given<'a>(tensors: &'a Tensors<'a>) -> Arguments<'a> {
        Arguments::of("transpose", tensors)
    }

    fn bytes(dtype: DType, values: &[f64]) -> Vec<u8> {
        let mut into = Vec::new();
        for value in values {
            encode(dtype, *value, &mut into);
        }
        into
    }

    fn wrong(dtype: DType, x: &[f64], out: &[f64], shape: [u64; 3]) -> u64 {
        let (x, out) = (bytes(dtype, x), bytes(dtype, out));
        let [batch, rows, columns] = shape;
        let mut tensors = Tensors::default();
        tensors.views.insert("x".to_owned(), View::dense(dtype, &shape, &x));
        let turned = View::dense(dtype, &[batch, columns, rows], &out);
        tensors.views.insert("out".to_owned(), turned);
        let oracle = Transpose::new(&given(&tensors)).unwrap();
        compare(&oracle, &tensors, &tensors, crate::verify::compare::Scope::default()).wrong
    }

    #[test]
    #[allow(clippy::float_cmp)]
    fn neighbours_are_wrong_even_at_a_power_of_two() {
        let x = [1.0, 0.0, -3.0, 4.0, 5.5, 2f64.powi(-14)];
        let out = [1.0, 4.0, 0.0, 5.5, -3.0, 2f64.powi(-14)];
        for dtype in [DType::F32, DType::F16, DType::BF16] {
            assert_eq!(wrong(dtype, &x, &out, [1, 2, 3]), 0);
            assert_eq!(wrong(dtype, &x, &x, [1, 2, 3]), 4);
            for at in 0..out.len() {
                for up in [-1.0, 1.0] {
                    // Half a unit below a power of two lies the next number.
                    let (mut off, unit) = (out, ulp(dtype, out[at]));
                    let power = out[at] != 0.0 && out[at] == 2f64.powf(out[at].abs().log2().round());
                    off[at] += up * if power && up < 0.0 { unit / 2.0 } else { unit };
                    if at == 5 && dtype == DType::F16 && up < 0.0 {
                        off[at] = out[at] - unit; // below it the numbers are subnormal: no nearer
                    }
                    assert_eq!(wrong(dtype, &x, &off, [1, 2, 3]), 1, "{dtype:?} {at} {up}");
                }
            }
        }
    }

    #[test]
    fn every_matrix_is_turned_by_itself() {
        let x = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0];
        let out = [1.0, 3.0, 2.0, 4.0, 5.0, 7.0, 6.0, 8.0];
        assert_eq!(wrong(DType::BF16, &x, &out, [2, 2, 2]), 0);
        let error = {
            let held = bytes(DType::F32, &x);
            let mut tensors = Tensors::default();
            for name in ["x", "out"] {
                let one = View::dense(DType::F32, &[2, 1, 4], &held);
                tensors.views.insert(name.to_owned(), one);
            }
            Transpose::new(&given(&tensors)).unwrap_err()
        };
        assert!(error.to_string().contains("[2, 1, 4]"), "{error}");
    }
}
