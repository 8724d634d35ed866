//! Rotary position embedding of the halves of a head, alone and after a root-mean-square norm per head.
//!
//! For each head of `q` and `k`, with h = `rotary_dim` / 2: `out[i] = x[i]·cos[i] − x[h+i]·sin[i]` and
//! `out[h+i] = x[h+i]·cos[i] + x[i]·sin[i]` for i < h; elements from `rotary_dim` on are unchanged. This is transformers'
//! `apply_rotary_pos_emb`, whose tables hold the same values in both halves of their columns: the first half is read.
//! `inverse` rotates by the negative angle. With the norm, x is `x · rsqrt(mean(x²) + eps) · (weight + weight_offset)`
//! of the whole head, and `round_first` rounds it to the element type before the weight, as `Qwen3RMSNorm` does.

use anyhow::ensure;

use super::arguments::Arguments;
use super::rms_norm::Norm;
use super::rounding::FP32;
use super::view::Row;
use super::wide::{Work, wide};
use super::{Expected, Oracle, Tensors, View};

/// Which of the four operations.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Form {
    /// Each head is normalised first.
    pub(crate) norm: bool,
    /// The outputs are `q` and `k` themselves, else `q_out` and `k_out`.
    pub(crate) in_place: bool,
}

/// A tensor that is rotated.
#[derive(Debug)]
struct Rotated {
    output: &'static str,
    input: &'static str,
    norm: Option<Norm>,
    rows: u64,
}

/// The oracle of one case.
#[derive(Debug)]
pub(super) struct Rope {
    rotated: Vec<Rotated>,
    half: usize,
    /// -1 for the inverse.
    sign: f64,
}

impl Rope {
    /// Needs the tensors `q` or `k` or both, `cos` and `sin`, the outputs unless in place, and the value `rotary_dim`.
    /// Without the norm it takes the value `inverse`, with it what [`Norm`] takes for `q_weight` and `k_weight`.
    pub(super) fn new(given: &Arguments, form: Form) -> anyhow::Result<Self> {
        let names = if form.in_place {
            [("q", "q", "q_weight"), ("k", "k", "k_weight")]
        } else {
            [("q_out", "q", "q_weight"), ("k_out", "k", "k_weight")]
        };
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let half = (given.value("rotary_dim")? / 2.0) as u64;
        let mut rotated = Vec::new();
        for (output, input, weight) in names {
            let Some(x) = given.tensors.get(input) else {
                continue;
            };
            check_shapes(given, half, (input, x), output)?;
            let norm = form.norm.then(|| Norm::new(given, weight, x.row_length()));
            rotated.push(Rotated { output, input, norm: norm.transpose()?, rows: x.rows() });
        }
        let inverse = !form.norm && given.flag("inverse");
        Ok(Self { rotated, half: usize::try_from(half)?, sign: if inverse { -1.0 } else { 1.0 } })
    }
}

/// Checks that the shapes of an input, its output and the tables match.
fn check_shapes(given: &Arguments, half: u64, (input, x): (&str, &View), output: &str) -> anyhow::Result<()> {
    let (name, out) = (given.operation, given.tensor(output)?);
    ensure!(
        x.shape.len() == 4 && x.shape == out.shape && 2 * half <= x.row_length(),
        "the oracle {name}: {input} is {:?} and {output} {:?}, and {half} pairs are rotated",
        x.shape,
        out.shape
    );
    for table in [given.tensor("cos")?, given.tensor("sin")?] {
        ensure!(
            table.shape.len() == 3
                && (table.shape[0] == 1 || table.shape[0] == x.shape[0])
                && table.shape[1] == x.shape[1]
                && table.shape[2] >= half,
            "the oracle {name}: a table is {:?} for {input} of {:?} and {half} pairs",
            table.shape,
            x.shape
        );
    }
    Ok(())
}

impl Oracle for Rope {
    fn outputs(&self) -> Vec<String> {
        self.rotated.iter().map(|tensor| tensor.output.to_owned()).collect()
    }

    fn rows(&self, output: usize) -> u64 {
        self.rotated[output].rows
    }

    fn row(&self, tensors: &Tensors, output: usize, row: u64, expected: &mut Expected) {
        expected.clear();
        let tensor = &self.rotated[output];
        let tables = (tensors.get("cos"), tensors.get("sin"));
        let (Some(x), (Some(cos), Some(sin))) = (tensors.get(tensor.input), tables) else {
            return;
        };
        let (mut values, mut slacks) = (Row::new(), Row::new());
        x.row(row, &mut values);
        slacks.resize(values.len(), 0.0);
        if let Some(norm) = &tensor.norm {
            norm.apply(x.dtype, &mut values, &mut slacks);
        }

        let (tokens, heads) = (x.shape[1], x.shape[2]);
        let (batch, token) = (row / heads / tokens, row / heads % tokens);
        let table_row = if cos.shape[0] == 1 { token } else { batch * tokens + token };
        let (mut cosines, mut sines) = (Row::new(), Row::new());
        if self.half > 0 {
            cos.row(table_row, &mut cosines);
            sin.row(table_row, &mut sines);
        }
        cosines.truncate(self.half);
        sines.truncate(self.half);
        expected.values.extend_from_slice(&values);
        expected.slack.extend_from_slice(&slacks);
        wide(Rotate { cos: &cosines, sin: &sines, sign: self.sign, expected });
    }
}

