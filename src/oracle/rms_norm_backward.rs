//! The gradient of root-mean-square normalisation.
//!
//! With `r = rsqrt(mean(x²) + eps)`, `xhat = x · r` and `g = dy · (weight + weight_offset)`, per row:
//!
//! `dx = r · (g − xhat · mean(g · xhat))`, and over all rows `dw = Σ dy · xhat`.
//!
//! Without `weight` the factor is 1, and `dw` is unaffected. Outputs are `dx` and, if declared, `dw` (in the element
//! type) and `dw_f32`.

use std::ops::Range;

use super::arguments::Arguments;
use super::rounding::FP32;
use super::threads::{share, threads_for};
use super::wide::{Work, totals, wide};
use super::{Expected, Oracle, Tensors, View};
use crate::project::DType;

/// The bound of the error of dx in fp32, relative to the norm of its two terms: that of the forward norm.
const NORM: f64 = 2e-5;

/// The oracle of one case. `new` computes everything that depends on all rows.
#[derive(Debug)]
pub(super) struct RmsNormBackward {
    outputs: Vec<(String, DType)>,
    rows: u64,
    /// What each column of dy is multiplied by.
    factors: Vec<f64>,
    /// For each row: r, mean(g · xhat), and the mean of the magnitudes.
    means: Vec<[f64; 3]>,
    /// For each column: Σ dy · xhat, and the sum of the magnitudes.
    sums: Vec<f64>,
    magnitudes: Vec<f64>,
    /// Σ dx², and the same with the sum of the magnitudes of its two terms in place of dx.
    norms: [f64; 2],
    /// The relative error of r in fp32 arithmetic over a row of this width.
    root: f64,
    /// The error of a sum over a row, and of one over all rows, relative to the sum of magnitudes.
    row_error: f64,
    column_error: f64,
}

/// The error of a plain fp32 loop over the n terms of a row, relative to the sum of their magnitudes. Terms may be
/// equal (a constant row); then the roundings have the same sign for half of the loop. Above some thousand terms no
/// kernel sums in one chain.
#[allow(clippy::cast_precision_loss)]
fn row_error(terms: u64) -> f64 {
    (8.0 + terms.min(4096) as f64 / 4.0) * FP32
}

/// The same for the n terms of a column. Rows differ, so that the roundings have either sign: in a plain loop over
/// terms of one sign they add up to about sqrt(n) / 6 half-ulps, over terms that cancel to less. A larger bound would
/// accept terms that were rounded to bf16.
#[allow(clippy::cast_precision_loss)]
fn column_error(terms: u64) -> f64 {
    (8.0 + (terms as f64).sqrt()) * FP32
}

/// The results of some rows; fields as in [`RmsNormBackward`].
struct Part {
    means: Vec<[f64; 3]>,
    sums: Vec<f64>,
    magnitudes: Vec<f64>,
    norms: [f64; 2],
}

impl Part {
    fn new(width: usize) -> Self {
        Self { means: Vec::new(), sums: vec![0.0; width], magnitudes: vec![0.0; width], norms: [0.0; 2] }
    }
}

impl RmsNormBackward {
    /// Needs the tensors `dx`, `dy` and `x`, and the value `eps`; takes the tensors `weight`, `dw` and `dw_f32`, and the value
    /// `weight_offset`.
    pub(super) fn new(given: &Arguments) -> anyhow::Result<Self> {
        let x = given.tensor_like("x", &["dy", "dx"])?;
        let (dy, dx) = (given.tensor("dy")?, given.tensor("dx")?);
        let width = x.row_length();
        let mut outputs = vec![("dx".to_owned(), dx.dtype)];
        for name in ["dw", "dw_f32"] {
            let view = given.vector(name, width)?;
            outputs.extend(view.map(|view| (name.to_owned(), view.dtype)));
        }
        let mut factors = vec![1.0; usize::try_from(width)?];
        if let Some(weight) = given.vector("weight", width)? {
            weight.row(0, &mut factors);
            let offset = given.float_or("weight_offset", 0.0);
            for factor in &mut factors {
                *factor += offset;
            }
        }
        let part = all(x, dy, &factors, given.float("eps")?);
        Ok(Self {
            outputs,
            rows: x.rows(),
            factors,
            means: part.means,
            sums: part.sums,
            magnitudes: part.magnitudes,
            norms: part.norms,
            // Half of the error of the sum of squares reaches the root.
            root: (8.0 * FP32).midpoint(row_error(width)),
            row_error: row_error(width),
            column_error: column_error(x.rows()),
        })
    }

