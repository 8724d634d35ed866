//! The area beside a skills folder: where changes are prepared and backups are kept.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use rustix::fs::FileType;

use super::kept;
use super::lock::Lock;
use super::place::hint;
use crate::base::dir::Dir;
use crate::base::disk;

const AREA: &str = ".kernels";
pub(super) const BACKUPS: &str = "backups";
/// How many backups of a skill stay in an area.
pub(crate) const KEPT: usize = 5;
/// The length of the time in a backup's name, `20261123T152331Z`.
const STAMP: usize = 16;
const PREFIX: &str = "txn-";
/// The skills folders that one host may have.
const FOLDERS: [&str; 2] = ["skills", "skill"];
/// Separates a backup's name from that of the skills folder that it is from.
const FROM: char = '@';
/// The host itself, as a skills folder.
const ITSELF: &str = ".";
const GITIGNORE: &str = ".gitignore";
const IGNORE_ALL: &[u8] = b"*\n";

#[derive(Clone, Debug)]
pub(crate) struct Area {
    host: PathBuf,
    /// The skills folder's name in the host; empty where the host is the skills folder.
    folder: String,
}

impl Area {
    /// The area for a skills folder. It lies beside the folder, where no agent looks;
    /// inside it only where the folder above is another file system, not ours to write to, or not
    /// an agent's own (`--dest`).
    pub(crate) fn of(folder: &Path) -> Self {
        let inside = Self { host: folder.to_path_buf(), folder: String::new() };
        let (Some(above), Some(name)) = (folder.parent(), folder.file_name()) else {
            return inside;
        };
        let Some(name) = name.to_str().filter(|name| FOLDERS.contains(name)) else {
            return inside;
        };
        let beside = Self { host: above.to_path_buf(), folder: name.to_owned() };
        if !folder.exists() {
            return beside;
        }
        let device = |path: &Path| path.metadata().map(|meta| meta.dev());
        let (Ok(there), Ok(here)) = (device(above), device(folder)) else {
            // Another process has just removed it.
            return beside;
        };
        if there != here || !disk::is_writable(above) {
            return inside;
        }
        beside
    }

    /// The folder to lock while anything changes.
    pub(crate) fn host(&self) -> &Path {
        &self.host
    }

    fn root(&self) -> PathBuf {
        self.host.join(AREA)
    }

    /// The path of the skills folder that a backup's name records.
    pub(super) fn folder_of(&self, backup: &str) -> Option<PathBuf> {
        let folder = split_backup(backup).1?;
        Some(if folder == ITSELF { self.host.clone() } else { self.host.join(folder) })
    }

    /// The skills folders that are there beside the area.
    pub(super) fn folders(&self) -> impl Iterator<Item = PathBuf> {
        FOLDERS.iter().map(|name| self.host.join(name)).filter(|folder| folder.is_dir())
    }

    /// The folders of changes that were never finished.
    pub(crate) fn interrupted(&self) -> Vec<PathBuf> {
        // A link at this path is not followed: it is not ours.
        let root = self.open();
        root.map_or(Vec::new(), |root| changes(&root).iter().map(|name| root.path().join(name)).collect())
    }

    /// The folder of the area, if it is there.
    pub(super) fn open(&self) -> io::Result<Dir> {
        Dir::open_last(&self.root())
    }

    /// Whether a run that was killed left something: a change, or what is of no use.
    pub(crate) fn has_leftovers(&self) -> bool {
        self.open().is_ok_and(|root| {
            let unused =
                || Dir::open_last(&self.host).is_ok_and(|host| !kept::unused(&host, &self.folder, &root).is_empty());
            !changes(&root).is_empty() || is_needless(&root) || unused()
        })
    }

    /// The area below its host's lock, which must be among `locks`.
    pub(crate) fn held(&self, locks: &[Lock]) -> Result<Held> {
        let lock = locks.iter().find(|lock| lock.folder().path() == self.host);
        let lock = lock.with_context(|| format!("{} is gone; run the command again", self.host.display()))?;
        Ok(Held { host: lock.folder().again()?, folder: self.folder.clone() })
    }
}

/// An area whose host is locked, through the lock's descriptor.
#[derive(Debug)]
pub(crate) struct Held {
    host: Dir,
    folder: String,
}

impl Held {
    pub(super) fn again(&self) -> io::Result<Self> {
        Ok(Self { host: self.host.again()?, folder: self.folder.clone() })
    }

    /// The folder that is locked.
    pub(super) fn host(&self) -> &Path {
        self.host.path()
    }

    /// The name of the skills folder in the host; empty where they are the same.
    pub(super) fn folder_name(&self) -> &str {
        &self.folder
    }

    /// The skills folder of this name in the host, which may have two of them.
    pub(super) fn skills(&self, name: &str) -> io::Result<Dir> {
        if name.is_empty() { self.host.again() } else { self.host.dir(name) }
    }

