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

/// Holds a folder until dropped; the system lets go when the process dies.
///
/// The lock is on the folder itself, so no lock file is left in anybody's repository.
#[derive(Debug)]
pub struct Lock {
    _folder: File,
}

impl Lock {
    /// Locks all `folders` that are there. Taking them in one order keeps two processes from
    /// blocking each other.
    pub fn all(mut folders: Vec<PathBuf>) -> Result<Vec<Self>> {
        folders.sort();
        folders.dedup();
        folders
            .iter()
            .filter_map(|folder| Self::one(folder).transpose())
            .collect()
    }

    fn one(folder: &Path) -> Result<Option<Self>> {
        let give_up = Instant::now() + PATIENCE;
        loop {
            let file = match File::open(folder) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(error) => {
                    return Err(error)
                        .with_context(|| format!("cannot open {} to lock it", folder.display()));
                }
            };
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) if is_still(&file, folder) => return Ok(Some(Self { _folder: file })),
                // Another process removed the folder and made it anew: lock the new one.
                Ok(()) | Err(Errno::WOULDBLOCK | Errno::INTR) => {}
                // A file system without locks: better unlocked than not at all, and every swap
                // is one rename that a rival cannot split.
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
