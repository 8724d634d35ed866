//! A private home and project for a test, and `kernels` run in them as by a user.

#![allow(dead_code, unreachable_pub, reason = "every test target uses its own part of this")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a helper that fails is a test that fails")]

pub mod bundled;
pub mod cuda;
pub mod pending;
pub mod report;
pub mod torch;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// The two folders, removed when the test ends.
pub struct Sandbox {
    pub home: PathBuf,
    pub project: PathBuf,
    root: TempDir,
}

/// Reports that a test could not run; under CI that is a failure.
pub fn not_run(why: &str) {
    // An empty variable counts as unset, because shell scripts pass on unset variables as empty ones.
    let ci = std::env::var_os("CI").is_some_and(|value| !value.is_empty());
    assert!(!ci, "CI must be able to run this: {why}");
    // Not eprintln!, which the test runner hides when a test passes. ./test repeats the line at its end.
    let _ = writeln!(std::io::stderr(), "\nnot run: {why}");
}

/// The outcome of a command.
#[derive(Debug)]
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Sandbox {
    /// A home, and a project with a git repository.
    pub fn new() -> Self {
        let sandbox = Self::without_git();
        fs::create_dir(sandbox.project.join(".git")).unwrap();
        sandbox
    }

    /// A home, and a project without one.
    pub fn without_git() -> Self {
        let root = TempDir::with_prefix("kernels-").unwrap();
        let real = root.path().canonicalize().unwrap();
        let sandbox = Self { home: real.join("home"), project: real.join("project"), root };
        fs::create_dir(&sandbox.home).unwrap();
        fs::create_dir(&sandbox.project).unwrap();
        sandbox
    }

    /// A folder beside the two.
    pub fn outside(&self) -> PathBuf {
        self.root.path().canonicalize().unwrap()
    }

    /// `kernels` with nothing but HOME and PATH in its environment, at the project's top.
    pub fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kernels"));
        command.env_clear().env("HOME", &self.home).env("PATH", "/usr/bin:/bin");
        command.current_dir(&self.project);
        command
    }

    /// Runs `kernels` with these arguments, split at spaces.
    pub fn run(&self, typed: &str) -> Ran {
        self.run_in(&self.project, typed)
    }

    /// The same from another folder.
    pub fn run_in(&self, folder: &Path, typed: &str) -> Ran {
        Ran::of(self.command().current_dir(folder).args(typed.split(' ')))
    }

    /// Runs and expects exit code 0.
    pub fn ok(&self, typed: &str) -> Ran {
        let ran = self.run(typed);
        assert_eq!(ran.code, 0, "kernels {typed}: {ran:#?}");
        ran
    }

    /// Runs with `--json` and reads the report, whatever the exit code.
    pub fn json(&self, typed: &str) -> Value {
        let ran = self.run(&format!("{typed} --json"));
        serde_json::from_str(&ran.out).unwrap_or_else(|e| panic!("{typed}: {e}: {ran:#?}"))
    }

    /// The state of an install in `status`, by its path in the project or the home.
    pub fn state(&self, path: &str) -> String {
        let report = self.json("skills status");
        let ends = |row: &&Value| row["path"].as_str().unwrap().ends_with(path);
        let row = report["installs"].as_array().unwrap().iter().find(ends);
        row.map_or_else(|| "not listed".to_owned(), |row| row["state"].as_str().unwrap().to_owned())
    }

    /// A skill in a folder beside the project.
    pub fn skill(&self, name: &str, version: &str) -> PathBuf {
        let folder = self.outside().join("sources").join(name);
        write_skill(&folder, name, version);
        folder
    }
}

impl Ran {
    pub fn of(command: &mut Command) -> Self {
        Self::of_redirected(command, Stdio::piped())
    }

    /// The same with another stdout.
    pub fn of_redirected(command: &mut Command, stdout: Stdio) -> Self {
        let child = command.stdout(stdout).stderr(Stdio::piped()).stdin(Stdio::null()).spawn();
        let Output { status, stdout, stderr } = child.unwrap().wait_with_output().unwrap();
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        let ran = Self { code: status.code().unwrap_or(-1), out: text(&stdout), err: text(&stderr) };
        assert!(!ran.err.contains("panicked"), "{ran:#?}");
        ran
    }

    /// Expects this exit code and these words in the output.
    pub fn expect(&self, code: i32, words: &[&str]) -> &Self {
        assert_eq!(self.code, code, "{self:#?}");
        for word in words {
            assert!(self.out.contains(word) || self.err.contains(word), "no {word:?} in {self:#?}");
        }
        self
    }
}

/// Writes a small skill with a script.
pub fn write_skill(folder: &Path, name: &str, version: &str) {
    let header = format!(
        "---\nname: {name}\ndescription: Does a thing. Use when tested.\nmetadata:\n  version: \"{version}\"\n---\n"
    );
    write(&folder.join("SKILL.md"), format!("{header}# {name} {version}\n"));
    write(&folder.join("references/guide.md"), format!("guide {version}\n"));
    let script = folder.join("scripts/run.py");
    write(&script, format!("#!/usr/bin/env python3\nprint('{version}')\n"));
    fs::set_permissions(script, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Writes a file and the folders above it.
pub fn write(path: &Path, text: impl AsRef<[u8]>) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Everything below a folder: files with their bytes and executable bit, links with their target.
pub fn snapshot(folder: impl AsRef<Path>) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    collect(folder.as_ref(), folder.as_ref(), &mut all);
    all
}

/// A snapshot of a skill's folder without its receipt.
pub fn tree(folder: impl AsRef<Path>) -> BTreeMap<String, String> {
    let mut all = snapshot(folder);
    all.remove(".kernels.json");
    all
}

fn collect(root: &Path, folder: &Path, all: &mut BTreeMap<String, String>) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let path = entry.path();
        let name = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
        let meta = fs::symlink_metadata(&path).unwrap();
        if meta.is_symlink() {
            all.insert(name, format!("→ {}", fs::read_link(&path).unwrap().display()));
        } else if meta.is_dir() {
            all.insert(format!("{name}/"), String::new());
            collect(root, &path, all);
        } else {
            let x = if meta.permissions().mode() & 0o100 == 0 { "-" } else { "x" };
            all.insert(name, format!("{x} {}", String::from_utf8_lossy(&fs::read(&path).unwrap())));
        }
    }
}

/// Whether an entry exists, including a dangling link.
pub fn exists(path: impl AsRef<OsStr>) -> bool {
    fs::symlink_metadata(Path::new(path.as_ref())).is_ok()
}
