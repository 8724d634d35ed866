//! The bundled launcher of the transpose, called on the host: what it refuses, with which words, and that nothing is
//! launched for it. Needs nvcc and no card: a launcher that went on to the driver would answer with one of its codes.

#![allow(unsafe_code, clippy::unwrap_used, reason = "a test of C functions")]

#[path = "support/bundled.rs"]
mod bundled;
#[path = "support/cuda.rs"]
mod cuda;

use std::ffi::{CStr, c_char, c_void};
use std::path::Path;

use libloading::Symbol;

type Transpose = unsafe extern "C" fn(
    *mut c_void,
    *const c_void,
    i64,
    i64,
    i64,
    i64,
    i64,
    i64,
    i64,
    i32,
    *mut c_void,
) -> i32;

type Words = unsafe extern "C" fn(i32) -> *const c_char;

/// A good call, to be spoilt.
#[derive(Clone, Copy)]
struct Call {
    out: usize,
    x: usize,
    batch: i64,
    rows: i64,
    columns: i64,
    out_stride: i64,
    x_stride: i64,
    out_batch_stride: i64,
    x_batch_stride: i64,
    dtype: i32,
}

const GOOD: Call = Call {
    out: 4096,
    x: 65536,
    batch: 2,
    rows: 64,
    columns: 32,
    out_stride: 64,
    x_stride: 32,
    out_batch_stride: 2048,
    x_batch_stride: 2048,
    dtype: 2,
};

#[test]
fn bad_arguments_are_codes_with_words_and_reach_no_driver() {
    let library = bundled::library("transpose");
    // SAFETY: the types are those of launch.cu.
    let (launch, words): (Symbol<'_, Transpose>, Symbol<'_, Words>) = unsafe {
        (
            library.get(b"transpose_launch\0").unwrap(),
            library.get(b"transpose_error\0").unwrap(),
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
                c.batch,
                c.rows,
                c.columns,
                c.out_stride,
                c.x_stride,
                c.out_batch_stride,
                c.x_batch_stride,
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
        (spoilt(&|c| c.batch = -1), 10001, "negative"),
        (spoilt(&|c| c.rows = -1), 10001, "negative"),
        (spoilt(&|c| c.columns = -8), 10001, "negative"),
        (spoilt(&|c| c.dtype = 3), 10002, "dtype"),
        (spoilt(&|c| c.out = 0), 10003, "null"),
        (spoilt(&|c| c.x = 0), 10003, "null"),
        (spoilt(&|c| c.out_stride = 63), 10004, "stride"),
        (spoilt(&|c| c.x_stride = 31), 10004, "stride"),
        (spoilt(&|c| c.x_stride = -32), 10004, "stride"),
        (spoilt(&|c| c.x_batch_stride = -1), 10004, "stride"),
        (spoilt(&|c| c.out_batch_stride = 2047), 10004, "overlap"),
        (spoilt(&|c| c.out_batch_stride = 64), 10004, "overlap"),
        (spoilt(&|c| c.out = 4097), 10005, "multiple"),
        (spoilt(&|c| c.x_stride = i64::MAX / 4), 10006, "64-bit"),
        (spoilt(&|c| c.batch = i64::MAX / 4), 10006, "64-bit"),
        (
            spoilt(&|c| (c.batch, c.rows, c.columns) = (1 << 31, 1, 1)),
            10006,
            "grid",
        ),
    ] {
        assert_eq!(call(bad), code, "{word}");
        // SAFETY: a string literal of the library.
        let said = unsafe { CStr::from_ptr(words(code)) }.to_str().unwrap();
        assert!(said.contains(word), "{code}: {said}");
    }
    for empty in [
        spoilt(&|c| (c.batch, c.out, c.x) = (0, 0, 0)),
        spoilt(&|c| (c.rows, c.out, c.x) = (0, 0, 0)),
        spoilt(&|c| (c.columns, c.out, c.x) = (0, 0, 0)),
    ] {
        assert_eq!(call(empty), 0);
    }
    if !Path::new("/dev/nvidiactl").exists() {
        // What is not refused goes to the driver, which is not there: the codes above came from the launcher itself.
        for good in [
            GOOD,
            spoilt(&|c| c.x_batch_stride = 0), // one matrix for all of out
            spoilt(&|c| (c.out_stride, c.out_batch_stride) = (128, 64)), // side by side
            spoilt(&|c| (c.x_stride, c.x_batch_stride) = (64, 32)),
        ] {
            let code = call(good);
            assert!((1..10000).contains(&code), "{code}");
        }
    }
}
