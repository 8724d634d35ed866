//! The compiler and the card that the checks use. A trait, so that tests can replace both.

use std::path::PathBuf;

use super::FEW_ROUNDS;
use super::torch;
use crate::bench::{self, BenchReport};
use crate::compile::{self, Build};
use crate::gpu::{self, Card};
use crate::project::Project;
use crate::report::check::Check;
use crate::toolchain::{self, Toolchain};
use crate::verify::{self, Choice, VerifyReport};

/// A machine on which projects are compiled, verified and timed.
pub trait Lab {
    /// The card, or the reason why there is none.
    fn card(&self) -> Result<Card, String>;
    /// The compiler to build with, or the reason why there is none.
    fn toolchain(&self) -> Result<Toolchain, String>;
    /// The compiler that evidence is tied to; if missing, how to get it.
    fn pinned(&self) -> Result<Toolchain, String>;
    /// Compiles a project for some architectures.
    fn build(&self, project: &Project, archs: &[u32], toolchain: &Toolchain) -> anyhow::Result<Build>;
    /// A digest of the device code.
    fn device_digest(&self, build: &Build) -> anyhow::Result<String>;
    /// Builds a project for torch, loads the build and runs the project's tests, with a check for each.
    /// `required`: a check for which something is missing fails.
    fn torch(&self, project: &Project, python: Option<&PathBuf>, required: bool, tell: &mut dyn FnMut(Check));
    /// Waits for one of these projects, of which there is at least one, to be verified ahead, and returns its index.
    fn verified_first(&self, _projects: &[&Project]) -> usize {
        0
    }
    /// Checks all cases of a project on the card, on all code paths of a build by default.
    fn verify(&self, project: &Project, build: &Build) -> anyhow::Result<VerifyReport>;
    /// Times all cases of a project on the card.
    fn bench(&self, project: &Project, build: &Build) -> anyhow::Result<BenchReport>;
}

/// This machine.
#[derive(Debug)]
pub(crate) struct Here;

impl Lab for Here {
    fn card(&self) -> Result<Card, String> {
        gpu::probe().map(|mut cards| cards.swap_remove(0))
    }

    fn toolchain(&self) -> Result<Toolchain, String> {
        Toolchain::find().map_err(|error| error.to_string())
    }

    fn pinned(&self) -> Result<Toolchain, String> {
        // Another toolkit may take precedence for building while the pinned one is installed as well.
        toolchain::candidates()
            .into_iter()
            .filter_map(|candidate| candidate.found.ok())
            .find(Toolchain::is_pinned)
            .ok_or_else(|| {
                format!(
                    "evidence is tied to nvcc {}, which is not here; `kernels toolchain install` installs it",
                    Toolchain::PINNED
                )
            })
    }

    fn build(&self, project: &Project, archs: &[u32], toolchain: &Toolchain) -> anyhow::Result<Build> {
        compile::build(project, archs, toolchain, false, &|_| {})
    }

    fn device_digest(&self, build: &Build) -> anyhow::Result<String> {
        build.device_digest()
    }

    fn torch(&self, project: &Project, python: Option<&PathBuf>, required: bool, tell: &mut dyn FnMut(Check)) {
        torch::checks(&project.root, python, required, tell);
    }

    fn verify(&self, project: &Project, _: &Build) -> anyhow::Result<VerifyReport> {
        verify::whole(project, Choice::default())
    }

    fn bench(&self, project: &Project, build: &Build) -> anyhow::Result<BenchReport> {
        bench::run::run(project, build, &Choice::default(), FEW_ROUNDS, &|_| {})
    }
}
