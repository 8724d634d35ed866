//! Compares outputs with the oracle, element by element, on all cores.

use std::collections::BTreeSet;
use std::ops::Range;

use super::random::Random;
use crate::oracle::rounding::{Grid, bracket, largest, smallest_normal, ulp};
use crate::oracle::threads::{share, threads_for};
use crate::oracle::wide::{LANES, Work, sum_of, wide};
use crate::oracle::{Expected, Oracle, Tensors, View};
use crate::project::DType;

/// The result of a comparison.
#[derive(Clone, Debug, Default)]
pub(crate) struct Comparison {
    /// Elements compared.
    pub(crate) elements: u64,
    /// Elements outside their budget.
    pub(crate) wrong: u64,
    /// The largest error in units of its budget.
    pub(crate) worst: f64,
    /// The first element outside its budget, in the order of outputs and then of elements.
    pub(crate) first: Option<Wrong>,
    /// For each output: its name, ‖out − reference‖ / ‖reference‖, and the bound.
    pub(crate) norms: Vec<(String, f64, f64)>,
}

/// An element outside its budget.
#[derive(Clone, Debug)]
pub(crate) struct Wrong {
    /// The output's name.
    pub(crate) name: String,
    /// The row.
    pub(crate) row: u64,
    /// The column.
    pub(crate) column: u64,
    /// The exact value; none: the oracle gives none.
    pub(crate) expected: Option<f64>,
    /// What the candidate stored.
    pub(crate) got: f64,
    /// The error in units of the last place.
    pub(crate) ulps: f64,
    /// The budget in the same units.
    pub(crate) allowed: f64,
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
        // Other types are judged by their elements only.
        _ => f64::INFINITY,
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

/// Sums and the largest error of the elements that were compared in wide registers.
#[derive(Clone)]
struct Lanes {
    /// The largest error relative to its budget, as the two: a division would take longer than all else.
    worst: [[f64; LANES]; 2],
    /// Those of `error`, `reference`, `fourth` and `subnormal` of [`Part`].
    sums: [[f64; LANES]; 4],
}

impl Default for Lanes {
    fn default() -> Self {
        Self { worst: [[0.0; LANES], [1.0; LANES]], sums: [[0.0; LANES]; 4] }
    }
}

#[derive(Clone, Default)]
struct Part {
    lanes: Lanes,
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

/// What of a case is compared, and how.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Scope {
    /// NaN and infinity are among the inputs: where the oracle says NaN, only NaN is right, and where it says infinity, that
    /// or NaN. Otherwise neither ever is.
    pub(crate) non_finite: bool,
    /// Rows are of equal elements, whose roundings are equal and do not average out.
    pub(crate) alike: bool,
    /// Of an output that takes the oracle longer, only drawn rows.
    pub(crate) sampled: Option<Sample>,
}

/// Rows that are drawn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    /// Seed of the draw; not known to the candidate.
    pub(crate) seed: u64,
    /// Elements that the oracle reads for an output, at most, but for at least 64 rows.
    pub(crate) elements: u64,
}

impl Scope {
    /// The drawn rows, with the first and the last; none: all are compared.
    fn rows(self, rows: u64, elements: u64) -> Option<Vec<u64>> {
        let sample = self.sampled.filter(|sample| rows.saturating_mul(elements) > sample.elements)?;
        let mut random = Random::new(sample.seed, rows);
        let count = (sample.elements / elements.max(1)).max(64);
        let drawn = (0..count).map(|_| random.below(rows)).chain([0, rows - 1]);
        Some(drawn.collect::<BTreeSet<_>>().into_iter().collect())
    }
}

/// Compares all outputs of a case: `got`, with the oracle's for `given`.
pub(crate) fn compare(oracle: &dyn Oracle, given: &Tensors, got: &Tensors, scope: Scope) -> Comparison {
    let mut total = Comparison::default();
    for (index, name) in oracle.outputs().iter().enumerate() {
        let Some(view) = got.get(name) else { continue };
        let sum = output(oracle, given, view, (index, name), scope);
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
            None => {
                let elements = if scope.alike { 1.0 } else { sum.reference * sum.reference / sum.fourth };
                with_subnormal(norm_bound(view.dtype, elements), sum.subnormal, sum.reference)
            }
        };
        total.norms.push((name.clone(), norm, bound));
    }
    total
}

