//! Cross-entropy of rows of logits with targets, and its gradient.
//!
//! `lse = log Σ exp(logits)`, and as in torch with `reduction="none"`
//! `loss = (1 − s) · (lse − logits[target]) + s · (lse − mean(logits))` with `s` the label smoothing; a target equal to
//! `ignore_index` gives 0. The result for a target that is not a class is undefined, and no case may have one.
//!
//! `dlogits = (exp(logits − lse) − (1 − s) · [column = target] − s / classes) · dloss`, where `lse` is an input, and
//! need not be that of these logits.

use std::sync::OnceLock;

use super::arguments::Arguments;
use super::exp::exponentials;
use super::rounding::FP32;
use super::softmax::{ARGUMENT, EXPONENTIAL, RowSum, UNDERFLOW};
use super::view::Row;
use super::wide::{Work, wide};
use super::{Expected, Oracle, Tensors};

/// The parameters of a case, forward or backward.
#[derive(Debug)]
struct Setting {
    rows: u64,
    classes: u64,
    ignore_index: f64,
    smoothing: f64,
}

impl Setting {
    /// `wide` names the tensors of the shape of `logits`, `narrow` those with one element per row.
    fn new(given: &Arguments, wide: &[&str], narrow: &[&str]) -> anyhow::Result<Self> {
        let logits = given.tensor_like("logits", wide)?;
        for other in narrow {
            let view = given.tensor(other)?;
            let elements: u64 = view.shape.iter().product();
            anyhow::ensure!(
                elements == logits.rows() && (view.row_length() == 1 || view.rows() == 1),
                "the oracle {}: {other} has the shape {:?}, where logits has {} rows",
                given.operation,
                view.shape,
                logits.rows()
            );
        }
        Ok(Self {
            rows: logits.rows(),
            classes: logits.row_length(),
            ignore_index: given.value_or("ignore_index", -100.0),
            smoothing: given.float_or("label_smoothing", 0.0),
        })
    }

    /// The column of a target; none if it is ignored or not a class.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
    fn column(&self, target: f64) -> Option<usize> {
        let is_class = target >= 0.0 && target < self.classes as f64;
        (is_class && !self.is_ignored(target)).then_some(target as usize)
    }

    /// Both are integers that a double holds exactly.
    #[allow(clippy::float_cmp)]
    fn is_ignored(&self, target: f64) -> bool {
        target == self.ignore_index
    }
}

/// A row of logits, and its target.
fn inputs(tensors: &Tensors, row: u64) -> Option<(Row, f64)> {
    Some((tensors.row("logits", row)?, of_row(tensors, "targets", row)?))
}

/// The element of a row of a tensor of `[rows]` or `[rows, 1]`.
fn of_row(tensors: &Tensors, name: &str, row: u64) -> Option<f64> {
    let view = tensors.get(name)?;
    let stride = match view.shape.len() {
        1 => view.strides.first(),
        dimensions => view.strides.get(dimensions.checked_sub(2)?),
    };
    Some(view.element(row * stride?))
}

/// The oracle of one case of the loss.
#[derive(Debug)]
pub(super) struct CrossEntropy {
    setting: Setting,
    /// The sum of each row, once it is known: both outputs need it.
    sums: Vec<OnceLock<RowSum>>,
}

impl CrossEntropy {
    /// Needs the tensors `loss`, `lse`, `logits` and `targets`; takes the values `ignore_index` and `label_smoothing`.
    pub(super) fn new(given: &Arguments) -> anyhow::Result<Self> {
        for output in ["loss", "lse"] {
            let view = given.tensor(output)?;
            anyhow::ensure!(
                view.row_length() == 1 && view.shape.len() > 1 || view.shape.contains(&0),
                "the oracle cross_entropy works row by row: give {output} the shape [rows, 1], not {:?}",
                view.shape
            );
        }
        let setting = Setting::new(given, &[], &["loss", "lse", "targets"])?;
        let sums = (0..setting.rows).map(|_| OnceLock::new()).collect();
        Ok(Self { setting, sums })
    }

    fn sum(&self, row: u64, logits: &[f64]) -> RowSum {
        let of = || RowSum::of(&mut logits.to_vec(), 1.0, &mut Vec::new());
        let known = usize::try_from(row).ok().and_then(|row| self.sums.get(row));
        known.map_or_else(of, |known| *known.get_or_init(of))
    }
}

impl Oracle for CrossEntropy {
    fn outputs(&self) -> Vec<String> {
        vec!["loss".to_owned(), "lse".to_owned()]
    }

    fn rows(&self, _output: usize) -> u64 {
        self.setting.rows
    }

    fn reads(&self, _output: usize) -> u64 {
        self.setting.classes
    }

    /// The loss is a difference that cancels where the target is by far the most likely class, or the only one. So may
    /// the sum of maximum and logarithm in `lse`, with few rows of few classes. A relative error means nothing there;
    /// the budgets of the elements are narrow enough.
    fn relative_norm(&self, _output: usize) -> Option<f64> {
        Some(f64::INFINITY)
    }

