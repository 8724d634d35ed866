//! Gated activations: GEGLU and `SwiGLU`, and their gradients.
//!
//! `out = value · act(gate)`. Packed, value and gate are the halves of a row of `x`: value first, as in diffusers'
//! `GEGLU` and `SwiGLU`, or with `gate_first` the other way round. `act` is gelu (with `tanh` its approximation by
//! the hyperbolic tangent, torch's `approximate="tanh"`) or silu. Every one is `x · p(x)` with a distribution
//! function `p`: `d_value = dy · x · p(x)`, `d_gate = dy · value · (p(x) + x · p′(x))`.
//!
//! For large negative `x`, `p` is tiny and its relative error must be small as well: `1 + erf` cancels there, in the
//! oracle as in a kernel.

use super::arguments::Arguments;
use super::rounding::FP32;
use super::view::Row;
use super::{Expected, Oracle, Tensors};

/// The relative error, in half-ulps of fp32, of a correct implementation whose argument is exact: the GPU's approximate
/// exponential and reciprocal (about 3 and 2, the first possibly squared), a quotient of polynomials (3), and the
/// products (4).
pub(super) const ARITHMETIC: f64 = 16.0;
/// The absolute error of a product in the subnormal range of fp32: its smallest subnormal number, twice the rounding
/// error.
pub(super) const UNDERFLOW: f64 = f32::MIN_POSITIVE as f64 / 8_388_608.0;

/// The activation of the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Activation {
    Gelu,
    GeluTanh,
    Silu,
}

/// Which tensors hold value and gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// Halves of `x`, and of `dx`.
    Packed { gate_first: bool },
    /// `up` and `gate`, and `d_up` and `d_gate`.
    Two,
}

/// The oracle of one case.
#[derive(Debug)]
pub(super) struct Gated {
    activation: Activation,
    form: Form,
    backward: bool,
    rows: u64,
}

/// An activation at one point: `p`, `x · p′`, and the relative error of `p` that errors of its argument cause, in
/// half-ulps of fp32.
pub(super) struct Point {
    pub(super) p: f64,
    pub(super) x_slope: f64,
    pub(super) condition: f64,
}

impl Activation {
    /// gelu, or with the value `tanh` its approximation.
    pub(super) fn gelu(given: &Arguments) -> Self {
        if given.flag("tanh") { Self::GeluTanh } else { Self::Gelu }
    }

    pub(super) fn at(self, x: f64) -> Point {
        // Errors of the argument matter where p decays exponentially, on the negative side.
        let if_negative = |much: f64| if x < 0.0 { much } else { 0.0 };
        match self {
            Self::Gelu => {
                let tail = normal_tail(x.abs());
                let density = (-x * x / 2.0).exp() / std::f64::consts::TAU.sqrt();
                Point {
                    p: if x > 0.0 { 1.0 - tail } else { tail },
                    x_slope: x * density,
                    // p decays as exp(-x²/2), and x² / 2, or x / √2 before it is squared, is rounded, as is its
                    // constant.
                    condition: if_negative(2.0 * x * x),
                }
            }
            Self::GeluTanh => {
                let twice = 2.0 * (2.0 / std::f64::consts::PI).sqrt();
                let (p, slope, y) = logistic(twice * (x + 0.044_715 * x * x * x));
                Point {
                    p,
                    x_slope: x * slope * twice * (1.0 + 3.0 * 0.044_715 * x * x),
                    // p decays as exp(y), and y has been rounded four times.
                    condition: if_negative(4.0 * y.abs()),
                }
            }
            Self::Silu => {
                let (p, slope, y) = logistic(x);
                Point {
                    p,
                    x_slope: x * slope,
                    // The rounding of the argument, and that of the constant log2(e).
                    condition: if_negative(2.0 * y.abs()),
                }
            }
        }
    }
}

impl Gated {
    /// GEGLU: as [`Gated::packed`], and takes the value `tanh`.
    pub(super) fn geglu(given: &Arguments, backward: bool) -> anyhow::Result<Self> {
        Ok(Self { activation: Activation::gelu(given), ..Self::packed(given, backward)? })
    }

