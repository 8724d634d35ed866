//! The launchers of kernels/softmax, called on the host: what they refuse, with which words, and that nothing is
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

use libloading::{Library, Symbol};

type Words = unsafe extern "C" fn(i32) -> *const c_char;

type Softmax = unsafe extern "C" fn(
    *mut c_void,
    *const c_void,
    i64,
    i64,
    i64,
    i64,
    f32,
    i32,
    *mut c_void,
) -> i32;

type CrossEntropy = unsafe extern "C" fn(
    *mut c_void,
    *mut c_void,
    *const c_void,
    *const c_void,
    i64,
    i64,
    i64,
    i64,
    f32,
    i32,
    *mut c_void,
) -> i32;

type Backward = unsafe extern "C" fn(
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
    f32,
    i32,
    *mut c_void,
) -> i32;

/// A good call of any of the three, to be spoilt.
#[derive(Clone, Copy)]
struct Call {
    /// The output of rows: `out` or `dlogits`.
    out: usize,
    /// The input of rows: `x` or `logits`.
    x: usize,
    loss: usize,
    lse: usize,
    targets: usize,
    rows: i64,
    width: i64,
    out_stride: i64,
    x_stride: i64,
    /// `scale`, or `label_smoothing`.
    factor: f32,
    dtype: i32,
}

const GOOD: Call = Call {
    out: 4096,
    x: 8192,
    loss: 12288,
    lse: 16384,
    targets: 20480,
    rows: 4,
    width: 64,
    out_stride: 64,
    x_stride: 64,
    factor: 0.5,
    dtype: 2,
};

type Launch = fn(&Library, Call) -> i32;

fn softmax(library: &Library, c: Call) -> i32 {
    // SAFETY: the type is that of launch.cu. Refused, or empty: no pointer is followed. (A launch only passes them on.)
    unsafe {
        let launch: Symbol<'_, Softmax> = library.get(b"softmax_launch\0").unwrap();
        launch(
            c.out as *mut c_void,
            c.x as *const c_void,
            c.rows,
            c.width,
            c.out_stride,
            c.x_stride,
            c.factor,
            c.dtype,
            std::ptr::null_mut(),
        )
    }
}

fn cross_entropy(library: &Library, c: Call) -> i32 {
    // SAFETY: as above.
    unsafe {
        let launch: Symbol<'_, CrossEntropy> = library.get(b"cross_entropy_launch\0").unwrap();
        launch(
            c.loss as *mut c_void,
            c.lse as *mut c_void,
            c.x as *const c_void,
            c.targets as *const c_void,
            c.rows,
            c.width,
            c.x_stride,
            -100,
            c.factor,
            c.dtype,
            std::ptr::null_mut(),
        )
    }
}

fn backward(library: &Library, c: Call) -> i32 {
    // SAFETY: as above.
    unsafe {
        let launch: Symbol<'_, Backward> = library.get(b"cross_entropy_backward_launch\0").unwrap();
        launch(
            c.out as *mut c_void,
            c.x as *const c_void,
            c.lse as *const c_void,
            c.targets as *const c_void,
            c.loss as *const c_void,
            c.rows,
            c.width,
            c.out_stride,
            c.x_stride,
            -100,
            c.factor,
            c.dtype,
            std::ptr::null_mut(),
        )
    }
}

fn spoilt(spoil: &dyn Fn(&mut Call)) -> Call {
    let mut bad = GOOD;
    spoil(&mut bad);
    bad
}

#[test]
fn bad_arguments_are_codes_with_words_and_reach_no_driver() {
    let library = bundled::library("softmax");
    // SAFETY: the type is that of launch.cu.
    let words: Symbol<'_, Words> = unsafe { library.get(b"softmax_error\0").unwrap() };
    let refused = |launch: Launch, bad: Call, code: i32, word: &str| {
        assert_eq!(launch(&library, bad), code, "{word}");
        // SAFETY: a string literal of the library.
        let said = unsafe { CStr::from_ptr(words(code)) }.to_str().unwrap();
        assert!(said.contains(word), "{code}: {said}");
    };
    let all: [Launch; 3] = [softmax, cross_entropy, backward];
    for launch in all {
        refused(launch, spoilt(&|c| c.rows = -1), 10001, "negative");
        refused(launch, spoilt(&|c| c.width = -8), 10001, "negative");
        refused(launch, spoilt(&|c| c.dtype = 3), 10002, "dtype");
        refused(launch, spoilt(&|c| c.dtype = -1), 10002, "dtype");
        refused(launch, spoilt(&|c| c.x = 0), 10003, "null");
        refused(launch, spoilt(&|c| c.x_stride = 63), 10004, "stride");
        refused(launch, spoilt(&|c| c.x_stride = -64), 10004, "stride");
        refused(launch, spoilt(&|c| c.x = 8193), 10007, "multiple");
        let long = |c: &mut Call| (c.x_stride, c.out_stride) = (i64::MAX / 4, i64::MAX / 4);
        refused(launch, spoilt(&long), 10008, "64-bit");
        refused(launch, spoilt(&|c| c.rows = i64::MAX), 10008, "64-bit");
        refused(launch, spoilt(&|c| c.width = 1 << 31), 10008, "2^30");
        let empty =
            spoilt(&|c| (c.rows, c.out, c.x, c.loss, c.lse, c.targets) = (0, 0, 0, 0, 0, 0));
        assert_eq!(launch(&library, empty), 0);
        if !Path::new("/dev/nvidiactl").exists() {
            // What is not refused goes to the driver, which is not there: the codes came from the launcher itself.
            let code = launch(&library, GOOD);
            assert!((1..10000).contains(&code), "{code}");
        }
    }
    for launch in [softmax, backward] {
        refused(launch, spoilt(&|c| c.out = 0), 10003, "null");
        refused(launch, spoilt(&|c| c.out_stride = 63), 10004, "stride");
        refused(launch, spoilt(&|c| c.out = 4097), 10007, "multiple");
    }
    for factor in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 3e38] {
        refused(softmax, spoilt(&|c| c.factor = factor), 10005, "scale");
    }
    let empty = spoilt(&|c| (c.width, c.out, c.x) = (0, 0, 0));
    assert_eq!(softmax(&library, empty), 0);
    for launch in [cross_entropy, backward] {
        for factor in [f32::NAN, -0.25, 1.25] {
            refused(launch, spoilt(&|c| c.factor = factor), 10006, "smoothing");
        }
        refused(launch, spoilt(&|c| c.width = 0), 10010, "one class");
        refused(launch, spoilt(&|c| c.targets = 0), 10003, "null");
        refused(launch, spoilt(&|c| c.targets = 20484), 10007, "multiple");
        refused(launch, spoilt(&|c| c.lse = 0), 10003, "null");
        refused(launch, spoilt(&|c| c.loss = 12290), 10007, "multiple");
    }
}
