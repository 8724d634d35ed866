//! A task of `evals/` that needs the compiler: its solution passes, the untouched tree and every mutant fail. One of them, since
//! each takes a minute; `evals/prove` runs all.

use crate::support::{Ran, Test, cuda};

#[test]
fn skills_eval_check_evals_bug_launch() {
    let test = Test::new();
    let task = concat!(env!("CARGO_MANIFEST_DIR"), "/evals/bug-launch");
    let mut command = test.command();
    command.env("CUDA_HOME", cuda::home()).args(["skills", "eval", "--check", task]);
    Ran::of(&mut command).expect(0, &["1 tasks: ", " 0 failed, 0 skipped"]);
}
