//! `kernels search` on the driver without a card, when the card is gone for a while.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

use super::stand_in::{place, written};

#[test]
fn search_run_whose_card_is_gone_meanwhile() {
    let (task, scratch) = (written("", "3"), TempDir::with_prefix("kernels-cheats-").unwrap());
    let (driver, gone, run) = (scratch.path().join("driver"), scratch.path().join("gone"), scratch.path().join("run"));
    fs::create_dir(&driver).unwrap();
    let command = || -> Command { place().command() };
    let known = command();
    let library = known.get_envs().find_map(|(name, value)| (name == "LD_LIBRARY_PATH").then_some(value?)).unwrap();
    for name in ["libcuda.so", "libcuda.so.1"] {
        symlink(Path::new(library).join("libcuda.so"), driver.join(name)).unwrap();
    }
    let search = |words: &[&OsStr]| -> Output {
        command().env("LD_LIBRARY_PATH", &driver).arg("search").args(words).arg("--json").output().unwrap()
    };
    let line = format!(
        "exec:sed -i 's/takes(3)/takes(1.5)/' candidate.cu; mv {} {} 2> /dev/null; true",
        driver.display(),
        gone.display()
    );
    let words = ["run", task.path().to_str().unwrap(), "--proposer", &line, "--out", run.to_str().unwrap()];
    let more = ["--flight", "1", "--budget", "evals=2"];
    let ended = search(&words.iter().chain(&more).map(OsStr::new).collect::<Vec<_>>());
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(said.contains("no card: ") && said.contains("no finding about a candidate"), "{said}");
    fs::rename(&gone, &driver).unwrap();
    let ended = search(&[OsStr::new("resume"), run.as_os_str()]);
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let report: Value = serde_json::from_slice(&ended.stdout).unwrap();
    assert_eq!((&report["candidates"][1]["standing"], &report["best"]), (&"confirmed".into(), &1.into()), "{report:#}");
}
