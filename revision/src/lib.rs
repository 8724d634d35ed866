//! `revision!("..")`: the git commit of the sources, as an `Option<&'static str>`.
//!
//! A macro instead of a build script, because a build script invalidates every target of its package: with one,
//! each commit recompiles the library and all test programs. With the macro, only its users are recompiled when HEAD moves.

use std::path::{Path, PathBuf};
use std::process::Command;

use proc_macro::TokenStream;

/// The commit, to ten digits. The argument leads from the package's folder to the repository's root. `None` without git,
/// and for sources that were unpacked inside another repository, whose commit would be wrong.
#[proc_macro]
pub fn revision(root: TokenStream) -> TokenStream {
    let root = root.to_string();
    let package = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default();
    let root = Path::new(&package).join(root.trim_matches('"'));
    let code = match of(&root) {
        // include_bytes! makes cargo watch the file: git appends to it whenever HEAD moves.
        Some((commit, log)) => {
            format!("{{ const _: &[u8] = ::core::include_bytes!({log:?}); ::core::option::Option::Some({commit:?}) }}")
        }
        None => "::core::option::Option::None::<&'static str>".to_owned(),
    };
    code.parse().unwrap_or_default()
}

/// The commit, and the log of HEAD.
fn of(root: &Path) -> Option<(String, PathBuf)> {
    root.join(".git").exists().then_some(())?;
    let git = |arguments: &[&str]| {
        let output = Command::new("git").arg("-C").arg(root).args(arguments).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        let text = text.trim().to_owned();
        (output.status.success() && !text.is_empty()).then_some(text)
    };
    let commit = git(&["rev-parse", "--short=10", "HEAD"])?;
    // Relative to git's current folder, unless the repository is a worktree.
    let head = root.join(git(&["rev-parse", "--git-path", "HEAD"])?);
    let log = root.join(git(&["rev-parse", "--git-path", "logs/HEAD"])?);
    let watched = if log.is_file() { log } else { head };
    Some((commit, watched.canonicalize().ok()?))
}
