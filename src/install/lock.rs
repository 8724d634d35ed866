//! One change at a time below a folder, across processes.

use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::fs::{FlockOperation, flock, fstat};
use rustix::io::Errno;

use super::place::hint;
use crate::base::dir::Dir;

/// How long to wait for another process; its changes take milliseconds.
const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(5);

/// A lock on a folder, released on drop or when the process dies.
///
/// The folder itself is locked, so that no lock file is left in a repository. Everything that a change does, it does
/// through the descriptor that holds the lock: whatever the folder's path leads to meanwhile, it stays in this folder.
#[derive(Debug)]
pub(crate) struct Lock(Dir);

impl Lock {
    /// The locked folder.
    pub(crate) fn folder(&self) -> &Dir {
        &self.0
    }

    /// Locks all existing `folders`, in sorted order, so that two processes cannot deadlock.
    pub(crate) fn all(mut folders: Vec<PathBuf>) -> Result<Vec<Self>> {
        folders.sort();
        folders.dedup();
        folders.iter().filter_map(|folder| Self::one(folder).transpose()).collect()
    }

    fn one(folder: &Path) -> Result<Option<Self>> {
        let give_up = Instant::now() + PATIENCE;
        loop {
            let dir = match Dir::open(folder) {
                Ok(dir) => dir,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(error) => {
                    let hint = hint(&error);
                    return Err(error).with_context(|| format!("cannot open {} to lock it{hint}", folder.display()));
                }
            };
            match flock(&dir, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) if is_still(&dir, folder) => return Ok(Some(Self(dir))),
                // Another process removed and recreated the folder: lock the new one.
                Ok(()) | Err(Errno::WOULDBLOCK | Errno::INTR) => {}
                // A file system without locks: continue without one; each swap is a single rename, which is
                // atomic anyway.
                Err(Errno::NOTSUP | Errno::NOLCK | Errno::NOSYS | Errno::INVAL | Errno::BADF) => {
                    return Ok(Some(Self(dir)));
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

fn is_still(held: &Dir, folder: &Path) -> bool {
    let there = Dir::open(folder).and_then(|there| Ok(fstat(&there)?));
    match (fstat(held), there) {
        (Ok(held), Ok(there)) => (held.st_dev, held.st_ino) == (there.st_dev, there.st_ino),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_folder_that_is_there_is_locked_once() -> Result<()> {
        let scratch = tempfile::tempdir()?;
        let [one, other, absent] = ["b", "a", "none"].map(|name| scratch.path().join(name));
        std::fs::create_dir(&one)?;
        std::fs::create_dir(&other)?;
        let locks = Lock::all(vec![one.clone(), absent, other.clone(), one.clone()])?;
        assert_eq!(locks.iter().map(|lock| lock.folder().path()).collect::<Vec<_>>(), [&other, &one]);
        // A folder that was made anew is another one.
        assert!(is_still(locks[1].folder(), &one));
        std::fs::rename(&one, scratch.path().join("moved"))?;
        assert!(!is_still(locks[1].folder(), &one));
        std::fs::create_dir(&one)?;
        assert!(!is_still(locks[1].folder(), &one));
        Ok(())
    }

    #[test]
    fn who_finds_a_lock_waits_for_its_end() -> Result<()> {
        let scratch = tempfile::tempdir()?;
        let folders = || vec![scratch.path().to_path_buf()];
        let held = Lock::all(folders())?;
        let waited = thread::scope(|scope| {
            let waiting = scope.spawn(|| Lock::all(folders()));
            thread::sleep(4 * PAUSE);
            drop(held);
            waiting.join()
        });
        assert!(waited.is_ok_and(|locks| locks.is_ok_and(|locks| locks.len() == 1)));
        Ok(())
    }
}