    /// `SwiGLU` of the tensors `gate`, `up` and `out`, or `gate`, `up`, `dy`, `d_gate` and `d_up`.
    pub(super) fn swiglu(given: &Arguments, backward: bool) -> anyhow::Result<Self> {
        let others: &[&str] = if backward { &["up", "dy", "d_gate", "d_up"] } else { &["up", "out"] };
        Ok(Self {
            activation: Activation::Silu,
            form: Form::Two,
            backward,
            rows: given.tensor_like("gate", others)?.rows(),
        })
    }

    /// `SwiGLU` of the tensors `x` and `out`, or `x`, `dy` and `dx`; takes the value `gate_first`.
    pub(super) fn packed(given: &Arguments, backward: bool) -> anyhow::Result<Self> {
        let x = given.tensor_like("x", if backward { &["dx"] } else { &[] })?;
        let inner = given.tensor(if backward { "dy" } else { "out" })?;
        anyhow::ensure!(
            x.row_length() == 2 * inner.row_length() && x.rows() == inner.rows(),
            "the oracle {}: a row of x has twice the elements of one of the other tensor, but the shapes are {:?} and {:?}",
            given.operation,
            x.shape,
            inner.shape
        );
        Ok(Self {
            activation: Activation::Silu,
            form: Form::Packed { gate_first: given.flag("gate_first") },
            backward,
            rows: x.rows(),
        })
    }

    /// A row of the value and of the gate.
    fn inputs(&self, tensors: &Tensors, row: u64) -> Option<(Row, Row)> {
        let read = |name: &str| tensors.row(name, row);
        match self.form {
            Form::Two => Some((read("up")?, read("gate")?)),
            Form::Packed { gate_first } => {
                let mut first = read("x")?;
                let mut second = Row::new();
                second.extend_from_slice(&first[first.len() / 2..]);
                first.truncate(second.len());
                Some(if gate_first { (second, first) } else { (first, second) })
            }
        }
    }

    /// `out = value · act(gate)`; with `dy` in place of `value`, the gradient of the value.
    fn forward(&self, value: &[f64], gate: &[f64], expected: &mut Expected) {
        for (value, x) in value.iter().zip(gate) {
            let point = self.activation.at(*x);
            let exact = value * (x * point.p);
            let relative = (ARITHMETIC + point.condition) * FP32;
            expected.push(exact, exact.abs() * relative + value.abs() * (1.0 + x.abs()) * UNDERFLOW);
        }
    }

    fn gate_gradient(&self, dy: &[f64], value: &[f64], gate: &[f64], expected: &mut Expected) {
        for ((dy, value), x) in dy.iter().zip(value).zip(gate) {
            let point = self.activation.at(*x);
            let relative = (ARITHMETIC + point.condition) * FP32;
            // The derivative goes through zero near -0.75 (silu: -1.28), where its terms cancel.
            let terms = point.p + point.x_slope.abs();
            let lost = (1.0 + dy.abs()) * (1.0 + value.abs()) * (1.0 + x.abs()) * UNDERFLOW;
            expected.push(dy * (value * (point.p + point.x_slope)), (dy * value).abs() * terms * relative + lost);
        }
    }
}

impl Oracle for Gated {
    fn outputs(&self) -> Vec<String> {
        let names: &[&str] = match (self.backward, self.form) {
            (false, _) => &["out"],
            (true, Form::Packed { .. }) => &["dx"],
            (true, Form::Two) => &["d_gate", "d_up"],
        };
        names.iter().map(|&name| name.to_owned()).collect()
    }

    fn rows(&self, _output: usize) -> u64 {
        self.rows
    }