/// The rotation of one head.
struct Rotate<'a> {
    cos: &'a [f64],
    sin: &'a [f64],
    sign: f64,
    expected: &'a mut Expected,
}

impl Work for Rotate<'_> {
    type Out = ();

    #[inline(always)]
    fn run<const ROWS: usize>(self) {
        let half = self.cos.len();
        let (one, other) = self.expected.values.split_at_mut(half);
        let (slack, other_slack) = self.expected.slack.split_at_mut(half);
        let heads = one.iter_mut().zip(other).zip(slack.iter_mut().zip(other_slack));
        for (((one, other), (slack, other_slack)), (cos, sin)) in heads.zip(self.cos.iter().zip(self.sin)) {
            let sin = self.sign * sin;
            let (near, far) = ([*one * cos, *other * -sin], [*other * cos, *one * sin]);
            let (inherited, of_other) =
                (*slack * cos.abs() + *other_slack * sin.abs(), *other_slack * cos.abs() + *slack * sin.abs());
            // Each product and the sum are off by half an fp32 ulp at most, relative to the products, which may cancel.
            *one = near[0] + near[1];
            *other = far[0] + far[1];
            *slack = inherited + (near[0].abs() + near[1].abs()) * 2.0 * FP32;
            *other_slack = of_other + (far[0].abs() + far[1].abs()) * 2.0 * FP32;
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::float_cmp, clippy::cast_precision_loss)]
mod tests {
    use super::*;
    use crate::oracle::rounding::round;
    use crate::oracle::view::encode;
    use crate::project::DType;

    fn bytes(dtype: DType, count: u64, from: f64) -> Vec<u8> {
        let mut all = Vec::new();
        for i in 0..count {
            encode(dtype, (from + i as f64 * 0.37).sin(), &mut all);
        }
        all
    }

