//! The bundled launcher of the column sum, called on the host: what it refuses, with which words, and that nothing is
//! launched for it. Needs nvcc and no card: a launcher that went on to the driver would answer with one of its codes.

#![allow(unsafe_code, clippy::unwrap_used, reason = "a test of C functions")]

#[path = "support/bundled.rs"]
mod bundled;
#[path = "support/cuda.rs"]
mod cuda;

use std::ffi::{CStr, c_char, c_void};
use std::path::Path;

use kernels::project::{DType, Project};
use libloading::Symbol;

type ColumnSum = unsafe extern "C" fn(
    *mut c_void,
    *mut c_void,
    *mut c_void,
    *const c_void,
    i64,
    i64,
    i64,
    i64,
    i32,
    *mut c_void,
) -> i32;

type Groups = unsafe extern "C" fn(i64, i64, i32, i64) -> i64;

type Words = unsafe extern "C" fn(i32) -> *const c_char;

/// A good call, to be spoilt.
#[derive(Clone, Copy)]
struct Call {
    out: usize,
    out_f32: usize,
    scratch: usize,
    x: usize,
    rows: i64,
    width: i64,
    groups: i64,
    stride: i64,
    dtype: i32,
}

const GOOD: Call = Call {
    out: 0,
    out_f32: 4096,
    scratch: 8192,
    x: 65536,
    rows: 100,
    width: 64,
    groups: 4,
    stride: 64,
    dtype: 2,
};

#[test]
fn bad_arguments_are_codes_with_words_and_reach_no_driver() {
    let library = bundled::library("column_sum");
    // SAFETY: the types are those of launch.cu.
    let (launch, words): (Symbol<'_, ColumnSum>, Symbol<'_, Words>) = unsafe {
        (
            library.get(b"column_sum_launch\0").unwrap(),
            library.get(b"column_sum_error\0").unwrap(),
        )
    };
    let call = |c: Call| -> i32 {
        let (out, out_f32) = (c.out as *mut c_void, c.out_f32 as *mut c_void);
        let (scratch, x) = (c.scratch as *mut c_void, c.x as *const c_void);
        let stream = std::ptr::null_mut();
        // SAFETY: refused, or empty: no pointer is followed. (A launch only passes them on.)
        unsafe {
            launch(
                out, out_f32, scratch, x, c.rows, c.width, c.groups, c.stride, c.dtype, stream,
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
        (spoilt(&|c| c.width = -8), 10001, "negative"),
        (spoilt(&|c| c.dtype = 3), 10002, "dtype"),
        (spoilt(&|c| c.x = 0), 10003, "null"),
        (spoilt(&|c| c.out_f32 = 0), 10003, "both outputs"),
        (spoilt(&|c| c.stride = 63), 10004, "stride"),
        (spoilt(&|c| c.stride = -64), 10004, "stride"),
        (spoilt(&|c| c.x = 65537), 10005, "multiple"),
        (spoilt(&|c| c.out = 4097), 10005, "multiple"),
        (spoilt(&|c| c.out_f32 = 4098), 10005, "multiple"),
        (spoilt(&|c| c.scratch = 8194), 10005, "multiple"),
        (spoilt(&|c| c.rows = i64::MAX / 8), 10006, "64-bit"),
        (spoilt(&|c| c.stride = i64::MAX / 8), 10006, "64-bit"),
        (
            spoilt(&|c| (c.width, c.stride) = (1 << 31, 1 << 31)),
            10006,
            "grid",
        ),
        (spoilt(&|c| c.groups = 0), 10007, "groups"),
        (spoilt(&|c| c.groups = 65536), 10007, "65535"),
        (spoilt(&|c| c.scratch = 0), 10008, "scratch"),
    ] {
        assert_eq!(call(bad), code, "{word}");
        // SAFETY: a string literal of the library.
        let said = unsafe { CStr::from_ptr(words(code)) }.to_str().unwrap();
        assert!(said.contains(word), "{code}: {said}");
    }
    let empty = spoilt(&|c| (c.width, c.out_f32, c.scratch, c.x) = (0, 0, 0, 0));
    assert_eq!(call(empty), 0);
    if !Path::new("/dev/nvidiactl").exists() {
        // What is not refused goes to the driver, which is not there: the codes above came from the launcher itself.
        for good in [
            GOOD,
            spoilt(&|c| (c.groups, c.scratch) = (1, 0)),
            spoilt(&|c| (c.rows, c.x, c.scratch, c.groups) = (0, 0, 0, 1)), // the sum of nothing is written
        ] {
            let code = call(good);
            assert!((1..10000).contains(&code), "{code}");
        }
    }
}

/// kernel.toml's formula for `groups` is the launcher's function.
#[test]
fn kernel_toml_states_the_groups_that_the_launcher_finds_fast() {
    let library = bundled::library("column_sum");
    // SAFETY: the type is that of launch.cu.
    let groups: Symbol<'_, Groups> = unsafe { library.get(b"column_sum_groups\0").unwrap() };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels/column_sum");
    let project = Project::open(&root).unwrap();
    let operation = &project.spec.operations[0];
    let mut seen = 0;
    for dtype in [DType::F32, DType::BF16] {
        let code = if dtype == DType::F32 { 0 } else { 2 };
        for rows in [1, 7, 32, 33, 511, 512, 8192, 65536, 1_048_576] {
            for width in [
                1, 2, 7, 8, 9, 16, 31, 64, 100, 256, 1024, 4096, 12288, 70000, 1_000_000,
            ] {
                let shape = format!("rows={rows},width={width}");
                let case = operation.case_of_shape(&shape, dtype).unwrap();
                let bound = operation.bind(&case).unwrap();
                let stated = bound.values["groups"];
                // SAFETY: numbers alone.
                let fast = unsafe { groups(rows, width, code, 132) };
                #[allow(clippy::cast_precision_loss)]
                let fast_f64 = fast as f64;
                assert!(
                    (stated - fast_f64).abs() < 0.5,
                    "{shape} {dtype:?}: {stated} {fast}"
                );
                seen += usize::from(fast > 1);
            }
        }
    }
    assert!(seen > 50);
    // SAFETY: numbers alone.
    unsafe {
        assert_eq!(groups(-1, 64, 2, 132), 1);
        assert_eq!(groups(64, 0, 2, 132), 1);
        assert_eq!(groups(64, 64, 7, 132), 1);
        assert_eq!(groups(1 << 20, 1 << 30, 2, 1), 1);
    }
}
