//! Attention: `o = softmax(scale · q kᵀ) v`, and `lse`, the logarithm of the softmax's divisor.
//!
//! A row costs as many operations as in the kernel. So `new` computes all rows, on all cores, eight queries of a head
//! at a time, with keys in the order in which the loops read them.
//!
//! **The slack.** A correct kernel computes fp32 scores, exponentials with the GPU's approximate instruction,
//! probabilities rounded to the element type `T` before the second product (tensor cores take no wider type), and fp32
//! sums. With `u = 2⁻²⁴`:
//! - the error of a score is at most `(head_dim + 16) · u · scale ‖q‖ ‖k‖`: `head_dim` for a plain loop (tensor cores
//!   truncate, but keep more bits), and 16 for subtracting the maximum. As an error of the exponent it multiplies `p`
//!   by a factor, and so do the errors of the other scores through the divisor: see [`probability_error`].
//! - rounding `p` adds 2⁻⁸ of it in bf16 and 2⁻¹¹ in f16, where it adds a fixed error below 2⁻¹⁴ of the largest `p`.
//! - the exponential, the divisor and the sums over n keys add `(32 + n) · u`.
//!
//! The slack is the sum over the keys of these errors times `|v|`. The roundings of many probabilities average out,
//! which this sum of worst cases does not take into account: [`Oracle::relative_norm`] bounds the norm of the whole
//! output by that of independent errors.

#![allow(
    clippy::many_single_char_names,
    clippy::needless_bitwise_bool,
    clippy::needless_for_each,
    clippy::redundant_closure,
    clippy::similar_names,
    reason = "loops as the compiler makes vector code of them, with the names of the formulas"
)]

use std::sync::atomic::{AtomicUsize, Ordering};

use super::arguments::Arguments;
use super::exp::exponentials;
use super::rounding::FP32;
use super::threads::threads_for;
use super::wide::{LANES, Work, totals, wide};
use super::{Expected, Oracle, Tensors, View};
use crate::project::DType;

/// A head has a multiple of so many elements.
const UNIT: usize = 8;
/// Keys whose elements of one dimension lie side by side. A loop over fewer is unrolled, and then compiled for single numbers.
const BLOCK: usize = 64;
/// Dimensions, or keys, whose products are added at a time: a sum is loaded and stored once for all of them.
const AT_ONCE: usize = 4;
/// Queries in a block, which are computed together.
const QUERIES_PER_BLOCK: usize = 8;
/// The root mean square of the error of rounding a number to `T`, in half-ulps; a third above that of uniform errors.
const ROUNDED: f64 = 0.58;
/// The same for subnormal numbers, whose ulp is fixed: 1/√3 for uniform errors, and a tenth of that as a margin.
const FIXED: f64 = 0.64;
/// The least effective number of elements for which roundings are taken to average out.
const FEW: f64 = 1024.0;

/// The oracle of one case.
#[derive(Debug)]
pub(super) struct Attention {
    head_dim: usize,
    tokens_q: usize,
    rows: u64,
    /// The elements of o in order.
    o: Vec<f64>,
    slack: Vec<f32>,
    /// `[batch, heads, tokens_q]`, with its slack.
    lse: Vec<(f64, f64)>,
    norm: f64,
}

/// The sizes of a case.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    batch: usize,
    tokens_q: usize,
    tokens_k: usize,
    heads: usize,
    kv_heads: usize,
    head_dim: usize,
    scale: f64,
    /// Query i attends to `i + 1 + diagonal` keys, if there are as many.
    diagonal: i64,
    /// The error of rounding to `T`: relative, and absolute for subnormal numbers.
    half_unit: f64,
    least: f64,
}

/// Keys and values of one head, in the order in which the loops read them.
struct Head {
    /// `[keys / BLOCK][head_dim][BLOCK]`, padded with zeros after the last key.
    keys: Vec<[f64; BLOCK]>,
    key_norms: Vec<f64>,
    /// `[keys][head_dim]`.
    values: Vec<f64>,
    value_squares: Vec<f64>,
}

/// The results of one query.
#[derive(Default)]
struct Row {
    batch: usize,
    query: usize,
    head: usize,
    o: Vec<f64>,
    slack: Vec<f64>,
    lse: (f64, f64),
    /// Sums of squared errors, assumed to be independent: of rounding p, and of the scores.
    rounding: f64,
    scores: f64,
}

