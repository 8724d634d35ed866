//! One change of one install: journalled, staged, swapped in by one rename; if interrupted, the next run
//! finishes or undoes it.
//!
//! Wherever the process dies, [`Transaction::resume`] determines from the journal and the receipts which tree
//! belongs to whom, deletes only trees that are provably its own or unmodified, and keeps everything else as a
//! backup.

use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use super::area::{Held, KEPT, parse_backup};
use super::kept;
use super::place::{LINK_FILE_LIMIT, hint};
use super::receipt::{LIMIT as RECEIPT_LIMIT, Receipt};
use super::scan::{Change as FileChange, Scan};
use crate::base::dir::Dir;
use crate::base::disk;
use crate::skill::lint::is_valid_name;
use crate::skill::source::Skill;
use crate::skill::tree::{RECEIPT, Tree};

const JOURNAL: &str = "journal.json";
pub(super) const STAGED: &str = "new";
const OLD: &str = "old";
const TRASH: &str = "trash";
/// The receipt, before it has its name.
const BESIDE: &str = "receipt";
/// An upper bound: our journals are smaller.
const JOURNAL_LIMIT: u64 = 64 * 1024;

/// The journal, written before anything is changed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Journal {
    id: String,
    pub(super) change: Change,
    pub(super) skill: String,
    /// The skills folder's name in the host. Never a path: a journal in a cloned repository must
    /// not be able to name another folder.
    folder: String,
    /// Always keep the old tree as a backup.
    keep: bool,
    /// The fingerprint of the old tree when it was judged.
    old: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Change {
    Install,
    Link {
        to: PathBuf,
    },
    Remove,
    /// A backup is put back.
    Restore {
        backup: String,
        /// Tells it from what it replaces, wherever the two lie.
        identity: String,
    },
}

/// The outcome of an interrupted change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Recovered {
    pub(crate) what: String,
    /// The tree concerned.
    #[serde(serialize_with = "super::refusal::lossy")]
    pub(crate) path: PathBuf,
}

/// Said of a backup that an interrupted run had put back.
pub(crate) const RESTORED: &str = "restored: an earlier run was interrupted after putting it back";

/// How to treat the tree that a change replaces.
#[derive(Clone, Debug, Default)]
pub(crate) struct OldTree {
    /// Always keep it as a backup.
    pub(crate) keep: bool,
    /// Its fingerprint when it was judged; if it differs at the swap, the tree is kept as well.
    pub(crate) fingerprint: Option<String>,
}

/// The outcome for a replaced tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Settled {
    /// Its backup, if it was kept.
    pub(crate) backup: Option<PathBuf>,
    /// Where the remainder lies that the system would not delete.
    pub(crate) undeletable: Option<PathBuf>,
    /// It was to be removed, had been written to since it was judged, and is in its place again.
    pub(crate) put_back: bool,
    /// It had been written to since it was judged: the backup has what the merge lacks.
    pub(crate) late: bool,
    /// The oldest backups, deleted for the new one.
    pub(crate) pruned: Vec<PathBuf>,
}

impl Settled {
    /// What the user should know about it.
    pub(crate) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if let Some(left) = self.undeletable.as_deref() {
            let left = left.display();
            notes.push(format!("the old files could not all be deleted (permissions); the rest lies in {left}"));
        }
        if let Some(backup) = self.backup.as_ref().filter(|_| self.late) {
            let backup = backup.display();
            notes.push(format!("it was edited while the command ran; that edit is in the backup alone: {backup}"));
        }
        for pruned in &self.pruned {
            notes.push(format!("the last {KEPT} backups are kept; {} was deleted", pruned.display()));
        }
        notes
    }
}

/// Finishes or undoes the interrupted changes in an area.
pub(crate) fn recover_area(area: &Held) -> Result<Vec<Recovered>> {
    let mut recovered = Vec::new();
    for name in area.interrupted() {
        recovered.extend(Transaction::resume(area, &name)?);
    }
    area.sweep();
    area.tidy();
    Ok(recovered)
}

fn read_journal(at: &Dir) -> Option<Journal> {
    let journal: Journal = serde_json::from_slice(&at.read_plain(JOURNAL, JOURNAL_LIMIT).ok()?).ok()?;
    let folder_is_plain = matches!(journal.folder.as_str(), "" | "skills" | "skill");
    let backup_is_plain = match &journal.change {
        Change::Restore { backup, .. } => parse_backup(backup).is_some_and(|(skill, _)| skill == journal.skill),
        _ => true,
    };
    (folder_is_plain && backup_is_plain && is_valid_name(&journal.skill)).then_some(journal)
}

