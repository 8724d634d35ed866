//! docs/own-operation.md with the real nvcc and torch.

use crate::support::walk_through::own_operation;
use crate::support::{Ran, Test, cuda, not_run, torch};

#[test]
fn the_walk_through_compiles_and_its_tests_pass() {
    let torches = match torch::torches() {
        Ok(torches) => torches,
        Err(why) => return not_run(&why),
    };
    torch::headers();
    let test = Test::without_git();
    let (root, ..) = own_operation(&test);
    test.run_in(&root, "add relu2_up").expect(0, &["added to"]);
    for line in ["build --arch 90", "build --torch --arch 90"] {
        let mut command = test.command();
        command.current_dir(&root).env("CUDA_HOME", cuda::home()).env("KERNELS_CACHE", cuda::cache());
        Ran::of(command.args(line.split(' '))).expect(0, &[]);
    }
    let ran =
        Ran::of(torches.newest().current_dir(&root).args(["-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"]));
    ran.expect(0, &["passed"]);
    assert!(!ran.out.contains("failed"), "{ran:?}");
}
