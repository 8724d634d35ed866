//! Whatever instant `kernels` dies at, and whatever system call fails: the old tree or the new one
//! stands whole, the next command settles what was left, and no edit is lost.
//!
//! Each scenario runs under ptrace and is killed before and after every system call that can change
//! something. `KERNELS_TEST_SEED` repeats a random test.

mod chain;
mod random;
mod scenarios;
mod sweep;
pub mod trace;
mod world;
