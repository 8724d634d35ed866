//! Calls a launcher: a C function of a project's shared object that returns an int.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;

use libffi::middle::{Arg, Cif, CodePtr, Type, arg};

use super::driver::GpuError;
use super::recording::Value;

/// A project's shared object, loaded.
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

    /// Calls a launcher and returns its result.
    ///
    /// # Safety
    /// The arguments match its C signature, and pointers and stream are valid for what it does with them.
    pub unsafe fn launch(&self, launcher: &str, values: &[Value], stream: u64) -> Result<i32, GpuError> {
        // SAFETY: kernel.toml, by the library's author, declares the function's type.
        let symbol = unsafe { self.symbol::<unsafe extern "C" fn()>("the launcher", launcher) }?;
        // SAFETY: by the caller.
        Ok(unsafe { call(CodePtr::from_ptr(*symbol as *const c_void), values, stream) })
    }

    /// The message that the function `error` returns for a launcher's error code.
    ///
    /// # Safety
    /// It is an `extern "C" const char* (int)` that returns a string that ends with a zero byte, or null.
    pub unsafe fn words(&self, error: &str, code: i32) -> Result<String, GpuError> {
        type Words = unsafe extern "C" fn(c_int) -> *const c_char;
        // SAFETY: by the caller.
        unsafe {
            let words = self.symbol::<Words>("the function of errors", error)?(code);
            if words.is_null() {
                return Ok(String::new());
            }
            Ok(CStr::from_ptr(words).to_string_lossy().into_owned())
        }
    }

    /// # Safety
    /// The symbol is of this type.
    unsafe fn symbol<T>(&self, what: &str, name: &str) -> Result<libloading::Symbol<'_, T>, GpuError> {
        let doing = format!("finding {what} {name}");
        let name = CString::new(name).map_err(|_| GpuError::new(doing.clone(), "its name contains a zero byte"))?;
        // SAFETY: by the caller.
        unsafe { self.0.get(name.as_bytes_with_nul()) }
            .map_err(|_| GpuError::new(doing, "the project's sources define no such extern \"C\" function"))
    }
}

/// Calls a C function that returns an int.
///
/// # Safety
/// The function's author declared its type; the function may do anything.
unsafe fn call(code: CodePtr, values: &[Value], stream: u64) -> i32 {
    let words: Vec<u64> = values
        .iter()
        .map(|value| match *value {
            Value::Pointer(address) => address,
            // Every machine with this driver is little-endian.
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
    // SAFETY: by the caller. libffi reads each value by its type from the first bytes of its word.
    unsafe { cif.call(code, &arguments) }
}
