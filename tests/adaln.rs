//! The bundled launchers of `adaln`, called on the host: what they refuse, with which words, and that nothing is
//! launched for it. Needs nvcc and no card: a launcher that went on to the driver would answer with one of its codes.

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

type Launch = unsafe extern "C" fn(
    *mut c_void,   // out
    *mut c_void,   // sum
    *const c_void, // h
    *const c_void, // x
    *const c_void, // gate
    *const c_void, // gate_table
    *const c_void, // weight
    *const c_void, // bias
    *const c_void, // scale
    *const c_void, // shift
    *const c_void, // scale_table
    *const c_void, // shift_table
    i64,           // rows
    i64,           // width
    i64,           // rows_per_modulation
    i64,           // out_stride
    i64,           // sum_stride
    i64,           // h_stride
    i64,           // x_stride
    i64,           // gate_stride
    i64,           // scale_stride
    i64,           // shift_stride
    f32,           // eps
    i32,           // norm
    i32,           // dtype
    *mut c_void,   // stream
) -> i32;

/// A good call, to be spoilt.
#[derive(Clone, Copy)]
struct Call {
    out: usize,
    sum: usize,
    h: usize,
    gate: usize,
    gate_table: usize,
    scale: usize,
    shift: usize,
    scale_table: usize,
    shift_table: usize,
    rows: i64,
    width: i64,
    rows_per_modulation: i64,
    sum_stride: i64,
    scale_stride: i64,
    eps: f32,
    norm: i32,
    dtype: i32,
}

const GOOD: Call = Call {
    out: 0x1000,
    sum: 0x2000,
    h: 0x3000,
    gate: 0x5000,
    gate_table: 0x6000,
    scale: 0x7000,
    shift: 0x8000,
    scale_table: 0x9000,
    shift_table: 0xa000,
    rows: 4,
    width: 64,
    rows_per_modulation: 2,
    sum_stride: 64,
    scale_stride: 64,
    eps: 1e-6,
    norm: 1,
    dtype: 2,
};

#[test]
fn bad_arguments_are_codes_with_words_and_reach_no_driver() {
    let library = bundled::library("adaln");
    // SAFETY: the types are those of launch.cu.
    let (launch, words): (
        Symbol<'_, Launch>,
        Symbol<'_, unsafe extern "C" fn(i32) -> *const c_char>,
    ) = unsafe {
        (
            library.get(b"gate_residual_adaln_launch\0").unwrap(),
            library.get(b"adaln_error\0").unwrap(),
        )
    };
    let call = |c: Call| -> i32 {
        let pointer = |address: usize| address as *mut c_void;
        // SAFETY: refused, or empty: no pointer is followed. (A launch only passes them on.)
        unsafe {
            launch(
                pointer(c.out),
                pointer(c.sum),
                pointer(c.h),
                pointer(0x4000),
                pointer(c.gate),
                pointer(c.gate_table),
                pointer(0),
                pointer(0),
                pointer(c.scale),
                pointer(c.shift),
                pointer(c.scale_table),
                pointer(c.shift_table),
                c.rows,
                c.width,
                c.rows_per_modulation,
                64,
                c.sum_stride,
                64,
                64,
                64,
                c.scale_stride,
                64,
                c.eps,
                c.norm,
                c.dtype,
                std::ptr::null_mut(),
            )
        }
    };
    #[rustfmt::skip]
    let refused = [
        (Call { rows: -1, ..GOOD }, 10001, "negative"),
        (Call { width: -8, ..GOOD }, 10001, "negative"),
        (Call { dtype: 3, ..GOOD }, 10002, "dtype"),
        (Call { out: 0, ..GOOD }, 10003, "null"),
        (Call { sum: 0, ..GOOD }, 10003, "null"),
        (Call { h: 0, ..GOOD }, 10003, "null"),
        (Call { sum_stride: 63, ..GOOD }, 10004, "stride"),
        (Call { scale_stride: 0, ..GOOD }, 10004, "stride"),
        (Call { eps: -1e-6, ..GOOD }, 10005, "eps"),
        (Call { eps: f32::NAN, ..GOOD }, 10005, "eps"),
        (Call { norm: 2, ..GOOD }, 10006, "norm"),
        (Call { gate: 0x5001, ..GOOD }, 10007, "multiple"),
        (Call { shift_table: 0xa001, ..GOOD }, 10007, "multiple"),
        (Call { sum_stride: i64::MAX / 2, ..GOOD }, 10008, "64-bit"),
        (Call { rows_per_modulation: 1, scale_stride: i64::MAX / 2, ..GOOD }, 10008, "64-bit"),
        (Call { rows_per_modulation: 0, ..GOOD }, 10010, "at least 1"),
        (Call { gate: 0, ..GOOD }, 10011, "table"),
        (Call { scale: 0, ..GOOD }, 10011, "table"),
        (Call { shift: 0, ..GOOD }, 10011, "table"),
    ];
    for (bad, code, word) in refused {
        assert_eq!(call(bad), code, "{word}");
        // SAFETY: a string literal of the library.
        let said = unsafe { CStr::from_ptr(words(code)) }.to_str().unwrap();
        assert!(said.contains(word), "{code}: {said}");
    }
    for empty in [
        Call {
            rows: 0,
            out: 0,
            h: 0,
            ..GOOD
        },
        Call { width: 0, ..GOOD },
    ] {
        assert_eq!(call(empty), 0);
    }
    if !Path::new("/dev/nvidiactl").exists() {
        // What is not refused goes to the driver, which is not there: the codes above came from the launcher itself.
        for good in [
            GOOD,
            Call {
                gate: 0,
                gate_table: 0,
                ..GOOD
            },
            Call {
                shift: 0,
                shift_table: 0,
                ..GOOD
            },
            Call {
                rows_per_modulation: 4,
                scale_stride: 6 * 64,
                ..GOOD
            },
        ] {
            let code = call(good);
            assert!((1..10000).contains(&code), "{code}");
        }
    }
}