    /// 2 x 3 tokens with 2 heads of q and 1 of k, of 6 elements each.
    fn tensors(dtype: DType, table_batch: u64) -> Tensors<'static> {
        let mut all = Tensors::default();
        for (name, shape, from) in [
            ("q", vec![2, 3, 2, 6], 0.0),
            ("k", vec![2, 3, 1, 6], 1.0),
            ("q_out", vec![2, 3, 2, 6], 0.0),
            ("k_out", vec![2, 3, 1, 6], 0.0),
            ("q_weight", vec![6], 2.0),
            ("k_weight", vec![6], 3.0),
            ("cos", vec![table_batch, 3, 6], 4.0),
            ("sin", vec![table_batch, 3, 6], 5.0),
        ] {
            let bytes = bytes(dtype, shape.iter().product(), from).leak();
            all.views.insert(name.to_owned(), View::dense(dtype, &shape, bytes));
        }
        all
    }

    fn oracle(tensors: &Tensors, form: Form, values: &[(&str, f64)]) -> Rope {
        let values = values.iter().map(|(k, v)| ((*k).to_owned(), *v)).collect();
        Rope::new(&Arguments::with("rope", tensors, &values), form).unwrap()
    }

    fn row(tensors: &Tensors, name: &str, row: u64) -> Vec<f64> {
        let mut into = Vec::new();
        tensors.need(name, "test").unwrap().row(row, &mut into);
        into
    }

    const PLAIN: Form = Form { norm: false, in_place: false };
    const NORM: Form = Form { norm: true, in_place: false };

    #[test]
    fn halves_turn_against_each_other_with_the_row_of_their_token() {
        for table_batch in [1, 2] {
            let tensors = tensors(DType::F32, table_batch);
            let oracle = oracle(&tensors, PLAIN, &[("rotary_dim", 6.0)]);
            assert_eq!(oracle.outputs(), ["q_out", "k_out"]);
            assert_eq!((oracle.rows(0), oracle.rows(1)), (12, 6));
            // The second head of the last token of the second batch, and the head of k there.
            for (output, input, at) in [(0, "q", 11), (1, "k", 5)] {
                let mut expected = Expected::default();
                oracle.row(&tensors, output, at, &mut expected);
                let table = if table_batch == 1 { 2 } else { 5 };
                let (x, c, s) = (row(&tensors, input, at), row(&tensors, "cos", table), row(&tensors, "sin", table));
                for i in 0..3 {
                    assert_eq!(expected.values[i], x[i] * c[i] - x[3 + i] * s[i]);
                    assert_eq!(expected.values[3 + i], x[3 + i] * c[i] + x[i] * s[i]);
                }
            }
        }
    }

    #[test]
    fn the_rest_of_a_partly_rotated_head_stays_to_the_bit() {
        let tensors = tensors(DType::F32, 1);
        let oracle = oracle(&tensors, PLAIN, &[("rotary_dim", 2.0)]);
        let mut expected = Expected::default();
        oracle.row(&tensors, 0, 3, &mut expected);
        assert_eq!(expected.values[2..], row(&tensors, "q", 3)[2..]);
        assert_eq!(expected.slack[2..], [0.0; 4]);
    }

    #[test]
    fn the_inverse_turns_back() {
        let tensors = tensors(DType::F32, 1);
        let all = [("rotary_dim", 6.0), ("inverse", 1.0)];
        let (there, back) = (oracle(&tensors, PLAIN, &all[..1]), oracle(&tensors, PLAIN, &all));
        let (mut a, mut b) = (Expected::default(), Expected::default());
        there.row(&tensors, 0, 0, &mut a);
        back.row(&tensors, 0, 0, &mut b);
        let (x, c) = (row(&tensors, "q", 0), row(&tensors, "cos", 0));
        for i in 0..6 {
            // There and back again by the same angle: the sines cancel.
            assert!((a.values[i] + b.values[i] - 2.0 * x[i] * c[i % 3]).abs() < 1e-15);
        }
    }

    #[test]
    fn the_norm_is_of_the_head_and_its_own_weight() {
        let tensors = tensors(DType::F32, 1);
        let values = [("rotary_dim", 2.0), ("eps", 1e-6), ("weight_offset", 1.0)];
        let oracle = oracle(&tensors, NORM, &values);
        let mut expected = Expected::default();
        oracle.row(&tensors, 1, 4, &mut expected);
        let (x, w) = (row(&tensors, "k", 4), row(&tensors, "k_weight", 0));
        let mean = x.iter().map(|v| v * v).sum::<f64>() / 6.0;
        let eps = f64::from(1e-6_f32);
        for i in 2..6 {
            let right = x[i] / (mean + eps).sqrt() * (w[i] + 1.0);
            assert!((expected.values[i] - right).abs() < 1e-15);
        }
    }

    #[test]
    fn fp32_arithmetic_is_within_the_slack_and_wrong_variants_are_not() {
        let tensors = tensors(DType::F32, 1);
        let oracle = oracle(&tensors, PLAIN, &[("rotary_dim", 6.0)]);
        let (mut pairs, mut far) = (0, 0);
        for at in 0..12 {
            let mut expected = Expected::default();
            oracle.row(&tensors, 0, at, &mut expected);
            let x = row(&tensors, "q", at);
            let (c, s) = (row(&tensors, "cos", at / 2 % 3), row(&tensors, "sin", at / 2 % 3));
            for i in 0..3 {
                #[allow(clippy::cast_possible_truncation)]
                let [x1, x2, c, s, far_c] = [x[i], x[3 + i], c[i], s[i], c[3 + i]].map(|v| v as f32);
                let off = |value: f32| (f64::from(value) - expected.values[i]).abs();
                let budget = expected.slack[i];
                assert!(off(x1 * c - x2 * s) <= budget);
                assert!(off(x1 * c + x2 * s) > budget, "the other way round");
                // Interleaved pairs, and the second half of the columns.
                #[allow(clippy::cast_possible_truncation)]
                let neighbour = x[(i + 1) % 6] as f32;
                pairs += usize::from(off(x1 * c - neighbour * s) > budget);
                far += usize::from(off(x1 * far_c - x2 * s) > budget);
            }
        }
        // One may be near by chance.
        assert!(pairs >= 35 && far >= 35, "{pairs} {far}");
    }

    #[test]
    fn rounding_first_admits_both_neighbours_of_a_tie_only() {
        let tensors = tensors(DType::BF16, 1);
        let values = [("rotary_dim", 0.0), ("eps", 1e-6), ("round_first", 1.0)];
        let oracle = oracle(&tensors, NORM, &values);
        let mut expected = Expected::default();
        for at in 0..12 {
            oracle.row(&tensors, 0, at, &mut expected);
            let w = row(&tensors, "q_weight", 0);
            for ((value, slack), w) in expected.values.iter().zip(&expected.slack).zip(&w) {
                let normed = value / w;
                assert!((round(DType::BF16, normed) - normed).abs() <= 1e-14 * normed.abs());
                assert!(*slack <= value.abs() / 120.0);
            }
        }
    }
}
