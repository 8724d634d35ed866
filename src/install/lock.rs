//! One change at a time below a folder, across processes.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// How long to wait for another process; its changes take milliseconds.
const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(5);

/// A lock on a folder, released on drop or when the process dies.
///
/// The folder itself is locked, so that no lock file is left in a repository.
#[derive(Debug)]
pub(crate) struct Lock {
    _folder: File,
}

impl Lock {
    /// Locks all existing `folders`, in sorted order, so that two processes cannot deadlock.
    pub(crate) fn all(mut folders: Vec<PathBuf>) -> Result<Vec<Self>> {
        folders.sort();
        folders.dedup();
        folders.iter().filter_map(|folder| Self::one(folder).transpose()).collect()
    }

    fn one(folder: &Path) -> Result<Option<Self>> {
        let give_up = Instant::now() + PATIENCE;
        loop {
            let file = match File::open(folder) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(error) => {
                    return Err(error).with_context(|| format!("cannot open {} to lock it", folder.display()));
                }
            };
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) if is_still(&file, folder) => return Ok(Some(Self { _folder: file })),
                // Another process removed and recreated the folder: lock the new one.
                Ok(()) | Err(Errno::WOULDBLOCK | Errno::INTR) => {}
                // A file system without locks: continue without one; each swap is a single rename, which is
                // atomic anyway.
                Err(Errno::NOTSUP | Errno::NOLCK | Errno::NOSYS | Errno::INVAL | Errno::BADF) => {
                    return Ok(Some(Self { _folder: file }));
                }
                Err(error) => {
                    return Err(error).with_context(|| format!("cannot lock {}", folder.display()));
                }
            }
            if Instant::now() >= give_up {
                bail!(
                    "another kernels process has held {} for {} s; wait for it or end it",
                    folder.display(),
                    PATIENCE.as_secs()
                );
            }
            thread::sleep(PAUSE);
        }
    }
}

fn is_still(file: &File, folder: &Path) -> bool {
    match (file.metadata(), folder.metadata()) {
        (Ok(held), Ok(there)) => (held.dev(), held.ino()) == (there.dev(), there.ino()),
        _ => false,
    }
}