    /// The error of a column's sum, relative to the sum of magnitudes: each term has the error of r and two roundings
    /// of its own; the summation adds the rest, in any order.
    fn column(&self) -> f64 {
        self.root + 2.0 * FP32 + self.column_error
    }
}

/// The results of all rows, computed on all cores.
fn all(x: &View, dy: &View, factors: &[f64], eps: f64) -> Part {
    let threads = threads_for(x.rows() * x.row_length());
    let mut pieces = share(x.rows(), threads, |rows| range(x, dy, factors, eps, rows)).into_iter();
    // If a thread panicked, its rows have no expected values, and never pass.
    let mut total = pieces.next().unwrap_or_else(|| Part::new(factors.len()));
    for piece in pieces {
        total.means.extend(piece.means);
        for (all, some) in [(&mut total.sums, piece.sums), (&mut total.magnitudes, piece.magnitudes)] {
            for (sum, more) in all.iter_mut().zip(some) {
                *sum += more;
            }
        }
        let [norm, terms] = piece.norms;
        total.norms = [total.norms[0] + norm, total.norms[1] + terms];
    }
    total
}

/// The results of a range of rows.
fn range(x: &View, dy: &View, factors: &[f64], eps: f64, rows: Range<u64>) -> Part {
    let mut part = Part::new(factors.len());
    let (mut values, mut gradients) = (Vec::new(), Vec::new());
    let mut products = vec![0.0; factors.len()];
    for row in rows {
        x.row(row, &mut values);
        dy.row(row, &mut gradients);
        wide(Row { x: &values, dy: &gradients, factors, eps, g: &mut products, part: &mut part });
    }
    part
}

/// Adds the results of one row.
struct Row<'a> {
    x: &'a [f64],
    dy: &'a [f64],
    factors: &'a [f64],
    eps: f64,
    /// dy · factor, computed here.
    g: &'a mut [f64],
    part: &'a mut Part,
}

impl Work for Row<'_> {
    type Out = ();

    #[inline(always)]
    #[allow(clippy::cast_precision_loss)]
    fn run<const ROWS: usize>(self) {
        let Self { x, dy, g, part, .. } = self;
        let width = x.len() as f64;
        let [squares] = totals(x, x, |x, _| [x * x]);
        let r = 1.0 / (squares / width + self.eps).sqrt();
        for (g, (dy, factor)) in g.iter_mut().zip(dy.iter().zip(self.factors)) {
            *g = dy * factor;
        }
        let [mean, magnitude] = totals(x, g, |x, g| [g * x * r, (g * x * r).abs()]).map(|total| total / width);
        let norms = totals(x, g, |x, g| {
            let (direct, back) = (r * g, r * (x * r) * mean);
            let (dx, terms) = (direct - back, direct.abs() + back.abs());
            [dx * dx, terms * terms]
        });
        part.norms = [part.norms[0] + norms[0], part.norms[1] + norms[1]];
        for ((sum, total), (x, dy)) in part.sums.iter_mut().zip(&mut part.magnitudes).zip(x.iter().zip(dy)) {
            let product = dy * (x * r);
            *sum += product;
            *total += product.abs();
        }
        part.means.push([r, mean, magnitude]);
    }
}

/// The gradient of one row.
struct Gradient<'a> {
    x: &'a [f64],
    dy: &'a [f64],
    oracle: &'a RmsNormBackward,
    /// r, mean(g · xhat), and the mean of the magnitudes.
    means: [f64; 3],
    expected: &'a mut Expected,
}

impl Work for Gradient<'_> {
    type Out = ();

    #[inline(always)]
    fn run<const ROWS: usize>(self) {
        let Self { oracle, means: [r, mean, magnitude], expected, .. } = self;
        // The second term contains r three times. The error of the mean is relative to the magnitudes of its products, because they
        // may cancel; so may the two terms.
        let (first, second) = (
            oracle.root + 4.0 * FP32,
            mean.abs() * (3.0 * oracle.root + 4.0 * FP32) + magnitude * (oracle.row_error + 3.0 * FP32),
        );
        expected.zeros(self.x.len());
        let into = expected.values.iter_mut().zip(&mut expected.slack);
        for ((value, slack), ((x, dy), factor)) in into.zip(self.x.iter().zip(self.dy).zip(&oracle.factors)) {
            let (g, xhat) = (dy * factor, x * r);
            *value = r * (g - xhat * mean);
            *slack = (r * g).abs() * first + (r * xhat).abs() * second;
        }
    }
}

