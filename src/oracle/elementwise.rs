//! A chain of elementwise operations: `out = residual + scale · gelu(x + bias)`.
//!
//! `bias` and `scale` have one element per column. With `tanh`, gelu is its approximation by the hyperbolic tangent. In
//! place, the sum replaces `residual`.

use super::arguments::Arguments;
use super::gated::{ARITHMETIC, Activation, UNDERFLOW};
use super::rounding::FP32;
use super::{Expected, Oracle, Tensors};

/// The oracle of one case.
#[derive(Debug)]
pub(super) struct Elementwise {
    output: &'static str,
    activation: Activation,
    rows: u64,
    bias: Vec<f64>,
    scale: Vec<f64>,
}

impl Elementwise {
    /// Needs the tensors `residual`, `x`, `bias`, `scale` and, unless it is in place, `out`; takes the value `tanh`.
    pub(super) fn new(given: &Arguments, in_place: bool) -> anyhow::Result<Self> {
        let output = if in_place { "residual" } else { "out" };
        let x = given.tensor_like("x", &["residual", output])?;
        let vector = |name: &str| -> anyhow::Result<Vec<f64>> {
            given.tensor(name)?;
            let mut elements = Vec::new();
            if let Some(view) = given.vector(name, x.row_length())? {
                view.row(0, &mut elements);
            }
            Ok(elements)
        };
        Ok(Self {
            output,
            activation: Activation::gelu(given),
            rows: x.rows(),
            bias: vector("bias")?,
            scale: vector("scale")?,
        })
    }

    /// The relative error of gelu's `p`, in half-ulps, that the rounding of `z = x + bias` causes where `z` is
    /// negative: `z²` where `p` decays as `exp(-z²/2)`, and `3|y|` where it decays as `exp(y)`, because `y` grows at
    /// most as `z³`.
    fn magnified(&self, z: f64) -> f64 {
        if z >= 0.0 {
            return 0.0;
        }
        let root = (2.0 / std::f64::consts::PI).sqrt();
        match self.activation {
            Activation::GeluTanh => -6.0 * root * (z + 0.044_715 * z * z * z),
            _ => z * z,
        }
    }
}

impl Oracle for Elementwise {
    fn outputs(&self) -> Vec<String> {
        vec![self.output.to_owned()]
    }

    fn rows(&self, _output: usize) -> u64 {
        self.rows
    }

    fn row(&self, tensors: &Tensors, _output: usize, row: u64, expected: &mut Expected) {
        expected.clear();
        let (Some(before), Some(given)) = (tensors.row("residual", row), tensors.row("x", row)) else {
            return;
        };
        for (column, (before, x)) in before.iter().zip(given.iter()).enumerate() {
            let (Some(bias), Some(scale)) = (self.bias.get(column), self.scale.get(column)) else {
                return;
            };
            let z = x + bias;
            let point = self.activation.at(z);
            let product = scale * (z * point.p);
            // In addition to the error of gelu: the roundings of z, of the product and of the sum.
            let relative = ARITHMETIC + point.condition + self.magnified(z) + 2.0;
            expected.push(
                before + product,
                (product.abs() * relative + (before + product).abs()) * FP32
                    + scale.abs() * (1.0 + z.abs()) * UNDERFLOW,
            );
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::cast_possible_truncation)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::oracle::View;
    use crate::oracle::rounding::ulp;
    use crate::project::DType;

    /// What is expected of single elements, in fp32.
    fn expected(residual: f32, x: f32, bias: f32, scale: f32, tanh: bool, in_place: bool) -> (f64, f64) {
        let held = [("residual", residual), ("x", x), ("bias", bias), ("scale", scale), ("out", 0.0)]
            .map(|(name, value)| (name, value.to_le_bytes()));
        let mut tensors = Tensors::default();
        for (name, bytes) in &held {
            let vector = matches!(*name, "bias" | "scale");
            let shape: &[u64] = if vector { &[1] } else { &[1, 1] };
            let view = View::dense(DType::F32, shape, bytes);
            tensors.views.insert((*name).to_owned(), view);
        }
        let values = BTreeMap::from([("tanh".to_owned(), f64::from(u8::from(tanh)))]);
        let oracle = Elementwise::new(&Arguments::with("", &tensors, &values), in_place).unwrap();
        assert_eq!(oracle.outputs(), [if in_place { "residual" } else { "out" }]);
        let mut row = Expected::default();
        oracle.row(&tensors, 0, 0, &mut row);
        (row.values[0], row.slack[0])
    }

    #[test]
    fn every_input_is_where_it_belongs() {
        // gelu(-1) = -0.15865525393145705 and gelu(1.5) = 1.3997891980967129, from erfc.
        for in_place in [false, true] {
            let (value, _) = expected(10.0, -1.5, 0.5, 4.0, false, in_place);
            assert!((value - (10.0 - 4.0 * 0.158_655_253_931_457_05)).abs() < 1e-13);
            let (value, _) = expected(-0.5, 1.0, 0.5, -2.0, false, in_place);
            assert!((value - (-0.5 - 2.0 * 1.399_789_198_096_713)).abs() < 1e-13);
        }
        let (exact, _) = expected(0.0, 1.0, 0.5, 1.0, false, false);
        let (tanh, _) = expected(0.0, 1.0, 0.5, 1.0, true, false);
        assert!((exact - tanh).abs() > 1e-5);
    }

    #[test]
    fn a_rounded_argument_is_inside_the_budget_and_rounding_between_the_steps_is_not() {
        let (mut worst, mut outside) = (0f64, 0);
        for at in 0..4000 {
            let x = (f64::from(at) * 0.731).sin() as f32 * 9.0;
            let bias = (f64::from(at) * 0.377).cos() as f32 * 3.0;
            for tanh in [false, true] {
                let (value, slack) = expected(0.0, x, bias, 1.0, tanh, false);
                // The sum rounded to fp32, as in every kernel.
                let (rounded, _) = expected(0.0, x + bias, 0.0, 1.0, tanh, false);
                worst = worst.max((rounded - value).abs() / slack);
                // Rounded to bf16, as an unfused chain does.
                let narrow = crate::oracle::rounding::round(DType::BF16, f64::from(x + bias));
                let (unfused, _) = expected(0.0, narrow as f32, 0.0, 1.0, tanh, false);
                let budget = ulp(DType::BF16, value) / 2.0 + slack;
                outside += usize::from((unfused - value).abs() > budget);
            }
        }
        assert!(worst < 0.7, "{worst}");
        assert!(outside > 800, "{outside}");
    }

    #[test]
    fn sizes_that_do_not_fit_are_named() {
        let bytes = [0u8; 64];
        let mut tensors = Tensors::default();
        for name in ["residual", "x", "out", "scale", "bias"] {
            let vector = matches!(name, "bias" | "scale");
            let shape: &[u64] = if vector { &[3] } else { &[2, 4] };
            let view = View::dense(DType::F32, shape, &bytes);
            tensors.views.insert(name.to_owned(), view);
        }
        let error = Elementwise::new(&Arguments::of("", &tensors), false).unwrap_err();
        assert!(error.to_string().contains("bias has the shape [3]"), "{error}");
    }
}
