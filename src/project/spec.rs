//! `kernel.toml`, format 1, as written.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;

use super::dtype::Element;
use super::{DType, Formula, Tuning};

/// A whole `kernel.toml`.
#[derive(Clone, Debug, Serialize)]
pub struct Spec {
    /// The operations, at least one.
    pub operations: Vec<Operation>,
    /// What a compiled kernel may use at most.
    pub budgets: Vec<Budget>,
    /// Tables of the sources that `kernels tune` may change. Left out of digests: no result depends on them.
    #[serde(skip)]
    pub tunings: Vec<Tuning>,
}

/// One operation: a launcher and all that is needed to call, check and time it.
#[derive(Clone, Debug, Serialize)]
pub struct Operation {
    /// Its name; evidence files carry it.
    pub name: String,
    /// The `extern "C" int` symbol of the project's shared object that launches it.
    pub launcher: String,
    /// The `extern "C" const char*` symbol that says in words what a code of the launcher means. Left out of digests where
    /// it is none, like all keys that came after the first recorded evidence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What says the right answer.
    pub oracle: OracleRef,
    /// The types that `T` stands for in turn.
    pub dtypes: Vec<DType>,
    /// Other type parameters, and what each may stand for: none is `T`. The first is meant where a case says nothing.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub types: BTreeMap<String, Vec<Option<DType>>>,
    /// The launcher's arguments in C order.
    pub arguments: Vec<Argument>,
    /// Values of names that a case leaves out.
    pub defaults: BTreeMap<String, Formula>,
    /// The fewest bytes that must move through device memory.
    pub bytes: Formula,
    /// Floating-point operations.
    pub flops: Formula,
    /// Cases to check.
    pub verify: Vec<CaseSet>,
    /// Cases to time.
    pub bench: Vec<CaseSet>,
    /// Arguments that the launcher must refuse: a nonzero return and no launch.
    pub reject: Vec<CaseSet>,
    /// Overrides of the error budget derived from the dtype; only for oracles in Python.
    pub tolerance: Tolerance,
    /// Why it is not verified with NaN and infinity among its inputs. Left out of digests: every report and record says it.
    #[serde(skip)]
    pub finite_only: Option<String>,
}

/// What says the right answer.
#[derive(Clone, Debug, Serialize)]
pub enum OracleRef {
    /// A bundled operation, computed in double precision by this binary.
    Bundled(String),
    /// A function of a Python file of the project, run in its own process on the CPU with torch.
    Python {
        /// The file, relative to the project.
        file: PathBuf,
        /// The function: keyword arguments are the input tensors (float64) and scalars by name; it returns a
        /// tensor, or a tuple of them in the order of the output arguments.
        function: String,
    },
}

/// What a launcher does to a tensor.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub enum Role {
    /// Reads it.
    Input,
    /// Writes all of it.
    Output,
    /// Reads it, and writes all of it.
    InOut,
    /// Works in it: what it holds before a launch is nobody's, and what it holds afterwards as well.
    Scratch,
}

impl Role {
    /// Whether it holds drawn elements before a launch; else it is poisoned.
    pub fn is_given(self) -> bool {
        matches!(self, Self::Input | Self::InOut)
    }

    /// Whether it holds a result after a launch, to be compared.
    pub fn is_result(self) -> bool {
        matches!(self, Self::Output | Self::InOut)
    }

    /// Whether the launcher may write it.
    pub fn is_written(self) -> bool {
        self != Self::Input
    }
}

/// One argument of a launcher.
#[derive(Clone, Debug, Serialize)]
pub enum Argument {
    /// A device pointer.
    Tensor {
        /// Its name.
        name: String,
        /// What is done to it.
        role: Role,
        /// Its type.
        dtype: Element,
        /// Its shape.
        shape: Vec<Formula>,
        /// Its strides in elements; none: contiguous.
        strides: Option<Vec<Formula>>,
        /// A null pointer is passed where this is zero.
        present: Option<Formula>,
        /// What an input is drawn from.
        #[serde(skip_serializing_if = "Option::is_none")]
        integers: Option<Integers<Formula>>,
        /// How many numbers the oracle gives for each element of an output, any of which is right; none: one.
        #[serde(skip_serializing_if = "Option::is_none")]
        alternatives: Option<u8>,
    },
    /// A number.
    Scalar {
        /// Its name; the oracle sees it by this name.
        name: String,
        /// Its C type.
        ctype: CType,
        /// Its value.
        value: Formula,
    },
    /// The code of the case's `T`, as a C `int`.
    DType {
        /// The code of each type.
        codes: BTreeMap<DType, i32>,
    },
    /// The `cudaStream_t`.
    Stream,
}

impl Argument {
    /// Its name in kernel.toml.
    pub fn name(&self) -> &str {
        match self {
            Self::Tensor { name, .. } | Self::Scalar { name, .. } => name,
            Self::DType { .. } => "dtype",
            Self::Stream => "stream",
        }
    }
}

