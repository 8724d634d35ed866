//! `git` in a folder that may hold what a stranger wrote.

use std::path::Path;
use std::process::{Command, Stdio};

/// Variables that would make git use another repository: hooks have them.
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

/// A clone may carry a bare repository among its files, whose settings name programs to run; with `safe.bareRepository` git does
/// not take such a folder for a repository.
const SETTINGS: [&str; 3] = ["core.fsmonitor=false", "core.hooksPath=/dev/null", "safe.bareRepository=explicit"];

/// A command in this folder and its repository, which waits for no input and fetches nothing.
pub(crate) fn git_in(folder: &Path) -> Command {
    let mut command = Command::new("git");
    for variable in ELSEWHERE {
        command.env_remove(variable);
    }
    command.args(SETTINGS.iter().flat_map(|setting| ["-c", setting])).arg("-C").arg(folder);
    // Old versions of git know neither safe.bareRepository nor GIT_NO_LAZY_FETCH. No setting overrides GIT_ALLOW_PROTOCOL.
    command.env("GIT_ALLOW_PROTOCOL", "none").env("GIT_NO_LAZY_FETCH", "1").env("GIT_TERMINAL_PROMPT", "0");
    command.env("LC_ALL", "C").stdin(Stdio::null());
    command
}
