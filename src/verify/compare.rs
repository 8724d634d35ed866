//! Outputs against the oracle, element by element, on all cores.

use crate::oracle::rounding::{largest, smallest_normal, ulp};
use crate::oracle::{Expected, Oracle, Tensors, View};
use crate::project::DType;

/// What a comparison found.
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

/// The largest relative norm of a result that was rounded once, or twice where the model does so. Over few elements
/// the roundings need not average out: then it is what a single one may be. `elements` is how many equal ones would
/// weigh as much: a few large ones may be most of the norm.
fn norm_bound(dtype: DType, elements: f64) -> f64 {
    let few = elements < 4096.0;
    match dtype {
        DType::BF16 if few => 1.0 / 128.0,
        DType::BF16 => 3.2e-3,
        DType::F16 if few => 1.0 / 1024.0,
        DType::F16 => 4.2e-4,
        // A plain loop over the row in fp32 leans one way for the whole row.
        DType::F32 => 2e-5,
        DType::I32 | DType::I64 => 0.0,
    }
}

/// The square of what rounding `value` may be off by where that is not relative to it: half a unit of the subnormal
/// numbers. Of a normal number 0.
fn subnormal(dtype: DType, value: f64) -> f64 {
    if value.abs() < smallest_normal(dtype) {
        value.abs().min(ulp(dtype, value) / 2.0).powi(2)
    } else {
        0.0
    }
}

/// A bound with the errors of subnormal elements beside it, both squares added up. In rows of equal elements (a softmax's
/// f16 probabilities of 1 / 50257) these all lean the same way: they do not average out.
fn with_subnormal(bound: f64, subnormal: f64, reference: f64) -> f64 {
    if subnormal > 0.0 {
        bound.hypot((subnormal / reference).sqrt())
    } else {
        bound
    }
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

/// Compares all outputs of a case: `got` with what the oracle says to `given`.
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
        let norm = if sum.error == 0.0 {
            0.0
        } else {
            (sum.error / sum.reference).sqrt()
        };
        // Where the oracle itself grants more than rounding (tiny subnormal rows), only the elements count.
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
    let cores = crate::base::cores() as u64;
    // A thread costs about as much as some thousand elements.
    let threads = cores
        .min(rows)
        .min(rows * view.row_length().max(oracle.reads(index)) / 16_384)
        .max(1);
    let step = rows.div_ceil(threads).max(1);
    if threads == 1 {
        return piece(oracle, given, view, index, name, 0..rows);
    }
    let pieces: Vec<Part> = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads)
            .map(|thread| {
                let range = (thread * step).min(rows)..((thread + 1) * step).min(rows);
                scope.spawn(move || piece(oracle, given, view, index, name, range))
            })
            .collect();
        handles
            .into_iter()
            .filter_map(|handle| handle.join().ok())
            .collect()
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

/// Some rows of one output.
fn piece(
    oracle: &dyn Oracle,
    given: &Tensors,
    view: &View,
    index: usize,
    name: &str,
    rows: std::ops::Range<u64>,
) -> Part {
    let mut part = Part::default();
    let mut expected = Expected::default();
    let mut got = Vec::new();
    let most = largest(view.dtype);
    for row in rows {
        oracle.row(given, index, row, &mut expected);
        view.row(row, &mut got);
        // An element that the oracle says nothing of is never right.
        expected.values.resize(got.len(), f64::NAN);
        expected.slack.resize(got.len(), 0.0);
        for (column, ((&got, &value), &slack)) in got
            .iter()
            .zip(&expected.values)
            .zip(&expected.slack)
            .enumerate()
        {
            part.elements += 1;
            let unit = ulp(view.dtype, value);
            // What is rounded is the candidate's own value, which may lie where units are larger.
            let budget = ulp(view.dtype, value.abs() + slack) / 2.0 + slack;
            let error = if value.abs() > most {
                // Beyond the type, infinity of the same sign is the right rounding, and the largest number is near.
                if (got.is_infinite() && got.is_sign_positive() == value.is_sign_positive())
                    || (got - value).abs() <= budget
                {
                    0.0
                } else {
                    f64::INFINITY
                }
            } else {
                (got - value).abs()
            };
            part.error += if error.is_finite() {
                error * error
            } else {
                f64::INFINITY
            };
            part.reference += value * value;
            part.fourth += value.powi(4);
            part.subnormal += subnormal(view.dtype, value);
            part.loose |= unit > value.abs() / 64.0 && value != 0.0
                || slack > 4.0 * unit && view.dtype != DType::F32;
            let share = error / budget;
            // NaN is neither under nor over: it must be asked for by what passes.
            if share <= 1.0 {
                part.worst = part.worst.max(share);
                continue;
            }
            part.wrong += 1;
            part.worst = if share.is_nan() {
                f64::INFINITY
            } else {
                part.worst.max(share)
            };
            if part.first.is_none() {
                part.first = Some(Wrong {
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
    part
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
        let bound = with_subnormal(
            norm_bound(dtype, count),
            count * subnormal(dtype, value),
            count * value * value,
        );
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
