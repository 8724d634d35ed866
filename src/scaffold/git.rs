//! The git repository of a new project.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Output;

use serde::Serialize;

use crate::base::git::git_in;

/// The result of starting the repository.
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
    /// The project is inside another repository.
    Inside {
        /// The other repository's top folder.
        #[serde(serialize_with = "crate::install::refusal::lossy")]
        root: PathBuf,
    },
    /// git is not in PATH.
    NoGit,
    /// Git could not start one.
    Failed {
        /// What git said.
        why: String,
    },
    /// No repository was wanted.
    NotWanted,
}

impl Repository {
    /// The sentence for the user.
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

/// Overrides the user's settings that would make this commit wait for input or leave a process behind, and keeps git from
/// making up an email address.
const SETTINGS: [&str; 4] = ["commit.gpgSign=false", "gc.auto=0", "maintenance.auto=false", "user.useConfigOnly=true"];

/// Starts a repository in a folder that is in none, with all its files as the first commit.
pub(super) fn start(folder: &Path, message: &str) -> Repository {
    let git = |arguments: &[&str]| {
        git_in(folder).args(SETTINGS.iter().flat_map(|setting| ["-c", setting])).args(arguments).output()
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
    // With --force, because the user's own list of ignored files may name files of the project.
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

/// The line of git's output that says what is wrong.
fn said(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines()
        .find(|line| line.starts_with("fatal:") || line.starts_with("error:"))
        .or_else(|| lines().next())
        .map_or_else(|| output.status.to_string(), ToOwned::to_owned)
}
