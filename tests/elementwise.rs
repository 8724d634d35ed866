//! The bundled launchers of the elementwise chain, called on the host: what they refuse, with which words, and that nothing is
//! launched for it. Needs nvcc and no card: a launcher that went on to the driver would answer with one of its codes.

#![allow(unsafe_code, clippy::unwrap_used, reason = "a test of C functions")]

#[path = "support/bundled.rs"]
mod bundled;
#[path = "support/cuda.rs"]
mod cuda;

use std::ffi::{CStr, c_char, c_void};
use std::path::Path;

use libloading::Symbol;

type Chain = unsafe extern "C" fn(
    *mut c_void,
    *const c_void,
    *const c_void,
    *const c_void,
    *const c_void,
    i64,
    i64,
    i64,
    i64,
    i64,
    i32,
    i32,
    *mut c_void,
) -> i32;

type InPlace = unsafe extern "C" fn(
    *mut c_void,
    *const c_void,
    *const c_void,
    *const c_void,
    i64,
    i64,
    i64,
    i64,
    i32,
    i32,
    *mut c_void,
) -> i32;

type Words = unsafe extern "C" fn(i32) -> *const c_char;

/// A good call, to be spoilt.
#[derive(Clone, Copy)]
struct Call {
    out: usize,
    residual: usize,
    x: usize,
    bias: usize,
    scale: usize,
    rows: i64,
    width: i64,
    out_stride: i64,
    residual_stride: i64,
    x_stride: i64,
    tanh: i32,
    dtype: i32,
}

const GOOD: Call = Call {
    out: 4096,
    residual: 8192,
    x: 12288,
    bias: 16384,
    scale: 20480,
    rows: 4,
    width: 64,
    out_stride: 64,
    residual_stride: 64,
    x_stride: 64,
    tanh: 0,
    dtype: 2,
};

#[test]
fn bad_arguments_are_codes_with_words_and_reach_no_driver() {
    let library = bundled::library("elementwise");
    // SAFETY: the types are those of launch.cu.
    let (chain, in_place, words): (Symbol<'_, Chain>, Symbol<'_, InPlace>, Symbol<'_, Words>) = unsafe {
        (
            library.get(b"bias_gelu_scale_residual_launch\0").unwrap(),
            library
                .get(b"bias_gelu_scale_residual_in_place_launch\0")
                .unwrap(),
            library.get(b"elementwise_error\0").unwrap(),
        )
    };
    let stream = std::ptr::null_mut();
    let call = |c: Call| -> i32 {
        let (out, residual, x) = (c.out as *mut _, c.residual as *const _, c.x as *const _);
        let (bias, scale) = (c.bias as *const c_void, c.scale as *const c_void);
        // SAFETY: refused, or empty: no pointer is followed. (A launch only passes them on.)
        unsafe {
            chain(
                out,
                residual,
                x,
                bias,
                scale,
                c.rows,
                c.width,
                c.out_stride,
                c.residual_stride,
                c.x_stride,
                c.tanh,
                c.dtype,
                stream,
            )
        }
    };
    let call_in_place = |c: Call| -> i32 {
        let (residual, x) = (c.residual as *mut c_void, c.x as *const c_void);
        let (bias, scale) = (c.bias as *const c_void, c.scale as *const c_void);
        // SAFETY: as above.
        unsafe {
            in_place(
                residual,
                x,
                bias,
                scale,
                c.rows,
                c.width,
                c.residual_stride,
                c.x_stride,
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
    let said = |code: i32| {
        // SAFETY: a string literal of the library.
        unsafe { CStr::from_ptr(words(code)) }.to_str().unwrap()
    };
    for (bad, code, word) in [
        (spoilt(&|c| c.rows = -1), 10001, "negative"),
        (spoilt(&|c| c.width = -8), 10001, "negative"),
        (spoilt(&|c| c.dtype = 3), 10002, "dtype"),
        (spoilt(&|c| c.residual = 0), 10003, "null"),
        (spoilt(&|c| c.x = 0), 10003, "null"),
        (spoilt(&|c| c.bias = 0), 10003, "null"),
        (spoilt(&|c| c.scale = 0), 10003, "null"),
        (spoilt(&|c| c.residual_stride = 63), 10004, "stride"),
        (spoilt(&|c| c.x_stride = -64), 10004, "stride"),
        (spoilt(&|c| c.tanh = 2), 10005, "tanh"),
        (spoilt(&|c| c.x = 12289), 10006, "multiple"),
        (spoilt(&|c| c.bias = 16385), 10006, "multiple"),
        (spoilt(&|c| c.scale = 20481), 10006, "multiple"),
        (spoilt(&|c| c.rows = i64::MAX / 8), 10007, "64-bit"),
        (spoilt(&|c| c.x_stride = i64::MAX / 4), 10007, "64-bit"),
    ] {
        assert_eq!(call(bad), code, "{word}");
        assert_eq!(call_in_place(bad), code, "{word}");
        assert!(said(code).contains(word), "{code}: {}", said(code));
    }
    for (bad, code) in [
        (spoilt(&|c| c.out = 0), 10003),
        (spoilt(&|c| c.out_stride = 63), 10004),
        (spoilt(&|c| c.out = 4097), 10006),
    ] {
        assert_eq!(call(bad), code, "{}", said(code));
    }
    for empty in [
        spoilt(&|c| (c.rows, c.out, c.residual, c.x) = (0, 0, 0, 0)),
        spoilt(&|c| (c.width, c.out, c.residual, c.x, c.bias) = (0, 0, 0, 0, 0)),
    ] {
        assert_eq!((call(empty), call_in_place(empty)), (0, 0));
    }
    if !Path::new("/dev/nvidiactl").exists() {
        // What is not refused goes to the driver, which is not there: the codes above came from the launchers themselves.
        for code in [call(GOOD), call_in_place(GOOD)] {
            assert!((1..10000).contains(&code), "{code}");
        }
    }
}