impl Oracle for RmsNormBackward {
    fn outputs(&self) -> Vec<String> {
        self.outputs.iter().map(|(name, _)| name.clone()).collect()
    }

    fn rows(&self, output: usize) -> u64 {
        if output == 0 { self.rows } else { 1 }
    }

    fn row(&self, tensors: &Tensors, output: usize, row: u64, expected: &mut Expected) {
        expected.clear();
        if output > 0 {
            expected.values.extend_from_slice(&self.sums);
            expected.slack.extend(self.magnitudes.iter().map(|magnitude| magnitude * self.column()));
            return;
        }
        let (Some(values), Some(gradients)) = (tensors.row("x", row), tensors.row("dy", row)) else {
            return;
        };
        let Some(means) = usize::try_from(row).ok().and_then(|row| self.means.get(row)) else {
            return;
        };
        wide(Gradient { x: &values, dy: &gradients, oracle: self, means: *means, expected });
    }

    /// In fp32 the only error is that of the arithmetic, relative to terms that may cancel: in rows of one element all
    /// of dx cancels. The error of the whole dw may have half the norm of its elements' slacks.
    fn relative_norm(&self, output: usize) -> Option<f64> {
        let (_, dtype) = self.outputs.get(output)?;
        let ([result, terms], bound) = if output == 0 {
            (self.norms, NORM)
        } else {
            ([&self.sums, &self.magnitudes].map(|all| all.iter().map(|x| x * x).sum()), self.column() / 2.0)
        };
        (*dtype == DType::F32).then(|| bound * (terms / result.max(f64::MIN_POSITIVE)).sqrt())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::cast_possible_truncation, clippy::cast_precision_loss)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::oracle::rounding::{round, ulp};

    const ROWS: usize = 40;
    const WIDTH: usize = 24;

    /// A number between -1 and 1.
    fn drawn(at: usize) -> f32 {
        (((at as u64 * 2_654_435_761) >> 5) % 2001) as f32 / 1000.0 - 1.0
    }

    struct Given {
        bytes: BTreeMap<&'static str, Vec<u8>>,
    }

    impl Given {
        fn new() -> Self {
            let make = |from: usize, count: usize| -> Vec<u8> {
                (from..from + count).flat_map(|at| drawn(at).to_le_bytes()).collect()
            };
            Self {
                bytes: BTreeMap::from([
                    ("x", make(0, ROWS * WIDTH)),
                    ("dy", make(10_000, ROWS * WIDTH)),
                    ("dx", vec![0; 4 * ROWS * WIDTH]),
                    ("weight", make(20_000, WIDTH)),
                    ("dw", vec![0; 4 * WIDTH]),
                ]),
            }
        }

        fn tensors(&self) -> Tensors<'_> {
            let mut all = Tensors::default();
            for (name, bytes) in &self.bytes {
                let elements = bytes.len() as u64 / 4;
                let width = WIDTH as u64;
                let shape = [elements / width, width];
                let shape = if elements == width { &shape[1..] } else { &shape };
                let view = View::dense(DType::F32, shape, bytes);
                all.views.insert((*name).to_owned(), view);
            }
            all
        }

        fn numbers(&self, name: &str) -> Vec<f64> {
            self.bytes[name].chunks_exact(4).map(|c| f64::from(f32::from_le_bytes([c[0], c[1], c[2], c[3]]))).collect()
        }

        fn oracle(&self) -> RmsNormBackward {
            let values = BTreeMap::from([("eps".to_owned(), 1e-3), ("weight_offset".to_owned(), 1.0)]);
            RmsNormBackward::new(&Arguments::with("", &self.tensors(), &values)).unwrap()
        }

