//! Finding the project that a folder belongs to.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// The nearest folder at or above `from` that holds `.git`: a folder in a clone, a file in a
/// worktree or a submodule.
pub(crate) fn git_root(from: &Path) -> Option<PathBuf> {
    let is_there = |folder: &&Path| folder.join(".git").metadata().is_ok_and(|git| !is_planted(folder, &git));
    from.ancestors().find(is_there).map(Path::to_path_buf)
}

/// Whether a stranger may have made it, to be the project of whoever works below: in a folder such as /tmp anybody can.
fn is_planted(folder: &Path, git: &Metadata) -> bool {
    let is_mine = [0, rustix::process::geteuid().as_raw()].contains(&git.uid());
    !is_mine && folder.metadata().is_ok_and(|folder| folder.mode() & 0o002 != 0)
}

/// The folders from `from` up to `root`, both included, nearest first.
pub(crate) fn up_to<'a>(from: &'a Path, root: &'a Path) -> impl Iterator<Item = &'a Path> {
    from.ancestors().take_while(move |folder| folder.starts_with(root))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_repository_wins() {
        let temp = tempfile::tempdir().unwrap();
        let outer = temp.path().join("outer");
        let inner = outer.join("a/inner");
        std::fs::create_dir_all(inner.join("src/deep")).unwrap();
        std::fs::create_dir(outer.join(".git")).unwrap();
        std::fs::write(inner.join(".git"), "gitdir: elsewhere").unwrap();
        assert_eq!(git_root(&inner.join("src/deep")), Some(inner.clone()));
        assert_eq!(git_root(&outer.join("a")), Some(outer.clone()));
        let deep = inner.join("src/deep");
        let between: Vec<_> = up_to(&deep, &inner).collect();
        assert_eq!(between, [deep.as_path(), &inner.join("src"), &inner]);
    }
}
