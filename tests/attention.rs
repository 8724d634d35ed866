//! The bundled launcher of attention, called on the host: what it refuses, with which words, and that nothing is launched
//! for it. Needs nvcc and no card: a launcher that went on to the driver would answer with one of its codes.

#![allow(
    unsafe_code,
    clippy::unwrap_used,
    clippy::panic,
    clippy::type_complexity,
    reason = "a test of C functions"
)]

#[path = "support/bundled.rs"]
mod bundled;
#[path = "support/cuda.rs"]
mod cuda;

use std::ffi::{CStr, c_char, c_void};
use std::path::Path;

use kernels::project::Project;
use libloading::Symbol;

type Strides = [i64; 3];

type Attention = unsafe extern "C" fn(
    *mut c_void,
    *mut c_void,
    *const c_void,
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
    i64,
    i64,
    i64,
    i64,
    f32,
    i32,
    i32,
    *mut c_void,
) -> i32;

type Words = unsafe extern "C" fn(i32) -> *const c_char;

/// A good call, to be spoilt.
#[derive(Clone, Copy)]
struct Call {
    o: usize,
    lse: usize,
    q: usize,
    k: usize,
    v: usize,
    batch: i64,
    tokens_q: i64,
    tokens_k: i64,
    heads: i64,
    kv_heads: i64,
    head_dim: i64,
    o_strides: Strides,
    q_strides: Strides,
    k_strides: Strides,
    v_strides: Strides,
    scale: f32,
    causal: i32,
    dtype: i32,
}

/// Two batches of 10 queries and 20 keys, four heads of 64 on two.
const GOOD: Call = Call {
    o: 4096,
    lse: 4100,
    q: 8192,
    k: 16384,
    v: 32768,
    batch: 2,
    tokens_q: 10,
    tokens_k: 20,
    heads: 4,
    kv_heads: 2,
    head_dim: 64,
    o_strides: [2560, 256, 64],
    q_strides: [2560, 256, 64],
    k_strides: [2560, 128, 64],
    v_strides: [2560, 128, 64],
    scale: 0.125,
    causal: 2,
    dtype: 2,
};

fn spoilt(spoil: &dyn Fn(&mut Call)) -> Call {
    let mut bad = GOOD;
    spoil(&mut bad);
    bad
}

