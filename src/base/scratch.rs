//! A private folder for temporary files, removed when it is dropped. What a killed run left is removed by the next one.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use anyhow::{Context, Result};
use rustix::fs::{FlockOperation, Mode, OFlags, flock, fstat};
use tempfile::TempDir;

use super::disk;

const PREFIX: &str = "kernels-scratch-";
/// Written once the lock is held: a folder with it and without a lock has no owner any more.
const OWNED: &str = ".owned";

pub(crate) struct Scratch {
    // Dropped before the lock, so that nobody else takes the folder for an abandoned one.
    folder: TempDir,
    _lock: OwnedFd,
}

impl Scratch {
    pub(crate) fn new() -> Result<Self> {
        Self::make().context("cannot make a folder for temporary files")
    }

    fn make() -> io::Result<Self> {
        remove_abandoned(&std::env::temp_dir());
        let folder = TempDir::with_prefix(PREFIX)?;
        let lock = open(folder.path())?;
        // Without locks on this file system, nobody can tell that it was abandoned.
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
            fs::write(folder.path().join(OWNED), "")?;
        }
        Ok(Self { folder, _lock: lock })
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }
}

fn open(folder: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::open(folder, flags, Mode::empty())?)
}

/// Removes the folders of runs that were killed. Others may write to the folder for temporary files: only a folder of this
/// user's, by itself and not by a link, is one of ours.
fn remove_abandoned(temporary: &Path) {
    let entries = fs::read_dir(temporary).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX)) {
        let path = entry.path();
        let Ok(folder) = open(&path) else { continue };
        let ours = fstat(&folder).is_ok_and(|meta| meta.st_uid == rustix::process::geteuid().as_raw());
        if ours && path.join(OWNED).exists() && flock(&folder, FlockOperation::NonBlockingLockExclusive).is_ok() {
            let _ = disk::delete(&path);
        }
    }
}