/// Adds products of some elements of two queries with those of the keys of a block.
#[inline(always)]
fn add_scores([one, other]: &mut [[f64; BLOCK]; 2], keys: &[[f64; BLOCK]; AT_ONCE], [x, y]: [&[f64; AT_ONCE]; 2]) {
    for key in 0..BLOCK {
        let [a, b, c, d] = [keys[0][key], keys[1][key], keys[2][key], keys[3][key]];
        one[key] += (x[0] * a + x[1] * b) + (x[2] * c + x[3] * d);
        other[key] += (y[0] * a + y[1] * b) + (y[2] * c + y[3] * d);
    }
}

/// Adds the values of some keys, each times its `p`, and their absolute values times its weight.
#[inline(always)]
fn add_values(row: &mut Row, values: &[f64], p: &[f64; AT_ONCE], weights: &[f64; AT_ONCE]) {
    let count = row.o.len();
    let (o, slack) = (&mut row.o[..count], &mut row.slack[..count]);
    let of = |key: usize| &values[key * count..][..count];
    let (a, b, c, d) = (of(0), of(1), of(2), of(3));
    for at in 0..count {
        let [a, b, c, d] = [a[at], b[at], c[at], d[at]];
        o[at] += (p[0] * a + p[1] * b) + (p[2] * c + p[3] * d);
        slack[at] += (weights[0] * a.abs() + weights[1] * b.abs()) + (weights[2] * c.abs() + weights[3] * d.abs());
    }
}

/// Errors of an exponent below which the series is accurate to an ulp, and takes a fraction of the time.
const SMALL: f64 = 1e-3;

/// The error of the probability `p` if its exponent and those of the other keys are off by `by` in total: the odds p /
/// (1 − p) are multiplied by `exp(±by)`, which hardly changes a probability near 0 or 1.
fn probability_error(p: f64, by: f64) -> f64 {
    error_of(p, if by < SMALL { series(by) } else { by.min(600.0).exp_m1() })
}

/// `exp(by) − 1`.
#[inline(always)]
fn series(by: f64) -> f64 {
    by * (1.0 + by * (1.0 / 2.0 + by * (1.0 / 6.0 + by * (1.0 / 24.0))))
}

/// The error of a probability whose odds are multiplied by `1 + factor`.
#[inline(always)]
fn error_of(p: f64, factor: f64) -> f64 {
    let less = if p < 1.0 - p { p } else { 1.0 - p };
    p * (1.0 - p) * factor / (1.0 + less * factor)
}

fn dimension(view: &View, at: usize) -> usize {
    usize::try_from(view.shape[at]).unwrap_or(usize::MAX)
}

/// A row of a `[batch, tokens, heads, head_dim]` tensor.
fn read(view: &View, at: [usize; 3], into: &mut Vec<f64>) {
    let row = (at[0] * dimension(view, 1) + at[1]) * dimension(view, 2) + at[2];
    view.row(row as u64, into);
}

impl Sizes {
    fn of(given: &Arguments) -> anyhow::Result<Self> {
        let need = |name| {
            let view = given.tensor(name)?;
            anyhow::ensure!(
                view.shape.len() == 4,
                "the oracle attention: {name} is [batch, tokens, heads, head_dim], but its shape is {:?}",
                view.shape
            );
            Ok(view)
        };
        let (q, k, v, o) = (need("q")?, need("k")?, need("v")?, need("o")?);
        let fits = q.shape == o.shape
            && k.shape == v.shape
            && (k.shape[0], k.shape[3]) == (q.shape[0], q.shape[3])
            && q.shape[3] % UNIT as u64 == 0
            && (k.shape[2] != 0 && q.shape[2] % k.shape[2] == 0 || q.shape[2] == 0);
        anyhow::ensure!(
            fits,
            "the oracle attention: shapes that do not go together: q {:?}, k {:?}, v {:?}, o {:?}",
            q.shape,
            k.shape,
            v.shape,
            o.shape
        );
        let (half_unit, least) = match o.dtype {
            DType::BF16 => (1.0 / 256.0, 0.0),
            DType::F16 => (1.0 / 2048.0, 1.0 / 33_554_432.0),
            _ => (FP32, 0.0),
        };
        let (tokens_q, tokens_k) = (q.shape[1].cast_signed(), k.shape[1].cast_signed());
        let causal = given.value_or("causal", 0.0);
        Ok(Self {
            batch: dimension(q, 0),
            tokens_q: dimension(q, 1),
            tokens_k: dimension(k, 1),
            heads: dimension(q, 2),
            kv_heads: dimension(k, 2),
            head_dim: dimension(q, 3),
            scale: given.float("scale")?,
            diagonal: match causal {
                1.0 => 0,
                2.0 => tokens_k - tokens_q,
                _ => tokens_k,
            },
            half_unit,
            least,
        })
    }

