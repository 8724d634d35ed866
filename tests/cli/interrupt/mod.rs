//! `kernels` may be killed at any instant, and any system call may fail: the old tree or the new one
//! is complete, the next command cleans up, and no edit is lost.
//!
//! Each scenario runs under ptrace and is killed before and after every system call that can change
//! something. `KERNELS_TEST_SEED` repeats a random test.

mod chain;
mod scenarios;
mod sweep;
pub mod trace;
mod world;

pub use scenarios::skipped;