    #[allow(clippy::cast_precision_loss)]
    fn row(&self, tensors: &Tensors, output: usize, row: u64, expected: &mut Expected) {
        expected.clear();
        let Some((logits, target)) = inputs(tensors, row) else {
            return;
        };
        if output == 0 && self.setting.is_ignored(target) {
            expected.push(0.0, 0.0);
            return;
        }
        let total = self.sum(row, &logits);
        // If all logits are -inf, the sum of exponentials is 0, as in torch.logsumexp; exp(x - max) would be NaN.
        let is_nothing = logits.iter().all(|x| *x == f64::NEG_INFINITY);
        let lse = if is_nothing { f64::NEG_INFINITY } else { total.max + total.sum.ln() };
        // log(S (1 + e)) = log S + e. In addition: the maximum, which may be scaled to base 2 and back (3), the GPU's
        // approximate logarithm (2, relative, and 2^-22 absolute), and their sum.
        let slack = total.error + (3.0 * total.max.abs() + 2.0 * total.sum.ln() + 4.0 + lse.abs()) * FP32;
        if output == 1 {
            expected.push(lse, slack);
            return;
        }
        let Some(column) = self.setting.column(target) else {
            return;
        };
        let (s, classes) = (self.setting.smoothing, logits.len() as f64);
        let chosen = logits[column];
        let slack = slack + (2.0 * lse.abs() + 2.0 * chosen.abs()) * FP32;
        if s == 0.0 {
            // Other logits, which may be -inf, contribute to lse only: their mean would be -inf.
            expected.push(lse - chosen, slack);
            return;
        }
        let mean = logits.iter().sum::<f64>() / classes;
        let size = logits.iter().map(|x| x.abs()).sum::<f64>() / classes;
        // A plain loop is allowed, as for the sum of the exponentials.
        let adding = 8.0 + classes.min(4096.0) / 4.0;
        let slack = slack + s * (4.0 * chosen.abs() + (4.0 + adding) * size) * FP32;
        expected.push((1.0 - s) * (lse - chosen) + s * (lse - mean), slack);
    }
}

/// The oracle of one case of the gradient.
#[derive(Debug)]
pub(super) struct Backward(Setting);

impl Backward {
    /// Needs the tensors `dlogits`, `logits`, `lse`, `targets` and `dloss`; takes the values `ignore_index` and
    /// `label_smoothing`.
    pub(super) fn new(given: &Arguments) -> anyhow::Result<Self> {
        Setting::new(given, &["dlogits"], &["lse", "targets", "dloss"]).map(Self)
    }
}

impl Oracle for Backward {
    fn outputs(&self) -> Vec<String> {
        vec!["dlogits".to_owned()]
    }

    fn rows(&self, _output: usize) -> u64 {
        self.0.rows
    }

    /// Among few elements, the one at the target may dominate the norm, and it is a difference that may cancel.
    fn relative_norm(&self, _output: usize) -> Option<f64> {
        (self.0.rows * self.0.classes < 64).then_some(f64::INFINITY)
    }

    #[allow(clippy::cast_precision_loss)]
    fn row(&self, tensors: &Tensors, _output: usize, row: u64, expected: &mut Expected) {
        expected.clear();
        let (Some((logits, target)), Some(lse), Some(dloss)) =
            (inputs(tensors, row), of_row(tensors, "lse", row), of_row(tensors, "dloss", row))
        else {
            return;
        };
        if self.0.is_ignored(target) {
            expected.zeros(logits.len());
            return;
        }
        let Some(column) = self.0.column(target) else {
            return;
        };
        let share = self.0.smoothing / logits.len() as f64;
        let mut distances = logits;
        for x in distances.iter_mut() {
            *x -= lse;
        }
        let mut likely = Row::new();
        exponentials(&distances, &mut likely);
        expected.zeros(distances.len());
        wide(Gradient { likely: &likely, distances: &distances, share, dloss, expected });
        let hit = 1.0 - self.0.smoothing;
        (expected.values[column], expected.slack[column]) =
            Gradient::element(likely[column], distances[column], (hit, share), dloss);
    }
}

/// The gradient of one row, but for its target.
struct Gradient<'a> {
    /// The probabilities, and the arguments of their exponentials.
    likely: &'a [f64],
    distances: &'a [f64],
    share: f64,
    dloss: f64,
    expected: &'a mut Expected,
}

impl Gradient<'_> {
    /// The value and the slack of an element, from which `hit` and the smoothing's `share` are subtracted.
    #[inline(always)]
    fn element(p: f64, d: f64, (hit, share): (f64, f64), dloss: f64) -> (f64, f64) {
        // The exponential, which magnifies the rounding of its argument; two subtractions of rounded terms (3); the last product.
        let exponential = if p > 0.0 { p * (EXPONENTIAL + ARGUMENT * d.abs()) } else { 0.0 };
        let error = exponential + 3.0 * (p + hit + share);
        let value = (p - hit - share) * dloss;
        let slack = (error * dloss.abs() + 2.0 * value.abs()) * FP32;
        (value, slack + UNDERFLOW * (1.0 + dloss.abs()))
    }
}

impl Work for Gradient<'_> {
    type Out = ();

    #[inline(always)]
    fn run<const ROWS: usize>(self) {
        let into = self.expected.values.iter_mut().zip(&mut self.expected.slack);
        for ((value, slack), (p, d)) in into.zip(self.likely.iter().zip(self.distances)) {
            (*value, *slack) = Self::element(*p, *d, (0.0, self.share), self.dloss);
        }
    }
}
