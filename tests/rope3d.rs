//! The launchers of `rope3d`, called on the host: what they refuse, with which words, and that nothing is launched for
//! it. Needs nvcc and no card: a launcher that went on to the driver would answer with one of its codes.

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

type Pointer = *mut c_void;
type Rotation = unsafe extern "C" fn(
    Pointer,
    Pointer,
    Pointer,
    Pointer,
    Pointer,
    Pointer,
    Pointer,
    i64,
    i64,
    i64,
    i64,
    i64,
    i64,
    i64,
    i64,
    i64,
    i64,
    f32,
    i32,
    i32,
    Pointer,
) -> i32;
type Table = unsafe extern "C" fn(Pointer, Pointer, Pointer, i64, i64, i64, f32, Pointer) -> i32;

/// A good call, to be spoilt.
#[derive(Clone, Copy)]
struct Call {
    q_out: usize,
    k_out: usize,
    q: usize,
    k: usize,
    weight: usize,
    table: usize,
    batch: i64,
    frames: i64,
    width: i64,
    dim: i64,
    tables: i64,
    q_stride: i64,
    k_out_stride: i64,
    eps: f32,
    round_first: i32,
    dtype: i32,
}

const GOOD: Call = Call {
    q_out: 0x10_000,
    k_out: 0x20_000,
    q: 0x30_000,
    k: 0x40_000,
    weight: 0x50_000,
    table: 0x60_000,
    batch: 3,
    frames: 2,
    width: 4,
    dim: 64,
    tables: 3,
    q_stride: 64,
    k_out_stride: 64,
    eps: 1e-5,
    round_first: 0,
    dtype: 2,
};

#[test]
fn bad_arguments_are_codes_with_words_and_reach_no_driver() {
    let library = bundled::library("rope3d");
    // SAFETY: the types are those of launch.cu.
    let (rotate, table, words): (
        Symbol<'_, Rotation>,
        Symbol<'_, Table>,
        Symbol<'_, unsafe extern "C" fn(i32) -> *const c_char>,
    ) = unsafe {
        (
            library.get(b"qk_norm_rope3d_launch\0").unwrap(),
            library.get(b"rope3d_table_launch\0").unwrap(),
            library.get(b"rope3d_error\0").unwrap(),
        )
    };
    let at = |address: usize| address as Pointer;
    let call = |c: Call| -> i32 {
        // SAFETY: refused, or empty: no pointer is followed. (A launch only passes them on.)
        unsafe {
            rotate(
                at(c.q_out),
                at(c.k_out),
                at(c.q),
                at(c.k),
                at(c.weight),
                at(c.weight),
                at(c.table),
                c.batch,
                c.frames,
                5,
                c.width,
                c.dim,
                c.tables,
                64,
                c.k_out_stride,
                c.q_stride,
                64,
                c.eps,
                c.round_first,
                c.dtype,
                std::ptr::null_mut(),
            )
        }
    };
    let good_table = |address: usize, positions: i64, dim: i64, theta: f32| -> i32 {
        // SAFETY: as above.
        unsafe {
            table(
                at(address),
                at(0x10_000),
                at(0),
                2,
                positions,
                dim,
                theta,
                at(0),
            )
        }
    };
    #[rustfmt::skip]
    let refused = [
        (call(Call { frames: -1, ..GOOD }), 10001, "negative"),
        (call(Call { dim: -2, ..GOOD }), 10001, "negative"),
        (call(Call { dtype: 3, ..GOOD }), 10002, "dtype"),
        (call(Call { q: 0, ..GOOD }), 10003, "null"),
        (call(Call { k: 0, ..GOOD }), 10003, "null"),
        (call(Call { table: 0, ..GOOD }), 10003, "null"),
        (call(Call { q_stride: 63, ..GOOD }), 10004, "stride"),
        (call(Call { k_out_stride: -64, ..GOOD }), 10004, "stride"),
        (call(Call { eps: f32::NAN, ..GOOD }), 10005, "eps"),
        (call(Call { round_first: 2, ..GOOD }), 10006, "round_first"),
        (call(Call { k_out: 0x20_001, ..GOOD }), 10007, "multiple"),
        (call(Call { weight: 0x50_001, ..GOOD }), 10007, "multiple"),
        (call(Call { table: 0x60_004, ..GOOD }), 10007, "8 bytes"),
        (call(Call { width: i64::MAX, ..GOOD }), 10008, "64-bit"),
        (call(Call { width: 1 << 32, ..GOOD }), 10008, "2^31"),
        (call(Call { q_stride: i64::MAX / 2, ..GOOD }), 10008, "64-bit"),
        (call(Call { dim: 63, ..GOOD }), 10010, "even"),
        (call(Call { tables: 2, ..GOOD }), 10011, "tables"),
        (good_table(0x20_000, -1, 64, 1e4), 10001, "negative"),
        (good_table(0x20_004, 7, 64, 1e4), 10007, "8 bytes"),
        (good_table(0, 7, 64, 1e4), 10003, "null"),
        (good_table(0x20_000, 1 << 40, 64, 1e4), 10008, "2^31"),
        (good_table(0x20_000, 7, 65, 1e4), 10010, "even"),
        (good_table(0x20_000, 7, 64, 0.0), 10013, "theta"),
        (good_table(0x20_000, 7, 64, f32::INFINITY), 10013, "theta"),
    ];
    for (code, expected, word) in refused {
        assert_eq!(code, expected, "{word}");
        // SAFETY: a string literal of the library.
        let said = unsafe { CStr::from_ptr(words(code)) }.to_str().unwrap();
        assert!(said.contains(word), "{code}: {said}");
    }
    let empty = Call {
        frames: 0,
        q: 0,
        table: 0,
        ..GOOD
    };
    assert_eq!(call(empty), 0);
    assert_eq!(good_table(0, 0, 64, 1e4), 0);
    if !Path::new("/dev/nvidiactl").exists() {
        // What is not refused goes to the driver, which is not there: the codes above came from the launchers.
        let alone = Call {
            k: 0,
            k_out: 0,
            ..GOOD
        };
        for code in [call(GOOD), call(alone), good_table(0x20_000, 7, 64, 1e4)] {
            assert!((1..10000).contains(&code), "{code}");
        }
    }
}
