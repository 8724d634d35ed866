//! An operation with every size of a case filled in.

use std::collections::BTreeMap;

use super::{DType, Integers, Role};

/// What is needed to record, check and time one case of one operation.
#[derive(Clone, Debug)]
pub struct Bound {
    /// The tensors in the order of the launcher's arguments, absent ones left out.
    pub tensors: Vec<BoundTensor>,
    /// The launcher's arguments in C order.
    pub arguments: Vec<BoundArgument>,
    /// Every name that a formula or an oracle may use: sizes, options, scalars.
    pub values: BTreeMap<String, f64>,
    /// The fewest bytes that must move through device memory.
    pub bytes: u64,
    /// Floating-point operations.
    pub flops: f64,
}

/// A tensor with numbers for its sizes.
#[derive(Clone, Debug, PartialEq)]
pub struct BoundTensor {
    /// Its name.
    pub name: String,
    /// What the launcher does to it.
    pub role: Role,
    /// The type of its elements.
    pub dtype: DType,
    /// Its shape.
    pub shape: Vec<u64>,
    /// Its strides in elements, none negative.
    pub strides: Vec<u64>,
    /// How far its first element lies behind a 256-byte boundary, in elements.
    pub offset: u64,
    /// What it is drawn from, where kernel.toml or its type says so: integers, or of a floating-point type multiples of
    /// [`Integers::UNIT`].
    pub(crate) integers: Option<Integers<i64>>,
    /// How many numbers the oracle gives for each element, any of which is right.
    pub(crate) alternatives: u64,
}

/// For tests.
#[cfg(test)]
impl BoundTensor {
    /// A tensor at a boundary, drawn from all numbers of its type.
    pub(crate) fn of<const N: usize>(
        (name, role): (&str, Role),
        dtype: DType,
        (shape, strides): ([u64; N], [u64; N]),
    ) -> Self {
        let (name, shape, strides) = (name.to_owned(), shape.to_vec(), strides.to_vec());
        Self { name, role, dtype, shape, strides, offset: 0, integers: None, alternatives: 1 }
    }
}

impl BoundTensor {
    /// How many elements it has.
    pub fn elements(&self) -> u64 {
        self.shape.iter().product()
    }

    /// How many elements lie from its first to behind its last, gaps between rows included.
    pub fn span(&self) -> u64 {
        if self.elements() == 0 {
            return 0;
        }
        1 + self.shape.iter().zip(&self.strides).map(|(size, stride)| (size - 1) * stride).sum::<u64>()
    }
}

/// An argument as the launcher gets it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum BoundArgument {
    /// The address of a tensor of [`Bound::tensors`].
    Tensor(usize),
    /// The address of a tensor of [`Bound::tensors`] and so many bytes, for a launcher to refuse.
    Beyond(usize, u64),
    /// A null pointer: a tensor that is not there.
    Null,
    /// `int32_t`
    I32(i32),
    /// `int64_t`
    I64(i64),
    /// `float`
    F32(f32),
    /// `double`
    F64(f64),
    /// The stream.
    Stream,
}
