//! Tensors of any library, by `DLPack`: address, dtype and shape.

#![allow(unsafe_code, reason = "a capsule is a pointer to C's structs; their layout is DLPack's, version 0 and 1")]

use std::ffi::{CStr, c_void};

use kernels::project::{DType, GivenTensor};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};

use crate::error::Error;

/// `kDLCUDA`
const CUDA: i32 = 2;
/// `kDLCUDAManaged`
const MANAGED: i32 = 13;

/// The name of a capsule that has not been consumed.
const NAME: &CStr = c"dltensor";

/// `DLTensor`
#[repr(C)]
struct Raw {
    data: *mut c_void,
    device_type: i32,
    device_id: i32,
    dimensions: i32,
    code: u8,
    bits: u8,
    lanes: u16,
    shape: *const i64,
    strides: *const i64,
    byte_offset: u64,
}

/// A tensor on a GPU. `_capsule` keeps it alive, and releases it when dropped.
#[derive(Debug)]
pub(crate) struct Tensor {
    pub(crate) address: u64,
    pub(crate) device: i32,
    pub(crate) given: GivenTensor,
    _capsule: Py<PyCapsule>,
}

impl Tensor {
    /// From any object with `__dlpack__`. The caller will use the tensor on `stream`; the producer orders its pending
    /// writes before that stream.
    pub(crate) fn of(name: &str, object: &Bound<'_, PyAny>, stream: u64) -> PyResult<Self> {
        let capsule = capsule(name, object, stream)?;
        let pointer = capsule
            .pointer_checked(Some(NAME))
            .map_err(|_| PyTypeError::new_err(format!("{name}.__dlpack__ gave another capsule")))?;
        // SAFETY: a capsule of this name holds a DLManagedTensor, which begins with a DLTensor. It stays in the
        // capsule, whose destructor releases it.
        let raw = unsafe { &*pointer.as_ptr().cast::<Raw>() };
        let dtype = match (raw.code, raw.bits, raw.lanes) {
            (2, 32, 1) => DType::F32,
            (2, 16, 1) => DType::F16,
            (4, 16, 1) => DType::BF16,
            (0, 32, 1) => DType::I32,
            (0, 64, 1) => DType::I64,
            (code, bits, lanes) => {
                return Err(Error::new_err(format!(
                    "{name} has elements of DLPack code {code}, {bits} bits and {lanes} lanes; there are f32, f16, bf16, \
                     i32, i64"
                )));
            }
        };
        if !matches!(raw.device_type, CUDA | MANAGED) {
            return Err(Error::new_err(format!("{name} is not on a card: move it there with `.cuda()`")));
        }
        let count = usize::try_from(raw.dimensions).unwrap_or(0);
        let list = |from: *const i64| {
            if count == 0 || from.is_null() {
                return Vec::new();
            }
            // SAFETY: DLPack's shape and strides have one number per dimension.
            unsafe { std::slice::from_raw_parts(from, count) }.to_vec()
        };
        let shape: Vec<u64> = list(raw.shape).into_iter().map(|size| u64::try_from(size).unwrap_or(0)).collect();
        let strides = if raw.strides.is_null() { contiguous(&shape) } else { list(raw.strides) };
        Ok(Self {
            address: raw.data as u64 + raw.byte_offset,
            device: raw.device_id,
            given: GivenTensor { dtype, shape, strides },
            _capsule: capsule.unbind(),
        })
    }
}

/// The stream argument of `__dlpack__`.
fn capsule<'py>(name: &str, object: &Bound<'py, PyAny>, stream: u64) -> PyResult<Bound<'py, PyCapsule>> {
    let py = object.py();
    let arguments = PyDict::new(py);
    // 0 would be ambiguous; the legacy default stream is 1.
    arguments.set_item("stream", if stream == 0 { 1 } else { stream })?;
    object
        .call_method("__dlpack__", (), Some(&arguments))
        .map_err(|error| {
            let wrapped = Error::new_err(format!("{name} cannot be taken as a tensor: {}", error.value(py)));
            wrapped.set_cause(py, Some(error));
            wrapped
        })?
        .cast_into::<PyCapsule>()
        .map_err(|_| PyTypeError::new_err(format!("{name}.__dlpack__ gave no capsule")))
}

fn contiguous(shape: &[u64]) -> Vec<i64> {
    let mut strides = vec![1; shape.len()];
    for at in (0..shape.len().saturating_sub(1)).rev() {
        strides[at] = strides[at + 1] * i64::try_from(shape[at + 1].max(1)).unwrap_or(1);
    }
    strides
}
