//! One change of one install: journalled, staged, swapped in by one rename; if interrupted, the next run
//! finishes or undoes it.
//!
//! Wherever the process dies, [`Transaction::resume`] determines from the journal and the receipts which tree
//! belongs to whom, deletes only trees that are provably its own or unmodified, and keeps everything else as a
//! backup.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use super::area::Area;
use super::place::hint;
use super::receipt::Receipt;
use super::scan::Scan;
use crate::base::disk;
use crate::skill::lint::is_valid_name;
use crate::skill::source::Skill;
use crate::skill::tree::RECEIPT;

const JOURNAL: &str = "journal.json";
const STAGED: &str = "new";
const OLD: &str = "old";
const TRASH: &str = "trash";
/// An upper bound: our journals are smaller.
const JOURNAL_LIMIT: u64 = 64 * 1024;

/// The journal, written before anything is changed.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Journal {
    id: String,
    change: Change,
    skill: String,
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
enum Change {
    Install,
    Link { to: PathBuf },
    Remove,
}

/// The outcome of an interrupted change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Recovered {
    pub(crate) what: String,
    /// The tree concerned.
    #[serde(serialize_with = "super::refusal::lossy")]
    pub(crate) path: PathBuf,
}

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
}

impl Settled {
    /// What the user should know about it.
    pub(crate) fn note(&self) -> Option<String> {
        let left = self.undeletable.as_deref()?;
        Some(format!("the old files could not all be deleted (permissions); the rest lies in {}", left.display()))
    }
}

/// Finishes or undoes the interrupted changes in an area. Its host must be locked.
pub(crate) fn recover_area(area: &Area) -> Result<Vec<Recovered>> {
    let mut recovered = Vec::new();
    for at in area.interrupted() {
        recovered.extend(Transaction::resume(area, &at)?);
    }
    area.tidy();
    Ok(recovered)
}

fn read_journal(at: &Path) -> Option<Journal> {
    let journal: Journal = serde_json::from_slice(&disk::read_plain(&at.join(JOURNAL), JOURNAL_LIMIT).ok()?).ok()?;
    let folder_is_plain = matches!(journal.folder.as_str(), "" | "skills" | "skill");
    (folder_is_plain && is_valid_name(&journal.skill)).then_some(journal)
}

/// Removes the folder of a change that died before its journal was written: it has changed nothing.
fn remove_unstarted(at: &Path) -> Result<()> {
    let started = [STAGED, OLD, TRASH].iter().any(|name| fs::symlink_metadata(at.join(name)).is_ok());
    if started {
        bail!(
            "{} holds an interrupted change without a readable journal; look into it, keep what \
             you need, and remove it",
            at.display()
        );
    }
    disk::delete(at).with_context(|| format!("cannot remove {}", at.display()))
}

#[derive(Debug)]
pub(crate) struct Transaction {
    area: Area,
    at: PathBuf,
    journal: Journal,
}

impl Transaction {
    /// Starts a change of `skill` by writing its journal.
    fn begin(area: &Area, skill: &str, change: Change, old: &OldTree) -> Result<Self> {
        let id = disk::unique();
        let at = area.transaction(&id);
        let journal = Journal {
            id,
            change,
            skill: skill.to_owned(),
            folder: area.folder_name().to_owned(),
            keep: old.keep,
            old: old.fingerprint.clone(),
        };
        area.create_root(old.keep).inspect_err(|_| area.tidy())?;
        let written = fs::create_dir(&at).and_then(|()| {
            let bytes = serde_json::to_vec(&journal).map_err(io::Error::other)?;
            disk::write_atomic(&at.join(JOURNAL), &bytes, 0o644)
        });
        if let Err(error) = written {
            let _ = disk::delete(&at);
            area.tidy();
            let hint = hint(&error);
            return Err(error).with_context(|| format!("cannot write to {}{hint}", at.display()));
        }
        Ok(Self { area: area.clone(), at, journal })
    }

    /// Finishes or undoes the interrupted change that lies in `at`.
    pub(crate) fn resume(area: &Area, at: &Path) -> Result<Vec<Recovered>> {
        let Some(journal) = read_journal(at) else {
            remove_unstarted(at)?;
            return Ok(Vec::new());
        };
        let transaction = Self { area: area.clone(), at: at.to_path_buf(), journal };
        // A change starts from a folder's real path. A link here was put by somebody else, perhaps
        // by the repository, and could lead anywhere.
        let folder = transaction.folder();
        if fs::symlink_metadata(&folder).is_ok_and(|meta| meta.is_symlink()) {
            bail!(
                "{} holds an interrupted change of {}, which is a link; look into it, keep what you \
                 need, and remove it",
                at.display(),
                folder.display()
            );
        }
        let recovered = transaction
            .recover()
            .with_context(|| format!("cannot finish the interrupted change in {}", at.display()))?;
        transaction.finish();
        Ok(recovered)
    }

