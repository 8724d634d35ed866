//! One row of the cases: every name with a value.

use std::collections::BTreeMap;

use super::DType;

/// How the input tensors of a case are drawn.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Inputs {
    /// Standard normal.
    Normal,
    /// Normal, each row at its own power of two from 2^-12 to 2^12 (f16: 2^-8 to 2^6).
    Wide,
    /// Normal times 2^-30 (f16: 2^-14): rows in which an eps dominates.
    Tiny,
    /// Normal with zeros: a third of the elements, and every third row whole.
    Sparse,
    /// Constant rows, each at its own value.
    Constant,
    /// One large element a row among small ones.
    Spike,
}

/// A case.
#[derive(Clone, Debug)]
pub struct Case {
    /// For people: `rows=128 width=4096 weight=1 bf16`, with the set's name in front.
    pub label: String,
    /// What `T` is.
    pub dtype: DType,
    /// Sizes and options.
    pub values: BTreeMap<String, f64>,
    /// How far each tensor's first element lies behind a 256-byte boundary, in elements.
    pub offsets: BTreeMap<String, u64>,
    /// How the inputs are drawn.
    pub inputs: Inputs,
}
