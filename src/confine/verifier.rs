//! Confines the tests of a task, which run what a stranger's agent left: they write to one folder, reach no network and no
//! process but their own, and may confine what they start further.
//!
//! A list of what is forbidden, not of what is allowed as for compilers: tests are shells, Pythons and whole builds. Files are
//! held by Landlock, the rest by these calls. What Landlock does not see, such as the mode of a file of the user's, is not held.

use std::path::PathBuf;
use std::process::Command;

#[cfg(target_os = "linux")]
use super::{
    calls,
    files::{self, Right},
};

/// The folders that the tests may write to, and whether they use the card.
#[derive(Clone, Debug)]
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "confines nothing there"))]
pub(crate) struct Cell<'a> {
    pub(crate) writes: &'a [PathBuf],
    /// The card's devices, and the part of /proc in which the driver names its threads.
    pub(crate) card: bool,
}

impl Cell<'_> {
    /// Becomes the program; returns only if that fails. `KERNELS_HELD` tells it what holds for its files.
    #[cfg(target_os = "linux")]
    pub(crate) fn become_confined(&self, command: &mut Command) -> anyhow::Error {
        use std::os::unix::process::CommandExt;
        let scoped = match files::restrict_and_scope(&self.allowed()) {
            Ok((status, scoped)) => {
                command.env("KERNELS_HELD", format!("{status:?}"));
                scoped
            }
            Err(error) => return anyhow::anyhow!("Landlock failed: {error}"),
        };
        match calls::of_a_verifier(scoped) {
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
        allowed.extend(self.writes.iter().map(|path| (path.clone(), Right::Write)));
        allowed.extend(files::devices(|name| self.card && files::is_card(name)));
        if self.card {
            allowed.push((PathBuf::from("/proc"), Right::Device));
        }
        allowed
    }
}