    /// The same as a path, for messages.
    pub(super) fn skills_path(&self, name: &str) -> PathBuf {
        // `join("")` would add a slash.
        if name.is_empty() { self.host().to_path_buf() } else { self.host().join(name) }
    }

    /// The folder of the area, if it is there.
    pub(super) fn root(&self) -> io::Result<Dir> {
        self.host.dir(AREA)
    }

    /// The names of the changes that were never finished.
    pub(super) fn interrupted(&self) -> Vec<String> {
        self.root().map_or(Vec::new(), |root| changes(&root))
    }

    /// Creates the folder of a change, in an area with a `.gitignore` that keeps it out of commits.
    ///
    /// A repository can contain links and pipes at these paths; none is followed or opened.
    pub(super) fn begin(&self, id: &str, keep: bool) -> Result<Dir> {
        let root = make_dir(&self.host, AREA)?;
        if keep {
            make_dir(&root, BACKUPS)?;
        }
        let ignore = root.path().join(GITIGNORE);
        let kind = root.stat(GITIGNORE).map(|meta| (FileType::from_raw_mode(meta.st_mode), meta.st_size));
        match kind {
            Ok((FileType::RegularFile, 1..)) => {}
            Ok((kind, _)) if kind != FileType::RegularFile => bail!("{} is in the way; remove it", ignore.display()),
            // Missing, or a run was killed before it was written.
            _ => root.delete(GITIGNORE).and_then(|()| root.write_new(GITIGNORE, IGNORE_ALL, 0o644)).map(drop).map_err(
                |error| {
                    let what = format!("cannot write {}{}", ignore.display(), hint(&error));
                    anyhow::Error::new(error).context(what)
                },
            )?,
        }
        make_dir(&root, &format!("{PREFIX}{id}"))
    }

    /// Deletes the texts that nothing needs any more.
    pub(super) fn sweep(&self) {
        let Ok(root) = self.root() else {
            return;
        };
        for name in kept::unused(&self.host, &self.folder, &root) {
            let _ = root.dir(kept::FOLDER).and_then(|base| base.remove_file(name));
        }
    }

    /// Removes the area when nothing but its `.gitignore` is left.
    pub(super) fn tidy(&self) {
        let Ok(root) = self.root() else {
            return;
        };
        if is_needless(&root) {
            let _ = root.remove_dir(kept::FOLDER);
            let _ = root.remove_dir(BACKUPS);
            let _ = root.remove_file(GITIGNORE);
            let _ = self.host.remove_dir(AREA);
        }
    }

    /// Deletes the oldest backups of a skill beyond [`KEPT`], and returns them. The one just made stays. A clock that was ahead, or
    /// a clone, may have left others with a later time: these count as the oldest.
    pub(super) fn prune(&self, skill: &str, made: &Path) -> Vec<PathBuf> {
        let Ok(backups) = self.root().and_then(|root| root.dir(BACKUPS)) else {
            return Vec::new();
        };
        let mut all = ages(&backups, skill);
        let now = stamp();
        all.sort_by_cached_key(|(age, name)| (made.ends_with(name), age.0 <= now, age.clone(), name.clone()));
        all.truncate(all.len().saturating_sub(KEPT));
        let gone = all.into_iter().map(|(_, name)| name).filter(|name| backups.delete(name).is_ok());
        gone.map(|name| backups.path().join(name)).collect()
    }

    /// Moves a tree to the backups, under an unused name. `from` is the name of the skills folder, which the backup's name
    /// records where the area may serve another one as well.
    pub(super) fn move_to_backups(&self, folder: &Dir, tree: &str, skill: &str, from: &str) -> io::Result<PathBuf> {
        let backups = self.root()?.make_dir(BACKUPS)?;
        let recorded =
            || backups.entries().into_iter().flatten().any(|one| split_backup(&one.name.to_string_lossy()).1.is_some());
        let alone = match from {
            "skills" => !self.host.has("skill") && !recorded(),
            "" => self.host().file_name().is_some_and(|name| FOLDERS.iter().any(|one| name == *one)),
            _ => false,
        };
        let from = if from.is_empty() { ITSELF } else { from };
        let record = if alone { String::new() } else { format!("{FROM}{from}") };
        let stamp = stamp();
        // Behind those of the same second, so that names sort by age.
        let taken = ages(&backups, skill).into_iter().filter(|((time, _), _)| *time == stamp);
        let first = taken.map(|((_, number), _)| number + 1).max().unwrap_or(1);
        for number in first..first + 1000 {
            let number = if number == 1 { String::new() } else { format!("-{number}") };
            let name = format!("{skill}-{stamp}{number}{record}");
            match folder.move_new(tree, &backups, &name) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
                Ok(()) => {
                    backups.sync()?;
                    return Ok(backups.path().join(name));
                }
            }
        }
        Err(io::Error::other(format!("{} is full of backups", backups.path().display())))
    }
}

