//! The bundled launcher of `rms_norm_backward`, called on the host: what it refuses, with which words, that nothing is
//! launched for it, and how many blocks it asks for. Needs nvcc and no card.

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

/// dx, dw, `dw_f32`, scratch, dy, x, weight; rows, width, blocks and three strides; eps, `weight_offset`, dtype, stream.
type Launch = unsafe extern "C" fn(
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

/// A good call, to be spoilt: pointers, sizes, eps, dtype.
#[derive(Clone, Copy)]
struct Call([usize; 7], [i64; 6], f32, i32);

#[test]
fn bad_arguments_are_codes_with_words_and_reach_no_driver() {
    let library = bundled::library("rmsnorm_backward");
    // SAFETY: the types are those of launch.cu.
    let (launch, words): (
        Symbol<'_, Launch>,
        Symbol<'_, unsafe extern "C" fn(i32) -> *const c_char>,
    ) = unsafe {
        (
            library.get(b"rms_norm_backward_launch\0").unwrap(),
            library.get(b"rms_norm_backward_error\0").unwrap(),
        )
    };
    let call = |Call(p, n, eps, dtype): Call| -> i32 {
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
    let good = Call(
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
        (Call(good.0, good.1, 1e-6, 3), 10002, "dtype"),
        (pointer(0, 0), 10003, "null"),
        (pointer(4, 0), 10003, "null"),
        (pointer(5, 0), 10003, "null"),
        (size(3, 63), 10004, "stride"),
        (size(4, -64), 10004, "stride"),
        (size(5, 0), 10004, "stride"),
        (Call(good.0, good.1, f32::NAN, 2), 10005, "eps"),
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
    if !Path::new("/dev/nvidiactl").exists() {
        // What is not refused goes to the driver, which is not there: the codes above came from the launcher itself.
        let code = call(good);
        assert!((1..10000).contains(&code), "{code}");
    }
}

#[test]
fn kernel_toml_states_the_launchers_own_number_of_blocks() {
    let library = bundled::library("rmsnorm_backward");
    // SAFETY: the type is that of launch.cu.
    let blocks: Symbol<'_, unsafe extern "C" fn(i64, i64, i32, i64) -> i64> =
        unsafe { library.get(b"rms_norm_backward_blocks\0") }.unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels/rmsnorm_backward");
    let project = Project::open(&root).unwrap();
    let operation = project
        .spec
        .operations
        .iter()
        .find(|operation| operation.name == "rms_norm_backward")
        .unwrap();
    for rows in [0, 1, 30, 500, 100_000] {
        for width in [
            1, 128, 1024, 1032, 2048, 3072, 3080, 4096, 8192, 16_392, 40_000, 70_000,
        ] {
            for (dtype, code) in [(DType::F32, 0), (DType::BF16, 2)] {
                let case = operation
                    .case_of_shape(&format!("rows={rows},width={width}"), dtype)
                    .unwrap();
                let stated = operation.bind(&case).unwrap().values["blocks"];
                // SAFETY: it computes, and nothing else.
                let own = unsafe { blocks(rows, width, code, 132) };
                #[allow(clippy::cast_precision_loss)]
                let own = own as f64;
                // Without rows no block goes over any: one is enough, and a whole cluster does no harm.
                assert!(
                    (own - stated).abs() < 0.5 || rows == 0 && own >= 1.0 && stated >= 1.0,
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
