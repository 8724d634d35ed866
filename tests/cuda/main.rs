//! Tests with the CUDA compiler: the bundled kernels, the skill's code and users' projects, also for torch.
//! `tests/support/cuda.rs` finds or installs the compiler.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::float_cmp,
    clippy::format_push_string,
    clippy::format_collect,
    clippy::cast_possible_truncation,
    clippy::similar_names,
    clippy::print_stdout,
    unreachable_pub,
    missing_docs,
    reason = "a test"
)]

#[path = "../support/mod.rs"]
mod support;

mod aarch64;
mod build;
mod build_torch;
mod ci;
mod composed;
mod cuda12;
mod deep;
mod evals;
mod freshness;
mod import;
mod kernels;
mod launchers;
mod loaded;
mod own_operation;
mod publish;
mod skill;
mod slurm;
mod verify_published;
mod xet;
