//! The embedded skills.

use std::sync::LazyLock;

use super::path::RelPath;
use super::tree::{Entry, Tree, has_shebang};
use crate::base::bundle::{self, Files};

/// The files by their path in the repository: `skills/NAME/…`.
static FILES: LazyLock<Files> = LazyLock::new(|| bundle::files("skills"));

/// The default skill of the commands.
pub(crate) const DEFAULT: &str = "cuda-kernels";

/// The names of all embedded skills, sorted.
pub fn names() -> Vec<&'static str> {
    let mut names: Vec<_> = FILES.keys().filter_map(|path| path.split('/').nth(1)).collect();
    names.dedup();
    names.sort_unstable();
    names
}

/// The files of an embedded skill.
///
/// Embedding keeps no permission bits, so a file is executable when its first line says so. A test
/// compares this with the bits in the repository, and every embedded name with [`RelPath`].
pub(crate) fn tree(name: &str) -> Option<Tree> {
    let folder = format!("skills/{name}/");
    let mut tree = Tree::default();
    for (path, content) in FILES.range(folder.clone()..) {
        let Some(inside) = path.strip_prefix(&folder) else {
            break;
        };
        let entry = Entry { executable: has_shebang(content), content: (*content).into() };
        tree.insert(RelPath::parse(inside).ok()?, entry).ok()?;
    }
    let is_there = tree.iter().next().is_some();
    is_there.then_some(tree)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn what_is_embedded_is_what_lies_in_the_repository() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("skills");
        assert!(names().contains(&DEFAULT));
        for name in names() {
            assert_eq!(tree(name).unwrap(), Tree::read(&root.join(name)).unwrap(), "{name}");
        }
    }
}
