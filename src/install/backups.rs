//! Backups of what a user had edited: listing them, and putting one back.

use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rustix::fs::FileType;

use super::area::{Area, BACKUPS, Held, parse_backup};
use super::lock::Lock;
use super::place::{Place, create_folders, hint, remove_empty};
use super::receipt::Receipt;
use super::scan::{Change, Scan};
use super::transaction::{Change as Made, OldTree, STAGED, Settled, Transaction, link_fingerprint, recover_area};
use crate::base::dir::Dir;

/// Something that a command replaced or removed, and kept.
#[derive(Clone, Debug)]
pub(crate) struct Backup {
    /// Its name among the backups.
    pub(crate) id: String,
    pub(crate) skill: String,
    /// When it was made, in UTC.
    pub(crate) when: String,
    /// Its number among those of one second.
    number: usize,
    pub(crate) path: PathBuf,
    /// The skills folder that it is from.
    pub(crate) place: Place,
    /// The others that it may be from instead, where its name does not say which.
    others: Vec<PathBuf>,
    pub(crate) what: What,
}

#[derive(Clone, Debug)]
pub(crate) enum What {
    /// An install: its version, and what was edited.
    Install {
        version: Option<String>,
        changes: Vec<Change>,
    },
    /// A folder without a receipt.
    Folder,
    File,
    Link(PathBuf),
}

impl Backup {
    /// Where it is put back.
    pub(crate) fn dest(&self) -> PathBuf {
        self.place.dest(&self.skill)
    }

    /// The folders that it may be from as well, of those that were `named`, or of all.
    pub(crate) fn others(&self, named: Option<&[Place]>) -> Vec<&Path> {
        let meant = |folder: &&Path| named.is_none_or(|places| places.iter().any(|place| place.folder == **folder));
        self.others.iter().map(PathBuf::as_path).filter(meant).collect()
    }
}

/// The backups from these places, of one skill or of all, oldest first.
pub(crate) fn list(places: &[Place], skills: &[String]) -> Vec<Backup> {
    let mut found: Vec<Backup> = Vec::new();
    for place in places {
        let area = Area::of(&place.folder);
        let Ok(backups) = area.open().and_then(|root| root.dir(BACKUPS)) else {
            continue;
        };
        let beside =
            places.iter().filter(|one| Area::of(&one.folder).host() == area.host()).map(|one| one.folder.clone());
        let mut others: Vec<PathBuf> = area.folders().chain(beside).filter(|folder| *folder != place.folder).collect();
        others.sort();
        others.dedup();
        for entry in backups.entries().into_iter().flatten() {
            let id = entry.name.to_string_lossy().into_owned();
            let Some((name, (stamp, number))) =
                parse_backup(&id).filter(|(name, _)| skills.is_empty() || skills.iter().any(|skill| skill == *name))
            else {
                continue;
            };
            let what = match entry.kind {
                FileType::Directory => backups.dir(&id).map_or(What::Folder, |tree| {
                    let (receipt, scan) = (Receipt::read_in(&tree), Scan::of(&tree));
                    receipt.map_or(What::Folder, |receipt| What::Install {
                        changes: scan.map_or(Vec::new(), |scan| scan.changes(&receipt.files, receipt.modes)),
                        version: receipt.version,
                    })
                }),
                FileType::Symlink => What::Link(backups.read_link(&id).unwrap_or_default()),
                _ => What::File,
            };
            let path = backups.path().join(&id);
            // One area may serve two places.
            if !found.iter().any(|known| known.path == path) {
                let (skill, when) = (name.to_owned(), time(&stamp));
                let (place, others) = match area.folder_of(&id) {
                    Some(folder) => (at(&folder, place, places), Vec::new()),
                    None => (place.clone(), others.clone()),
                };
                found.push(Backup { id, skill, when, number, path, place, others, what });
            }
        }
    }
    found.sort_by(|a, b| (&a.when, a.number, &a.path).cmp(&(&b.when, b.number, &b.path)));
    found
}