    /// Stages a skill for the skills folder of `area`: afterwards all of it is on the disk, and the
    /// installed skill is unchanged.
    pub(crate) fn stage(
        area: &Area,
        skill: &Skill,
        old: &OldTree,
        receipt: impl FnOnce(&str) -> Receipt,
    ) -> Result<Self> {
        let transaction = Self::begin(area, &skill.name, Change::Install, old)?;
        let receipt = receipt(&transaction.journal.id);
        if let Err(error) = transaction.write_staged(skill, receipt) {
            let hint = hint(&error);
            transaction.abandon();
            return Err(error)
                .with_context(|| format!("cannot stage {} in {}{hint}", skill.name, area.host().display()));
        }
        Ok(transaction)
    }

    fn write_staged(&self, skill: &Skill, mut receipt: Receipt) -> io::Result<()> {
        let root = self.staged();
        fs::create_dir(&root)?;
        // The receipt is written first, atomically: it identifies the tree as ours.
        let file = root.join(RECEIPT);
        self.write_receipt(&file, &receipt)?;
        let mut written = skill.tree.write(&root)?;
        receipt.modes = keeps_modes(&root, skill)?;
        if !receipt.modes {
            self.write_receipt(&file, &receipt)?;
        }
        written.files.push(file);
        written.sync()
    }

    fn write_receipt(&self, file: &Path, receipt: &Receipt) -> io::Result<()> {
        let beside = self.at.join("receipt");
        let bytes = receipt.to_json().map_err(io::Error::other)?;
        disk::write_new(&beside, &bytes, 0o644)?;
        fs::rename(beside, file)
    }