    fn row(&self, tensors: &Tensors, output: usize, row: u64, expected: &mut Expected) {
        expected.clear();
        let Some((value, gate)) = self.inputs(tensors, row) else {
            return;
        };
        if !self.backward {
            return self.forward(&value, &gate, expected);
        }
        let Some(dy) = tensors.row("dy", row) else {
            return;
        };
        match (self.form, output) {
            (Form::Two, 0) => self.gate_gradient(&dy, &value, &gate, expected),
            (Form::Two, _) => self.forward(&dy, &gate, expected),
            (Form::Packed { gate_first: true }, _) => {
                self.gate_gradient(&dy, &value, &gate, expected);
                self.forward(&dy, &gate, expected);
            }
            (Form::Packed { gate_first: false }, _) => {
                self.forward(&dy, &gate, expected);
                self.gate_gradient(&dy, &value, &gate, expected);
            }
        }
    }
}

/// `1 / (1 + exp(-y))`, its derivative, and `y`.
fn logistic(y: f64) -> (f64, f64, f64) {
    let tail = (-y.abs()).exp();
    let (small, large) = (tail / (1.0 + tail), 1.0 / (1.0 + tail));
    (if y > 0.0 { large } else { small }, small * large, y)
}

/// The upper tail probability of the standard normal distribution for `t >= 0`. Its relative error is that of `t / √2`, `t²` roundings
/// of a double.
fn normal_tail(t: f64) -> f64 {
    0.5 * libm::erfc(t * std::f64::consts::FRAC_1_SQRT_2)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::excessive_precision)]
mod tests {
    use super::*;
    use crate::oracle::View;
    use crate::oracle::rounding::ulp;
    use crate::project::DType;

    fn bytes(elements: &[f32]) -> Vec<u8> {
        elements.iter().flat_map(|x| x.to_le_bytes()).collect()
    }

    fn with(names: &[(&str, &[f32])], values: &[(&str, f64)], operation: &str) -> Vec<Expected> {
        let held: Vec<(&str, Vec<u8>)> = names.iter().map(|(name, x)| (*name, bytes(x))).collect();
        let mut tensors = Tensors::default();
        for (name, data) in &held {
            let view = View::dense(DType::F32, &[1, data.len() as u64 / 4], data);
            tensors.views.insert((*name).to_owned(), view);
        }
        let values = values.iter().map(|(n, v)| ((*n).to_owned(), *v)).collect();
        let oracle = crate::oracle::bundled(operation, &tensors, &values).unwrap().unwrap();
        (0..oracle.outputs().len())
            .map(|output| {
                let mut expected = Expected::default();
                oracle.row(&tensors, output, 0, &mut expected);
                expected
            })
            .collect()
    }

    fn near(got: f64, exact: f64) {
        assert!((got / exact - 1.0).abs() < 1e-12, "{got:e}, not {exact:e}");
    }

    #[test]
    fn the_tail_is_right_far_out() {
        // From mpmath: erfc(t / sqrt(2)) / 2 with 30 digits.
        for (t, tail) in [
            (0.001, 0.499_601_057_786_088_937),
            (0.5, 0.308_537_538_725_986_896),
            (1.0, 0.158_655_253_931_457_051),
            (2.5, 0.006_209_665_325_776_135_17),
            (2.999, 0.001_354_336_533_727_106),
            (3.0, 0.001_349_898_031_630_095),
            (3.5, 0.000_232_629_079_035_525),
            (5.0, 2.866_515_718_791_939_12e-7),
            (13.0, 6.117_164_399_549_879_68e-39),
            (30.0, 4.906_713_927_148_187_06e-198),
        ] {
            near(normal_tail(t), tail);
        }
        assert!((normal_tail(0.0) - 0.5).abs() < 1e-15);
        assert!(normal_tail(1e30) == 0.0);
    }

    #[test]
    fn halves_go_where_the_options_say() {
        let x: &[f32] = &[3.0, -2.0];
        let gelu = |x: f64| x * if x > 0.0 { 1.0 - normal_tail(x) } else { normal_tail(-x) };
        let given: &[(&str, &[f32])] = &[("x", x), ("out", &[0.0])];
        near(with(given, &[], "geglu")[0].values[0], 3.0 * gelu(-2.0));
        near(with(given, &[("gate_first", 1.0)], "geglu")[0].values[0], -2.0 * gelu(3.0));
        near(
            with(given, &[("tanh", 1.0)], "geglu")[0].values[0],
            3.0 * -0.5 * 2.0 * (1.0 + (0.797_884_560_802_865_4f64 * (-2.0 - 0.044_715 * 8.0)).tanh()),
        );
        let silu = |x: f64| x / (1.0 + (-x).exp());
        near(with(given, &[], "swiglu_packed")[0].values[0], 3.0 * silu(-2.0));
        let two: &[(&str, &[f32])] = &[("up", &[3.0]), ("gate", &[-2.0]), ("out", &[0.0])];
        near(with(two, &[], "swiglu")[0].values[0], 3.0 * silu(-2.0));
    }

