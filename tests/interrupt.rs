//! Whatever instant `kernels` dies at, and whatever system call fails: the old tree or the new one
//! stands whole, the next command settles what was left, and no edit is lost.
//!
//! Each scenario runs under ptrace and is killed before and after every system call that can change
//! something. `KERNELS_TEST_SEED` repeats a random test.

#![allow(
    clippy::panic,
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::print_stdout,
    unreachable_pub,
    reason = "a test helper that panics says which step failed"
)]

#[cfg(all(
    target_os = "linux",
    target_env = "gnu",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
mod interrupt {
    mod chain;
    mod random;
    mod scenarios;
    mod sweep;
    mod trace;
    mod world;
}

#[cfg(not(all(
    target_os = "linux",
    target_env = "gnu",
    any(target_arch = "x86_64", target_arch = "aarch64")
)))]
#[test]
fn interruptions() {
    println!("SKIPPED: the driver follows system calls on Linux with glibc, x86-64 and aarch64");
}
