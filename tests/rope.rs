//! The bundled launchers of rotary embeddings, called on the host: what they refuse, with which words, and that nothing
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

type InPlace = unsafe extern "C" fn(
    *mut c_void,
    *mut c_void,
    *const c_void,
    *const c_void,
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

/// A good call, to be spoilt: 2 x 3 tokens of 4 and 2 heads of 64.
#[derive(Clone, Copy)]
struct Call {
    q: usize,
    k: usize,
    cos: usize,
    sin: usize,
    /// batch, tokens, `q_heads`, `k_heads`, `head_dim`, `rotary_dim`
    sizes: [i64; 6],
    /// of q, of k: batch, token, head
    strides: [i64; 6],
    /// batch, token
    table: [i64; 2],
    tables_f32: i32,
    inverse: i32,
    dtype: i32,
}

const GOOD: Call = Call {
    q: 4096,
    k: 8192,
    cos: 12288,
    sin: 16384,
    sizes: [2, 3, 4, 2, 64, 64],
    strides: [768, 256, 64, 384, 128, 64],
    table: [0, 32],
    tables_f32: 0,
    inverse: 0,
    dtype: 2,
};

#[test]
fn bad_arguments_are_codes_with_words_and_reach_no_driver() {
    let library = bundled::library("rope");
    // SAFETY: the types are those of launch.cu.
    let (launch, words): (Symbol<'_, InPlace>, Symbol<'_, Words>) = unsafe {
        (
            library.get(b"rope_in_place_launch\0").unwrap(),
            library.get(b"rope_error\0").unwrap(),
        )
    };
    let call = |c: Call| -> i32 {
        let [batch, tokens, q_heads, k_heads, head_dim, rotary_dim] = c.sizes;
        let [q_batch, q_token, q_head, k_batch, k_token, k_head] = c.strides;
        // SAFETY: refused, or empty: no pointer is followed. (A launch only passes them on.)
        unsafe {
            launch(
                c.q as *mut c_void,
                c.k as *mut c_void,
                c.cos as *const c_void,
                c.sin as *const c_void,
                batch,
                tokens,
                q_heads,
                k_heads,
                head_dim,
                rotary_dim,
                q_batch,
                q_token,
                q_head,
                k_batch,
                k_token,
                k_head,
                c.table[0],
                c.table[1],
                c.tables_f32,
                c.inverse,
                c.dtype,
                std::ptr::null_mut(),
            )
        }
    };
    let spoilt = |spoil: &dyn Fn(&mut Call)| {
        let mut bad = GOOD;
        spoil(&mut bad);
        bad
    };
    for (bad, code, word) in [
        (spoilt(&|c| c.sizes[1] = -1), 10001, "negative"),
        (spoilt(&|c| c.sizes[2] = -4), 10001, "negative"),
        (spoilt(&|c| c.dtype = 3), 10002, "dtype"),
        (spoilt(&|c| c.q = 0), 10003, "null"),
        (spoilt(&|c| c.sin = 0), 10003, "null"),
        (spoilt(&|c| c.strides[4] = -128), 10004, "stride"),
        (spoilt(&|c| c.inverse = 2), 10006, "inverse"),
        (spoilt(&|c| c.tables_f32 = -1), 10006, "tables_f32"),
        (spoilt(&|c| c.k = 8193), 10007, "multiple"),
        (
            spoilt(&|c| (c.tables_f32, c.cos) = (1, 12290)),
            10007,
            "multiple",
        ),
        (spoilt(&|c| c.strides[0] = i64::MAX), 10008, "64-bit"),
        (spoilt(&|c| c.sizes[4] = 1 << 30), 10008, "2^29"),
        (spoilt(&|c| c.sizes[5] = 63), 10010, "even"),
        (spoilt(&|c| c.sizes[5] = 66), 10010, "head_dim"),
        (spoilt(&|c| c.strides[2] = 63), 10011, "overlap"),
        (spoilt(&|c| c.strides[3] = 0), 10011, "overlap"),
    ] {
        assert_eq!(call(bad), code, "{word}");
        // SAFETY: a string literal of the library.
        let said = unsafe { CStr::from_ptr(words(code)) }.to_str().unwrap();
        assert!(said.contains(word), "{code}: {said}");
    }
    for empty in [
        spoilt(&|c| (c.sizes[1], c.q, c.k) = (0, 0, 0)),
        spoilt(&|c| (c.sizes[4], c.sizes[5], c.q) = (0, 0, 0)),
    ] {
        assert_eq!(call(empty), 0);
    }
    if !Path::new("/dev/nvidiactl").exists() {
        // What is not refused goes to the driver, which is not there: the codes above came from the launcher itself.
        let code = call(GOOD);
        assert!((1..10000).contains(&code), "{code}");
    }
}
