//! The skills that this binary carries.

use std::path::Path;

use include_dir::{Dir, include_dir};

use super::path::RelPath;
use super::tree::{Entry, Tree, has_shebang, is_left_behind};

static SKILLS: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/skills");

/// The skill that commands mean when none is named.
pub const DEFAULT: &str = "cuda-kernels";

/// The names of all embedded skills, sorted.
pub fn names() -> Vec<&'static str> {
    let mut names: Vec<_> = SKILLS
        .dirs()
        .filter_map(|dir| dir.path().to_str())
        .filter(|n| !is_left_behind(n))
        .collect();
    names.sort_unstable();
    names
}

/// The files of an embedded skill.
pub fn tree(name: &str) -> Option<Tree> {
    let dir = SKILLS.get_dir(name)?;
    let mut tree = Tree::default();
    add(&mut tree, dir, Path::new(name))?;
    Some(tree)
}

/// Embedding keeps no permission bits, so a file is executable when its first line says so. A test
/// holds this against the bits in the repository, and every embedded name against [`RelPath`].
fn add(tree: &mut Tree, dir: &'static Dir<'static>, root: &Path) -> Option<()> {
    for file in dir.files() {
        let inside = file.path().strip_prefix(root).ok()?.to_str()?;
        let path = RelPath::parse(inside).ok()?;
        if is_left_behind(path.file_name()) {
            continue;
        }
        let content = file.contents();
        let entry = Entry {
            executable: has_shebang(content),
            content: content.into(),
        };
        tree.insert(path, entry).ok()?;
    }
    for below in dir.dirs() {
        let name = below.path().file_name()?.to_str()?;
        if !is_left_behind(name) {
            add(tree, below, root)?;
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_embedded_is_what_lies_in_the_repository() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("skills");
        assert!(names().contains(&DEFAULT));
        for name in names() {
            assert_eq!(
                tree(name).unwrap(),
                Tree::read(&root.join(name)).unwrap(),
                "{name}"
            );
        }
    }
}
