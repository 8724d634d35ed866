//! Tensors on the host, read as doubles.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};

use super::rounding::{
    Grid, bf16_bits, bf16_to_f64, e4m3_bits, e4m3_to_f64, e5m2_bits, e5m2_to_f64, f16_bits, f16_to_f64, round,
};
use super::wide::{Work, wide};
use crate::project::{BoundTensor, DType};

/// A tensor's elements on the host.
#[derive(Clone, Debug)]
pub struct View<'a> {
    /// The element type.
    pub dtype: DType,
    /// The shape.
    pub shape: Vec<u64>,
    /// The strides in elements.
    pub strides: Vec<u64>,
    /// The bytes from the first element to the end of the last.
    pub bytes: &'a [u8],
}

impl<'a> View<'a> {
    /// The elements of a bound tensor. `bytes` starts with the first element.
    pub fn new(tensor: &BoundTensor, bytes: &'a [u8]) -> Self {
        Self { dtype: tensor.dtype, shape: tensor.shape.clone(), strides: tensor.strides.clone(), bytes }
    }

    /// A contiguous tensor.
    #[cfg(test)]
    pub(crate) fn dense(dtype: DType, shape: &[u64], bytes: &'a [u8]) -> Self {
        let mut strides = vec![1; shape.len()];
        for at in (1..shape.len()).rev() {
            strides[at - 1] = strides[at] * shape[at];
        }
        Self { dtype, shape: shape.to_vec(), strides, bytes }
    }

    /// The length of the last dimension; 1 for a tensor without dimensions.
    pub(crate) fn row_length(&self) -> u64 {
        self.shape.last().copied().unwrap_or(1)
    }

    /// The number of rows: the product of all dimensions but the last.
    pub fn rows(&self) -> u64 {
        self.shape.iter().rev().skip(1).product()
    }

    /// The offset in elements of the first element of a row.
    pub(crate) fn row_start(&self, row: u64) -> u64 {
        let mut rest = row;
        let mut at = 0;
        for (size, stride) in self.shape.iter().zip(&self.strides).rev().skip(1) {
            at += rest % size * stride;
            rest /= size;
        }
        at
    }

    /// The element at an offset, in elements.
    pub(crate) fn element(&self, offset: u64) -> f64 {
        let size = self.dtype.size();
        let start = usize::try_from(offset).unwrap_or(usize::MAX) * size;
        decode(self.dtype, &self.bytes[start..start + size])
    }

    /// Replaces the content of `into` by a row, as doubles.
    pub fn row(&self, row: u64, into: &mut Vec<f64>) {
        into.clear();
        let (start, length) = (self.row_start(row), self.row_length());
        let stride = self.strides.last().copied().unwrap_or(1);
        let size = self.dtype.size();
        if stride == 1 {
            let from = usize::try_from(start).unwrap_or(usize::MAX) * size;
            let to = from + usize::try_from(length).unwrap_or(usize::MAX) * size;
            let bytes = &self.bytes[from..to];
            match self.dtype {
                DType::F32 | DType::F16 | DType::BF16 => wide(Decode { dtype: self.dtype, bytes, into }),
                _ => into.extend(bytes.chunks_exact(size).map(|c| decode(self.dtype, c))),
            }
        } else {
            into.extend((0..length).map(|column| self.element(start + column * stride)));
        }
    }
}

/// Appends elements of 2 or 4 bytes.
struct Decode<'a> {
    dtype: DType,
    bytes: &'a [u8],
    into: &'a mut Vec<f64>,
}

impl Work for Decode<'_> {
    type Out = ();

    #[inline(always)]
    fn run<const ROWS: usize>(self) {
        let halves = self.bytes.as_chunks::<2>().0.iter().map(|two| u16::from_le_bytes(*two));
        match self.dtype {
            DType::F16 => self.into.extend(halves.map(f16_to_f64)),
            DType::BF16 => self.into.extend(halves.map(bf16_to_f64)),
            _ => {
                let singles = self.bytes.as_chunks::<4>().0.iter().map(|four| f32::from_le_bytes(*four));
                self.into.extend(singles.map(f64::from));
            }
        }
    }
}

/// Decodes one element.
#[allow(clippy::cast_precision_loss)]
pub(crate) fn decode(dtype: DType, bytes: &[u8]) -> f64 {
    match (dtype, bytes) {
        (DType::F32, &[a, b, c, d]) => f64::from(f32::from_le_bytes([a, b, c, d])),
        (DType::F16, &[a, b]) => f16_to_f64(u16::from_le_bytes([a, b])),
        (DType::BF16, &[a, b]) => bf16_to_f64(u16::from_le_bytes([a, b])),
        (DType::E4M3, &[byte]) => e4m3_to_f64(byte),
        (DType::E5M2, &[byte]) => e5m2_to_f64(byte),
        (DType::I8, &[byte]) => f64::from(byte.cast_signed()),
        (DType::U8 | DType::Bool, &[byte]) => f64::from(byte),
        (DType::I32, &[a, b, c, d]) => f64::from(i32::from_le_bytes([a, b, c, d])),
        (DType::I64, _) => <[u8; 8]>::try_from(bytes).map_or(f64::NAN, |eight| i64::from_le_bytes(eight) as f64),
        _ => f64::NAN,
    }
}