/// The place of a skills folder whose area is that of `near`.
fn at(folder: &Path, near: &Place, places: &[Place]) -> Place {
    let known = places.iter().find(|place| place.folder == folder).cloned();
    known.unwrap_or_else(|| Place { folder: folder.to_path_buf(), scope: near.scope, agents: Vec::new() })
}

/// `20261123T152331Z` as receipts write it: `2026-11-23T15:23:31Z`.
fn time(stamp: &str) -> String {
    let part = |from: usize, to: usize| stamp.get(from..to).unwrap_or_default();
    format!("{}-{}-{}T{}:{}:{}", part(0, 4), part(4, 6), part(6, 8), part(9, 11), part(11, 13), part(13, 16))
}

/// Puts a backup back; what lies there now is moved to a backup.
pub(crate) fn restore(backup: &Backup) -> Result<Settled> {
    super::note_change();
    let folder = &backup.place.folder;
    let created = create_folders(folder)?;
    let restored = || -> Result<Settled> {
        let area = Area::of(folder);
        let locks = Lock::all(vec![area.host().to_path_buf()])?;
        let area = area.held(&locks)?;
        recover_area(&area)?;
        Transaction::restoration(&area, &backup.skill, &backup.id)?.commit()
    };
    restored().inspect_err(|_| remove_empty(folder, created))
}

impl Transaction {
    /// Takes a backup out of the backups, to put it back.
    fn restoration(area: &Held, skill: &str, backup: &str) -> Result<Self> {
        let backups = area.root().and_then(|root| root.dir(BACKUPS));
        let found = backups.and_then(|backups| Ok((identity(&backups, backup)?, backups)));
        let why = || format!("cannot read the backup {backup} in {}", area.host().display());
        let (identity, backups) = found.with_context(why)?;
        let change = Made::Restore { backup: backup.to_owned(), identity };
        let transaction = Self::begin(area, skill, change, &OldTree { keep: true, fingerprint: None })?;
        if let Err(error) = backups.move_new(backup, &transaction.at, STAGED) {
            transaction.abandon();
            let hint = hint(&error);
            return Err(error).with_context(|| format!("cannot move {}{hint}", backups.path().join(backup).display()));
        }
        Ok(transaction)
    }

    /// Moves the backup that was to be put back to the backups again, where it still is in the change's folder. Returns
    /// whether it was put in place.
    pub(super) fn return_backup(&self) -> io::Result<bool> {
        let Made::Restore { backup, identity: known } = &self.journal.change else {
            return Ok(false);
        };
        let is_at = |folder: &Dir, name: &str| identity(folder, name).is_ok_and(|identity| identity == *known);
        if is_at(&self.at, STAGED) {
            let backups = self.area.root()?.make_dir(BACKUPS)?;
            self.at.move_new(STAGED, &backups, backup)?;
            backups.sync()?;
            return Ok(false);
        }
        Ok(self.skills().is_ok_and(|skills| is_at(&skills, &self.journal.skill)))
    }
}

/// What a tree, a file or a link is known by wherever it lies.
fn identity(folder: &Dir, name: &str) -> io::Result<String> {
    if let Ok(to) = folder.read_link(name) {
        return Ok(link_fingerprint(&to));
    }
    let meta = folder.stat(name)?;
    if FileType::from_raw_mode(meta.st_mode) != FileType::Directory {
        return Ok(format!("file {} {}", meta.st_size, meta.st_mtime));
    }
    let tree = folder.dir(name)?;
    let receipt = Receipt::read_in(&tree).map(|receipt| receipt.id).unwrap_or_default();
    Ok(format!("{} {receipt}", Scan::of(&tree)?.fingerprint()))
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_time_is_written_as_receipts_write_it() {
        assert_eq!(super::time("20261123T152331Z"), "2026-11-23T15:23:31Z");
    }
}
