//! A fresh home and a fresh git project for one test, and `kernels` run in them.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use crate::process::{Finished, run, run_and_kill};

const LIMIT: Duration = Duration::from_secs(30);

/// The two folders of a test, removed when it ends.
pub(crate) struct Sandbox {
    pub(crate) home: PathBuf,
    pub(crate) project: PathBuf,
    /// A folder below the project, from which an agent may be started.
    pub(crate) subfolder: PathBuf,
    _folder: TempDir,
}

impl Sandbox {
    /// A home, and a project that is a git repository.
    pub(crate) fn new() -> Self {
        let sandbox = Self::without_git();
        sandbox.git(&sandbox.project, &["init", "--quiet"]);
        sandbox
    }

    /// A home, and a project that is a plain folder.
    pub(crate) fn without_git() -> Self {
        let folder = TempDir::with_prefix("kernels-clients-")
            .unwrap_or_else(|error| panic!("cannot make a temporary folder: {error}"));
        // Clients print resolved paths, so compare with resolved paths from the start.
        let root = canonical(folder.path());
        let sandbox = Self {
            home: root.join("home"),
            project: root.join("project"),
            subfolder: root.join("project/src/deep"),
            _folder: folder,
        };
        create(&sandbox.home);
        create(&sandbox.subfolder);
        sandbox
    }

    /// `program`, to be run in `folder`, with HOME and PATH and nothing else in its environment.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>, folder: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(folder)
            .env_clear()
            .env("HOME", &self.home)
            .env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command
    }

    /// Runs `kernels` at the top of the project with the words that a user would type.
    pub(crate) fn kernels(&self, typed: &str) -> Finished {
        self.kernels_in(&self.project, typed)
    }

    /// Runs `kernels` in `folder`.
    pub(crate) fn kernels_in(&self, folder: &Path, typed: &str) -> Finished {
        run(&mut self.kernels_command(folder, typed), LIMIT)
    }

    /// Starts `kernels` at the top of the project and kills it after `delay`.
    pub(crate) fn kernels_killed_after(&self, delay: Duration, typed: &str) {
        run_and_kill(&mut self.kernels_command(&self.project, typed), delay);
    }

    fn kernels_command(&self, folder: &Path, typed: &str) -> Command {
        let mut command = self.command(env!("CARGO_BIN_EXE_kernels"), folder);
        command.args(typed.split_whitespace());
        command
    }

    /// Runs `git` in `folder`.
    pub(crate) fn git(&self, folder: &Path, arguments: &[&str]) {
        let mut command = self.command("git", folder);
        command.args(["-c", "user.name=t", "-c", "user.email=t@example.invalid"]).args(arguments);
        run(&mut command, LIMIT).expect_code(0);
    }
}

/// `path` with every symlink resolved.
pub(crate) fn canonical(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|error| panic!("no {}: {error}", path.display()))
}

pub(crate) fn create(folder: &Path) {
    fs::create_dir_all(folder).unwrap_or_else(|error| panic!("cannot make {}: {error}", folder.display()));
}

pub(crate) fn read(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_else(|error| panic!("cannot read {}: {error}", file.display()))
}

pub(crate) fn write(file: &Path, text: &str) {
    if let Some(folder) = file.parent() {
        create(folder);
    }
    fs::write(file, text).unwrap_or_else(|error| panic!("cannot write {}: {error}", file.display()));
}