/// Removes the folder of a change that died before its journal was written: it has changed nothing.
fn remove_unstarted(root: &Dir, name: &str, at: &Dir) -> Result<()> {
    let started = [STAGED, OLD, TRASH].iter().any(|name| at.has(name));
    if started {
        bail!(
            "{} holds an interrupted change without a readable journal; look into it, keep what \
             you need, and remove it",
            at.path().display()
        );
    }
    root.delete(name).with_context(|| format!("cannot remove {}", at.path().display()))
}

#[derive(Debug)]
pub(crate) struct Transaction {
    pub(super) area: Held,
    pub(super) at: Dir,
    pub(super) journal: Journal,
}

impl Transaction {
    /// Starts a change of `skill` by writing its journal.
    pub(super) fn begin(area: &Held, skill: &str, change: Change, old: &OldTree) -> Result<Self> {
        let id = disk::unique();
        let journal = Journal {
            id,
            change,
            skill: skill.to_owned(),
            folder: area.folder_name().to_owned(),
            keep: old.keep,
            old: old.fingerprint.clone(),
        };
        let at = area.begin(&journal.id, old.keep).inspect_err(|_| area.tidy())?;
        let transaction = Self { area: area.again()?, at, journal };
        let bytes = serde_json::to_vec(&transaction.journal)?;
        // On the disk before anything else is: without it, nobody could tell whose the trees are.
        if let Err(error) = transaction.at.write_atomic(JOURNAL, &bytes, 0o644) {
            transaction.finish();
            let hint = hint(&error);
            return Err(error).with_context(|| format!("cannot write to {}{hint}", transaction.at.path().display()));
        }
        Ok(transaction)
    }

    /// Finishes or undoes the interrupted change in the folder of this name.
    fn resume(area: &Held, name: &str) -> Result<Vec<Recovered>> {
        let root = area.root()?;
        let at = root.dir(name)?;
        let Some(journal) = read_journal(&at) else {
            remove_unstarted(&root, name, &at)?;
            return Ok(Vec::new());
        };
        // A change starts from a folder's real path. A link here was put by somebody else, perhaps
        // by the repository, and could lead anywhere.
        if let Err(error) = area.skills(&journal.folder)
            && error.kind() != io::ErrorKind::NotFound
        {
            bail!(
                "{} holds an interrupted change of {}, which is a link or no folder; look into it, keep what you \
                 need, and remove it",
                at.path().display(),
                area.skills_path(&journal.folder).display()
            );
        }
        let transaction = Self { area: area.again()?, at, journal };
        let recovered = transaction
            .recover()
            .with_context(|| format!("cannot finish the interrupted change in {}", transaction.at.path().display()))?;
        transaction.finish();
        Ok(recovered)
    }

    /// Stages `tree` as a skill for the skills folder of `area`; the installed skill is unchanged. `base` is the skill's own
    /// text, to be kept.
    pub(crate) fn stage(
        area: &Held,
        skill: &Skill,
        tree: &Tree,
        base: &[u8],
        old: &OldTree,
        receipt: impl FnOnce(&str) -> Receipt,
    ) -> Result<Self> {
        let transaction = Self::begin(area, &skill.name, Change::Install, old)?;
        let receipt = receipt(&transaction.journal.id);
        if let Err(error) = transaction.write_staged(tree, receipt) {
            let hint = hint(&error);
            transaction.abandon();
            return Err(error)
                .with_context(|| format!("cannot stage {} in {}{hint}", skill.name, area.host().display()));
        }
        // Without it, the install is as good; only later merges may lack it.
        if transaction.keep_base(&kept::name(skill.digest), base).is_err() {
            let _ = transaction.at.delete(BESIDE);
        }
        Ok(transaction)
    }

    fn keep_base(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let folder = self.area.root()?.make_dir(kept::FOLDER)?;
        self.at.write_new(BESIDE, bytes, 0o644)?;
        self.at.move_over(BESIDE, &folder, name)
    }

    fn write_staged(&self, tree: &Tree, mut receipt: Receipt) -> io::Result<()> {
        let root = self.at.make_dir(STAGED)?;
        // The receipt is written first, atomically: it identifies the tree as ours.
        self.write_receipt(&root, &receipt)?;
        let written = tree.write(&root)?;
        if !written.modes {
            receipt.modes = false;
            self.write_receipt(&root, &receipt)?;
        }
        // A power cut may leave files empty that were not waited for. Then the receipt, which is on the disk, tells that
        // they are damaged, and `update` writes them again, where it has what to write.
        if receipt.source.is_repeatable() { Ok(()) } else { written.sync() }
    }