    /// How many keys a query attends to.
    fn seen(&self, query: usize) -> usize {
        let to = i64::try_from(query).unwrap_or(i64::MAX - 1) + 1;
        usize::try_from(to.saturating_add(self.diagonal)).unwrap_or(0).min(self.tokens_k)
    }
}

impl Head {
    fn new(sizes: &Sizes, k: &View, v: &View, batch: usize, head: usize) -> Self {
        let (count, dim) = (sizes.tokens_k, sizes.head_dim);
        let mut made = Self {
            keys: vec![[0.0; BLOCK]; count.div_ceil(BLOCK) * dim],
            key_norms: Vec::with_capacity(count),
            values: Vec::with_capacity(count * dim),
            value_squares: Vec::with_capacity(count),
        };
        let mut row = Vec::new();
        let squares = |row: &[f64]| row.iter().map(|x| x * x).sum::<f64>();
        for token in 0..count {
            read(k, [batch, token, head], &mut row);
            made.key_norms.push(squares(&row).sqrt());
            for (keys, x) in made.keys[token / BLOCK * dim..].iter_mut().zip(&row) {
                keys[token % BLOCK] = *x;
            }
            read(v, [batch, token, head], &mut row);
            made.value_squares.push(squares(&row));
            made.values.extend_from_slice(&row);
        }
        made
    }

    /// `q kᵀ` of some queries and so many keys, and of some keys after them.
    #[inline(always)]
    fn scores(&self, queries: &[Vec<f64>], keys: usize) -> Vec<Vec<f64>> {
        let mut all = vec![Vec::with_capacity(keys.next_multiple_of(BLOCK)); queries.len()];
        let dim = queries.first().map_or(0, Vec::len).max(1);
        for block in self.keys.chunks_exact(dim).take(keys.div_ceil(BLOCK)) {
            for (queries, rows) in queries.chunks(2).zip(all.chunks_mut(2)) {
                // One that is left over is computed twice.
                let (x, y) = (queries[0].as_chunks().0, queries[queries.len() - 1].as_chunks().0);
                let mut sums = [[0.0; BLOCK]; 2];
                for ((keys, x), y) in block.as_chunks().0.iter().zip(x).zip(y) {
                    add_scores(&mut sums, keys, [x, y]);
                }
                rows.iter_mut().zip(&sums).for_each(|(row, sums)| row.extend(sums));
            }
        }
        all
    }

    /// `p v` and `weights |v|`: a row has a probability for each key that it attends to.
    #[inline(always)]
    fn weighted_sums(&self, (p, weights): (&[f64], &[f64]), row: &mut Row) {
        let dim = row.o.len().max(1);
        let (some, rest) = p.as_chunks::<AT_ONCE>();
        let (beside, last) = weights.as_chunks::<AT_ONCE>();
        let values = self.values.chunks_exact(AT_ONCE * dim);
        for ((values, p), weights) in values.zip(some).zip(beside) {
            add_values(row, values, p, weights);
        }
        let values = self.values.chunks_exact(dim).skip(p.len() - rest.len());
        for ((values, p), weight) in values.zip(rest).zip(last) {
            for ((o, slack), x) in row.o.iter_mut().zip(&mut row.slack).zip(values) {
                *o += p * x;
                *slack += weight * x.abs();
            }
        }
    }

