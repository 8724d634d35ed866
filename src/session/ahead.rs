//! Compiles projects ahead of their checks: while one is verified and timed, the next ones are compiled at low priority.

use std::path::PathBuf;
use std::sync::{Condvar, Mutex, PoisonError};

use super::checks::archs;
use super::machine::Lab;
use crate::base::nice;
use crate::bench::BenchReport;
use crate::compile::Build;
use crate::gpu::Card;
use crate::project::Project;
use crate::report::check::Check;
use crate::toolchain::{Known, Toolchain};
use crate::verify::VerifyReport;

/// A machine that compiles ahead: a build waits until the objects of its project are in the cache.
pub(crate) struct Ahead<'a, L> {
    lab: &'a L,
    /// The folders that are not compiled yet, in their order.
    left: Mutex<Vec<PathBuf>>,
    fewer: Condvar,
}

impl<'a, L: Lab + Sync> Ahead<'a, L> {
    /// Runs `checks` on a machine that compiles these projects, in their order, from now on.
    pub(crate) fn of<T>(lab: &'a L, dirs: &[PathBuf], checks: impl FnOnce(&Self) -> T) -> T {
        // Canonical, like the roots of projects. A folder that cannot be read is not compiled.
        let left = dirs.iter().filter_map(|dir| dir.canonicalize().ok()).collect();
        let ahead = Self { lab, left: Mutex::new(left), fewer: Condvar::new() };
        std::thread::scope(|scope| {
            scope.spawn(|| ahead.compile());
            checks(&ahead)
        })
    }

    /// Compiles what is left. The checks build again: from the cache, or for the error.
    fn compile(&self) {
        let _done = Done(self);
        nice();
        let toolchain = self.lab.toolchain();
        let archs = archs(self.lab);
        loop {
            let next = self.left.lock().unwrap_or_else(PoisonError::into_inner).first().cloned();
            let Some(dir) = next else { return };
            if let (Ok(toolchain), Ok(project)) = (&toolchain, Project::open(&dir))
                && let Ok(archs) = project.of_archs(&archs)
            {
                let (archs, _) = toolchain.divide(&archs, &Known::nothing());
                let _ = self.lab.build(&project, &archs, toolchain);
            }
            self.left.lock().unwrap_or_else(PoisonError::into_inner).remove(0);
            self.fewer.notify_all();
        }
    }
}

/// Lets waiting builds continue when nothing more is compiled, also after a panic.
struct Done<'a, L>(&'a Ahead<'a, L>);

impl<L> Drop for Done<'_, L> {
    fn drop(&mut self) {
        self.0.left.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.0.fewer.notify_all();
    }
}

impl<L: Lab + Sync> Lab for Ahead<'_, L> {
    fn build(&self, project: &Project, archs: &[u32], toolchain: &Toolchain) -> anyhow::Result<Build> {
        let left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let waits = |left: &mut Vec<PathBuf>| left.contains(&project.root);
        drop(self.fewer.wait_while(left, waits).unwrap_or_else(PoisonError::into_inner));
        self.lab.build(project, archs, toolchain)
    }

    fn card(&self) -> Result<Card, String> {
        self.lab.card()
    }
    fn toolchain(&self) -> Result<Toolchain, String> {
        self.lab.toolchain()
    }
    fn pinned(&self) -> Result<Toolchain, String> {
        self.lab.pinned()
    }
    fn device_digest(&self, build: &Build) -> anyhow::Result<String> {
        self.lab.device_digest(build)
    }
    fn torch(&self, project: &Project, python: Option<&PathBuf>, required: bool, tell: &mut dyn FnMut(Check)) {
        self.lab.torch(project, python, required, tell);
    }
    fn verify(&self, project: &Project, build: &Build) -> anyhow::Result<VerifyReport> {
        self.lab.verify(project, build)
    }
    fn bench(&self, project: &Project, build: &Build) -> anyhow::Result<BenchReport> {
        self.lab.bench(project, build)
    }
}
