//! Calling a launcher: a C function of a project's shared object that returns an int.

use std::ffi::{CString, c_void};
use std::path::Path;

use libffi::middle::{Arg, Cif, CodePtr, Type, arg};

use super::driver::GpuError;
use super::recording::Value;

/// A project's shared object in this process.
#[derive(Debug)]
pub struct Library(libloading::Library);

impl Library {
    /// Loads it.
    ///
    /// # Safety
    /// Its constructors run, and they may do anything.
    pub unsafe fn open(path: &Path) -> Result<Self, String> {
        // SAFETY: by the caller.
        unsafe { libloading::Library::new(path) }
            .map(Self)
            .map_err(|error| format!("loading {}: {error}", path.display()))
    }

    /// Calls a launcher; answers what it returned.
    ///
    /// # Safety
    /// The arguments are those of its C signature, and its pointers and the stream are what it takes them for.
    pub unsafe fn launch(
        &self,
        launcher: &str,
        values: &[Value],
        stream: u64,
    ) -> Result<i32, GpuError> {
        let name = CString::new(launcher)
            .map_err(|_| GpuError::new("finding the launcher", "a zero byte"))?;
        // SAFETY: the type is given by kernel.toml, which is the author's word.
        let symbol = unsafe {
            self.0
                .get::<unsafe extern "C" fn()>(name.as_bytes_with_nul())
        }
        .map_err(|_| {
            GpuError::new(
                format!("finding the launcher {launcher}"),
                "the project's sources define no such extern \"C\" function",
            )
        })?;
        // SAFETY: by the caller.
        Ok(unsafe { call(CodePtr::from_ptr(*symbol as *const c_void), values, stream) })
    }
}

/// Calls a C function that returns an int.
///
/// # Safety
/// Whatever the function does is on its author.
unsafe fn call(code: CodePtr, values: &[Value], stream: u64) -> i32 {
    let words: Vec<u64> = values
        .iter()
        .map(|value| match *value {
            Value::Pointer(address) => address,
            // The low bytes come first on every machine that has this driver.
            Value::I32(number) => u64::from(number.cast_unsigned()),
            Value::I64(number) => number.cast_unsigned(),
            Value::F32(bits) => u64::from(bits),
            Value::F64(bits) => bits,
            Value::Stream => stream,
        })
        .collect();
    let types = values.iter().map(|value| match value {
        Value::Pointer(_) | Value::Stream => Type::pointer(),
        Value::I32(_) => Type::i32(),
        Value::I64(_) => Type::i64(),
        Value::F32(_) => Type::f32(),
        Value::F64(_) => Type::f64(),
    });
    let cif = Cif::new(types, Type::i32());
    let arguments: Vec<Arg> = words.iter().map(arg).collect();
    // SAFETY: by the caller. Each word holds its value in its first bytes, where libffi reads it by type.
    unsafe { cif.call(code, &arguments) }
}