/// What the elements of an input are drawn from; `N` is a formula, or a number where sizes are filled in.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Integers<N> {
    /// The smallest.
    pub(crate) first: N,
    /// The largest.
    pub(crate) last: N,
    /// What else a verification draws now and then, wherever it lies; a bench does not.
    pub(crate) also: Vec<N>,
}

impl Integers<i64> {
    /// The bound and drawn numbers of floating-point types are multiples of this, which a card computes as the host does.
    pub(crate) const UNIT: f64 = 1.0 / (1 << 20) as f64;
}

impl<N> Integers<N> {
    /// Every formula or number in it.
    pub(crate) fn all(&self) -> impl Iterator<Item = &N> {
        [&self.first, &self.last].into_iter().chain(&self.also)
    }
}

/// The C type of a scalar argument.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub enum CType {
    /// `int32_t`
    I32,
    /// `int64_t`
    I64,
    /// `float`
    F32,
    /// `double`
    F64,
}

/// A table of cases: the product of the values of all its names.
#[derive(Clone, Debug, Serialize)]
pub struct CaseSet {
    /// What it is about; part of each case's label.
    pub name: Option<String>,
    /// The values of each name.
    pub values: BTreeMap<String, Values>,
    /// The dtypes; empty: all of the operation's.
    pub dtypes: Vec<DType>,
    /// How far each tensor's first element lies behind a 256-byte boundary, in elements.
    pub offsets: BTreeMap<String, u64>,
    /// How the inputs are drawn; empty: `normal`.
    pub inputs: Vec<super::Inputs>,
    /// Drawn afresh this many times for each dtype and kind of inputs, each value from its range or list; none:
    /// the product.
    pub draw: Option<u32>,
    /// Whether the launcher must refuse these cases.
    pub refused: bool,
    /// How it must refuse them, and what is wrong that no value says.
    #[serde(skip_serializing_if = "Refusal::is_empty")]
    pub refusal: Refusal,
}

/// How a launcher must answer a case that it refuses, and what is wrong with the case beside its values.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Refusal {
    /// What it returns; none: anything but 0. With 0 it accepts the case, and launches nothing.
    pub code: Option<i32>,
    /// What the operation's `error` function says of that code, in part.
    pub says: Option<String>,
    /// The code of the dtype that is passed instead of the case's own.
    pub dtype_code: Option<i32>,
    /// Pointers that are passed otherwise than to their tensors.
    pub pointers: BTreeMap<String, BadPointer>,
}

impl Refusal {
    /// Whether any nonzero code will do, and nothing but the values is wrong.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Refusal {
    /// What is wrong with the code that a launcher returned, and with the words for it.
    pub fn fault(&self, launcher: &str, code: i32, said: Option<&str>) -> Option<String> {
        if self.code.map_or(code == 0, |wanted| wanted != code) {
            let wanted = self.code.map_or("an error code".to_owned(), |code| code.to_string());
            return Some(format!("{launcher} returned {code}, and kernel.toml says {wanted}"));
        }
        let words = self.says.as_deref()?;
        let said = said.unwrap_or_default();
        (!said.contains(words))
            .then(|| format!("{launcher} returned {code}, \"{said}\", which does not say \"{words}\""))
    }
}

/// What is passed in place of a tensor's address.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub enum BadPointer {
    /// A null pointer.
    Null,
    /// Its address and so many bytes.
    Beyond(u64),
}

/// The values that a name takes in a case set.
#[derive(Clone, Debug, Serialize)]
pub enum Values {
    /// Each in turn.
    List(Vec<f64>),
    /// Any integer from the first to the last, both included, drawn afresh.
    Range(i64, i64),
    /// Computed of the case's other names.
    Formula(Formula),
}

/// What a compiled kernel may use at most. What is none is not looked at.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Budget {
    /// Which kernels: a pattern with `*` over the demangled name.
    pub kernel: String,
    /// Of which sources: those of this `.cu` file, or of this folder; none: of all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<PathBuf>,
    /// On which architectures; empty: all.
    pub arch: Vec<u32>,
    /// Registers a thread.
    pub registers: Option<u32>,
    /// Bytes spilled to local memory (stores plus loads).
    pub spill_bytes: Option<u32>,
    /// Bytes of stack.
    pub stack_bytes: Option<u32>,
    /// Bytes of static shared memory.
    pub shared_bytes: Option<u32>,
    /// Theoretical occupancy, at least, 0 to 1.
    pub occupancy: Option<f64>,
    /// Whether its machine code must hold 16-byte global loads and stores.
    pub wide_access: Option<bool>,
}

/// How far a result may be from a Python oracle's.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Tolerance {
    /// Units in the last place of the output's type, an element.
    pub(crate) ulps: Option<f64>,
    /// ‖out − reference‖ / ‖reference‖.
    pub(crate) relative_norm: Option<f64>,
    /// An absolute error that is always allowed, an element.
    pub(crate) absolute: Option<f64>,
}