        fn expected(&self, output: usize) -> Expected {
            let (oracle, tensors) = (self.oracle(), self.tensors());
            let (mut row, mut all) = (Expected::default(), Expected::default());
            for index in 0..oracle.rows(output) {
                oracle.row(&tensors, output, index, &mut row);
                all.values.append(&mut row.values);
                all.slack.append(&mut row.slack);
            }
            all
        }
    }

    /// Σ dy · `rms_norm(x)`, of which the oracle computes the gradient.
    fn loss(x: &[f64], dy: &[f64], weight: &[f64]) -> f64 {
        let eps = f64::from(1e-3f32);
        x.chunks_exact(WIDTH)
            .zip(dy.chunks_exact(WIDTH))
            .map(|(x, dy)| {
                let mean = x.iter().map(|v| v * v).sum::<f64>() / WIDTH as f64;
                let r = 1.0 / (mean + eps).sqrt();
                x.iter().zip(dy).zip(weight).map(|((x, dy), w)| dy * x * r * (w + 1.0)).sum::<f64>()
            })
            .sum()
    }

    #[test]
    fn it_is_the_slope_of_the_norm() {
        let given = Given::new();
        let [x, dy, weight] = ["x", "dy", "weight"].map(|name| given.numbers(name));
        let slope = |of: &dyn Fn(f64) -> f64| (of(1e-5) - of(-1e-5)) / 2e-5;
        let dx = given.expected(0).values;
        for at in [0, 7, 100, ROWS * WIDTH - 1] {
            let by = slope(&|step| {
                let mut x = x.clone();
                x[at] += step;
                loss(&x, &dy, &weight)
            });
            assert!((by - dx[at]).abs() < 1e-7, "{by} and {}", dx[at]);
        }
        let dw = given.expected(1).values;
        for at in 0..WIDTH {
            let by = slope(&|step| {
                let mut weight = weight.clone();
                weight[at] += step;
                loss(&x, &dy, &weight)
            });
            assert!((by - dw[at]).abs() < 1e-7, "{by} and {}", dw[at]);
        }
    }

    /// A plain fp32 implementation. Kind 1 leaves out the mean, kind 2 sums dw in bf16.
    fn plain(given: &Given, kind: usize) -> [Vec<f32>; 2] {
        let [x, dy, weight] =
            ["x", "dy", "weight"].map(|name| given.numbers(name).iter().map(|v| *v as f32).collect::<Vec<_>>());
        let (mut dx, mut dw) = (Vec::new(), vec![0f32; WIDTH]);
        for (x, dy) in x.chunks_exact(WIDTH).zip(dy.chunks_exact(WIDTH)) {
            let squares = x.iter().fold(0f32, |sum, v| sum + v * v);
            let r = 1.0 / (squares / WIDTH as f32 + 1e-3).sqrt();
            let g = |at: usize| dy[at] * (weight[at] + 1.0);
            let mean = (0..WIDTH).fold(0f32, |sum, at| sum + g(at) * (x[at] * r)) / WIDTH as f32;
            let mean = if kind == 1 { 0.0 } else { mean };
            for at in 0..WIDTH {
                dx.push(r * (g(at) - x[at] * r * mean));
                dw[at] += dy[at] * (x[at] * r);
                if kind == 2 {
                    dw[at] = round(DType::BF16, f64::from(dw[at])) as f32;
                }
            }
        }
        [dx, dw]
    }

    #[test]
    fn plain_fp32_is_within_the_budget_and_what_is_wrong_is_not() {
        let given = Given::new();
        let expected = [given.expected(0), given.expected(1)];
        let wrong = |kind: usize| {
            let got = plain(&given, kind);
            [0, 1].map(|output| {
                let expected = &expected[output];
                got[output]
                    .iter()
                    .zip(expected.values.iter().zip(&expected.slack))
                    .filter(|(got, (value, slack))| {
                        let budget = ulp(DType::F32, value.abs() + **slack) / 2.0 + **slack;
                        (f64::from(**got) - **value).abs() > budget
                    })
                    .count()
            })
        };
        assert_eq!(wrong(0), [0, 0]);
        assert!(wrong(1)[0] > ROWS * WIDTH / 2 && wrong(1)[1] == 0);
        assert!(wrong(2)[0] == 0 && wrong(2)[1] > WIDTH / 2);
    }

    #[test]
    fn without_rows_the_weights_gradient_is_zero() {
        let mut given = Given::new();
        for name in ["x", "dy", "dx"] {
            given.bytes.insert(name, Vec::new());
        }
        let expected = given.expected(1);
        assert!(expected.values.iter().all(|value| *value == 0.0));
        assert_eq!(expected.values.len(), WIDTH);
        assert_eq!(given.oracle().rows(0), 0);
    }
}