/// Writes elements of 2 or 4 bytes, rounded to nearest.
struct Encode<'a> {
    dtype: DType,
    values: &'a [f64],
    into: &'a mut [u8],
}

impl Work for Encode<'_> {
    type Out = ();

    #[inline(always)]
    #[allow(clippy::cast_possible_truncation)]
    fn run<const ROWS: usize>(self) {
        let Self { dtype, values, into } = self;
        let grid = Grid::of(dtype);
        match dtype {
            DType::F16 => write(values, into, |value| f16_bits(grid.round(value)).to_le_bytes()),
            DType::BF16 => write(values, into, |value| bf16_bits(grid.round(value)).to_le_bytes()),
            _ => write(values, into, |value| (value as f32).to_le_bytes()),
        }
    }
}

#[inline(always)]
fn write<const SIZE: usize>(values: &[f64], into: &mut [u8], bits: impl Fn(f64) -> [u8; SIZE]) {
    for (into, value) in into.as_chunks_mut::<SIZE>().0.iter_mut().zip(values) {
        *into = bits(*value);
    }
}

/// Encodes elements, rounded to nearest.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
pub(crate) fn encode_all(dtype: DType, values: &[f64], into: &mut [u8]) {
    match dtype {
        DType::F32 | DType::F16 | DType::BF16 => wide(Encode { dtype, values, into }),
        DType::E4M3 => write(values, into, |value| [e4m3_bits(round(DType::E4M3, value))]),
        DType::E5M2 => write(values, into, |value| [e5m2_bits(round(DType::E5M2, value))]),
        DType::I8 => write(values, into, |value| (value.round_ties_even() as i8).to_le_bytes()),
        DType::U8 => write(values, into, |value| [value.round_ties_even() as u8]),
        DType::Bool => write(values, into, |value| [u8::from(value != 0.0)]),
        DType::I32 => write(values, into, |value| (value.round_ties_even() as i32).to_le_bytes()),
        DType::I64 => write(values, into, |value| (value.round_ties_even() as i64).to_le_bytes()),
    }
}

/// Appends the bytes of one element, rounded to nearest.
pub fn encode(dtype: DType, value: f64, into: &mut Vec<u8>) {
    let from = into.len();
    into.resize(from + dtype.size(), 0);
    encode_all(dtype, &[value], &mut into[from..]);
}

/// Numbers of a row, in memory that an earlier row of the thread had: an allocation for each row, by all threads of a verification,
/// takes as long as the arithmetic.
#[derive(Debug)]
pub(super) struct Row(Vec<f64>);

thread_local! {
    static FREED: RefCell<Vec<Vec<f64>>> = const { RefCell::new(Vec::new()) };
}

impl Row {
    /// An empty one.
    pub(super) fn new() -> Self {
        let mut row = FREED.with_borrow_mut(Vec::pop).unwrap_or_default();
        row.clear();
        Self(row)
    }
}

impl Drop for Row {
    fn drop(&mut self) {
        // At the end of the thread nothing is kept.
        let _ = FREED.try_with(|freed| freed.borrow_mut().push(std::mem::take(&mut self.0)));
    }
}

impl Deref for Row {
    type Target = Vec<f64>;

    fn deref(&self) -> &Vec<f64> {
        &self.0
    }
}

impl DerefMut for Row {
    fn deref_mut(&mut self) -> &mut Vec<f64> {
        &mut self.0
    }
}

/// All tensors of a case, by name.
#[derive(Clone, Debug, Default)]
pub struct Tensors<'a> {
    /// The views, without those of absent tensors.
    pub views: BTreeMap<String, View<'a>>,
}

impl<'a> Tensors<'a> {
    /// The tensor of that name.
    pub(crate) fn get(&self, name: &str) -> Option<&View<'a>> {
        self.views.get(name)
    }

    /// A row of the tensor of that name.
    pub(super) fn row(&self, name: &str, row: u64) -> Option<Row> {
        let mut values = Row::new();
        self.get(name)?.row(row, &mut values);
        Some(values)
    }

    /// The tensor of that name. The error names the operation that needs it, and the tensors that there are.
    pub(crate) fn need(&self, name: &str, operation: &str) -> anyhow::Result<&View<'a>> {
        self.get(name).ok_or_else(|| {
            anyhow::anyhow!(
                "the oracle {operation} needs a tensor named `{name}`; kernel.toml declares {}",
                self.names()
            )
        })
    }

    fn names(&self) -> String {
        self.views.keys().map(String::as_str).collect::<Vec<_>>().join(", ")
    }
}
