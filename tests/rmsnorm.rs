//! The bundled launchers of `rms_norm` and its backward, called on the host: what they refuse, with which words, and that
//! nothing is launched for it. Needs nvcc and no card: a launcher that went on to the driver would answer with one of its codes.

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

use kernels::project::{DType, Project};
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

/// dx, dw, `dw_f32`, scratch, dy, x, weight; rows, width, blocks and three strides; eps, `weight_offset`, dtype, stream.
type Backward = unsafe extern "C" fn(
    usize,
    usize,
    usize,
    usize,
    usize,
    usize,
    usize,
    i64,
    i64,
    i64,
    i64,
    i64,
    i64,
    f32,
    f32,
    i32,
    *mut c_void,
) -> i32;

/// A good call of the backward, to be spoilt: pointers, sizes, eps, dtype.
#[derive(Clone, Copy)]
struct BackwardCall([usize; 7], [i64; 6], f32, i32);

#[test]
fn the_backwards_launcher_refuses_too_and_says_why() {
    let library = bundled::library("rmsnorm");
    // SAFETY: the types are those of backward.cu.
    let (launch, words): (
        Symbol<'_, Backward>,
        Symbol<'_, unsafe extern "C" fn(i32) -> *const c_char>,
    ) = unsafe {
        (
            library.get(b"rms_norm_backward_launch\0").unwrap(),
            library.get(b"rms_norm_backward_error\0").unwrap(),
        )
    };
    let call = |BackwardCall(p, n, eps, dtype): BackwardCall| -> i32 {
        // SAFETY: refused, or empty: no pointer is followed. (A launch only passes them on.)
        unsafe {
            launch(
                p[0],
                p[1],
                p[2],
                p[3],
                p[4],
                p[5],
                p[6],
                n[0],
                n[1],
                n[2],
                n[3],
                n[4],
                n[5],
                eps,
                0.0,
                dtype,
                std::ptr::null_mut(),
            )
        }
    };
    let good = BackwardCall(
        [1, 2, 3, 4, 5, 6, 7].map(|page| page * 4096),
        [4, 64, 2, 64, 64, 64],
        1e-6,
        2,
    );
    let pointer = |at: usize, value: usize| {
        let mut call = good;
        call.0[at] = value;
        call
    };
    let size = |at: usize, value: i64| {
        let mut call = good;
        call.1[at] = value;
        call
    };
    for (bad, code, word) in [
        (size(0, -1), 10001, "negative"),
        (size(1, -8), 10001, "negative"),
        (BackwardCall(good.0, good.1, 1e-6, 3), 10002, "dtype"),
        (pointer(0, 0), 10003, "null"),
        (pointer(4, 0), 10003, "null"),
        (pointer(5, 0), 10003, "null"),
        (size(3, 63), 10004, "stride"),
        (size(4, -64), 10004, "stride"),
        (size(5, 0), 10004, "stride"),
        (BackwardCall(good.0, good.1, f32::NAN, 2), 10005, "eps"),
        (pointer(1, 8193), 10007, "multiple"),
        (pointer(2, 4098), 10007, "multiple"),
        (pointer(3, 4098), 10007, "multiple"),
        (size(0, i64::MAX), 10008, "64-bit"),
        (size(4, i64::MAX / 8), 10008, "64-bit"),
        (size(2, 0), 10010, "blocks"),
        (size(2, 1 << 31), 10010, "blocks"),
        (pointer(3, 0), 10011, "scratch"),
    ] {
        assert_eq!(call(bad), code, "{word}");
        // SAFETY: a string literal of the library.
        let said = unsafe { CStr::from_ptr(words(code)) }.to_str().unwrap();
        assert!(said.contains(word), "{code}: {said}");
    }
    // No elements at all; no rows, and nobody asks for dw.
    assert_eq!(call(size(1, 0)), 0);
    let mut none = size(0, 0);
    none.0 = [0; 7];
    assert_eq!(call(none), 0);
}

#[test]
fn kernel_toml_states_the_launchers_own_number_of_blocks() {
    let library = bundled::library("rmsnorm");
    // SAFETY: the type is that of backward.cu.
    let blocks: Symbol<'_, unsafe extern "C" fn(i64, i64, i32, i64) -> i64> =
        unsafe { library.get(b"rms_norm_backward_blocks\0") }.unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels/rmsnorm");
    let project = Project::open(&root).unwrap();
    let operation = project
        .spec
        .operations
        .iter()
        .find(|operation| operation.name == "rms_norm_backward")
        .unwrap();
    for rows in [0, 1, 500, 100_000] {
        for width in [1, 128, 1024, 1032, 2048, 4096, 4097, 8192, 8193, 70_000] {
            for (dtype, code) in [(DType::F32, 0), (DType::BF16, 2)] {
                let case = operation
                    .case_of_shape(&format!("rows={rows},width={width}"), dtype)
                    .unwrap();
                let stated = operation.bind(&case).unwrap().values["blocks"];
                // SAFETY: it computes, and nothing else.
                let own = unsafe { blocks(rows, width, code, 132) };
                #[allow(clippy::cast_precision_loss)]
                let own = own as f64;
                assert!(
                    (own - stated).abs() < 0.5,
                    "{rows} x {width}: {own}, {stated}"
                );
            }
        }
    }
    // What cannot be is refused by the launcher.
    for (rows, width, sms) in [(-1, 64, 132), (4, -1, 132), (4, i64::MAX, 132), (4, 64, 0)] {
        // SAFETY: as above.
        assert_eq!(unsafe { blocks(rows, width, 2, sms) }, 1);
    }
}
