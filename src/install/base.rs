//! The text of what was installed, which edits are compared and merged with once the source has another version.
//!
//! Most files of a new version are those of the old one; the area keeps the others (`kept.rs`). Areas are not committed: in
//! a clone, git has the text, in the commit that last changed the receipt. Wherever a file comes from, it counts only if it
//! has the digest of the receipt.

use std::cell::OnceCell;
use std::io::Cursor;
use std::path::Path;
use std::process::Stdio;

use super::area::Area;
use super::kept;
use super::receipt::Receipt;
use crate::base::git::git_in;
use crate::skill::archive::{self, MAX_ARCHIVE};
use crate::skill::digest::Digest;
use crate::skill::path::RelPath;
use crate::skill::source::Skill;
use crate::skill::tree::{Entry, RECEIPT, Tree};

/// Where the installed text of a skill's files may be found.
pub(crate) struct Base<'a> {
    /// The skill's folder.
    folder: &'a Path,
    receipt: &'a Receipt,
    /// What is on offer now.
    offer: Option<&'a Tree>,
    kept: Option<Tree>,
    commit: OnceCell<Option<String>>,
}

impl<'a> Base<'a> {
    pub(crate) fn of(folder: &'a Path, receipt: &'a Receipt, offer: Option<&'a Skill>) -> Self {
        let area = folder.parent().map(Area::of);
        let bytes = area.and_then(|area| {
            let base = area.open().and_then(|root| root.dir(kept::FOLDER)).ok()?;
            base.read_plain(kept::name(receipt.tree), MAX_ARCHIVE).ok()
        });
        let kept = bytes.and_then(|bytes| Some(archive::read(Cursor::new(bytes)).ok()?.1));
        Self { folder, receipt, offer: offer.map(|skill| &skill.tree), kept, commit: OnceCell::new() }
    }

    /// A file as it was installed, if its text is still to be found.
    pub(crate) fn get(&self, path: &str) -> Option<Entry> {
        let path = RelPath::parse(path).ok()?;
        let digest = self.receipt.files.get(&path)?;
        let trees = [self.offer, self.kept.as_ref()].into_iter().flatten();
        let found =
            trees.filter_map(|tree| tree.get(path.as_str())).find(|entry| Digest::of_file(&path, entry) == *digest);
        found.cloned().or_else(|| {
            let content = self.of_git(&path)?;
            let entry = |executable| Entry { executable, content: content.clone().into() };
            [entry(false), entry(true)].into_iter().find(|entry| Digest::of_file(&path, entry) == *digest)
        })
    }

    fn of_git(&self, path: &RelPath) -> Option<Vec<u8>> {
        let commit = self.commit.get_or_init(|| {
            let commit = self.git(&["rev-list", "-1", "HEAD", "--", RECEIPT])?;
            String::from_utf8(commit)
                .ok()
                .map(|commit| commit.trim_end().to_owned())
                .filter(|commit| !commit.is_empty())
        });
        self.git(&["cat-file", "blob", &format!("{}:./{path}", commit.as_deref()?)])
    }

    /// What git answers; nothing is fetched, also where the clone is a partial one.
    fn git(&self, arguments: &[&str]) -> Option<Vec<u8>> {
        let output = git_in(self.folder).args(arguments).stderr(Stdio::null()).output().ok()?;
        output.status.success().then_some(output.stdout)
    }
}