    /// Replaces the scores of a query by its probabilities, sets the row's logarithm and squared errors, and returns
    /// the weights of `|v|` in the slack. `free` is memory for as many numbers.
    #[inline(always)]
    fn softmax(&self, sizes: &Sizes, q: &[f64], (p, free): (&mut Vec<f64>, &mut Vec<f64>), row: &mut Row) -> Vec<f64> {
        let keys = sizes.seen(row.query);
        p.truncate(keys);
        if keys == 0 {
            row.lse = (f64::NEG_INFINITY, 0.0);
            return Vec::new();
        }
        let [norms, squares] = [&self.key_norms[..keys], &self.value_squares[..keys]];
        let length = q.iter().map(|x| x * x).sum::<f64>().sqrt() * sizes.scale;
        #[allow(clippy::cast_precision_loss, reason = "sizes")]
        let (units, summed) = ((sizes.head_dim + 16) as f64 * FP32, (32 + keys) as f64 * FP32);
        let off = units * length;
        p.iter_mut().for_each(|score| *score *= sizes.scale);
        let largest = folded(p, norms, f64::NEG_INFINITY, |most, score, _| if score > most { score } else { most });
        // The largest error of a score that contributes to the sum.
        let others = folded(p, norms, 0.0, |most, score, norm| {
            let error = off * norm;
            if (largest - score < 60.0 + 2.0 * error) & (error > most) { error } else { most }
        });
        p.iter_mut().for_each(|score| *score -= largest);
        exponentials(p, free);
        std::mem::swap(p, free);
        let [sum] = totals(p, norms, |power, _| [power]);
        row.lse = (largest + sum.ln(), 0.0);
        row.lse.1 = others + summed + 8.0 * FP32 * (largest.abs() + row.lse.0.abs());
        let (inverse, least) = (1.0 / sum, sizes.least / sum);
        p.iter_mut().for_each(|power| *power *= inverse);
        let mut weights = vec![0.0; keys];
        score_errors(p, norms, (off, others), &mut weights);
        let rounding = |p: f64| p * sizes.half_unit + least;
        [row.rounding] = totals(p, squares, |p, square| [(ROUNDED * rounding(p)).powi(2) * square]);
        let pairs = weights.iter_mut().zip(p.iter());
        pairs.for_each(|(error, p)| *error += p * summed);
        [row.scores] = totals(&weights, squares, |error, square| [error * error * square]);
        let pairs = weights.iter_mut().zip(p.iter());
        pairs.for_each(|(weight, p)| *weight += rounding(*p));
        weights
    }
}

/// The largest, by `larger`, of numbers that lie beside others.
#[inline(always)]
fn folded(some: &[f64], beside: &[f64], least: f64, larger: impl Fn(f64, f64, f64) -> f64) -> f64 {
    let mut lanes = [least; LANES];
    let (some, rest) = some.as_chunks::<LANES>();
    let (beside, last) = beside.as_chunks::<LANES>();
    for (some, beside) in some.iter().zip(beside) {
        for lane in 0..LANES {
            lanes[lane] = larger(lanes[lane], some[lane], beside[lane]);
        }
    }
    let ends = rest.iter().zip(last).fold(least, |most, (one, other)| larger(most, *one, *other));
    lanes.into_iter().fold(ends, |most, one| if one > most { one } else { most })
}

/// The errors of probabilities by those of the scores: `off` times the norm of the key, and `others` of all.
#[inline(always)]
fn score_errors(p: &[f64], norms: &[f64], (off, others): (f64, f64), into: &mut [f64]) {
    let (some, rest) = p.as_chunks::<LANES>();
    let (beside, last) = norms.as_chunks::<LANES>();
    let (to, end) = into.as_chunks_mut::<LANES>();
    for ((p, norms), into) in some.iter().zip(beside).zip(to) {
        let (mut by, mut small) = ([0.0; LANES], true);
        for lane in 0..LANES {
            by[lane] = off * norms[lane] + others;
            small &= by[lane] < SMALL;
        }
        if small {
            for lane in 0..LANES {
                into[lane] = error_of(p[lane], series(by[lane]));
            }
        } else {
            for lane in 0..LANES {
                into[lane] = probability_error(p[lane], by[lane]);
            }
        }
    }
    for ((p, norm), into) in rest.iter().zip(last).zip(end) {
        *into = probability_error(*p, off * norm + others);
    }
}

