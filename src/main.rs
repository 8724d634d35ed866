//! The `kernels` command: parse, dispatch, exit code.
//!
//! The embedded files and the commit belong to this file alone, so that an edit of a skill or a commit compiles it and
//! not the library.

use std::process::ExitCode;

use include_dir::include_dir;
use kernels::base::bundle::{self, Bundle};
use kernels::cli::suggest;
use kernels::command;

static BUNDLE: Bundle = Bundle {
    skills: include_dir!("$CARGO_MANIFEST_DIR/skills"),
    kernels: include_dir!("$CARGO_MANIFEST_DIR/kernels"),
    scaffold: include_dir!("$CARGO_MANIFEST_DIR/scaffold"),
    revision: if let Some(packager) = option_env!("KERNELS_REVISION") {
        Some(packager)
    } else {
        kernels_revision::revision!(".")
    },
};

fn main() -> ExitCode {
    bundle::set(&BUNDLE);
    command::answer_shell();
    command::run(suggest::parse(std::env::args_os()).unwrap_or_else(|error| error.exit()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::process::Command;

    use super::*;

    /// Cargo watches the files that were embedded, and cannot watch for new ones.
    #[test]
    #[allow(clippy::unwrap_used, reason = "a test")]
    fn what_is_embedded_is_what_git_tracks() {
        let root = env!("CARGO_MANIFEST_DIR");
        let listed =
            Command::new("git").args(["-C", root, "ls-files", "-z", "skills", "kernels", "scaffold"]).output().unwrap();
        if !listed.status.success() {
            return;
        }
        let listed = String::from_utf8(listed.stdout).unwrap();
        let exists = |path: &&str| std::path::Path::new(root).join(path).exists();
        let tracked: BTreeSet<&str> = listed.split_terminator('\0').filter(exists).collect();
        let files = ["skills", "kernels", "scaffold"].map(|top| BUNDLE.files(top));
        let embedded: BTreeSet<&str> = files.iter().flatten().map(|(path, _)| &**path).collect();
        let missing: Vec<_> = tracked.difference(&embedded).collect();
        let untracked: Vec<_> = embedded.difference(&tracked).collect();
        assert!(missing.is_empty(), "not embedded yet; `touch src/main.rs` and build again: {missing:?}");
        assert!(
            untracked.is_empty(),
            "embedded, but not tracked by git; add or delete, then `touch src/main.rs`: {untracked:?}"
        );
    }
}
