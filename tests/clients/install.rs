//! The pinned clients: where `tests/clients/setup` installed them, or why they are missing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::support::{Ran, not_run};

/// The programs of the real agents.
pub(crate) struct Programs {
    pub(crate) codex: PathBuf,
    pub(crate) opencode: PathBuf,
    pub(crate) claude: PathBuf,
    /// A script, run by `node`.
    pub(crate) gemini: PathBuf,
    pub(crate) node: PathBuf,
    pub(crate) copilot: PathBuf,
    /// The files that Copilot CLI unpacks on its first run.
    pub(crate) copilot_unpacked: PathBuf,
    /// Scripts too, of `tests/clients/more`.
    pub(crate) qwen: PathBuf,
    pub(crate) kimi: PathBuf,
    pub(crate) continues: PathBuf,
}

/// The programs; `None` if they cannot be installed on this machine, which is then printed.
/// Under CI that is a failure: a test that tested nothing must not pass.
pub(crate) fn programs() -> Option<&'static Programs> {
    static PROGRAMS: OnceLock<Result<Programs, String>> = OnceLock::new();
    match PROGRAMS.get_or_init(find) {
        Ok(programs) => Some(programs),
        Err(reason) => {
            let line = reason.lines().last().unwrap_or_default();
            not_run(&format!("no clients to test with: {line}"));
            None
        }
    }
}

/// Installs the packages of a folder of `tests/clients`; the first run downloads some 600 MB, and 60 for `more`.
fn installed(packages: &str) -> Result<PathBuf, String> {
    let clients = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients");
    let finished = Ran::of(Command::new(clients.join("setup")).arg(clients.join(packages)));
    if finished.code != 0 {
        return Err(finished.err.trim_end().to_owned());
    }
    Ok(PathBuf::from(finished.out.trim_end()))
}

fn find() -> Result<Programs, String> {
    let (installed, more) = (installed("")?, installed("more")?);
    let (modules, more) = (installed.join("node_modules"), more.join("node_modules"));
    Ok(Programs {
        codex: program(&modules, &["@openai", "codex-*", "vendor", "*", "bin", "codex"])?,
        opencode: program(&modules, &["opencode-*", "bin", "opencode"])?,
        claude: program(&modules, &["@anthropic-ai", "claude-code-*", "claude"])?,
        gemini: program(&modules, &["@google", "gemini-cli", "bundle", "gemini.js"])?,
        node: program(&modules, &["node-linux-*", "bin", "node"])?,
        copilot: program(&modules, &["@github", "copilot-*", "copilot"])?,
        copilot_unpacked: installed.join("copilot"),
        qwen: program(&more, &["@qwen-code", "qwen-code", "cli-entry.js"])?,
        kimi: program(&more, &["@moonshot-ai", "kimi-code", "dist", "main.mjs"])?,
        continues: program(&more, &["@continuedev", "cli", "dist", "cn.js"])?,
    })
}

/// The file below `folder` at a path in which `*` ends a name: the packages are named after systems.
fn program(folder: &Path, pattern: &[&str]) -> Result<PathBuf, String> {
    fn walk(folder: PathBuf, pattern: &[&str]) -> Option<PathBuf> {
        let Some((first, rest)) = pattern.split_first() else {
            return folder.is_file().then_some(folder);
        };
        let Some(prefix) = first.strip_suffix('*') else {
            return walk(folder.join(first), rest);
        };
        fs::read_dir(&folder)
            .ok()?
            .flatten()
            .find_map(|entry| entry.file_name().to_str()?.starts_with(prefix).then(|| walk(entry.path(), rest))?)
    }
    walk(folder.to_owned(), pattern)
        .ok_or_else(|| format!("{} has no {}: not published for this system?", folder.display(), pattern.join("/")))
}
