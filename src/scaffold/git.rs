//! The repository that a new project begins with.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde::Serialize;

/// What became of the repository.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub(crate) enum Repository {
    /// It was started, and all files are its first commit.
    Committed,
    /// It was started and the files are added, but there is no commit.
    Added {
        /// What git said.
        why: String,
    },
    /// The project lies in a repository already.
    Inside {
        /// That one's top.
        #[serde(serialize_with = "crate::install::refusal::lossy")]
        root: PathBuf,
    },
    /// There is no git to run.
    NoGit,
    /// Git could not start one.
    Failed {
        /// What git said.
        why: String,
    },
    /// None was wanted.
    NotWanted,
}

impl Repository {
    /// What a person should know of it.
    pub(crate) fn sentence(&self) -> String {
        match self {
            Self::Committed => "a git repository with a first commit".to_owned(),
            Self::Added { why } => {
                format!("a git repository; its files are added and not committed, for git said: {why}")
            }
            Self::Inside { root } => {
                format!("no git repository was started, for it lies in that of {}", root.display())
            }
            Self::NoGit => "no git repository was started, for git is not in PATH".to_owned(),
            Self::Failed { why } => {
                format!("no git repository could be started, for git said: {why}")
            }
            Self::NotWanted => "no git repository was started, as --no-git says".to_owned(),
        }
    }
}

/// Variables that would lead git to another repository.
const ELSEWHERE: [&str; 8] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_COMMON_DIR",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_NAMESPACE",
    "GIT_PREFIX",
];

/// Settings of a person's own that a machine-made commit must not wait for, or leave a process behind for; and an
/// address that git would make up is none to commit with.
const SETTINGS: [&str; 6] = [
    "commit.gpgSign=false",
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "user.useConfigOnly=true",
];

/// Starts a repository in a folder that lies in none, with all its files as the first commit.
pub(super) fn start(folder: &Path, message: &str) -> Repository {
    let git = |arguments: &[&str]| {
        let mut command = Command::new("git");
        for variable in ELSEWHERE {
            command.env_remove(variable);
        }
        for setting in SETTINGS {
            command.args(["-c", setting]);
        }
        command
            .arg("-C")
            .arg(folder)
            .args(arguments)
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .output()
    };
    let has_branch = git(&["config", "--get", "init.defaultBranch"]).is_ok_and(|output| output.status.success());
    let start: &[&str] =
        if has_branch { &["init", "--quiet"] } else { &["-c", "init.defaultBranch=main", "init", "--quiet"] };
    match git(start) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Repository::NoGit,
        Err(error) => {
            return Repository::Failed { why: error.to_string() };
        }
        Ok(output) if !output.status.success() => {
            let _ = crate::base::disk::delete(&folder.join(".git"));
            return Repository::Failed { why: said(&output) };
        }
        Ok(_) => {}
    }
    // By force: what a person's own list of ignored files names is part of the project all the same.
    for arguments in
        [&["add", "--all", "--force"] as &[&str], &["commit", "--quiet", "--no-verify", "--message", message]]
    {
        match git(arguments) {
            Ok(output) if output.status.success() => {}
            Ok(output) => return Repository::Added { why: said(&output) },
            Err(error) => {
                return Repository::Added { why: error.to_string() };
            }
        }
    }
    Repository::Committed
}

/// The line of an answer that says what is wrong.
fn said(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines()
        .find(|line| line.starts_with("fatal:") || line.starts_with("error:"))
        .or_else(|| lines().next())
        .map_or_else(|| output.status.to_string(), ToOwned::to_owned)
}