impl Attention {
    /// Needs the tensors `q`, `k`, `v` and `o`, each `[batch, tokens, heads, head_dim]`, and the value `scale`; takes the
    /// tensor `lse`, and the value `causal` (1: top left, 2: bottom right).
    pub(super) fn new(given: &Arguments) -> anyhow::Result<Self> {
        let sizes = Sizes::of(given)?;
        let (q, k, v) = (given.tensor("q")?, given.tensor("k")?, given.tensor("v")?);
        // A job is a range of queries of all heads that share a head of keys and values.
        let products = sizes.batch * sizes.heads * sizes.tokens_q * sizes.tokens_k * sizes.head_dim;
        // In wide registers, some sixteen of these products take as long as one element of the other oracles.
        let threads = usize::try_from(threads_for(products as u64 / 16)).unwrap_or(1);
        let pairs = sizes.batch * sizes.kv_heads;
        let pieces = (8 * threads).div_ceil(pairs.max(1));
        let queries = sizes.tokens_q.div_ceil(pieces).next_multiple_of(QUERIES_PER_BLOCK);
        let pieces = sizes.tokens_q.div_ceil(queries.max(1));
        let next = AtomicUsize::new(0);
        let work = || {
            let mut rows = Vec::new();
            loop {
                let job = next.fetch_add(1, Ordering::Relaxed);
                if job >= pairs * pieces {
                    return rows;
                }
                let (pair, first) = (job / pieces, job % pieces * queries);
                let (batch, kv_head) = (pair / sizes.kv_heads, pair % sizes.kv_heads);
                let head = Head::new(&sizes, k, v, batch, kv_head);
                let last = (first + queries).min(sizes.tokens_q);
                for from in (first..last).step_by(QUERIES_PER_BLOCK) {
                    let to = (from + QUERIES_PER_BLOCK).min(last);
                    let sharing = sizes.heads / sizes.kv_heads;
                    for of in kv_head * sharing..(kv_head + 1) * sharing {
                        rows.extend(wide(QueryBlock { sizes: &sizes, q, head: &head, at: [batch, of, from, to] }));
                    }
                }
            }
        };
        let all: Vec<Row> = if threads == 1 || pairs * pieces < 2 {
            work()
        } else {
            std::thread::scope(|scope| {
                let handles: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
                let joined = handles.into_iter().filter_map(|handle| handle.join().ok());
                joined.flatten().collect()
            })
        };
        Ok(Self::gather(&sizes, all))
    }

    fn gather(sizes: &Sizes, all: Vec<Row>) -> Self {
        let rows = sizes.batch * sizes.tokens_q * sizes.heads;
        let mut made = Self {
            head_dim: sizes.head_dim,
            tokens_q: sizes.tokens_q,
            rows: rows as u64,
            o: vec![f64::NAN; rows * sizes.head_dim],
            slack: vec![0.0; rows * sizes.head_dim],
            lse: vec![(f64::NAN, 0.0); rows],
            norm: f64::INFINITY,
        };
        let (mut square, mut fourth, mut rounding, mut scores) = (0.0, 0.0, 0.0, 0.0);
        let unit = |o: f64| (ROUNDED * sizes.half_unit * o.abs()).max(FIXED * sizes.least);
        for row in all {
            let token = row.batch * sizes.tokens_q + row.query;
            let at = (token * sizes.heads + row.head) * sizes.head_dim;
            for (d, (o, slack)) in row.o.iter().zip(&row.slack).enumerate() {
                made.o[at + d] = *o;
                #[allow(clippy::cast_possible_truncation, reason = "a slack needs no more precision")]
                let narrow = *slack as f32;
                made.slack[at + d] = narrow.next_up();
                rounding += unit(*o).powi(2);
                square += o * o;
                fourth += o.powi(4);
            }
            made.lse[(row.batch * sizes.heads + row.head) * sizes.tokens_q + row.query] = row.lse;
            rounding += row.rounding;
            scores += row.scores;
        }
        if square * square >= FEW * fourth && square > 0.0 {
            made.norm = (rounding.sqrt() + scores.sqrt()) / square.sqrt();
        }
        made
    }
}

/// A block of queries of one head.
struct QueryBlock<'a> {
    sizes: &'a Sizes,
    q: &'a View<'a>,
    head: &'a Head,
    /// Batch, head, the first query, and one past the last query.
    at: [usize; 4],
}

