//! Compiles and verifies projects ahead of their checks: while one is checked, the next ones are compiled at low priority, and what is
//! compiled is verified. A verification spends much of its time waiting for the driver's compiler and for the card: some at a time take
//! less than one after another.

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
const CORES: usize = 5;
/// Bytes of device memory for a verification: its code paths, four at most, reserve some 2 GB each for the largest shapes.
const MEMORY: u64 = 16 << 30;
/// Verifications at a time, at most: with more, they wait for each other's turns on the card.
const MOST: usize = 3;

/// How many projects are verified at a time on a card, by a machine with so many cores.
fn at_a_time(card: &Card, cores: usize) -> usize {
    let room = usize::try_from(card.memory_bytes / MEMORY).unwrap_or(MOST);
    (cores / CORES).min(room).clamp(1, MOST)
}

/// A machine that works ahead: a build waits until the objects of its project are in the cache, and a verification for the one that
/// is under way.
pub(crate) struct Ahead<'a, L> {
    lab: &'a L,
    /// The folders, in their order.
    dirs: Vec<PathBuf>,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// How many of the folders are compiled.
    compiled: usize,
    /// Of the projects in these folders, what was found, or nothing yet.
    verified: HashMap<PathBuf, Option<Found>>,
}

impl State {
    /// Whether it will be verified ahead, and is not yet.
    fn is_under_way(&self, project: &Project) -> bool {
        matches!(self.verified.get(&project.root), Some(None))
    }
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
        let verifying = lab.card().map_or(0, |card| at_a_time(&card, cores()));
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
        let card = self.lab.card().ok().map(|card| card.arch);
        let (archs, _) = toolchain.divide(&project.of_archs(&archs(card)).ok()?, &Known::nothing());
        let build = self.lab.build(&project, &archs, &toolchain).ok()?;
        Some((project, build))
    }

    /// Verifies one project after another, those that the other threads leave. One that does not build is left to its checks.
    fn verify_some(&self, next: &AtomicUsize) {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(dir) = self.dirs.get(index) else { return };
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
    fn verified_first(&self, projects: &[&Project]) -> usize {
        let ended = |state: &State| projects.iter().position(|project| !state.is_under_way(project));
        ended(&self.wait(|state| ended(state).is_none())).unwrap_or(0)
    }
    fn verify(&self, project: &Project, build: &Build) -> anyhow::Result<VerifyReport> {
        match self.wait(|state| state.is_under_way(project)).verified.remove(&project.root) {
            Some(Some(found)) if found.texts == texts(project) => found.report,
            // Changed in the meantime, or not verified ahead.
            _ => self.lab.verify(project, build),
        }
    }
    fn bench(&self, project: &Project, build: &Build) -> anyhow::Result<BenchReport> {
        self.lab.bench(project, build)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    /// A machine that notes what it does, and compiles slowly. Each verification has another error.
    struct Noting {
        card: Result<Card, String>,
        done: Mutex<Vec<String>>,
    }

    impl Noting {
        fn new(card: Result<Card, String>) -> Self {
            Self { card, done: Mutex::default() }
        }

        fn note(&self, what: &str, project: &Project) -> String {
            let mut done = self.done.lock().unwrap();
            done.push(format!("{what} {}", project.root.file_name().unwrap().display()));
            format!("{} is number {}", project.root.display(), done.len())
        }

        fn times(&self, what: &str) -> usize {
            self.done.lock().unwrap().iter().filter(|done| *done == what).count()
        }
    }

    impl Lab for Noting {
        fn card(&self) -> Result<Card, String> {
            self.card.clone()
        }
        fn toolchain(&self) -> Result<Toolchain, String> {
            let (version, origin) = (Toolchain::PINNED.to_owned(), "PATH".to_owned());
            Ok(Toolchain { nvcc: PathBuf::from("nvcc"), version, origin, library_dirs: Vec::new() })
        }
        fn pinned(&self) -> Result<Toolchain, String> {
            self.toolchain()
        }
        fn build(&self, project: &Project, _: &[u32], toolchain: &Toolchain) -> anyhow::Result<Build> {
            std::thread::sleep(std::time::Duration::from_millis(30));
            self.note("build", project);
            Ok(Build { compiler: toolchain.version.clone(), targets: Vec::new(), compiled: 0 })
        }
        fn device_digest(&self, _: &Build) -> anyhow::Result<String> {
            anyhow::bail!("nothing is digested")
        }
        fn torch(&self, _: &Project, _: Option<&PathBuf>, _: bool, _: &mut dyn FnMut(Check)) {}
        fn verify(&self, project: &Project, _: &Build) -> anyhow::Result<VerifyReport> {
            anyhow::bail!("{}", self.note("verify", project))
        }
        fn bench(&self, _: &Project, _: &Build) -> anyhow::Result<BenchReport> {
            anyhow::bail!("nothing is timed")
        }
    }

    fn card(memory_bytes: u64) -> Card {
        let text = format!(
            r#"{{"name": "a card", "arch": 90, "sms": 1, "l2_bytes": 1, "memory_bytes": {memory_bytes}, "driver": null,
                "cuda": "13.0", "peak_gbs": null}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    fn toml(rows: &str) -> String {
        format!("{}rows = {rows}\ncolumns = 1\n", Project::TRANSPOSE)
    }

    fn folders(names: &[&str]) -> (tempfile::TempDir, Vec<PathBuf>) {
        let all = tempfile::tempdir().unwrap();
        let dirs: Vec<PathBuf> = names.iter().map(|name| all.path().join(name)).collect();
        for dir in &dirs {
            std::fs::create_dir(dir).unwrap();
            Project::written(dir, &toml("3")).unwrap();
        }
        (all, dirs)
    }

    fn said(lab: &impl Lab, dir: &Path) -> String {
        let project = Project::open(dir).unwrap();
        let build = lab.build(&project, &[], &lab.toolchain().unwrap()).unwrap();
        lab.verify(&project, &build).unwrap_err().to_string()
    }

    #[test]
    fn each_project_is_verified_once_after_it_is_compiled_and_its_checks_get_what_was_found() {
        let (_all, dirs) = folders(&["a", "b", "c"]);
        let lab = Noting::new(Ok(card(MEMORY)));
        let found: Vec<String> = Ahead::of(&lab, &dirs, |ahead| dirs.iter().map(|dir| said(ahead, dir)).collect());
        for (dir, found) in dirs.iter().zip(found) {
            let name = dir.file_name().unwrap().to_str().unwrap();
            assert_eq!(lab.times(&format!("verify {name}")), 1);
            let done = lab.done.lock().unwrap();
            let place = done.iter().position(|done| *done == format!("verify {name}")).unwrap();
            assert_eq!(found, format!("{} is number {}", dir.canonicalize().unwrap().display(), place + 1));
            assert!(done[..place].contains(&format!("build {name}")), "{done:?}");
        }
    }

    #[test]
    fn what_was_verified_first_is_known() {
        let (_all, dirs) = folders(&["a", "b"]);
        let lab = Noting::new(Ok(card(MEMORY)));
        Ahead::of(&lab, &dirs, |ahead| {
            let [a, b] = [0, 1].map(|index| Project::open(&dirs[index]).unwrap());
            drop(ahead.wait(|state| !matches!(state.verified.get(&a.root), Some(Some(_)))));
            let first = ahead.verified_first(&[&b, &a]);
            assert!(first == 1 || lab.times("verify b") == 1, "{first}");
            assert_eq!(ahead.verified_first(&[&a]), 0);
            assert_eq!(ahead.verified_first(&[&b]), 0);
        });
    }

    #[test]
    fn what_changed_or_was_not_verified_ahead_is_verified_for_its_checks() {
        let (_all, dirs) = folders(&["a", "b"]);
        let lab = Noting::new(Ok(card(MEMORY)));
        Ahead::of(&lab, &dirs[..1], |ahead| {
            drop(ahead.wait(|state| state.verified.values().any(Option::is_none)));
            std::fs::write(dirs[0].join("kernel.toml"), toml("4")).unwrap();
            for dir in &dirs {
                said(ahead, dir);
            }
        });
        assert_eq!([lab.times("verify a"), lab.times("verify b")], [2, 1]);
        // A folder that is no project any more keeps nobody waiting.
        std::fs::remove_file(dirs[0].join("kernel.toml")).unwrap();
        Ahead::of(&lab, &dirs, |ahead| said(ahead, &dirs[1]));
        assert_eq!([lab.times("verify a"), lab.times("verify b")], [2, 2]);
        let none = Noting::new(Err("no card".to_owned()));
        Ahead::of(&none, &dirs[1..], |_| ());
        assert_eq!([none.times("build b"), none.times("verify b")], [1, 0]);
    }

    #[test]
    fn as_many_are_verified_at_a_time_as_cores_and_memory_allow() {
        for (cores, memory, expected) in [
            (2, MEMORY * 9, 1),
            (9, MEMORY * 9, 1),
            (10, MEMORY * 9, 2),
            (16, MEMORY * 9, 3),
            (64, MEMORY * 9, 3),
            (64, MEMORY * 3 - 1, 2),
            (64, MEMORY * 2 - 1, 1),
        ] {
            assert_eq!(at_a_time(&card(memory), cores), expected, "{cores} {memory}");
        }
    }
}
