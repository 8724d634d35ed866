//! Outputs against the oracle, element by element, on all cores.

use crate::oracle::rounding::{largest, ulp};
use crate::oracle::{Expected, Oracle, Tensors, View};
use crate::project::DType;

/// What a comparison found.
#[derive(Clone, Debug, Default)]
pub struct Comparison {
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
pub struct Wrong {
    /// The output.
    pub output: usize,
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

#[derive(Clone, Default)]
struct Part {
    elements: u64,
    wrong: u64,
    worst: f64,
    first: Option<Wrong>,
    error: f64,
    reference: f64,
    fourth: f64,
    loose: bool,
}

/// Compares all outputs of a case: `got` with what the oracle says to `given`.
pub fn compare(oracle: &dyn Oracle, given: &Tensors, got: &Tensors) -> Comparison {
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
            None => norm_bound(view.dtype, sum.reference * sum.reference / sum.fourth),
        };
        total.norms.push((name.clone(), norm, bound));
    }
    total
}

/// One output, on all cores.
fn output(oracle: &dyn Oracle, given: &Tensors, view: &View, index: usize, name: &str) -> Part {
    let rows = oracle.rows(index);
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as u64;
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
                    output: index,
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