#[test]
fn bad_arguments_are_codes_with_words_and_reach_no_driver() {
    let library = bundled::library("attention");
    // SAFETY: the types are those of launch.cu.
    let (launch, words): (Symbol<'_, Attention>, Symbol<'_, Words>) = unsafe {
        (
            library.get(b"attention_launch\0").unwrap(),
            library.get(b"attention_error\0").unwrap(),
        )
    };
    let call = |c: Call| -> i32 {
        let [o, q, k, v] = [c.o_strides, c.q_strides, c.k_strides, c.v_strides];
        // SAFETY: refused, or empty: no pointer is followed. (A launch only passes them on.)
        unsafe {
            launch(
                c.o as *mut c_void,
                c.lse as *mut c_void,
                c.q as *const c_void,
                c.k as *const c_void,
                c.v as *const c_void,
                c.batch,
                c.tokens_q,
                c.tokens_k,
                c.heads,
                c.kv_heads,
                c.head_dim,
                o[0],
                o[1],
                o[2],
                q[0],
                q[1],
                q[2],
                k[0],
                k[1],
                k[2],
                v[0],
                v[1],
                v[2],
                c.scale,
                c.causal,
                c.dtype,
                std::ptr::null_mut(),
            )
        }
    };
    let cases: &[(&dyn Fn(&mut Call), i32, &str)] = &[
        (&|c| c.batch = -1, 10001, "negative"),
        (&|c| c.tokens_q = -1, 10001, "negative"),
        (&|c| c.tokens_k = -1, 10001, "negative"),
        (&|c| c.heads = -4, 10001, "negative"),
        (&|c| c.kv_heads = -2, 10001, "negative"),
        (&|c| c.dtype = 0, 10002, "dtype"),
        (&|c| c.dtype = 3, 10002, "dtype"),
        (&|c| c.o = 0, 10003, "null"),
        (&|c| c.q = 0, 10003, "null"),
        (&|c| c.k = 0, 10003, "null"),
        (&|c| c.v = 0, 10003, "null"),
        (&|c| c.o_strides[1] = 56, 10004, "at least head_dim"),
        (&|c| c.o_strides[2] = 0, 10004, "at least head_dim"),
        (&|c| c.q_strides[0] = -2560, 10004, "negative"),
        (&|c| c.v_strides[1] = -128, 10004, "negative"),
        (&|c| c.causal = 3, 10005, "causal"),
        (&|c| c.causal = -1, 10005, "causal"),
        (&|c| c.o = 4104, 10006, "16 bytes"),
        (&|c| c.q = 8200, 10006, "16 bytes"),
        (&|c| c.k = 16386, 10006, "16 bytes"),
        (&|c| c.lse = 4098, 10006, "lse: 4"),
        (&|c| c.k_strides[1] = 132, 10006, "8 elements"),
        (&|c| c.q_strides[0] = 2561, 10006, "8 elements"),
        (&|c| c.tokens_q = 1_000_000_001, 10007, "10^9"),
        (&|c| c.tokens_k = i64::MAX, 10007, "10^9"),
        (&|c| c.batch = i64::MAX, 10007, "64-bit"),
        (&|c| c.v_strides[0] = i64::MAX - 7, 10007, "64-bit"),
        (&|c| c.k_strides[1] = 1 << 31, 10007, "64-bit"),
        (
            &|c| (c.batch, c.heads, c.o_strides[0]) = (1 << 20, 1 << 12, 1 << 20),
            10007,
            "blocks",
        ),
        (&|c| c.head_dim = 96, 10008, "64 or 128"),
        (&|c| c.head_dim = 0, 10008, "64 or 128"),
        (&|c| c.head_dim = -64, 10008, "64 or 128"),
        (&|c| c.heads = 3, 10009, "multiple of kv_heads"),
        (&|c| c.kv_heads = 8, 10009, "multiple of kv_heads"),
        (&|c| c.kv_heads = 0, 10009, "multiple of kv_heads"),
        (&|c| c.scale = 0.0, 10010, "positive"),
        (&|c| c.scale = -0.125, 10010, "positive"),
        (&|c| c.scale = f32::NAN, 10010, "positive"),
        (&|c| c.scale = f32::INFINITY, 10010, "positive"),
    ];
    for (spoil, code, word) in cases {
        assert_eq!(call(spoilt(spoil)), *code, "{word}");
        // SAFETY: a string literal of the library.
        let said = unsafe { CStr::from_ptr(words(*code)) }.to_str().unwrap();
        assert!(said.contains(word), "{code}: {said}");
    }
    let empty: &[&dyn Fn(&mut Call)] = &[
        &|c| (c.batch, c.o, c.q, c.k, c.v, c.lse) = (0, 0, 0, 0, 0, 0),
        &|c| (c.tokens_q, c.o, c.q) = (0, 0, 0),
        &|c| (c.heads, c.kv_heads, c.o, c.q, c.k, c.v) = (0, 0, 0, 0, 0, 0),
        &|c| (c.heads, c.o, c.q) = (0, 0, 0),
    ];
    for spoil in empty {
        assert_eq!(call(spoilt(spoil)), 0);
    }
    if !Path::new("/dev/nvidiactl").exists() {
        // What is not refused goes to the driver, which is not there: the codes above came from the launcher itself.
        let good: &[&dyn Fn(&mut Call)] = &[
            &|_| {},
            &|c| c.lse = 0,
            &|c| (c.tokens_k, c.k, c.v) = (0, 0, 0),
            // The strides of what stands for one are not looked at; what is read may be the same for many.
            &|c| (c.batch, c.q_strides[0], c.o_strides[0]) = (1, -1, 3),
            &|c| c.k_strides[0] = 0,
        ];
        for spoil in good {
            let code = call(spoilt(spoil));
            assert!((1..10000).contains(&code), "{code}");
        }
    }
}

/// There is no mma of this size on a T4: what builds for it by default must leave it out, and say so where it is asked for.
#[test]
fn it_is_for_sm_80_and_later() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels/attention");
    let project = Project::open(&root).unwrap();
    assert_eq!(project.of_archs(&[75, 80, 90]).unwrap(), [80, 90]);
    let why = project.of_archs(&[75]).unwrap_err().to_string();
    assert!(why.contains("sm_80 and later"), "{why}");
}
