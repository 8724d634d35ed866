//! Compares outputs with the oracle, element by element, on all cores.

use crate::base::cores;
use crate::oracle::rounding::{largest, smallest_normal, ulp};
use crate::oracle::threads::share;
use crate::oracle::{Expected, Oracle, Tensors, View};
use crate::project::DType;

/// The result of a comparison.
#[derive(Clone, Debug, Default)]
pub(crate) struct Comparison {
    /// Elements compared.
    pub elements: u64,
    /// Elements outside their budget.
    pub wrong: u64,
    /// The largest error in units of its budget.
    pub worst: f64,
    /// The first element outside its budget, in the order of outputs and then of elements.
    pub first: Option<Wrong>,
    /// For each output: its name, ‖out − reference‖ / ‖reference‖, and the bound.
    pub norms: Vec<(String, f64, f64)>,
}

/// An element outside its budget.
#[derive(Clone, Debug)]
pub(crate) struct Wrong {
    /// The output's name.
    pub name: String,
    /// The row.
    pub row: u64,
    /// The column.
    pub column: u64,
    /// What the oracle says.
    pub expected: f64,
    /// What the candidate stored.
    pub got: f64,
    /// The error in units of the last place.
    pub ulps: f64,
    /// The budget in the same units.
    pub allowed: f64,
}

/// The largest relative norm of the error of a result that was rounded once, or twice where the model does so. Over few
/// elements roundings need not average out: then the bound is that of a single one. `elements` is the effective number, for
/// a few large elements may dominate the norm.
fn norm_bound(dtype: DType, elements: f64) -> f64 {
    let few = elements < 4096.0;
    match dtype {
        DType::BF16 if few => 1.0 / 128.0,
        DType::BF16 => 3.2e-3,
        DType::F16 if few => 1.0 / 1024.0,
        DType::F16 => 4.2e-4,
        // The error of a plain fp32 loop over a row has the same sign in the whole row.
        DType::F32 => 2e-5,
        DType::I32 | DType::I64 => 0.0,
    }
}

/// The square of the rounding error of a subnormal `value`, at most half a unit, which is not relative to it. 0 for a normal
/// number.
fn subnormal(dtype: DType, value: f64) -> f64 {
    if value.abs() < smallest_normal(dtype) { value.abs().min(ulp(dtype, value) / 2.0).powi(2) } else { 0.0 }
}

/// A bound extended by the errors of subnormal elements. In rows of equal elements (a softmax's f16 probabilities of
/// 1 / 50257) these are equal, and do not average out.
fn with_subnormal(bound: f64, subnormal: f64, reference: f64) -> f64 {
    if subnormal > 0.0 { bound.hypot((subnormal / reference).sqrt()) } else { bound }
}

#[derive(Clone, Default)]
struct Part {
    elements: u64,
    wrong: u64,
    worst: f64,
    first: Option<Wrong>,
    error: f64,
    reference: f64,
    fourth: f64,
    subnormal: f64,
    loose: bool,
}

/// Compares all outputs of a case: `got`, with the oracle's for `given`.
pub(crate) fn compare(oracle: &dyn Oracle, given: &Tensors, got: &Tensors) -> Comparison {
    let mut total = Comparison::default();
    for (index, name) in oracle.outputs().iter().enumerate() {
        let Some(view) = got.get(name) else { continue };
        let sum = output(oracle, given, view, index, name);
        total.elements += sum.elements;
        total.wrong += sum.wrong;
        total.worst = total.worst.max(sum.worst);
        if total.first.is_none() {
            total.first = sum.first;
        }
        let norm = if sum.error == 0.0 { 0.0 } else { (sum.error / sum.reference).sqrt() };
        // Where the slack exceeds the rounding (tiny subnormal rows), only the elements are judged.
        let bound = match oracle.relative_norm(index) {
            Some(bound) => bound,
            None if sum.loose => f64::INFINITY,
            None => with_subnormal(
                norm_bound(view.dtype, sum.reference * sum.reference / sum.fourth),
                sum.subnormal,
                sum.reference,
            ),
        };
        total.norms.push((name.clone(), norm, bound));
    }
    total
}

