//! What the checks need of the machine: a compiler and a card. A trait, so that the checks can be tested with
//! every compiler and every card, and with none.

use super::ROUNDS;
use crate::bench::{self, BenchReport};
use crate::compile::{self, Build};
use crate::gpu::{self, Card};
use crate::project::Project;
use crate::toolchain::{self, Toolchain};
use crate::verify::{self, Choice, VerifyReport};

/// A machine on which projects are compiled, verified and timed.
pub trait Lab {
    /// The card; where there is none, why.
    fn card(&self) -> Result<Card, String>;
    /// The compiler to build with; where there is none, why.
    fn toolchain(&self) -> Result<Toolchain, String>;
    /// The compiler that evidence is tied to; where it is not here, how to get it.
    fn pinned(&self) -> Result<Toolchain, String>;
    /// Compiles a project for some architectures.
    fn build(
        &self,
        project: &Project,
        archs: &[u32],
        toolchain: &Toolchain,
    ) -> anyhow::Result<Build>;
    /// A digest of the device code.
    fn device_digest(&self, build: &Build) -> anyhow::Result<String>;
    /// Checks all cases of a project on the card.
    fn verify(&self, project: &Project, build: &Build) -> anyhow::Result<VerifyReport>;
    /// Times all cases of a project on the card.
    fn bench(&self, project: &Project, build: &Build) -> anyhow::Result<BenchReport>;
}

/// This machine.
#[derive(Debug)]
pub struct Here;

impl Lab for Here {
    fn card(&self) -> Result<Card, String> {
        gpu::probe().map(|mut cards| cards.swap_remove(0))
    }

    fn toolchain(&self) -> Result<Toolchain, String> {
        Toolchain::find().map_err(|error| error.to_string())
    }

    fn pinned(&self) -> Result<Toolchain, String> {
        // Another may come first for building, and the pinned one be here all the same.
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

    fn build(
        &self,
        project: &Project,
        archs: &[u32],
        toolchain: &Toolchain,
    ) -> anyhow::Result<Build> {
        compile::build(project, archs, toolchain, false, &|_| {})
    }

    fn device_digest(&self, build: &Build) -> anyhow::Result<String> {
        build.device_digest()
    }

    fn verify(&self, project: &Project, build: &Build) -> anyhow::Result<VerifyReport> {
        verify::run::run(project, build, &Choice::default(), &|_| {})
    }

    fn bench(&self, project: &Project, build: &Build) -> anyhow::Result<BenchReport> {
        bench::run::run(project, build, &Choice::default(), ROUNDS, &|_| {})
    }
}