    /// Stages a link to `to`, relative to the skills folder. `Ok(None)`: links are not supported.
    pub(crate) fn stage_link(area: &Area, skill: &str, to: &Path, old: &OldTree) -> Result<Option<Self>> {
        let change = Change::Link { to: to.to_path_buf() };
        let transaction = Self::begin(area, skill, change, old)?;
        let made = std::os::unix::fs::symlink(to, transaction.staged());
        match made {
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

    pub(crate) fn removal(area: &Area, skill: &str, old: &OldTree) -> Result<Self> {
        Self::begin(area, skill, Change::Remove, old)
    }

    fn staged(&self) -> PathBuf {
        self.at.join(STAGED)
    }

    fn folder(&self) -> PathBuf {
        self.area.folder_named(&self.journal.folder)
    }

    fn dest(&self) -> PathBuf {
        self.folder().join(&self.journal.skill)
    }

    /// Makes the change, in one rename where the file system supports it, and returns the outcome for
    /// the old tree.
    pub(crate) fn commit(self) -> Result<Settled> {
        let dest = self.dest();
        let there = fs::symlink_metadata(&dest).is_ok();
        // The journal and the staged tree must be durable before the swap.
        let prepared = disk::sync_folder(&self.at).and_then(|()| disk::sync_folder(&self.area.root()));
        let swapped = prepared.and_then(|()| match (&self.journal.change, there) {
            (Change::Remove, _) => disk::move_new(&dest, &self.at.join(OLD)),
            (_, false) => disk::move_new(&self.staged(), &dest),
            (_, true) => self.replace(&dest),
        });
        if let Err(error) = swapped {
            let hint = match error.kind() {
                io::ErrorKind::ResourceBusy => " (it is in use, perhaps a mount point)",
                io::ErrorKind::AlreadyExists => " (it appeared just now; run the command again)",
                _ => hint(&error),
            };
            let what = if self.journal.change == Change::Remove { "remove" } else { "put in place" };
            self.abandon();
            return Err(error).with_context(|| format!("cannot {what} {}{hint}", dest.display()));
        }
        let kept = self.make_durable(there).and_then(|()| self.settle()).with_context(|| {
            format!("{} is in place, but cleaning up failed; the next run of kernels goes on with it", dest.display())
        })?;
        self.finish();
        Ok(kept)
    }

    fn replace(&self, dest: &Path) -> io::Result<()> {
        if disk::exchange(&self.staged(), dest)? {
            return Ok(());
        }
        // Two renames. A crash between them leaves the journal and both trees, and the next run restores
        // the old one.
        let old = self.at.join(OLD);
        disk::move_new(dest, &old)?;
        let placed = disk::sync_folder(&self.at).and_then(|()| disk::move_new(&self.staged(), dest));
        placed.inspect_err(|_| {
            let _ = disk::move_new(&old, dest);
        })
    }

    fn make_durable(&self, replaced: bool) -> io::Result<()> {
        disk::sync_folder(&self.folder())?;
        if replaced { disk::sync_folder(&self.at) } else { Ok(()) }
    }

    /// Settles the tree that the change replaced, wherever the swap left it.
    fn settle(&self) -> io::Result<Settled> {
        let (old, staged) = (self.at.join(OLD), self.staged());
        match [old, staged].into_iter().find(|tree| fs::symlink_metadata(tree).is_ok()) {
            Some(tree) => self.settle_tree(&tree),
            None => Ok(Settled::default()),
        }
    }

    /// Deletes a replaced tree; keeps it if it must be kept or differs from what was judged: then
    /// it was written to meanwhile.
    fn settle_tree(&self, tree: &Path) -> io::Result<Settled> {
        if self.journal.keep || !self.is_as_judged(tree) {
            let backup = self.area.move_to_backups(tree, &self.journal.skill)?;
            return Ok(Settled { backup: Some(backup), undeletable: None });
        }
        Ok(Settled { backup: None, undeletable: self.discard(tree)? })
    }

    fn is_as_judged(&self, tree: &Path) -> bool {
        match (&self.journal.old, fs::read_link(tree)) {
            (Some(judged), Ok(to)) => *judged == link_fingerprint(&to),
            (Some(judged), Err(_)) => Scan::of(tree).is_ok_and(|scan| scan.fingerprint() == *judged),
            (None, _) => false,
        }
    }

    /// Removes the change's folder once it contains only the journal. If anything else is left, the
    /// journal stays for the next run.
    fn finish(&self) {
        let done =
            fs::read_dir(&self.at).is_ok_and(|entries| entries.flatten().all(|entry| entry.file_name() == JOURNAL));
        if done {
            let _ = fs::remove_file(self.at.join(JOURNAL));
            let _ = fs::remove_dir(&self.at);
        }
        self.area.tidy();
    }

    /// Deletes a tree that is no longer needed. The rename marks it for a later run, however many files
    /// are gone by then. Files that the system will not delete (another user's bytecode, say) are moved
    /// aside, so that they do not block later changes.
    fn discard(&self, tree: &Path) -> io::Result<Option<PathBuf>> {
        let left = self.empty_trash()?;
        let trash = self.at.join(TRASH);
        fs::rename(tree, &trash)?;
        Ok(self.empty_trash()?.or(left))
    }

    fn empty_trash(&self) -> io::Result<Option<PathBuf>> {
        let trash = self.at.join(TRASH);
        match disk::delete(&trash) {
            Ok(()) => Ok(None),
            Err(_) => self.area.move_to_backups(&trash, &self.journal.skill).map(Some),
        }
    }

    /// Abandons a change that has not touched the destination.
    pub(crate) fn abandon(&self) {
        let _ = disk::delete(&self.at.join("receipt"));
        if self.is_ours(&self.staged()) {
            let _ = self.discard(&self.staged());
        }
        self.finish();
    }

    /// Whether the tree in the staging slot is the one this change staged, not the one it replaced.
    fn is_ours(&self, tree: &Path) -> bool {
        if let Ok(to) = fs::read_link(tree) {
            // A link is defined by its target: equal links are interchangeable.
            return matches!(&self.journal.change, Change::Link { to: ours } if *ours == to);
        }
        let empty = || fs::read_dir(tree).is_ok_and(|mut entries| entries.next().is_none());
        match Receipt::read(tree) {
            Ok(receipt) => receipt.id == self.journal.id,
            Err(_) => empty(),
        }
    }

    fn recover(&self) -> io::Result<Vec<Recovered>> {
        let mut recovered = Vec::new();
        let (staged, old, dest) = (self.staged(), self.at.join(OLD), self.dest());
        self.empty_trash()?;
        disk::delete(&self.at.join("receipt"))?;
        for entry in fs::read_dir(&self.at)?.flatten() {
            // An incomplete journal or receipt.
            if entry.file_name().to_string_lossy().ends_with(".tmp") {
                disk::delete(&entry.path())?;
            }
        }
        if fs::symlink_metadata(&staged).is_ok() && self.is_ours(&staged) {
            self.discard(&staged)?;
        }
        let dest_is_free = fs::symlink_metadata(&dest).is_err();
        if fs::symlink_metadata(&old).is_ok() && self.journal.change != Change::Remove && dest_is_free {
            disk::move_new(&old, &dest)?;
            disk::sync_folder(&self.folder())?;
            let what = "put back: an earlier run was interrupted while replacing it".to_owned();
            recovered.push(Recovered { what, path: dest });
        }
        let removing = self.journal.change == Change::Remove && fs::symlink_metadata(&old).is_ok();
        let settled = self.settle()?;
        if removing {
            let what = "removed: an earlier run was interrupted while removing it".to_owned();
            recovered.push(Recovered { what, path: self.dest() });
        }
        if let Some(backup) = settled.backup {
            let what = "kept: an earlier run was interrupted after replacing it".to_owned();
            recovered.push(Recovered { what, path: backup });
        }
        Ok(recovered)
    }
}

/// The fingerprint of a link in a journal.
pub(crate) fn link_fingerprint(to: &Path) -> String {
    format!("link {}", to.display())
}

fn keeps_modes(root: &Path, skill: &Skill) -> io::Result<bool> {
    for (path, entry) in skill.tree.iter() {
        let meta = fs::metadata(path.under(root))?;
        if crate::skill::tree::is_executable(&meta) != entry.executable {
            return Ok(false);
        }
    }
    Ok(true)
}
