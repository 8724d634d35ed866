//! The texts of installed skills that an area keeps, in `base/DIGEST.skill` by the digest of the tree, as long as a receipt
//! names that digest.

use std::collections::BTreeSet;
use std::io;

use rustix::fs::FileType;

use super::receipt::{Receipt, ReceiptError};
use crate::base::dir::Dir;
use crate::skill::archive;
use crate::skill::digest::Digest;
use crate::skill::source::Skill;
use crate::skill::tree::Tree;

/// Their folder in an area.
pub(super) const FOLDER: &str = "base";

/// The text files of a skill, compressed for speed: this is part of every install.
pub(super) fn pack(skill: &Skill) -> Vec<u8> {
    let mut texts = Tree::default();
    for (path, entry) in skill.tree.iter().filter(|(_, entry)| std::str::from_utf8(&entry.content).is_ok()) {
        // A part of a valid tree is one as well.
        let _ = texts.insert(path.clone(), entry.clone());
    }
    archive::pack_quickly(&skill.name, &texts).unwrap_or_default()
}

/// The name under which the text of a tree is kept.
pub(super) fn name(tree: Digest) -> String {
    format!("{tree}.{}", archive::EXTENSION)
}

/// The kept texts in the area `root` of `host` that no receipt names: of an install in the skills folder called `folder`,
/// of a backup, or of a change under way.
pub(super) fn unused(host: &Dir, folder: &str, root: &Dir) -> Vec<String> {
    let kept = root.dir(FOLDER).and_then(|base| base.entries()).unwrap_or_default();
    let kept: Vec<String> = kept.into_iter().filter_map(|entry| entry.name.into_string().ok()).collect();
    if kept.is_empty() {
        return kept;
    }
    // Where something cannot be read, it may name any of them.
    let Ok(named) = named(host, folder, root) else {
        return Vec::new();
    };
    kept.into_iter().filter(|name| !named.contains(name)).collect()
}

fn named(host: &Dir, folder: &str, root: &Dir) -> Result<BTreeSet<String>, ReceiptError> {
    // A host may have both; where it is the skills folder itself, it has neither.
    let skills = if folder.is_empty() {
        vec![host.again()?]
    } else {
        folders(host, |name| ["skills", "skill"].contains(&name))?
    };
    let mut named = BTreeSet::new();
    for folder in skills.into_iter().chain(folders(root, |name| name != FOLDER)?) {
        for tree in folders(&folder, |_| true)? {
            match Receipt::read_in(&tree) {
                Ok(receipt) => drop(named.insert(name(receipt.tree))),
                Err(ReceiptError::Io(error)) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(named)
}

fn folders(at: &Dir, wanted: impl Fn(&str) -> bool) -> io::Result<Vec<Dir>> {
    let all = at.entries()?.into_iter().filter(|entry| entry.kind == FileType::Directory);
    all.filter(|entry| wanted(&entry.name.to_string_lossy())).map(|entry| at.dir(&entry.name)).collect()
}
