//! The bundled launchers of gated activations, called on the host: what they refuse, with which words, and that nothing
//! is launched for it. Needs nvcc and no card: a launcher that went on to the driver would answer with one of its codes.

#![allow(
    unsafe_code,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test of C functions"
)]

#[path = "support/bundled.rs"]
mod bundled;
#[path = "support/cuda.rs"]
mod cuda;

use std::ffi::{CStr, c_char, c_void};
use std::path::Path;

use libloading::Symbol;

type Geglu = unsafe extern "C" fn(
    *mut c_void,
    *const c_void,
    i64,
    i64,
    i64,
    i64,
    i32,
    i32,
    i32,
    *mut c_void,
) -> i32;

type Words = unsafe extern "C" fn(i32) -> *const c_char;

/// A good call, to be spoilt.
#[derive(Clone, Copy)]
struct Call {
    out: usize,
    x: usize,
    rows: i64,
    inner: i64,
    out_stride: i64,
    x_stride: i64,
    gate_first: i32,
    tanh: i32,
    dtype: i32,
}

const GOOD: Call = Call {
    out: 4096,
    x: 8192,
    rows: 4,
    inner: 64,
    out_stride: 64,
    x_stride: 128,
    gate_first: 0,
    tanh: 0,
    dtype: 2,
};

#[test]
fn bad_arguments_are_codes_with_words_and_reach_no_driver() {
    let library = bundled::library("geglu");
    // SAFETY: the types are those of launch.cu.
    let (launch, words): (Symbol<'_, Geglu>, Symbol<'_, Words>) = unsafe {
        (
            library.get(b"geglu_launch\0").unwrap(),
            library.get(b"geglu_error\0").unwrap(),
        )
    };
    let call = |c: Call| -> i32 {
        let (out, x) = (c.out as *mut c_void, c.x as *const c_void);
        let stream = std::ptr::null_mut();
        // SAFETY: refused, or empty: no pointer is followed. (A launch only passes them on.)
        unsafe {
            launch(
                out,
                x,
                c.rows,
                c.inner,
                c.out_stride,
                c.x_stride,
                c.gate_first,
                c.tanh,
                c.dtype,
                stream,
            )
        }
    };
    let spoilt = |spoil: &dyn Fn(&mut Call)| {
        let mut bad = GOOD;
        spoil(&mut bad);
        bad
    };
    for (bad, code, word) in [
        (spoilt(&|c| c.rows = -1), 10001, "negative"),
        (spoilt(&|c| c.inner = -8), 10001, "negative"),
        (spoilt(&|c| c.dtype = 3), 10002, "dtype"),
        (spoilt(&|c| c.out = 0), 10003, "null"),
        (spoilt(&|c| c.x = 0), 10003, "null"),
        (spoilt(&|c| c.out_stride = 63), 10004, "stride"),
        (spoilt(&|c| c.x_stride = 127), 10004, "stride"),
        (spoilt(&|c| c.x_stride = -128), 10004, "stride"),
        (spoilt(&|c| c.gate_first = 2), 10005, "gate_first"),
        (spoilt(&|c| c.tanh = -1), 10005, "tanh"),
        (spoilt(&|c| c.x = 8193), 10006, "multiple"),
        (spoilt(&|c| c.rows = i64::MAX), 10007, "64-bit"),
        (spoilt(&|c| c.inner = i64::MAX), 10007, "64-bit"),
        (spoilt(&|c| c.x_stride = i64::MAX / 4), 10007, "64-bit"),
    ] {
        assert_eq!(call(bad), code, "{word}");
        // SAFETY: a string literal of the library.
        let said = unsafe { CStr::from_ptr(words(code)) }.to_str().unwrap();
        assert!(said.contains(word), "{code}: {said}");
    }
    for empty in [
        spoilt(&|c| (c.rows, c.out, c.x) = (0, 0, 0)),
        spoilt(&|c| (c.inner, c.out, c.x) = (0, 0, 0)),
    ] {
        assert_eq!(call(empty), 0);
    }
    if !Path::new("/dev/nvidiactl").exists() {
        // What is not refused goes to the driver, which is not there: the codes above came from the launcher itself.
        let code = call(GOOD);
        assert!((1..10000).contains(&code), "{code}");
    }
}