/// One output, on all cores.
fn output(oracle: &dyn Oracle, given: &Tensors, view: &View, (index, name): (usize, &str), scope: Scope) -> Part {
    let drawn = scope.rows(oracle.rows(index), view.row_length().max(oracle.reads(index)));
    let rows = drawn.as_ref().map_or(oracle.rows(index), |drawn| drawn.len() as u64);
    let pieces = share(rows, threads_for(rows * view.row_length().max(oracle.reads(index))), |rows| {
        let mut part = Part::default();
        let mut expected = Expected::default();
        let mut got = Vec::new();
        for row in rows {
            let row = drawn.as_ref().map_or(row, |drawn| drawn[usize::try_from(row).unwrap_or(0)]);
            oracle.row(given, index, row, &mut expected);
            view.row(row, &mut got);
            part.row((view.dtype, scope.non_finite), &expected, &got, (name, row));
        }
        part
    });
    let mut sum = Part::default();
    for part in pieces.into_iter().map(Part::summed) {
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

/// A row of a floating-point type, compared in wide registers as far as its elements are within their budgets.
struct Within<'a> {
    dtype: DType,
    expected: &'a Expected,
    got: &'a [f64],
    part: &'a mut Part,
}

impl Work for Within<'_> {
    /// The first elements of the groups that are left to the comparison one by one: one of them is outside its budget, or
    /// beyond the range of the type.
    type Out = Vec<usize>;

    #[inline(always)]
    #[allow(clippy::needless_bitwise_bool, reason = "a loop with branches is compiled for single numbers")]
    fn run<const ROWS: usize>(self) -> Vec<usize> {
        let grid = Grid::of(self.dtype);
        // The slack in units above which the norm shows more than roundings.
        let loose = if self.dtype == DType::F32 { f64::INFINITY } else { 4.0 };
        let (values, slacks) =
            (self.expected.values.as_chunks::<LANES>().0, self.expected.slack.as_chunks::<LANES>().0);
        let part = self.part;
        let mut left = Vec::new();
        for (index, (got, (values, slacks))) in
            self.got.as_chunks::<LANES>().0.iter().zip(values.iter().zip(slacks)).enumerate()
        {
            let (mut errors, mut budgets) = ([0.0; LANES], [0.0; LANES]);
            let (mut within, mut loosely) = (true, false);
            for lane in 0..LANES {
                let (value, slack) = (values[lane], slacks[lane]);
                let (size, unit) = (value.abs(), grid.ulp(value));
                errors[lane] = (got[lane] - value).abs();
                budgets[lane] = grid.ulp(size + slack) / 2.0 + slack;
                within &= (errors[lane] <= budgets[lane]) & (size <= grid.largest);
                loosely |= (unit > size / 64.0) & (size > 0.0) | (slack > loose * unit);
            }
            if !within {
                left.push(index * LANES);
                continue;
            }
            part.loose |= loosely;
            part.elements += LANES as u64;
            let Lanes { worst: [worst, its_budget], sums: [error, reference, fourth, subnormal] } = &mut part.lanes;
            for lane in 0..LANES {
                let is_worse = errors[lane] * its_budget[lane] > worst[lane] * budgets[lane];
                worst[lane] = if is_worse { errors[lane] } else { worst[lane] };
                its_budget[lane] = if is_worse { budgets[lane] } else { its_budget[lane] };
            }
            for lane in 0..LANES {
                let square = values[lane] * values[lane];
                error[lane] += errors[lane] * errors[lane];
                reference[lane] += square;
                fourth[lane] += square * square;
                let size = values[lane].abs();
                let half = size.min(grid.ulp(size) / 2.0);
                subnormal[lane] += if size < grid.normal { half * half } else { 0.0 };
            }
        }
        left
    }
}

impl Part {
    /// With what its lanes hold.
    fn summed(mut self) -> Self {
        let Lanes { worst: [errors, budgets], sums } = std::mem::take(&mut self.lanes);
        self.worst = errors.iter().zip(budgets).map(|(error, budget)| error / budget).fold(self.worst, f64::max);
        let [error, reference, fourth, subnormal] = sums.map(sum_of);
        self.error += error;
        self.reference += reference;
        self.fourth += fourth;
        self.subnormal += subnormal;
        self
    }