/// One output, on all cores.
fn output(oracle: &dyn Oracle, given: &Tensors, view: &View, index: usize, name: &str) -> Part {
    let rows = oracle.rows(index);
    // A thread costs about as much as some thousand elements.
    let threads = cores() as u64;
    let threads = threads.min(rows * view.row_length().max(oracle.reads(index)) / 16_384);
    let pieces = share(rows, threads, |rows| {
        let mut part = Part::default();
        let mut expected = Expected::default();
        let mut got = Vec::new();
        for row in rows {
            oracle.row(given, index, row, &mut expected);
            view.row(row, &mut got);
            part.row(view.dtype, &mut expected, &got, (name, row));
        }
        part
    });
    let mut sum = Part::default();
    for part in pieces {
        sum.elements += part.elements;
        sum.wrong += part.wrong;
        sum.worst = sum.worst.max(part.worst);
        sum.error += part.error;
        sum.reference += part.reference;
        sum.fourth += part.fourth;
        sum.subnormal += part.subnormal;
        sum.loose |= part.loose;
        sum.first = sum.first.or(part.first);
    }
    sum
}

impl Part {
    /// Adds a row.
    fn row(&mut self, dtype: DType, expected: &mut Expected, got: &[f64], (name, row): (&str, u64)) {
        // NaN never passes: an element that the oracle does not give is wrong.
        expected.values.resize(got.len(), f64::NAN);
        expected.slack.resize(got.len(), 0.0);
        let pairs = got.iter().zip(&expected.values).zip(&expected.slack);
        for (column, ((&got, &value), &slack)) in pairs.enumerate() {
            let unit = ulp(dtype, value);
            // The candidate rounds its own value, whose unit may be larger.
            let budget = ulp(dtype, value.abs() + slack) / 2.0 + slack;
            let error = error(dtype, got, value, budget);
            self.elements += 1;
            self.error += if error.is_finite() { error * error } else { f64::INFINITY };
            self.reference += value * value;
            self.fourth += value.powi(4);
            self.subnormal += subnormal(dtype, value);
            self.loose |= unit > value.abs() / 64.0 && value != 0.0 || slack > 4.0 * unit && dtype != DType::F32;
            let share = error / budget;
            // A comparison with NaN is false: passing must be what is compared.
            if share <= 1.0 {
                self.worst = self.worst.max(share);
                continue;
            }
            self.wrong += 1;
            self.worst = if share.is_nan() { f64::INFINITY } else { self.worst.max(share) };
            self.first.get_or_insert_with(|| Wrong {
                name: name.to_owned(),
                row,
                column: column as u64,
                expected: value,
                got,
                ulps: error / unit,
                allowed: budget / unit,
            });
        }
    }
}

/// The distance of an element from its exact value.
fn error(dtype: DType, got: f64, value: f64, budget: f64) -> f64 {
    let distance = (got - value).abs();
    if value.abs() <= largest(dtype) || value.is_nan() {
        return distance;
    }
    // Beyond the type's range, the right rounding is infinity of the same sign, and the largest number may be near enough.
    let infinite = got.is_infinite() && got.is_sign_positive() == value.is_sign_positive();
    if infinite || distance <= budget { 0.0 } else { f64::INFINITY }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::rounding::round;

    /// What the bound is over `count` elements of `value`, and the norm of those rounded and then `off` units away.
    fn norm(dtype: DType, value: f64, count: u32, off: f64) -> (f64, f64) {
        let unit = ulp(dtype, value);
        let error = (round(dtype, value) + off * unit - value).abs();
        let count = f64::from(count);
        let bound = with_subnormal(norm_bound(dtype, count), count * subnormal(dtype, value), count * value * value);
        (error / value, bound)
    }

    #[test]
    fn subnormal_elements_may_all_be_half_a_unit_off_and_no_more() {
        // 1 / 50257 and 1 / 128256 are 334 and 131 units of f16's subnormal numbers.
        for value in [1.0 / 50_257.0, 1.0 / 128_256.0, 333.5 / 16_777_216.0] {
            let (error, bound) = norm(DType::F16, value, 50_257, 0.0);
            assert!(error <= bound, "{value}: {error} over {bound}");
            let (error, bound) = norm(DType::F16, value, 50_257, 1.0);
            assert!(error > bound, "{value}: {error} within {bound}");
        }
    }

    #[test]
    fn normal_elements_and_wider_exponents_keep_their_bound() {
        for (dtype, value) in [
            (DType::F16, 1.0 / 16_384.0),
            (DType::F16, 1.0 / 1000.0),
            (DType::BF16, 1.0 / 50_257.0),
            (DType::F32, 1.0 / 50_257.0),
        ] {
            let (_, bound) = norm(dtype, value, 50_257, 0.0);
            assert!(bound <= norm_bound(dtype, 50_257.0), "{dtype:?} {value}");
        }
    }

    #[test]
    fn what_rounds_to_zero_is_off_by_itself() {
        let value = 2f64.powi(-30);
        assert!((subnormal(DType::F16, value) - value * value).abs() < f64::MIN_POSITIVE);
        assert!(subnormal(DType::F16, 0.0) < f64::MIN_POSITIVE);
    }
}
