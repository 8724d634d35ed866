//! `kernels bench --against`: what is refused before anything is measured, and who is named with which reason. Timing
//! itself needs a card: benches/gpu/face.py.

use std::path::{Path, PathBuf};

use crate::support::{Ran, Test, script};

/// A Python that prints this when it is probed.
fn python(test: &Test, name: &str, says: &str) -> PathBuf {
    let path = test.root().join(name);
    script(&path, says);
    path
}

fn bench(test: &Test, arguments: &[&str]) -> Ran {
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels/rmsnorm");
    let mut command = test.command();
    Ran::of(command.arg("bench").arg(project).args(arguments))
}

#[test]
fn who_nobody_knows_is_wrong_usage_and_all_that_are_known_are_named() {
    let test = Test::new();
    for name in ["apex", "torch,apex", "hub:", "", "Torch"] {
        let ran = bench(&test, &["--against", name]);
        ran.expect(2, &["torch, compile, compile-max, liger, quack, and hub:OWNER/NAME[@VERSION] or hub:PATH"]);
    }
}

#[test]
fn flags_that_do_not_go_together_are_wrong_usage() {
    let test = Test::new();
    bench(&test, &["--python", "python3"]).expect(2, &["--against"]);
    // The times of peers are not evidence of this project.
    bench(&test, &["--against", "torch", "--record"]).expect(2, &["--record"]);
}

#[test]
fn a_python_that_will_not_do_is_told_of_before_a_card_is_looked_for() {
    let test = Test::new();
    let next = "name one that has torch with --python, or activate its environment";
    let no_torch = python(&test, "no-torch", "echo True False");
    let old = python(&test, "old", "echo False True");
    let broken = python(&test, "broken", "exit 3");
    for (path, words) in [
        (no_torch.as_path(), "has no torch"),
        (old.as_path(), "is older than Python 3.10"),
        (broken.as_path(), "is not a working Python"),
        (Path::new("/no/such/python"), "cannot start /no/such/python"),
    ] {
        let named = path.to_str().unwrap();
        bench(&test, &["--against", "torch", "--python", named]).expect(1, &[words, next, named]);
        let from_environment =
            Ran::of(test.command().args(["bench", "--against", "torch"]).env("KERNELS_PYTHON", named));
        from_environment.expect(1, &[words, named]);
    }
}

#[test]
fn an_active_environment_is_taken_and_what_is_named_comes_first() {
    let test = Test::new();
    python(&test, "venv/bin/python", "echo True False");
    let other = python(&test, "other", "echo False True");
    let venv = test.root().join("venv");
    let run = |more: &[&str]| {
        let mut command = test.command();
        command.args(["bench", "--against", "torch"]).args(more);
        Ran::of(command.env("VIRTUAL_ENV", &venv))
    };
    run(&[]).expect(1, &["venv/bin/python has no torch"]);
    run(&["--python", other.to_str().unwrap()]).expect(1, &["other is older than"]);
}

#[test]
fn the_help_says_what_may_use_the_network() {
    let test = Test::new();
    let said = test.ok("bench --help").out;
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("Only hub:OWNER/NAME may use the network"), "{said}");
    assert!(test.ok("--help").out.contains("kernels bench --against hub:OWNER/NAME"));
}