    /// Adds a row.
    fn row(&mut self, (dtype, non_finite): (DType, bool), expected: &Expected, got: &[f64], place: (&str, u64)) {
        let alike = expected.values.len() == got.len() && expected.slack.len() == got.len();
        if !alike || non_finite || !dtype.is_float() || dtype.is_stepped() {
            return self.elements((dtype, non_finite), expected, got, 0..got.len(), place);
        }
        let left = wide(Within { dtype, expected, got, part: self });
        for from in left {
            self.elements((dtype, non_finite), expected, got, from..from + LANES, place);
        }
        self.elements((dtype, non_finite), expected, got, got.len() / LANES * LANES..got.len(), place);
    }

    /// Adds elements of a row one by one.
    fn elements(
        &mut self,
        (dtype, non_finite): (DType, bool),
        expected: &Expected,
        got: &[f64],
        columns: Range<usize>,
        (name, row): (&str, u64),
    ) {
        for column in columns {
            let got = got[column];
            self.elements += 1;
            let value = expected.values.get(column).copied();
            let budget = match value {
                // NaN and infinity have no budget.
                Some(value) if non_finite && !value.is_finite() => {
                    // An integer type has neither NaN nor infinity: any value passes.
                    if !dtype.is_float() {
                        continue;
                    }
                    // NaN is right as well: infinities of both signs give it in another order of operations.
                    if got.is_nan() || got.to_bits() == value.to_bits() {
                        continue;
                    }
                    if value.is_infinite() && saturated(dtype, value, got) {
                        continue;
                    }
                    None
                }
                Some(value) => {
                    let slack = slack_of(expected.slack.get(column).copied(), value, non_finite);
                    let budget = self.element(dtype, value, got, slack);
                    if budget.is_none() {
                        continue;
                    }
                    budget
                }
                None => None,
            };
            self.wrong += 1;
            let (error, budget) = budget.unwrap_or((f64::INFINITY, 1.0));
            let share = error / budget;
            self.worst = if share.is_nan() { f64::INFINITY } else { self.worst.max(share) };
            let unit = ulp(dtype, value.unwrap_or(0.0));
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

    /// Adds an element whose exact value is known: its error and its budget, where it is outside.
    fn element(&mut self, dtype: DType, value: f64, got: f64, slack: f64) -> Option<(f64, f64)> {
        let unit = ulp(dtype, value);
        if dtype.is_stepped() {
            self.loose = true;
            return self.stepped((dtype, unit), value, got, slack);
        }
        // The candidate rounds its own value, whose unit may be larger.
        let budget = ulp(dtype, value.abs() + slack) / 2.0 + slack;
        let error = error(dtype, got, value, budget);
        self.error += if error.is_finite() { error * error } else { f64::INFINITY };
        let square = value * value;
        self.reference += square;
        self.fourth += square * square;
        self.subnormal += subnormal(dtype, value);
        self.loose |= unit > value.abs() / 64.0 && value != 0.0 || slack > 4.0 * unit && dtype != DType::F32;
        let share = error / budget;
        // A comparison with NaN is false: passing must be what is compared.
        if share <= 1.0 {
            self.worst = self.worst.max(share);
            return None;
        }
        Some((error, budget))
    }

    /// The same for integers and 8-bit floats: an error of one unit is wrong, unless the exact value is within the
    /// slack of a rounding boundary.
    fn stepped(&mut self, (dtype, unit): (DType, f64), value: f64, got: f64, slack: f64) -> Option<(f64, f64)> {
        let (low, high) = bracket(dtype, value, slack);
        let distance = (got - value).abs();
        // Beyond the range of an 8-bit float some conversions give its largest number, others infinity, or NaN where the type
        // has none.
        let beyond = low.is_infinite() || high.is_infinite();
        let converted = saturated(dtype, value, got) || got.is_nan() && dtype == DType::E4M3;
        if (low..=high).contains(&got) || beyond && converted {
            self.worst = self.worst.max((distance / (unit / 2.0 + slack)).min(1.0));
            return None;
        }
        Some((distance, unit / 2.0))
    }
}

/// Whether an element is the largest number of an 8-bit float, of the sign of the exact value, or infinity.
fn saturated(dtype: DType, value: f64, got: f64) -> bool {
    let is_eight = dtype.is_float() && dtype.is_stepped();
    is_eight && got.abs() >= largest(dtype) && got.is_sign_positive() == value.is_sign_positive()
}

/// The slack of an element. If other elements are infinite, the oracle's slack may be, too: the error may then be 1/64
/// of the value.
fn slack_of(slack: Option<f64>, value: f64, non_finite: bool) -> f64 {
    match slack.unwrap_or(0.0) {
        slack if non_finite && !slack.is_finite() => value.abs() / 64.0,
        slack => slack,
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
    use crate::project::{BoundTensor, Role};

    /// What the bound is over `count` elements of `value`, and the norm of those rounded and then `off` units away.
    fn norm(dtype: DType, value: f64, count: u32, off: f64) -> (f64, f64) {
        let unit = ulp(dtype, value);
        let error = (round(dtype, value) + off * unit - value).abs();
        let count = f64::from(count);
        let bound = with_subnormal(norm_bound(dtype, count), count * subnormal(dtype, value), count * value * value);
        (error / value, bound)
    }

    /// Compares a row with what an oracle gives: how many are wrong.
    fn wrong(non_finite: bool, expected: &[f64], slack: &[f64], got: &[f64]) -> u64 {
        let expected = Expected { values: expected.to_vec(), slack: slack.to_vec() };
        let mut part = Part::default();
        part.row((DType::F32, non_finite), &expected, got, ("out", 0));
        part.wrong
    }

    /// Of elements in wide registers, and of those behind them.
    #[test]
    fn a_row_is_summed_whatever_its_length() {
        for length in [1, 3, LANES, LANES + 1, 3 * LANES - 1] {
            // A third of them subnormal numbers of f16, and a third the least normal one.
            let normal = (0..).map(|at| 1.5 + f64::from(at) / 64.0);
            let values: Vec<f64> = normal.flat_map(|value| [value, 3e-6, 2f64.powi(-14)]).take(length).collect();
            let got: Vec<f64> = values.iter().map(|value| round(DType::F16, value * 1.0001)).collect();
            let expected = Expected { slack: vec![1e-3; length], values: values.clone() };
            let mut part = Part::default();
            part.row((DType::F16, false), &expected, &got, ("out", 0));
            let part = part.summed();
            let sum =
                |each: &dyn Fn(f64, f64) -> f64| -> f64 { values.iter().zip(&got).map(|(v, g)| each(*v, *g)).sum() };
            for (found, wanted) in [
                (part.error, sum(&|value, got| (got - value).powi(2))),
                (part.reference, sum(&|value, _| value.powi(2))),
                (part.fourth, sum(&|value, _| value.powi(4))),
                (part.subnormal, sum(&|value, _| if value < 1e-5 { 2f64.powi(-50) } else { 0.0 })),
            ] {
                assert!((found - wanted).abs() <= 1e-12 * wanted, "{length}: {found} {wanted}");
            }
            assert_eq!((part.elements, part.wrong), (length as u64, 0));
        }
    }

    #[test]
    fn the_worst_of_an_8_bit_float_is_in_halves_of_its_unit() {
        for (value, slack, got, worst) in [(1.03, 0.0, 1.0, 0.48), (1.03, 0.0625, 1.0, 0.24), (1.0, 0.0, 1.0, 0.0)] {
            let expected = Expected { values: vec![value], slack: vec![slack] };
            let mut part = Part::default();
            part.row((DType::E4M3, false), &expected, &[got], ("out", 0));
            assert!((part.worst - worst).abs() < 1e-12 && part.wrong == 0, "{value} {slack}: {}", part.worst);
        }
        // So is what one that is wrong was allowed.
        let expected = Expected { values: vec![1.0], slack: vec![0.0] };
        let mut part = Part::default();
        part.row((DType::E4M3, false), &expected, &[1.25], ("out", 0));
        let first = part.first.map(|first| (first.ulps, first.allowed));
        assert_eq!(first, Some((2.0, 0.5)));
    }

    /// A row of `length` equal elements, each with this error.
    fn part_of(dtype: DType, (value, slack, error): (f64, f64, f64), length: usize) -> Part {
        let expected = Expected { values: vec![value; length], slack: vec![slack; length] };
        let mut part = Part::default();
        part.row((dtype, false), &expected, &vec![value + error; length], ("out", 0));
        part.summed()
    }

    /// In wide registers and one by one.
    #[test]
    fn a_budget_is_half_a_unit_of_what_the_candidate_may_have_rounded_and_the_slack() {
        for (value, slack, budget) in [
            (1.9995, 1e-3, 2f64.powi(-10) + 1e-3),
            (2.0005, 1e-3, 2f64.powi(-10) + 1e-3),
            (1.5, 0.0, 2f64.powi(-11)),
            (1.5, 0.25, 2f64.powi(-11) + 0.25),
        ] {
            for length in [1, LANES] {
                let within = part_of(DType::F16, (value, slack, 0.999 * budget), length);
                assert!(within.wrong == 0 && (within.worst - 0.999).abs() < 1e-9, "{value} {slack}: {}", within.worst);
                let beyond = part_of(DType::F16, (value, slack, 1.5 * budget), length);
                assert_eq!(beyond.wrong, length as u64, "{value} {slack}");
                assert!((beyond.worst - 1.5).abs() < 1e-9, "{value} {slack}: {}", beyond.worst);
            }
        }
    }

    #[test]
    fn the_norm_is_not_judged_where_units_are_coarse_or_the_slack_is_wide() {
        use DType::{F16, F32};
        let tiny = 2f64.powi(-24);
        let unit = 2f64.powi(-10);
        for (dtype, value, slack, loose) in [
            (F16, 63.0 * tiny, 0.0, true),
            (F16, 63.0 * tiny, 4.5 * tiny, true),
            (F16, 64.0 * tiny, 0.0, false),
            (F16, 0.0, 0.0, false),
            (F16, 1.0, 0.0, false),
            (F16, 1.0, 4.0 * unit, false),
            (F16, 1.0, 4.5 * unit, true),
            (F32, 1.0, 1e-6, false),
        ] {
            for length in [1, LANES] {
                let found = part_of(dtype, (value, slack, 0.0), length).loose;
                assert_eq!(found, loose, "{dtype:?} {value} {slack} {length}");
            }
        }
    }

    #[test]
    fn the_worst_of_wide_registers_is_so_relative_to_its_own_budget() {
        // Values, slacks and errors; of f16 half a unit is 2^-11 and 0.5.
        let half = 2f64.powi(-11);
        let one = (1.0, 0.0, 0.8 * half);
        let other = (1024.0, 0.0, 0.25);
        let third = (1.0, 1e-3, 0.9 * (half + 1e-3));
        for order in [[one, other, third], [third, one, other], [other, third, one], [third, other, one]] {
            let each = |of: fn((f64, f64, f64)) -> f64| order.iter().flat_map(|lane| [of(*lane); LANES]).collect();
            let expected = Expected { values: each(|(value, ..)| value), slack: each(|(_, slack, _)| slack) };
            let got: Vec<f64> = each(|(value, _, error)| value + error);
            let mut part = Part::default();
            part.row((DType::F16, false), &expected, &got, ("out", 0));
            let part = part.summed();
            assert!((part.worst - 0.9).abs() < 1e-9 && part.wrong == 0, "{order:?}: {}", part.worst);
        }
    }

    #[test]
    fn beyond_the_range_infinity_of_the_right_sign_and_what_is_near_are_no_error() {
        const INF: f64 = f64::INFINITY;
        for (got, value, budget, wanted) in [
            (1.5, 1.0, 1.0, 0.5),
            (65_500.0, 65_504.0, 16.0, 4.0),
            (INF, 65_520.0, 16.0, 0.0),
            (-INF, 65_520.0, 16.0, INF),
            (65_504.0, 65_520.0, 16.0, 0.0),
            (65_504.0, 65_521.0, 16.0, INF),
            (-65_504.0, 65_520.0, 16.0, INF),
        ] {
            let found = error(DType::F16, got, value, budget);
            assert!(found.total_cmp(&wanted).is_eq(), "{got} for {value}: {found}");
        }
        assert!(error(DType::F16, 1.0, f64::NAN, 16.0).is_nan());
    }

    /// Rows of one value.
    struct Constant {
        value: f64,
        rows: u64,
        columns: usize,
    }

    impl Oracle for Constant {
        fn outputs(&self) -> Vec<String> {
            vec!["out".to_owned()]
        }

        fn rows(&self, _: usize) -> u64 {
            self.rows
        }

        fn row(&self, _: &Tensors, _: usize, _: u64, expected: &mut Expected) {
            *expected = Expected { values: vec![self.value; self.columns], slack: vec![0.0; self.columns] };
        }
    }

    /// Compares f16 numbers, ten rows of them, with a value.
    fn compared(value: f64, stored: &[u16], scope: Scope) -> Comparison {
        let columns = stored.len() as u64 / 10;
        let out = BoundTensor::of(("out", Role::Output), DType::F16, ([10, columns], [columns, 1]));
        let oracle = Constant { value, rows: 10, columns: stored.len() / 10 };
        let bytes: Vec<u8> = stored.iter().flat_map(|one| one.to_le_bytes()).collect();
        let got = Tensors { views: [("out".to_owned(), View::new(&out, &bytes))].into() };
        compare(&oracle, &Tensors::default(), &got, scope)
    }

    #[test]
    fn the_bound_of_the_norm_is_that_of_the_elements_that_dominate_it() {
        let alike = Scope { alike: true, ..Scope::default() };
        for (count, scope, bound) in
            [(6400, Scope::default(), 4.2e-4), (4000, Scope::default(), 1.0 / 1024.0), (6400, alike, 1.0 / 1024.0)]
        {
            // A unit beside 1.
            let all = compared(1.0, &vec![0x3c01; count], scope);
            assert_eq!(all.norms, [("out".to_owned(), 1.0 / 1024.0, bound)]);
        }
        // Of zeros nothing is relative.
        let zeros = compared(0.0, &[0; 6400], Scope::default());
        assert_eq!(zeros.norms, [("out".to_owned(), 0.0, 4.2e-4)]);
        assert!((with_subnormal(3.0, 64.0, 4.0) - 5.0).abs() < 1e-12);
    }

    #[test]
    fn the_rows_of_an_output_are_added_up() {
        let compared = |value: f64, stored: &[u16]| compared(value, stored, Scope::default());
        // 130.8 units of f16's subnormal numbers, and 131.
        let value = 1.0 / 128_256.0;
        let mut all = vec![131; 6400];
        let right = compared(value, &all);
        assert_eq!((right.elements, right.wrong, right.first.is_none()), (6400, 0, true));
        let (_, norm, bound) = &right.norms[0];
        assert!(norm <= bound && *bound < 4e-3, "{norm} {bound}");
        for (row, column) in [(3, 5), (3, 599), (9, 0)] {
            all[row * 640 + column] += 2;
        }
        let wrong = compared(value, &all);
        assert_eq!((wrong.elements, wrong.wrong), (6400, 3));
        assert_eq!(wrong.first.map(|first| (first.row, first.column)), Some((3, 5)));
        // Of so few units the elements alone are judged.
        let few = compared(30.4 / 16_777_216.0, &[30; 6400]);
        assert!(few.wrong == 0 && few.norms[0].2.is_infinite(), "{:?}", few.norms);
    }

    /// Those of docs/harness.md.
    #[test]
    fn the_bounds_of_the_norm() {
        use DType::{BF16, E4M3, F16, F32, I8};
        for (dtype, elements, bound) in [
            (BF16, 4096.0, 3.2e-3),
            (BF16, 4095.0, 0.007_812_5),
            (F16, 4096.0, 4.2e-4),
            (F16, 4095.0, 0.000_976_562_5),
            (F32, 4096.0, 2e-5),
            (F32, 1.0, 2e-5),
            (E4M3, 4096.0, f64::INFINITY),
            (I8, 1.0, f64::INFINITY),
        ] {
            let found = norm_bound(dtype, elements);
            assert!(found.total_cmp(&bound).is_eq(), "{dtype:?} {elements}: {found}");
        }
    }

    #[test]
    fn nan_and_infinity_are_right_where_the_oracle_says_them_and_only_beside_such_inputs() {
        const INF: f64 = f64::INFINITY;
        let both = [f64::NAN, INF, -INF, 1.0];
        assert_eq!(wrong(true, &both, &[0.0; 4], &both), 0);
        // Without such inputs an oracle that says NaN says nothing, and infinity is nobody's exact value.
        assert!(wrong(false, &both, &[0.0; 4], &both) >= 1);
        for (said, got) in
            [(f64::NAN, 0.0), (f64::NAN, INF), (INF, -INF), (INF, f32::MAX.into()), (0.0, f64::NAN), (1.0, INF)]
        {
            assert_eq!(wrong(true, &[said], &[0.0], &[got]), 1, "{said} {got}");
        }
        assert_eq!(wrong(true, &[INF, -INF], &[0.0; 2], &[f64::NAN; 2]), 0);
        // An infinite slack lets nothing pass but what is near.
        assert_eq!(wrong(true, &[2.0], &[f64::NAN], &[2.01]), 0);
        assert_eq!(wrong(true, &[2.0, 0.0], &[INF, INF], &[2.5, 1e-30]), 2);
        assert_eq!(wrong(true, &[2.0; LANES], &[INF; LANES], &[INF; LANES]), LANES as u64);
        // One that is finite is the slack.
        assert_eq!(wrong(true, &[2.0; 2], &[0.0, 0.1], &[2.01; 2]), 1);
    }

    /// Which of these are right where the exact value, known within the slack, is `value`; in whole registers.
    fn right(dtype: DType, (value, slack): (f64, f64), got: &[f64]) -> Vec<bool> {
        let expected = Expected { values: vec![value; LANES], slack: vec![slack; LANES] };
        let is_right = |got: &f64| {
            let mut part = Part::default();
            part.row((dtype, false), &expected, &[*got; LANES], ("out", 0));
            assert!([0, LANES as u64].contains(&part.wrong), "{dtype:?} {value} {got}: {}", part.wrong);
            part.wrong == 0
        };
        got.iter().map(is_right).collect()
    }

    #[test]
    fn an_integer_is_what_the_exact_value_rounds_to_and_nothing_beside_it() {
        use DType::{Bool, I8, I64, U8};
        const NAN: f64 = f64::NAN;
        for (dtype, exact, ok, no) in [
            // Whole, whatever the slack is.
            (I8, (2.0, 9.0), &[2.0][..], &[1.0, 3.0, -2.0][..]),
            (I64, (9_007_199_254_740_991.0, 2.0), &[9_007_199_254_740_991.0], &[9_007_199_254_740_990.0]),
            // A tie goes to the even one, unless the value is not known so well.
            (I8, (2.5, 0.0), &[2.0], &[1.0, 3.0]),
            (I8, (2.5, 1e-9), &[2.0, 3.0], &[1.0, 4.0]),
            (I8, (2.4, 0.05), &[2.0], &[1.0, 3.0]),
            (I8, (2.4, 9.0), &[2.0, 3.0], &[1.0, 4.0]),
            (I8, (-0.3, 0.0), &[0.0, -0.0], &[-1.0, 1.0]),
            // Beyond the range the end is nearest; what wraps around is wrong.
            (I8, (300.0, 1.0), &[127.0], &[44.0, 126.0, -128.0]),
            (I8, (-300.5, 1.0), &[-128.0], &[-127.0, -44.0, 127.0]),
            (U8, (-3.0, 0.0), &[0.0], &[1.0, 253.0]),
            (Bool, (1.0, 0.5), &[1.0], &[0.0, 2.0, 255.0]),
            (Bool, (0.0, 0.5), &[0.0], &[1.0, 255.0]),
            // An oracle without an answer has none that 0 is.
            (I8, (NAN, 0.0), &[], &[0.0, 1.0]),
            (I64, (NAN, NAN), &[], &[0.0, 1.0]),
        ] {
            assert_eq!(right(dtype, exact, ok), vec![true; ok.len()], "{dtype:?} {exact:?} {ok:?}");
            assert_eq!(right(dtype, exact, no), vec![false; no.len()], "{dtype:?} {exact:?} {no:?}");
        }
    }

    #[test]
    fn an_8_bit_float_is_the_nearest_one_and_its_neighbour_only_at_a_tie() {
        use DType::{E4M3, E5M2};
        const NAN: f64 = f64::NAN;
        const INF: f64 = f64::INFINITY;
        for (dtype, exact, ok, no) in [
            (E4M3, (1.0, 1e-6), &[1.0][..], &[1.125, 0.9375, -1.0, NAN, 0.0][..]),
            (E5M2, (1.0, 1e-6), &[1.0], &[1.25, 0.875, NAN, INF]),
            (E4M3, (1.0625, 0.0), &[1.0], &[1.125, 0.9375]),
            (E4M3, (1.0625, 1e-7), &[1.0, 1.125], &[0.9375, 1.25]),
            (E4M3, (1.06, 1e-7), &[1.0], &[1.125]),
            (E4M3, (-0.0, 0.0), &[0.0, -0.0], &[0.001_953_125, -0.001_953_125]),
            (E4M3, (0.001, 0.0), &[0.001_953_125], &[0.0]),
            (E4M3, (448.0, 0.0), &[448.0], &[416.0, NAN, -448.0]),
            (E4M3, (464.0, 0.0), &[448.0], &[416.0, NAN]),
            (E4M3, (464.0, 1e-3), &[448.0, NAN], &[416.0]),
            (E4M3, (500.0, 0.0), &[448.0, NAN], &[416.0, -448.0, 0.0]),
            (E4M3, (-1e9, 0.0), &[-448.0, NAN], &[448.0, -416.0]),
            (E4M3, (440.0, 60.0), &[384.0, 416.0, 448.0, NAN], &[352.0, -448.0]),
            (E5M2, (61_439.0, 0.0), &[57344.0], &[49152.0, INF, NAN]),
            (E5M2, (61_440.0, 0.0), &[57344.0, INF], &[49152.0, -INF, NAN]),
            (E5M2, (-1e9, 0.0), &[-57344.0, -INF], &[57344.0, INF, NAN]),
            (E4M3, (NAN, 0.0), &[], &[NAN, 0.0, 448.0]),
            (E5M2, (NAN, 0.0), &[], &[NAN, 0.0, INF]),
        ] {
            assert_eq!(right(dtype, exact, ok), vec![true; ok.len()], "{dtype:?} {exact:?} {ok:?}");
            assert_eq!(right(dtype, exact, no), vec![false; no.len()], "{dtype:?} {exact:?} {no:?}");
        }
        // Beside inputs of infinity a conversion may saturate, with the right sign.
        let expected = Expected { values: vec![INF, INF, -INF, INF, NAN], slack: vec![0.0; 5] };
        let mut part = Part::default();
        part.row((E4M3, true), &expected, &[448.0, NAN, -448.0, -448.0, 448.0], ("out", 0));
        assert_eq!(part.wrong, 2);
    }

    #[test]
    fn an_element_that_the_oracle_does_not_give_is_wrong() {
        for non_finite in [false, true] {
            assert_eq!(wrong(non_finite, &[1.0], &[0.0], &[1.0, f64::NAN, 0.0]), 2);
            // Whole registers as well, and without a slack.
            assert_eq!(wrong(non_finite, &[1.0; LANES], &[0.0; 3 * LANES], &[1.0; 3 * LANES]), 2 * LANES as u64);
            assert_eq!(wrong(non_finite, &[1.0; 3 * LANES], &[0.0; LANES], &[2.0; 3 * LANES]), 3 * LANES as u64);
        }
    }

    #[test]
    fn rows_of_large_outputs_are_drawn_with_the_ends_among_them() {
        let sampled = Some(Sample { seed: 7, elements: 1 << 22 });
        let scope = Scope { sampled, ..Scope::default() };
        assert_eq!(scope.rows(1024, 4096), None);
        assert_eq!(Scope::default().rows(1 << 20, 4096), None);
        let rows = scope.rows(1 << 20, 4096).unwrap_or_default();
        assert!(rows.len() > 1000 && rows[0] == 0 && rows.last() == Some(&((1 << 20) - 1)));
        assert!(rows.windows(2).all(|pair| pair[0] < pair[1]));
        // Rows that are wider than all that is drawn.
        assert!(scope.rows(1000, 1 << 23).is_some_and(|rows| rows.len() > 50));
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
        // The least normal number is off relative to itself.
        assert!(subnormal(DType::F16, 2f64.powi(-14)) < f64::MIN_POSITIVE);
        // Without any, nothing is added, whatever the reference.
        assert!(with_subnormal(1e-3, 0.0, 0.0).total_cmp(&1e-3).is_eq());
    }
}
