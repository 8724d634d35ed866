//! The bundled launcher of `rms_norm`, called on the host: what it refuses, with which words, and that nothing is launched
//! for it. Needs nvcc and no card: a launcher that went on to the driver would answer with one of its codes.

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

type RmsNorm = unsafe extern "C" fn(
    *mut c_void,
    *const c_void,
    *const c_void,
    i64,
    i64,
    i64,
    i64,
    f32,
    f32,
    i32,
    i32,
    *mut c_void,
) -> i32;

/// A good call, to be spoilt.
#[derive(Clone, Copy)]
struct Call {
    out: usize,
    x: usize,
    weight: usize,
    rows: i64,
    width: i64,
    out_stride: i64,
    x_stride: i64,
    eps: f32,
    round_first: i32,
    dtype: i32,
}

const GOOD: Call = Call {
    out: 4096,
    x: 8192,
    weight: 12288,
    rows: 4,
    width: 64,
    out_stride: 64,
    x_stride: 64,
    eps: 1e-6,
    round_first: 0,
    dtype: 2,
};

#[test]
fn bad_arguments_are_codes_with_words_and_reach_no_driver() {
    let library = bundled::library("rmsnorm");
    // SAFETY: the types are those of launch.cu.
    let (launch, words): (
        Symbol<'_, RmsNorm>,
        Symbol<'_, unsafe extern "C" fn(i32) -> *const c_char>,
    ) = unsafe {
        (
            library.get(b"rms_norm_launch\0").unwrap(),
            library.get(b"rmsnorm_error\0").unwrap(),
        )
    };
    let call = |c: Call| -> i32 {
        // SAFETY: refused, or empty: no pointer is followed. (A launch only passes them on.)
        unsafe {
            launch(
                c.out as *mut c_void,
                c.x as *const c_void,
                c.weight as *const c_void,
                c.rows,
                c.width,
                c.out_stride,
                c.x_stride,
                c.eps,
                0.0,
                c.round_first,
                c.dtype,
                std::ptr::null_mut(),
            )
        }
    };
    for (bad, code, word) in [
        (Call { rows: -1, ..GOOD }, 10001, "negative"),
        (Call { width: -8, ..GOOD }, 10001, "negative"),
        (Call { dtype: 3, ..GOOD }, 10002, "dtype"),
        (Call { dtype: -1, ..GOOD }, 10002, "dtype"),
        (Call { out: 0, ..GOOD }, 10003, "null"),
        (Call { x: 0, ..GOOD }, 10003, "null"),
        (
            Call {
                x_stride: 63,
                ..GOOD
            },
            10004,
            "stride",
        ),
        (
            Call {
                out_stride: -64,
                ..GOOD
            },
            10004,
            "stride",
        ),
        (Call { eps: -1e-6, ..GOOD }, 10005, "eps"),
        (
            Call {
                eps: f32::NAN,
                ..GOOD
            },
            10005,
            "eps",
        ),
        (
            Call {
                eps: f32::INFINITY,
                ..GOOD
            },
            10005,
            "eps",
        ),
        (
            Call {
                round_first: 2,
                ..GOOD
            },
            10006,
            "round_first",
        ),
        (Call { x: 8193, ..GOOD }, 10007, "multiple"),
        (
            Call {
                weight: 12289,
                ..GOOD
            },
            10007,
            "multiple",
        ),
        (
            Call {
                rows: i64::MAX,
                ..GOOD
            },
            10008,
            "64-bit",
        ),
        (
            Call {
                x_stride: i64::MAX / 2,
                ..GOOD
            },
            10008,
            "64-bit",
        ),
    ] {
        assert_eq!(call(bad), code, "{word}");
        // SAFETY: a string literal of the library.
        let said = unsafe { CStr::from_ptr(words(code)) }.to_str().unwrap();
        assert!(said.contains(word), "{code}: {said}");
    }
    for empty in [
        Call {
            rows: 0,
            out: 0,
            x: 0,
            ..GOOD
        },
        Call { width: 0, ..GOOD },
    ] {
        assert_eq!(call(empty), 0);
    }
    if !Path::new("/dev/nvidiactl").exists() {
        // What is not refused goes to the driver, which is not there: the codes above came from the launcher itself.
        let code = call(GOOD);
        assert!((1..10000).contains(&code), "{code}");
    }
}
