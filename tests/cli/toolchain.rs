//! `kernels toolchain`: which nvcc is found, in which order, and how the pinned one gets into the cache.
//!
//! The compilers and pips here are small scripts; tests/cuda uses the real ones.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::{Ran, Test, names, script, wait_until};
use serde_json::Value;

const INSTALLED: &str = "toolchain-13.0.88/nvidia/cu13/bin/nvcc";

/// A toolkit whose nvcc only prints its version.
fn toolkit(folder: &Path, version: &str) {
    script(&folder.join("bin/nvcc"), format!("echo 'Cuda compilation tools, release x, V{version}'"));
}

/// A Python whose pip runs this script; `$site` is the target folder.
fn python(test: &Test, pip: &str) -> PathBuf {
    let path = test.root().join("python");
    script(
        &path,
        format!(
            "[ \"$3\" = --version ] && exit 0\n[ \"$1 $2 $3 $4\" = '-m pip install --target' ] || exit 9\n\
             site=$5\nfor last; do :; done\ngrep -q -- --hash=sha256: \"$last\" || exit 9\n{pip}"
        ),
    );
    path
}

/// The script of a pip that succeeds.
const GOOD: &str = "mkdir -p \"$site/nvidia/cu13/bin\" && cd \"$site/nvidia/cu13/bin\" && \
    printf '#!/bin/sh\\necho V13.0.88\\n' > nvcc && chmod +x nvcc";

fn cache(test: &Test) -> PathBuf {
    test.home.join(".cache/kernels")
}

fn install(test: &Test, python: &Path, more: &[&str]) -> Command {
    let mut command = test.command();
    command.args(["toolchain", "install", "--python"]).arg(python).args(more);
    command
}

/// Every entry of the cache.
fn entries(test: &Test) -> Vec<String> {
    names(&cache(test))
}

#[test]
fn the_first_that_works_is_used_and_all_are_listed() {
    let test = Test::new();
    let places = ["home", "path", "venv", "cache"].map(|name| test.root().join(name));
    let [home, path, venv, kernels] = &places;
    toolkit(home, "13.3.1");
    toolkit(path, "13.2.1");
    toolkit(&venv.join("lib/python3.12/site-packages/nvidia/cu13"), "13.1.1");
    toolkit(&kernels.join("toolchain-13.0.88/nvidia/cu13"), "13.0.88");
    let run = |home: Option<&Path>, with_path: bool, with_venv: bool| -> Value {
        let mut command = test.command();
        command.args(["toolchain", "--json"]).env("KERNELS_CACHE", kernels);
        if let Some(home) = home {
            command.env("CUDA_HOME", home);
        }
        if with_path {
            command.env("PATH", format!("{}:/usr/bin:/bin", path.join("bin").display()));
        }
        if with_venv {
            command.env("VIRTUAL_ENV", venv);
        }
        serde_json::from_str(&Ran::of(&mut command).out).unwrap()
    };
    let used = |report: &Value| report["used"]["version"].as_str().unwrap().to_owned();
    let all = run(Some(home), true, true);
    assert_eq!(used(&all), "13.3.1");
    let versions: Vec<_> = all["candidates"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|row| row["origin"] != "usual place")
        .map(|row| (row["toolchain"]["version"].as_str().unwrap(), row["used"] == true))
        .collect();
    assert_eq!(versions, [("13.3.1", true), ("13.2.1", false), ("13.1.1", false), ("13.0.88", false)]);
    assert_eq!(used(&run(None, true, true)), "13.2.1");
    // The machine's toolkit has lower priority than PATH and higher than an environment.
    if !Path::new("/usr/local/cuda/bin/nvcc").exists() && !Path::new("/opt/cuda/bin/nvcc").exists() {
        assert_eq!(used(&run(None, false, true)), "13.1.1");
        let last = run(None, false, false);
        assert_eq!(used(&last), "13.0.88");
        assert_eq!(last["used"]["pinned"], true);
    } else {
        crate::support::not_run("what comes behind the usual places: this machine has a CUDA toolkit of its own");
    }
}

#[test]
fn a_cuda_home_without_nvcc_is_an_error_and_not_passed_over() {
    let test = Test::new();
    let other = test.root().join("other");
    toolkit(&other, "13.0.88");
    let path = format!("{}:/usr/bin:/bin", other.join("bin").display());
    let empty = test.root().join("empty");
    fs::create_dir(&empty).unwrap();
    for name in ["CUDA_HOME", "CUDA_PATH"] {
        let mut command = test.command();
        command.arg("toolchain").env("PATH", &path).env(name, &empty);
        Ran::of(&mut command).expect(1, &[name, "empty/bin/nvcc", "correct it or unset it"]);
    }
    // An empty variable counts as unset.
    let mut command = test.command();
    command.arg("toolchain").env("PATH", &path).env("CUDA_HOME", "");
    Ran::of(&mut command).expect(0, &["used", "13.0.88 (pinned)", "PATH"]);
}

#[test]
fn a_broken_nvcc_is_passed_over_and_shown() {
    let test = Test::new();
    let broken = test.root().join("broken");
    script(&broken.join("bin/nvcc"), "echo no libc >&2; exit 127");
    toolkit(&cache(&test).join("toolchain-13.0.88/nvidia/cu13"), "13.0.88");
    let mut command = test.command();
    let path = format!("{}:/usr/bin:/bin", broken.join("bin").display());
    command.arg("toolchain").env("PATH", path);
    Ran::of(&mut command).expect(0, &["broken", "no libc", "kernels toolchain install", "used"]);
}

