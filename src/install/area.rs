//! The area beside a skills folder: where changes are prepared and backups are kept.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::place::hint;
use crate::base::disk;

const AREA: &str = ".kernels";
const BACKUPS: &str = "backups";
const PREFIX: &str = "txn-";
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
        let Some(name @ ("skills" | "skill")) = name.to_str() else {
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

    /// The name of the skills folder in the host; empty where they are the same.
    pub(super) fn folder_name(&self) -> &str {
        &self.folder
    }

    /// The skills folder of this name in the host, which may have two of them.
    pub(super) fn folder_named(&self, name: &str) -> PathBuf {
        // `join("")` would add a slash.
        if name.is_empty() { self.host.clone() } else { self.host.join(name) }
    }

    pub(super) fn transaction(&self, id: &str) -> PathBuf {
        self.root().join(format!("{PREFIX}{id}"))
    }

    pub(super) fn root(&self) -> PathBuf {
        self.host.join(AREA)
    }

    /// Creates the area, with a `.gitignore` that keeps it out of commits.
    ///
    /// A repository can contain links and pipes at these paths; none is followed or opened.
    pub(super) fn create_root(&self, keep: bool) -> Result<()> {
        let root = self.root();
        create_real_folder(&root)?;
        if keep {
            create_real_folder(&root.join(BACKUPS))?;
        }
        let ignore = root.join(GITIGNORE);
        match fs::symlink_metadata(&ignore) {
            Ok(meta) if meta.is_file() && meta.len() > 0 => {}
            Ok(meta) if !meta.is_file() => bail!("{} is in the way; remove it", ignore.display()),
            // Missing, or a run was killed before it was written.
            there => there
                .and_then(|_| fs::remove_file(&ignore))
                .or_else(|error| match error.kind() {
                    io::ErrorKind::NotFound => Ok(()),
                    _ => Err(error),
                })
                .and_then(|()| disk::write_new(&ignore, IGNORE_ALL, 0o644))
                .map_err(|error| {
                    let what = format!("cannot write {}{}", ignore.display(), hint(&error));
                    anyhow::Error::new(error).context(what)
                })?,
        }
        Ok(())
    }

    /// Removes the area when nothing but its `.gitignore` is left.
    pub(super) fn tidy(&self) {
        let root = self.root();
        if !is_real_folder(&root) {
            return;
        }
        let ignore = root.join(GITIGNORE);
        let only_ours = fs::read_dir(&root).is_ok_and(|entries| entries.flatten().all(|entry| entry.path() == ignore));
        let ours = || disk::read_plain(&ignore, 64).is_ok_and(|text| IGNORE_ALL.starts_with(&text));
        if only_ours && (fs::symlink_metadata(&ignore).is_err() || ours()) {
            let _ = fs::remove_file(ignore);
            let _ = fs::remove_dir(root);
        }
    }

    /// The folders of changes that were never finished.
    pub(crate) fn interrupted(&self) -> Vec<PathBuf> {
        let root = self.root();
        // Do not follow a link at this path: it is not ours.
        if !is_real_folder(&root) {
            return Vec::new();
        }
        let Ok(entries) = fs::read_dir(&root) else {
            return Vec::new();
        };
        let mut found: Vec<_> = entries
            .flatten()
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
            .filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX))
            .map(|entry| entry.path())
            .collect();
        found.sort();
        found
    }

    /// Moves a tree to the backups, under an unused name.
    pub(super) fn move_to_backups(&self, tree: &Path, skill: &str) -> io::Result<PathBuf> {
        let backups = self.root().join(BACKUPS);
        create_real_folder(&backups).map_err(io::Error::other)?;
        let stamp = super::receipt::now().replace(['-', ':'], "");
        let first = format!("{skill}-{stamp}");
        let others = (2..1000).map(|n| format!("{first}-{n}"));
        for name in std::iter::once(first.clone()).chain(others) {
            let backup = backups.join(name);
            match disk::move_new(tree, &backup) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
                Ok(()) => {
                    disk::sync_folder(&backups)?;
                    return Ok(backup);
                }
            }
        }
        Err(io::Error::other(format!("{} is full of backups", backups.display())))
    }
}

fn is_real_folder(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|meta| meta.is_dir())
}

fn create_real_folder(path: &Path) -> Result<()> {
    match fs::create_dir(path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            if !is_real_folder(path) {
                bail!("{} is in the way; it must be a folder: move it away", path.display());
            }
            Ok(())
        }
        Err(error) => {
            let hint = hint(&error);
            Err(error).with_context(|| format!("cannot create {}{hint}", path.display()))
        }
    }
}
