//! A variant's folder: what it contains, and its atomic replacement.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process;

use anyhow::{Context, Result};
use rustix::fs::{CWD, FlockOperation, RenameFlags, flock, renameat_with};
use thiserror::Error;
use walkdir::WalkDir;

use super::metadata::{self, METADATA, Written};

pub(super) enum Existing {
    Nothing,
    /// A variant of this program, unmodified.
    Whole {
        id: String,
        /// The digests of its files, without `metadata.json`.
        files: BTreeMap<String, String>,
        metadata: String,
    },
    /// Files that this program did not write, or that were edited.
    Foreign(Vec<String>),
}

/// A folder that holds foreign files; nothing was changed.
#[derive(Debug, Error)]
#[error("{} holds what `kernels build --torch` did not write", path.display())]
pub(crate) struct Protected {
    pub(crate) path: PathBuf,
    /// Each file with the reason.
    pub(crate) files: Vec<String>,
}

/// Reads every file of the variant.
pub(super) fn look(place: &Path) -> Result<Existing> {
    let meta = match fs::symlink_metadata(place) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Existing::Nothing),
        Err(error) => {
            return Err(error).with_context(|| format!("cannot read {}", place.display()));
        }
        Ok(meta) => meta,
    };
    if meta.is_symlink() || !meta.is_dir() {
        let what = if meta.is_symlink() { "a link" } else { "no folder" };
        return Ok(Existing::Foreign(vec![format!("{} is {what}", place.display())]));
    }
    let mut found = digests(place)?;
    if found.is_empty() {
        return Ok(Existing::Nothing);
    }
    let text = fs::read_to_string(place.join(METADATA)).unwrap_or_default();
    let written: Option<Written> = serde_json::from_str(&text).ok();
    found.remove(METADATA);
    let Some((id, digest)) = written.and_then(|written| Some((written.id, written.digest?))) else {
        let files = found.into_keys().chain([format!("{METADATA} (without a digest: another program's)")]);
        return Ok(Existing::Foreign(files.collect()));
    };
    // A deleted file cannot be lost.
    let edited = digest.files.iter().filter(|(name, known)| found.get(*name).is_some_and(|digest| digest != *known));
    let added = found.keys().filter(|name| !digest.files.contains_key(*name));
    let foreign: Vec<String> =
        edited.map(|(name, _)| format!("{name} (edited)")).chain(added.map(|name| format!("{name} (added)"))).collect();
    if !foreign.is_empty() {
        return Ok(Existing::Foreign(foreign));
    }
    Ok(Existing::Whole { id, files: found, metadata: text })
}

/// The digest of every file of a folder, by relative path, without Python's caches.
fn digests(place: &Path) -> Result<BTreeMap<String, String>> {
    let mut found = BTreeMap::new();
    for entry in WalkDir::new(place).into_iter().filter_entry(|entry| entry.file_name() != "__pycache__") {
        let entry = entry.with_context(|| format!("cannot read {}", place.display()))?;
        let path = entry.path().strip_prefix(place).unwrap_or(entry.path());
        let bytecode = path.extension().is_some_and(|ending| ending == "pyc");
        if entry.file_type().is_dir() || bytecode {
            continue;
        }
        let digest = if entry.file_type().is_file() {
            let bytes = fs::read(entry.path()).with_context(|| format!("cannot read {}", entry.path().display()))?;
            metadata::digest(&bytes)
        } else {
            "a link".to_owned()
        };
        found.insert(path.to_string_lossy().into_owned(), digest);
    }
    Ok(found)
}

/// A staging folder beside the final one, removed on drop.
pub(super) struct Stage {
    pub(super) path: PathBuf,
    _held: File,
}

const STAGE: &str = ".kernels-stage-";
const BACKUPS: &str = ".kernels-backups";

impl Stage {
    /// Creates a staging folder, and the folder of variants if necessary.
    pub(super) fn new(out: &Path) -> Result<Self> {
        let cannot = |path: &Path| {
            format!(
                "cannot write to {}; make it writable and free some space there, or name another folder with --out",
                path.display()
            )
        };
        fs::create_dir_all(out).with_context(|| cannot(out))?;
        clear(out);
        let path = out.join(format!("{STAGE}{}", process::id()));
        // A process with the same id in another container may have left it.
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).with_context(|| cannot(&path))?;
        let held = File::open(&path).with_context(|| cannot(&path))?;
        let _ = flock(&held, FlockOperation::NonBlockingLockExclusive);
        Ok(Self { path, _held: held })
    }

    /// Writes a file and syncs it.
    pub(super) fn write(&self, name: &Path, bytes: &[u8], program: bool) -> Result<()> {
        let path = self.path.join(name);
        let write = || -> io::Result<()> {
            if let Some(folder) = path.parent() {
                fs::create_dir_all(folder)?;
            }
            let mut file = File::create(&path)?;
            file.write_all(bytes)?;
            let mode = if program { 0o755 } else { 0o644 };
            file.set_permissions(fs::Permissions::from_mode(mode))?;
            file.sync_all()
        };
        write().with_context(|| {
            format!("cannot write {}; free some space there, or name another folder with --out", path.display())
        })
    }

    /// Renames the stage to `place`. The old folder is deleted, or moved if `backup`; returns its new path.
    pub(super) fn put(self, place: &Path, backup: bool) -> Result<Option<PathBuf>> {
        let failed = || format!("cannot put {} in place", place.display());
        if fs::symlink_metadata(place).is_err() {
            fs::rename(&self.path, place).with_context(failed)?;
            return Ok(None);
        }
        let kept = backup.then(|| backup_for(place)).transpose()?;
        if renameat_with(CWD, &self.path, CWD, place, RenameFlags::EXCHANGE).is_ok() {
            // After the exchange the old folder is at the stage's path.
            if let Some(kept) = &kept {
                fs::rename(&self.path, kept)
                    .with_context(|| format!("cannot keep what was replaced in {}", kept.display()))?;
            }
            return Ok(kept);
        }
        // The file system does not support an atomic exchange.
        let aside = match &kept {
            Some(kept) => kept.clone(),
            None => self.path.join("replaced"),
        };
        let fresh = self.path.with_extension("fresh");
        fs::rename(&self.path, &fresh).with_context(failed)?;
        fs::create_dir_all(&self.path).with_context(failed)?;
        fs::rename(place, &aside).with_context(failed)?;
        fs::rename(&fresh, place).with_context(failed)?;
        Ok(kept)
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// An unused name in the folder of backups.
fn backup_for(place: &Path) -> Result<PathBuf> {
    let folder = place.with_file_name(BACKUPS);
    let name = place.file_name().unwrap_or_default().to_string_lossy();
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}; nothing was replaced", folder.display()))?;
    let free = (1..10_000)
        .map(|number| folder.join(format!("{name}.{number}")))
        .find(|path| fs::symlink_metadata(path).is_err());
    free.context("no name for a backup is free")
}

/// Removes the staging folders of killed processes.
fn clear(out: &Path) {
    for entry in fs::read_dir(out).into_iter().flatten().flatten() {
        if !entry.file_name().to_string_lossy().starts_with(STAGE) {
            continue;
        }
        let free = File::open(entry.path())
            .is_ok_and(|folder| flock(&folder, FlockOperation::NonBlockingLockExclusive).is_ok());
        if free {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
