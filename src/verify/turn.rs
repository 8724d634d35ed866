//! Turns on the card among processes that verify at the same time. Contexts that have work get the card in slices of time, many times
//! as long as a small launch, which would wait for those of the others. A process that has its turn here finds the card idle.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};

/// After this time a process launches without a turn: no other one can hold a launch up for longer.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long a process sleeps before it asks again.
const PAUSE: Duration = Duration::from_micros(20);

/// The turns of some processes: a lock on a file without a name, which each of them has opened by itself.
#[derive(Debug, Default)]
pub(super) struct Turns(Option<File>);

/// A turn, which ends when this is dropped.
#[derive(Debug)]
pub(super) struct Turn<'a>(Option<&'a File>);

impl Turns {
    /// Those of the processes that open the same path. Without one, or where it cannot be opened, every launch has its turn at once.
    pub(super) fn of(path: Option<&PathBuf>) -> Self {
        Self(path.and_then(|path| File::open(path).ok()))
    }

    /// Waits for a turn.
    pub(super) fn take(&self) -> Turn<'_> {
        let Some(file) = &self.0 else { return Turn(None) };
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            if flock(file, FlockOperation::NonBlockingLockExclusive).is_ok() {
                return Turn(Some(file));
            }
            std::thread::sleep(PAUSE);
        }
        Turn(None)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if let Some(file) = self.0 {
            let _ = flock(file, FlockOperation::Unlock);
        }
    }
}

/// The path of this process's turns, for the processes that it starts; none where there is no such path.
pub(super) fn path() -> Option<PathBuf> {
    static FILE: OnceLock<Option<File>> = OnceLock::new();
    let file = FILE.get_or_init(|| tempfile::tempfile().ok()).as_ref()?;
    let path = PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()));
    path.exists().then_some(path)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    #[test]
    fn one_of_several_has_its_turn_and_nobody_waits_for_ever() {
        let path = path();
        assert_eq!(path.is_some(), cfg!(target_os = "linux"));
        let [one, other] = [Turns::of(path.as_ref()), Turns::of(path.as_ref())];
        let held = one.take();
        let start = Instant::now();
        assert!(other.take().0.is_none() || path.is_none());
        assert!(path.is_none() || start.elapsed() >= PATIENCE);
        drop(held);
        let start = Instant::now();
        assert!(other.take().0.is_some() || path.is_none());
        assert!(start.elapsed() < PATIENCE);
        assert!(Turns::of(None).take().0.is_none());
    }
}
