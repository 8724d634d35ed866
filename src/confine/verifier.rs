//! Confines the tests of a task, which run what a stranger's agent left: they write to one folder, reach no network and no
//! process but their own, and may confine what they start further.
//!
//! A list of what is forbidden, not of what is allowed as for compilers: tests are shells, Pythons and whole builds. Files are
//! held by Landlock, the rest by these calls. What Landlock does not see, such as the mode of a file of the user's, is not held.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde::{Deserialize, Serialize};

#[cfg(target_os = "linux")]
use super::{
    calls,
    files::{self, Right},
};

/// How a coding agent is confined otherwise than tests are.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Bounds {
    /// The one port that it connects to.
    pub(crate) port: u16,
    /// Folders that it cannot read.
    pub(crate) hidden: Vec<PathBuf>,
    /// What it can read and run even there.
    pub(crate) shown: Vec<PathBuf>,
    /// Where its standard output goes.
    pub(crate) events: PathBuf,
}

/// The folders that the tests may write to, and whether they use the card.
#[derive(Clone, Debug)]
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "confines nothing there"))]
pub(crate) struct Cell<'a> {
    pub(crate) writes: &'a [PathBuf],
    /// The card's devices, and the part of /proc in which the driver names its threads.
    pub(crate) card: bool,
    /// Folders that they cannot read, in whole and without links.
    pub(crate) hidden: &'a [PathBuf],
    /// Of a coding agent: it connects to one port, over TCP, and does not read everything.
    pub(crate) bounds: Option<&'a Bounds>,
}

impl Cell<'_> {
    /// Becomes the program; returns only if that fails. `KERNELS_HELD` tells it what holds for its files.
    #[cfg(target_os = "linux")]
    pub(crate) fn become_confined(&self, command: &mut Command) -> anyhow::Error {
        use std::os::unix::process::CommandExt;
        drop_watching();
        let scoped = match files::restrict_and_scope(&self.allowed(), self.bounds.map(|bounds| bounds.port)) {
            Ok((status, scoped)) => {
                command.env("KERNELS_HELD", format!("{status:?}"));
                scoped
            }
            Err(error) if self.bounds.is_some() => {
                return anyhow::anyhow!("Landlock failed, which holds an agent to one port from Linux 6.7 on: {error}");
            }
            Err(error) => return anyhow::anyhow!("Landlock failed: {error}"),
        };
        match calls::of_a_verifier(scoped, self.bounds.is_some(), self.card) {
            Ok(()) => command.exec().into(),
            Err(error) => error.into(),
        }
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) fn become_confined(&self, _command: &mut Command) -> anyhow::Error {
        anyhow::anyhow!("the tests of a task run what a stranger left, and are run on Linux only")
    }

    #[cfg(target_os = "linux")]
    fn allowed(&self) -> Vec<(PathBuf, Right)> {
        // The root as a whole: within another restriction it could not be listed, and no right comes back by it.
        let mut allowed = vec![(PathBuf::from("/"), Right::Run)];
        let hidden: Vec<PathBuf> =
            self.bounds.iter().flat_map(|bounds| &bounds.hidden).chain(self.hidden).cloned().collect();
        if !hidden.is_empty() {
            allowed.clear();
            beside(Path::new("/"), &hidden, &mut allowed);
        }
        allowed.extend(self.bounds.iter().flat_map(|bounds| &bounds.shown).map(|path| (path.clone(), Right::Run)));
        allowed.extend(self.writes.iter().map(|path| (path.clone(), Right::Write)));
        allowed.extend(files::devices(|name| self.card && files::is_card(name)));
        if self.card {
            allowed.push((PathBuf::from("/proc"), Right::Device));
        }
        allowed
    }
}

/// Takes from what this process becomes the capabilities by which root reads the memory and the environment of processes that
/// Landlock keeps from it (`CAP_PERFMON` does so from Linux 6.14 on). Another user has none of them, and nothing to drop.
#[cfg(target_os = "linux")]
fn drop_watching() {
    use rustix::thread::{CapabilitySet, remove_capability_from_bounding_set};
    for capability in [CapabilitySet::PERFMON, CapabilitySet::SYS_PTRACE, CapabilitySet::SYS_ADMIN] {
        let _ = remove_capability_from_bounding_set(capability);
    }
}

/// Allows to read what is in a folder, without the hidden folders. The folders above those cannot be listed.
#[cfg(target_os = "linux")]
fn beside(folder: &Path, hidden: &[PathBuf], allowed: &mut Vec<(PathBuf, Right)>) {
    for path in std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()) {
        if hidden.contains(&path) || path.is_symlink() {
            continue;
        }
        if hidden.iter().any(|hidden| hidden.starts_with(&path)) {
            beside(&path, hidden, allowed);
        } else {
            allowed.push((path, Right::Run));
        }
    }
}
