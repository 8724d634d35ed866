//! Compiles and verifies projects ahead of their checks: while one is checked, the next ones are compiled at low priority, and what is
//! compiled is verified. A verification waits much for the driver's compiler and for the card, so that two of them at a time end sooner.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::checks::archs;
use super::machine::Lab;
use crate::base::{cores, nice};
use crate::bench::BenchReport;
use crate::compile::Build;
use crate::gpu::Card;
use crate::project::Project;
use crate::report::check::Check;
use crate::toolchain::{Known, Toolchain};
use crate::verify::VerifyReport;

/// Cores that a verification keeps busy, about.
const CORES: usize = 8;
/// Verifications at a time, at most: with more, they wait for each other's turns on the card.
const MOST: usize = 2;

/// A machine that works ahead: a build waits until the objects of its project are in the cache, and a verification for the one that
/// is under way.
pub(crate) struct Ahead<'a, L> {
    lab: &'a L,
    /// The folders, in their order.
    dirs: Vec<PathBuf>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// How many of the folders are compiled.
    compiled: usize,
    /// Of the projects in these folders, what was found, or nothing yet.
    verified: HashMap<PathBuf, Option<Found>>,
}

/// What a verification found, and digests of the project's texts.
struct Found {
    report: anyhow::Result<VerifyReport>,
    texts: [String; 2],
}

fn texts(project: &Project) -> [String; 2] {
    [project.spec_digest.clone(), project.source_digest.clone()]
}

impl<'a, L: Lab + Sync> Ahead<'a, L> {
    /// Runs `checks` on a machine that compiles these projects, in their order, from now on, and verifies them if it has a card.
    pub(crate) fn of<T>(lab: &'a L, dirs: &[PathBuf], checks: impl FnOnce(&Self) -> T) -> T {
        // Canonical, like the roots of projects. A folder that cannot be read is neither compiled nor verified ahead.
        let dirs: Vec<PathBuf> = dirs.iter().filter_map(|dir| dir.canonicalize().ok()).collect();
        let verifying = if lab.card().is_ok() { (cores() / CORES).clamp(1, MOST) } else { 0 };
        let to_verify = if verifying > 0 { dirs.as_slice() } else { &[] };
        let verified = to_verify.iter().map(|dir| (dir.clone(), None)).collect();
        let state = Mutex::new(State { compiled: 0, verified });
        let ahead = &Self { lab, dirs, state, changed: Condvar::new() };
        let next = &AtomicUsize::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| ahead.compile());
            for _ in 0..verifying {
                scope.spawn(|| ahead.verify_some(next));
            }
            checks(ahead)
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state());
        self.changed.notify_all();
    }

    /// Waits while something holds of the state.
    fn wait(&self, holds: impl Fn(&State) -> bool) -> MutexGuard<'_, State> {
        self.changed.wait_while(self.state(), |state| holds(state)).unwrap_or_else(PoisonError::into_inner)
    }

    /// Compiles one project after another. The checks build again: from the cache, or for the error.
    fn compile(&self) {
        let _done = Done(|| self.change(|state| state.compiled = self.dirs.len()));
        nice();
        for dir in &self.dirs {
            self.built(dir);
            self.change(|state| state.compiled += 1);
        }
    }

    fn built(&self, dir: &Path) -> Option<(Project, Build)> {
        let toolchain = self.lab.toolchain().ok()?;
        let project = Project::open(dir).ok()?;
        let (archs, _) = toolchain.divide(&project.of_archs(&archs(self.lab)).ok()?, &Known::nothing());
        let build = self.lab.build(&project, &archs, &toolchain).ok()?;
        Some((project, build))
    }

    /// Verifies one project after another, those that the other threads leave. One that does not build is left to its checks.
    fn verify_some(&self, next: &AtomicUsize) {
        while let Some((index, dir)) = {
            let index = next.fetch_add(1, Ordering::Relaxed);
            self.dirs.get(index).map(|dir| (index, dir))
        } {
            // Also after a panic: the checks verify what was not.
            let _left =
                Done(|| self.change(|state| state.verified.retain(|root, found| root != dir || found.is_some())));
            drop(self.wait(|state| state.compiled <= index));
            if let Some((project, build)) = self.built(dir) {
                let found = Found { report: self.lab.verify(&project, &build), texts: texts(&project) };
                self.change(|state| drop(state.verified.insert(dir.clone(), Some(found))));
            }
        }
    }
}

/// Does something when it is dropped, also after a panic.
struct Done<F: Fn()>(F);

impl<F: Fn()> Drop for Done<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

impl<L: Lab + Sync> Lab for Ahead<'_, L> {
    fn build(&self, project: &Project, archs: &[u32], toolchain: &Toolchain) -> anyhow::Result<Build> {
        if let Some(index) = self.dirs.iter().position(|dir| *dir == project.root) {
            drop(self.wait(|state| state.compiled <= index));
        }
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
        let under_way = |state: &State| matches!(state.verified.get(&project.root), Some(None));
        match self.wait(under_way).verified.remove(&project.root) {
            Some(Some(found)) if found.texts == texts(project) => found.report,
            // Changed in the meantime, or not verified ahead.
            _ => self.lab.verify(project, build),
        }
    }
    fn bench(&self, project: &Project, build: &Build) -> anyhow::Result<BenchReport> {
        self.lab.bench(project, build)
    }
}