    fn write_receipt(&self, root: &Dir, receipt: &Receipt) -> io::Result<()> {
        let bytes = receipt.to_json().map_err(io::Error::other)?;
        self.at.write_new(BESIDE, &bytes, 0o644)?.sync_all()?;
        self.at.move_over(BESIDE, root, RECEIPT)
    }

    /// Stages a link to `to`, relative to the skills folder. `Ok(None)`: links are not supported.
    pub(crate) fn stage_link(area: &Held, skill: &str, to: &Path, old: &OldTree) -> Result<Option<Self>> {
        let change = Change::Link { to: to.to_path_buf() };
        let transaction = Self::begin(area, skill, change, old)?;
        match transaction.at.symlink(to, STAGED) {
            Ok(()) => Ok(Some(transaction)),
            Err(error) => {
                transaction.abandon();
                let no_links = matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::Unsupported);
                if no_links {
                    return Ok(None);
                }
                let hint = hint(&error);
                Err(error).with_context(|| format!("cannot create a link in {}{hint}", area.host().display()))
            }
        }
    }

    pub(crate) fn removal(area: &Held, skill: &str, old: &OldTree) -> Result<Self> {
        Self::begin(area, skill, Change::Remove, old)
    }

    pub(super) fn skills(&self) -> io::Result<Dir> {
        self.area.skills(&self.journal.folder)
    }

    fn dest(&self) -> PathBuf {
        self.area.skills_path(&self.journal.folder).join(&self.journal.skill)
    }

    /// Makes the change, in one rename where the file system supports it, and returns the outcome for
    /// the old tree.
    pub(crate) fn commit(self) -> Result<Settled> {
        match self.swap() {
            Err(error) => {
                let hint = match error.kind() {
                    io::ErrorKind::ResourceBusy => " (it is in use, perhaps a mount point)",
                    io::ErrorKind::AlreadyExists => " (it appeared just now; run the command again)",
                    _ => hint(&error),
                };
                let what = if self.journal.change == Change::Remove { "remove" } else { "put in place" };
                self.abandon();
                Err(error).with_context(|| format!("cannot {what} {}{hint}", self.dest().display()))
            }
            Ok(skills) => {
                self.keep_receipt(&skills);
                let kept = self.make_durable(&skills).and_then(|()| self.settle()).with_context(|| {
                    let dest = self.dest();
                    format!(
                        "{} is in place, but cleaning up failed; the next run of kernels goes on with it",
                        dest.display()
                    )
                })?;
                self.finish();
                Ok(kept)
            }
        }
    }

    fn swap(&self) -> io::Result<Dir> {
        let skills = self.skills()?;
        let name = &self.journal.skill;
        if self.journal.keep {
            // A user's work is moved: the way back to it must be on the disk first.
            self.at.sync()?;
            self.area.root()?.sync()?;
        }
        match &self.journal.change {
            Change::Remove => skills.move_new(name, &self.at, OLD)?,
            _ if skills.has(name) => self.replace(&skills)?,
            _ => self.at.move_new(STAGED, &skills, name)?,
        }
        Ok(skills)
    }

    fn replace(&self, skills: &Dir) -> io::Result<()> {
        let name = &self.journal.skill;
        if self.at.exchange(STAGED, skills, name)? {
            return Ok(());
        }
        // Two renames. A crash between them leaves the journal and both trees, and the next run restores
        // the old one.
        skills.move_new(name, &self.at, OLD)?;
        self.at.move_new(STAGED, skills, name).inspect_err(|_| {
            let _ = self.at.move_new(OLD, skills, name);
        })
    }

    fn make_durable(&self, skills: &Dir) -> io::Result<()> {
        if self.journal.keep {
            skills.sync()?;
            self.at.sync()?;
        }
        Ok(())
    }

    /// Gives the new tree the old one's receipt, byte for byte, where the two say the same: git is to see no change where
    /// files were only put back.
    fn keep_receipt(&self, skills: &Dir) {
        let keep = || -> Option<()> {
            let (new, old) = (skills.dir(&self.journal.skill).ok()?, self.at.dir(self.replaced()?).ok()?);
            let (says, said) = (Receipt::read_in(&new).ok()?, Receipt::read_in(&old).ok()?);
            if says.id == self.journal.id && said.says_the_same(&says) {
                let bytes = old.read_plain(RECEIPT, RECEIPT_LIMIT).ok()?;
                self.at.write_new(BESIDE, &bytes, 0o644).and_then(|file| file.sync_all()).ok()?;
                self.at.move_over(BESIDE, &new, RECEIPT).ok()?;
            }
            Some(())
        };
        if keep().is_none() {
            let _ = self.at.delete(BESIDE);
        }
    }

    /// The name of the tree that the change replaced, wherever the swap left it.
    fn replaced(&self) -> Option<&'static str> {
        [OLD, STAGED].into_iter().find(|tree| self.at.has(tree))
    }

    fn settle(&self) -> io::Result<Settled> {
        match self.replaced() {
            Some(tree) => self.settle_tree(tree),
            None => Ok(Settled::default()),
        }
    }

    /// Deletes a replaced tree, if it is what was judged. Otherwise it was written to meanwhile: it is put back if it was
    /// to be removed, and kept as a backup if something else has taken its place.
    fn settle_tree(&self, tree: &str) -> io::Result<Settled> {
        if self.journal.keep {
            let seen = || self.at.dir(tree).and_then(|folder| Scan::of(&folder)).map(|scan| scan.fingerprint());
            let late = self.journal.old.as_ref().is_some_and(|old| seen().is_ok_and(|seen| seen != *old));
            return Ok(Settled { late, ..self.keep(tree)? });
        }
        if let Some(link) = self.link_at(tree) {
            if self.journal.old == Some(link) {
                self.at.remove_file(tree)?;
                return Ok(Settled::default());
            }
        } else if let Ok(scan) = self.at.dir(tree).and_then(|folder| Scan::of(&folder))
            && self.journal.old == Some(scan.fingerprint())
        {
            return self.discard(tree, &scan);
        }
        if self.journal.change == Change::Remove
            && let Ok(skills) = self.skills()
            && self.at.move_new(tree, &skills, &self.journal.skill).is_ok()
        {
            skills.sync()?;
            return Ok(Settled { put_back: true, ..Settled::default() });
        }
        self.keep(tree)
    }

    /// The fingerprint of a link, or of one that git wrote as a file.
    fn link_at(&self, tree: &str) -> Option<String> {
        if let Ok(to) = self.at.read_link(tree) {
            return Some(link_fingerprint(&to));
        }
        let text = self.at.read_plain(tree, LINK_FILE_LIMIT).ok()?;
        Some(link_file_fingerprint(Path::new(std::str::from_utf8(&text).ok()?)))
    }

    fn to_backups(&self, tree: &str, skill: &str) -> io::Result<PathBuf> {
        self.area.move_to_backups(&self.at, tree, skill, &self.journal.folder)
    }

    fn keep(&self, tree: &str) -> io::Result<Settled> {
        let backup = self.to_backups(tree, &self.journal.skill)?;
        let pruned = self.area.prune(&self.journal.skill, &backup);
        Ok(Settled { backup: Some(backup), pruned, ..Settled::default() })
    }

    /// Removes the change's folder once it contains only the journal. If anything else is left, the
    /// journal stays for the next run.
    fn finish(&self) {
        let done = self.at.entries().is_ok_and(|entries| entries.iter().all(|entry| entry.name == JOURNAL));
        if done {
            self.area.sweep();
            let _ = self.at.remove_file(JOURNAL);
            let name = self.at.path().file_name().unwrap_or_default();
            let _ = self.area.root().and_then(|root| root.remove_dir(name));
        }
        self.area.tidy();
    }

    /// Deletes a tree that was judged, as it was seen then. The rename marks it for a later run, however many files are
    /// gone by then. What somebody has written into it since (an editor that had a file open) is kept.
    fn discard(&self, tree: &str, scan: &Scan) -> io::Result<Settled> {
        self.at.move_new(tree, &self.at, TRASH)?;
        if scan.delete_seen(&self.at.dir(TRASH)?)? {
            return Ok(Settled { undeletable: self.empty_trash()?, ..Settled::default() });
        }
        self.keep(TRASH)
    }

    /// Deletes the tree that this change staged.
    fn discard_staged(&self) -> io::Result<()> {
        self.at.move_new(STAGED, &self.at, TRASH)?;
        self.empty_trash().map(|_| ())
    }

    /// Deletes the trash. Files that the system will not delete (another user's bytecode, say) are moved aside, so that
    /// they do not block later changes.
    fn empty_trash(&self) -> io::Result<Option<PathBuf>> {
        // The receipt goes last: without it, a later run could not tell whose the rest is.
        if let Ok(trash) = self.at.dir(TRASH) {
            for entry in trash.entries().into_iter().flatten().filter(|entry| entry.name != RECEIPT) {
                let _ = trash.delete(&entry.name);
            }
        }
        match self.at.delete(TRASH) {
            Ok(()) => Ok(None),
            Err(_) => self.to_backups(TRASH, &format!("{}-rest", self.journal.skill)).map(Some),
        }
    }

    /// Settles a trash that an interrupted run left: some of its files are gone, and all others were judged, unless
    /// somebody wrote into it since.
    fn settle_trash(&self) -> io::Result<Option<PathBuf>> {
        if !self.at.has(TRASH) {
            return Ok(None);
        }
        let unedited = |trash: Dir| -> io::Result<bool> {
            let scan = Scan::of(&trash)?;
            Ok(match Receipt::read_in(&trash) {
                Ok(receipt) => scan.changes(&receipt.files, receipt.modes).iter().all(FileChange::is_loss),
                Err(_) => scan.is_empty(),
            })
        };
        let is_link = self.at.read_link(TRASH).is_ok();
        if is_link || self.is_ours(TRASH) || self.at.dir(TRASH).and_then(unedited).is_ok_and(|unedited| unedited) {
            self.empty_trash()?;
            return Ok(None);
        }
        self.to_backups(TRASH, &self.journal.skill).map(Some)
    }

    /// Abandons a change that has not touched the destination.
    pub(crate) fn abandon(&self) {
        let _ = self.at.delete(BESIDE);
        let _ = self.return_backup();
        if self.is_ours(STAGED) {
            let _ = self.discard_staged();
        }
        self.finish();
    }

    /// Whether the tree of this name is the one this change staged, not the one it replaced.
    fn is_ours(&self, tree: &str) -> bool {
        if let Ok(to) = self.at.read_link(tree) {
            // A link is defined by its target: equal links are interchangeable.
            return matches!(&self.journal.change, Change::Link { to: ours } if *ours == to);
        }
        let Ok(tree) = self.at.dir(tree) else {
            return false;
        };
        if matches!(self.journal.change, Change::Restore { .. }) {
            return false;
        }
        match Receipt::read_in(&tree) {
            Ok(receipt) => receipt.id == self.journal.id,
            Err(_) => tree.entries().is_ok_and(|entries| entries.is_empty()),
        }
    }

    fn recover(&self) -> io::Result<Vec<Recovered>> {
        let dest = self.dest();
        let mut kept: Vec<PathBuf> = self.settle_trash()?.into_iter().collect();
        self.at.delete(BESIDE)?;
        for entry in self.at.entries()? {
            // An incomplete journal or receipt.
            if entry.name.to_string_lossy().ends_with(".tmp") {
                self.at.delete(&entry.name)?;
            }
        }
        if self.at.has(STAGED) && self.is_ours(STAGED) {
            self.discard_staged()?;
        }
        let restored = self.return_backup()?;
        let mut recovered = Vec::new();
        let mut tell = |what: &str, path: PathBuf| recovered.push(Recovered { what: what.to_owned(), path });
        if self.at.has(OLD) && self.journal.change != Change::Remove {
            let skills = self.skills()?;
            if !skills.has(&self.journal.skill) {
                self.at.move_new(OLD, &skills, &self.journal.skill)?;
                skills.sync()?;
                tell("put back: an earlier run was interrupted while replacing it", dest.clone());
            }
        }
        let removing = self.journal.change == Change::Remove && self.at.has(OLD);
        let settled = self.settle()?;
        match (removing, settled.put_back) {
            (true, true) => tell("put back: it was edited while an earlier run was removing it", dest),
            (true, false) => tell("removed: an earlier run was interrupted while removing it", dest),
            (false, _) if restored => tell(RESTORED, dest),
            (false, _) => {}
        }
        kept.extend(settled.backup);
        for backup in kept {
            tell("kept: an earlier run was interrupted after replacing it", backup);
        }
        Ok(recovered)
    }
}

/// The fingerprint of a link that git wrote as a file.
pub(crate) fn link_file_fingerprint(to: &Path) -> String {
    format!("link file {}", to.display())
}

/// The fingerprint of a link in a journal.
pub(crate) fn link_fingerprint(to: &Path) -> String {
    format!("link {}", to.display())
}