/// The time in the name of a backup that is made now.
fn stamp() -> String {
    super::receipt::now().replace(['-', ':'], "")
}

/// The names of the changes in an area.
fn changes(root: &Dir) -> Vec<String> {
    let folders = root.entries().into_iter().flatten().filter(|entry| entry.kind == FileType::Directory);
    folders.filter_map(|entry| entry.name.into_string().ok()).filter(|name| name.starts_with(PREFIX)).collect()
}

/// Whether an area holds nothing but its own `.gitignore`.
fn is_needless(root: &Dir) -> bool {
    let Ok(entries) = root.entries() else {
        return false;
    };
    entries.iter().all(|entry| match entry.name.to_str() {
        Some(GITIGNORE) => root.read_plain(GITIGNORE, 64).is_ok_and(|text| IGNORE_ALL.starts_with(&text)),
        Some(name @ (BACKUPS | kept::FOLDER)) => {
            root.dir(name).and_then(|folder| folder.entries()).is_ok_and(|all| all.is_empty())
        }
        _ => false,
    })
}

/// The backups of a skill, with the time and the number of each.
fn ages(backups: &Dir, skill: &str) -> Vec<((String, usize), String)> {
    let names = backups.entries().into_iter().flatten().filter_map(|entry| entry.name.into_string().ok());
    names.filter_map(|name| Some((age(&name, skill)?, name))).collect()
}

/// A backup's name without the skills folder that it records, and that folder.
fn split_backup(name: &str) -> (&str, Option<&str>) {
    let known = |folder: &str| folder == ITSELF || FOLDERS.contains(&folder);
    match name.rsplit_once(FROM) {
        Some((rest, folder)) if known(folder) => (rest, Some(folder)),
        _ => (name, None),
    }
}

/// The skill in a backup's name, and when it was made: the time, and the number among those of one second.
pub(super) fn parse_backup(name: &str) -> Option<(&str, (String, usize))> {
    let at = |(at, _)| Some((&name[..at], age(name, &name[..at])?));
    name.match_indices('-').find_map(at)
}

/// When the backup of this name was made: the time, and the number among those of one second.
fn age(name: &str, skill: &str) -> Option<(String, usize)> {
    let (time, number) = split_backup(name).0.strip_prefix(skill)?.strip_prefix('-')?.split_at_checked(STAMP)?;
    let form = |(at, byte): (usize, u8)| match at {
        8 => byte == b'T',
        15 => byte == b'Z',
        _ => byte.is_ascii_digit(),
    };
    let number = if number.is_empty() { 1 } else { number.strip_prefix('-')?.parse().ok()? };
    time.bytes().enumerate().all(form).then(|| (time.to_owned(), number))
}

fn make_dir(folder: &Dir, name: &str) -> Result<Dir> {
    folder.make_dir(name).map_err(|error| {
        let path = folder.path().join(name);
        if error.kind() == io::ErrorKind::NotADirectory {
            return anyhow!("{} is in the way; it must be a folder: move it away", path.display());
        }
        let what = format!("cannot create {}{}", path.display(), hint(&error));
        anyhow::Error::new(error).context(what)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backups_name_says_its_skill_when_it_was_made_and_where_it_is_from() {
        let time = "20261123T152331Z";
        let parsed = |skill, number| Some((skill, (time.to_owned(), number)));
        for (name, is) in [
            ("demo-20261123T152331Z", parsed("demo", 1)),
            ("demo-20261123T152331Z-12", parsed("demo", 12)),
            ("a-b-20261123T152331Z-2@skills", parsed("a-b", 2)),
            ("demo-20261123T152331Z@.", parsed("demo", 1)),
            ("demo-20261123T152331Z@elsewhere", None),
            ("demo-20261123T152331Z2", None),
            ("demo-20261123X152331Z", None),
            ("demo-20261123T152331X", None),
            ("demo-2026112xT152331Z", None),
            ("demo-20261123T15233", None),
            ("demo", None),
        ] {
            assert_eq!(parse_backup(name), is, "{name}");
        }
        assert_eq!(age("demo-20261123T152331Z", "dem"), None);
        let area = Area { host: "/p/.claude".into(), folder: "skills".to_owned() };
        let from = |folder: &str| area.folder_of(&format!("demo-{time}{folder}"));
        assert_eq!(from("@skill").as_deref(), Some(Path::new("/p/.claude/skill")));
        assert_eq!(from("@.").as_deref(), Some(Path::new("/p/.claude")));
        assert_eq!((from(""), from("@other")), (None, None));
    }
}