    #[test]
    fn gradients_are_those_of_the_forward_direction() {
        let step = 1.0 / 4096.0; // exact in f32 beside the numbers here; the error is of its square
        for (operation, backward, values) in [
            ("geglu", "geglu_backward", vec![]),
            ("geglu", "geglu_backward", vec![("tanh", 1.0)]),
            ("geglu", "geglu_backward", vec![("gate_first", 1.0)]),
        ] {
            for x in [[1.5f32, -2.0], [0.25, 0.75], [-1.0, 3.0]] {
                let out = |x: &[f32]| with(&[("x", x), ("out", &[0.0])], &values, operation)[0].values[0];
                let dx = with(&[("x", &x), ("dx", &x), ("dy", &[2.0])], &values, backward);
                for half in 0..2 {
                    let (mut above, mut below) = (x, x);
                    above[half] += step;
                    below[half] -= step;
                    let slope = (out(&above) - out(&below)) / f64::from(step);
                    let got = dx[0].values[half];
                    assert!((got - slope).abs() < 1e-6, "{got} {slope}");
                }
            }
        }
        let one: &[f32] = &[0.0];
        let given = [("gate", &[-1.5f32][..]), ("up", &[0.5]), ("dy", &[2.0]), ("d_gate", one), ("d_up", one)];
        let got = with(&given, &[], "swiglu_backward");
        let s = 1.0 / (1.0 + 1.5f64.exp());
        near(got[0].values[0], 2.0 * 0.5 * s * (1.0 - 1.5 * (1.0 - s)));
        near(got[1].values[0], 2.0 * -1.5 * s);
    }

    #[test]
    fn what_cancels_and_what_is_another_function_is_outside_the_budget() {
        // An erf of fp32 is a multiple of 2^-24 near -1: what 1 + erf leaves at -5 has four bits.
        let expected = &with(&[("x", &[1.0, -5.0]), ("out", &[0.0])], &[], "geglu")[0];
        let erf = crate::oracle::rounding::round(DType::F32, 2.0 * normal_tail(5.0) - 1.0);
        let naive = -5.0 * 0.5 * (1.0 + erf);
        let (value, slack) = (expected.values[0], expected.slack[0]);
        assert!((naive - value).abs() > 10.0 * (slack + ulp(DType::BF16, value) / 2.0));
        // The tanh approximation is another function.
        let tanh = &with(&[("x", &[1.0, -1.0]), ("out", &[0.0])], &[("tanh", 1.0)], "geglu")[0];
        let exact = &with(&[("x", &[1.0, -1.0]), ("out", &[0.0])], &[], "geglu")[0];
        let apart = (tanh.values[0] - exact.values[0]).abs();
        assert!(apart > 2.0 * (exact.slack[0] + ulp(DType::F16, exact.values[0]) / 2.0));
        // And the slack is a few units of f32 where nothing is hard.
        assert!(exact.slack[0] < 12.0 * ulp(DType::F32, exact.values[0]));
    }

    #[test]
    fn sizes_that_do_not_fit_are_named() {
        let data = bytes(&[0.0; 6]);
        let view = |length: u64| View::dense(DType::F32, &[1, length], &data);
        let mut tensors = Tensors::default();
        tensors.views.insert("x".to_owned(), view(6));
        tensors.views.insert("out".to_owned(), view(2));
        let error = Gated::geglu(&Arguments::of("geglu", &tensors), false).unwrap_err();
        assert!(error.to_string().contains("twice the elements"), "{error}");
    }
}