impl Work for QueryBlock<'_> {
    type Out = Vec<Row>;

    #[inline(always)]
    fn run<const ROWS: usize>(self) -> Vec<Row> {
        let Self { sizes, q, head, at: [batch, of, from, to] } = self;
        let mut queries = vec![Vec::new(); to - from];
        for (query, into) in (from..to).zip(&mut queries) {
            read(q, [batch, query, of], into);
        }
        let zeros = || vec![0.0; sizes.head_dim];
        let row = |query| Row { batch, query, head: of, o: zeros(), slack: zeros(), ..Row::default() };
        let mut rows: Vec<Row> = (from..to).map(|query| row(query)).collect();
        let mut p = head.scores(&queries, sizes.seen(to - 1));
        let mut free = Vec::new();
        for ((p, q), row) in p.iter_mut().zip(&queries).zip(&mut rows) {
            let weights = head.softmax(sizes, q, (p, &mut free), row);
            head.weighted_sums((p, &weights), row);
        }
        rows
    }
}

impl Oracle for Attention {
    fn outputs(&self) -> Vec<String> {
        vec!["o".to_owned(), "lse".to_owned()]
    }

    fn rows(&self, output: usize) -> u64 {
        match (output, self.tokens_q) {
            (0, _) => self.rows,
            (_, 0) => 0,
            (_, tokens) => self.rows / tokens as u64,
        }
    }

    fn row(&self, _tensors: &Tensors, output: usize, row: u64, expected: &mut Expected) {
        expected.clear();
        let row = usize::try_from(row).unwrap_or(usize::MAX);
        if output == 0 {
            let range = row * self.head_dim..(row + 1) * self.head_dim;
            for (value, slack) in self.o[range.clone()].iter().zip(&self.slack[range]) {
                expected.push(*value, f64::from(*slack));
            }
        } else {
            for (value, slack) in &self.lse[row * self.tokens_q..(row + 1) * self.tokens_q] {
                expected.push(*value, *slack);
            }
        }
    }