#[test]
fn a_link_in_path_leads_to_its_toolkit() {
    let test = Test::new();
    let real = test.root().join("cuda-13.0");
    toolkit(&real, "13.0.88");
    let bin = test.root().join("bin");
    fs::create_dir(&bin).unwrap();
    std::os::unix::fs::symlink(real.join("bin/nvcc"), bin.join("nvcc")).unwrap();
    let mut command = test.command();
    command.arg("toolchain").env("PATH", format!("{}:/usr/bin:/bin", bin.display()));
    Ran::of(&mut command).expect(0, &[real.to_str().unwrap()]);
}

#[test]
fn without_a_compiler_the_next_step_is_named() {
    if Path::new("/usr/local/cuda/bin/nvcc").exists() || Path::new("/opt/cuda/bin/nvcc").exists() {
        return crate::support::not_run(
            "what is said where there is no compiler: this machine has a CUDA toolkit of its own",
        );
    }
    let test = Test::new();
    test.run("toolchain").expect(1, &["kernels toolchain install", "CUDA_HOME"]);
    assert_eq!(test.json("toolchain")["used"], Value::Null);
    // Installing skills needs no compiler.
    test.ok("doctor").expect(0, &["CUDA compiler", "kernels toolchain install", "no problems"]);
}

#[test]
fn an_install_is_checked_put_in_place_and_done_once() {
    let test = Test::new();
    let counted = format!("echo x >> \"{}\"; {GOOD}", test.home.join("runs").display());
    let python = python(&test, &counted);
    let runs = || fs::read_to_string(test.home.join("runs")).unwrap().lines().count();
    Ran::of(&mut install(&test, &python, &[])).expect(0, &["installed", INSTALLED]);
    assert_eq!(entries(&test), ["toolchain-13.0.88", "toolchain.lock"]);
    Ran::of(&mut install(&test, &python, &[])).expect(0, &["already there"]);
    assert_eq!(runs(), 1);
    Ran::of(&mut install(&test, &python, &["--force"])).expect(0, &["installed"]);
    assert_eq!(runs(), 2);
    // A compiler that no longer runs is replaced.
    fs::write(cache(&test).join(INSTALLED), "").unwrap();
    Ran::of(&mut install(&test, &python, &[])).expect(0, &["installed"]);
    assert_eq!(entries(&test), ["toolchain-13.0.88", "toolchain.lock"]);
}

#[test]
fn a_failed_install_leaves_nothing_and_says_what_to_do() {
    let test = Test::new();
    let fails = |pip: &str, words: &[&str]| {
        let python = python(&test, pip);
        Ran::of(&mut install(&test, &python, &[])).expect(1, words);
        assert_eq!(entries(&test), ["toolchain.lock"], "{pip}");
    };
    fails(
        "echo 'ERROR: No matching distribution found' >&2; exit 1",
        &["No matching distribution", "check the network"],
    );
    fails("mkdir -p \"$site/nvidia\"", &["pip installed the wheels, but there is no"]);
    fails(&GOOD.replace("13.0.88", "13.5.7"), &["nvcc 13.5.7 instead of 13.0.88"]);
    Ran::of(&mut install(&test, Path::new("/nowhere/python"), &[]))
        .expect(1, &["there is no Python at '/nowhere/python'", "--python"]);
    let no_pip = test.root().join("no-pip");
    script(&no_pip, "echo 'No module named pip' >&2; exit 1");
    Ran::of(&mut install(&test, &no_pip, &[])).expect(1, &["has no pip", "ensurepip"]);
    // A file is in the folder's place.
    let file = test.root().join("file");
    fs::write(&file, "").unwrap();
    let good = python(&test, GOOD);
    Ran::of(install(&test, &good, &[]).env("KERNELS_CACHE", file.join("x")))
        .expect(1, &["KERNELS_CACHE", "cannot create"]);
}

#[test]
fn a_killed_install_is_never_found_and_the_next_clears_it() {
    let test = Test::new();
    let slow = python(&test, &format!("{GOOD}; exec sleep 30"));
    let mut child = install(&test, &slow, &[]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let half = || {
        entries(&test).into_iter().find(|name| {
            let nvcc = cache(&test).join(name).join("site/nvidia/cu13/bin/nvcc");
            name.starts_with(".toolchain-install-") && nvcc.exists()
        })
    };
    wait_until("a half install", || half().is_some());
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(half().is_some());
    let left = cache(&test).to_string_lossy().into_owned();
    let report = test.json("toolchain");
    assert!(!report["candidates"].to_string().contains(&left), "{report:#}");
    let good = python(&test, GOOD);
    Ran::of(&mut install(&test, &good, &[])).expect(0, &["installed"]);
    assert_eq!(entries(&test), ["toolchain-13.0.88", "toolchain.lock"]);
}

#[test]
fn of_two_installs_at_once_the_second_waits_and_finds_it_done() {
    let test = Test::new();
    let counted = format!("echo x >> \"{}\"; sleep 1; {GOOD}", test.home.join("runs").display());
    let python = python(&test, &counted);
    let spawn = || install(&test, &python, &[]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    for child in [spawn(), spawn(), spawn()] {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
    assert_eq!(fs::read_to_string(test.home.join("runs")).unwrap(), "x\n");
}

#[test]
fn every_pin_has_a_hash_for_each_machine() {
    let pins = include_str!("../../src/toolchain/pins.txt");
    let entries: Vec<&str> = pins.split("\nnvidia-").skip(1).collect();
    assert_eq!(entries.len(), 5);
    for entry in entries {
        let hashes: Vec<_> = entry.matches("--hash=sha256:").collect();
        assert_eq!(hashes.len(), 2, "{entry}: x86_64 and aarch64");
        assert!(entry.contains("==13.0."), "{entry}");
    }
}
