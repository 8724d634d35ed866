//! Finding the project that a folder belongs to.

use std::path::{Path, PathBuf};

/// The nearest folder at or above `from` that holds `.git`: a folder in a clone, a file in a
/// worktree or a submodule.
pub(crate) fn git_root(from: &Path) -> Option<PathBuf> {
    from.ancestors().find(|folder| folder.join(".git").exists()).map(Path::to_path_buf)
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