    fn relative_norm(&self, output: usize) -> Option<f64> {
        // The logarithm may cancel to nearly zero, while its error is relative to its terms.
        Some(if output == 0 { self.norm } else { f64::INFINITY })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::oracle::rounding::{round, ulp};
    use crate::oracle::view::encode;

    const DIM: usize = 16;

    /// A case of one batch: numbers that are exact in bf16, and the oracle of them.
    struct Case {
        tensors: BTreeMap<&'static str, Vec<f64>>,
        tokens: [usize; 2],
        heads: [usize; 2],
        causal: f64,
    }

    impl Case {
        fn new(tokens: [usize; 2], heads: [usize; 2], causal: f64) -> Self {
            let mut state = 1u32;
            let mut draw = |count: usize| -> Vec<f64> {
                let mut one = || {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    f64::from((state >> 24) as u8) / 64.0 - 2.0
                };
                (0..count * DIM).map(|_| one()).collect()
            };
            let tensors = BTreeMap::from([
                ("q", draw(tokens[0] * heads[0])),
                ("k", draw(tokens[1] * heads[1])),
                ("v", draw(tokens[1] * heads[1])),
                ("o", draw(tokens[0] * heads[0])),
            ]);
            Self { tensors, tokens, heads, causal }
        }

        /// One row of o and its logarithm.
        fn row(&self, query: usize, head: usize) -> (Expected, f64) {
            let bytes: BTreeMap<&str, Vec<u8>> = self
                .tensors
                .iter()
                .map(|(name, data)| {
                    let mut bytes = Vec::new();
                    for x in data {
                        encode(DType::BF16, *x, &mut bytes);
                    }
                    (*name, bytes)
                })
                .collect();
            let mut tensors = Tensors::default();
            for (name, bytes) in &bytes {
                let of = usize::from(matches!(*name, "k" | "v"));
                let (tokens, heads) = (self.tokens[of] as u64, self.heads[of] as u64);
                let dim = DIM as u64;
                let view = View::dense(DType::BF16, &[1, tokens, heads, dim], bytes);
                tensors.views.insert((*name).to_owned(), view);
            }
            let values = BTreeMap::from([("scale".to_owned(), 0.25), ("causal".to_owned(), self.causal)]);
            let oracle = Attention::new(&Arguments::with("", &tensors, &values)).expect("sizes that fit");
            let mut expected = Expected::default();
            oracle.row(&tensors, 1, head as u64, &mut expected);
            let lse = expected.values[query];
            oracle.row(&tensors, 0, (query * self.heads[0] + head) as u64, &mut expected);
            (expected, lse)
        }

        /// The same row, computed by the formula over the first keys, with probabilities rounded by `store`. `at` is
        /// query, head, and the number of keys.
        fn formula(&self, at: [usize; 3], store: impl Fn(f64) -> f64) -> Vec<f64> {
            let [query, head, keys] = at;
            let of = |name: &str, token: usize, head: usize| {
                let heads = self.heads[usize::from(name != "q")];
                &self.tensors[name][(token * heads + head) * DIM..][..DIM]
            };
            let kv = head / (self.heads[0] / self.heads[1]);
            let logit = |key: usize| -> f64 {
                let (q, k) = (of("q", query, head), of("k", key, kv));
                0.25 * q.iter().zip(k).map(|(q, k)| q * k).sum::<f64>()
            };
            let scores: Vec<f64> = (0..keys).map(logit).collect();
            let largest = scores.iter().copied().fold(f64::MIN, f64::max);
            let p: Vec<f64> = scores.iter().map(|s| (s - largest).exp()).collect();
            let sum: f64 = p.iter().sum();
            let element = |d: usize| {
                let terms = p.iter().enumerate();
                terms.map(|(key, p)| store(*p) * of("v", key, kv)[d]).sum::<f64>() / sum
            };
            (0..DIM).map(element).collect()
        }
    }

    /// Whether every element is within its budget.
    fn passes(got: &[f64], expected: &Expected) -> bool {
        let all = got.iter().zip(&expected.values).zip(&expected.slack);
        all.into_iter().all(|((got, value), slack)| {
            let got = round(DType::BF16, *got);
            (got - value).abs() <= ulp(DType::BF16, value.abs() + slack) / 2.0 + slack
        })
    }

    #[test]
    fn a_query_sees_what_its_mask_says_and_shares_its_keys() {
        for (causal, query, keys) in [(0.0, 3, 21), (1.0, 3, 4), (2.0, 3, 16), (2.0, 8, 21)] {
            let case = Case::new([9, 21], [4, 2], causal);
            for head in 0..4 {
                let (expected, _) = case.row(query, head);
                let exact = case.formula([query, head, keys], |p| p);
                for (ours, theirs) in expected.values.iter().zip(&exact) {
                    assert!((ours - theirs).abs() < 1e-13, "{ours} {theirs}");
                }
            }
        }
    }

    #[test]
    fn a_query_without_keys_is_zero() {
        for (case, query) in [(Case::new([9, 4], [2, 1], 2.0), 4), (Case::new([9, 0], [2, 1], 0.0), 8)] {
            let (expected, lse) = case.row(query, 1);
            assert!(expected.values.iter().all(|value| *value == 0.0));
            assert!(lse == f64::NEG_INFINITY);
        }
    }

    #[test]
    fn rounded_probabilities_pass_and_other_functions_do_not() {
        let case = Case::new([40, 40], [2, 1], 1.0);
        let (expected, _) = case.row(29, 1);
        assert!(passes(&case.formula([29, 1, 30], |p| p), &expected));
        let rounded = |p| round(DType::BF16, p);
        assert!(passes(&case.formula([29, 1, 30], rounded), &expected));
        // One key more or less, another head's query, probabilities of five bits.
        assert!(!passes(&case.formula([29, 1, 31], rounded), &expected));
        assert!(!passes(&case.formula([29, 1, 29], rounded), &expected));
        assert!(!passes(&case.formula([29, 0, 30], rounded), &expected));
        let coarse = |p: f64| (p * 32.0).round() / 32.0;
        assert!(!passes(&case.formula([29, 1, 30], coarse), &expected));
    }

    #[test]
    fn a_probability_moves_as_its_odds_do() {
        for p in [1e-9, 0.01, 0.5, 0.99, 1.0] {
            for by in [1e-6, 0.1, 3.0, 1000.0f64] {
                let odds = |factor: f64| p * factor / (1.0 - p + p * factor);
                let far = by.min(600.0);
                let most = (odds(far.exp()) - p).abs().max((odds((-far).exp()) - p).abs());
                assert!((probability_error(p, by) - most).abs() <= 1e-12, "{p} {by}");
            }
        }
        assert!(probability_error(1.0, 5.0) == 0.0);
    }
}
