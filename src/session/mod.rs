//! One run of a project on a card, from its sources to a report: shared by `verify`, `bench`, `ci`, `tune` and `search`.

pub(crate) mod ahead;
pub mod checks;
pub mod machine;
mod torch;

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use crate::bench::{self, BenchReport};
use crate::compile::{self, Build};
use crate::evidence;
use crate::gpu::Card;
use crate::oracle;
use crate::project::Project;
use crate::toolchain::{Known, Toolchain};
use crate::verify::Choice;
use crate::verify::{self, VerifyReport};

/// Timed rounds per case by default.
pub(crate) const ROUNDS: u32 = 30;

/// Timed rounds per case of `kernels ci`, which records nothing.
pub(crate) const FEW_ROUNDS: u32 = 6;

/// The architectures whose PTX represents a T4 and an A100 on any later card.
const STAND_INS: [u32; 2] = [75, 80];

/// Reports progress.
pub(crate) type Tell<'a> = &'a (dyn Fn(&str) + Sync);

/// A project, read and compiled.
#[derive(Debug)]
pub(crate) struct Session {
    /// What its files say.
    pub(crate) project: Project,
    /// What they were compiled to.
    pub(crate) build: Build,
}

impl Session {
    /// Compiles a project for a card, and on request for the stand-in architectures older than it.
    pub(crate) fn open(project: Project, card: &Card, stand_ins: bool, tell: Tell) -> Result<Self> {
        let older = STAND_INS.into_iter().filter(|arch| stand_ins && *arch < card.arch);
        Self::compiled(project, card.arch, older, tell)
    }

    /// Compiles a project for `arch`, and for those of `more` that its kernels are compiled for.
    pub(crate) fn compiled(project: Project, arch: u32, more: impl Iterator<Item = u32>, tell: Tell) -> Result<Self> {
        oracle::check_names(&project)?;
        let toolchain = Toolchain::find()?;
        project.of_archs(&[arch])?;
        let archs: Vec<u32> = more.chain([arch]).collect();
        let known = Known::nothing();
        toolchain.must_compile_for(&[arch], &known)?;
        let (archs, _) = toolchain.divide(&project.of_archs(&archs)?, &known);
        tell(&format!("building {}", project.name));
        let build = compile::build(&project, &archs, &toolchain, false, tell)?;
        Ok(Self { project, build })
    }

    /// Compiles a project for what `kernels ci` builds for on a card of `arch`: all of it that its kernels are for and nvcc knows. Where the
    /// card's own is not among it, the driver compiles the newest older PTX.
    pub(crate) fn by_default(project: Project, arch: u32) -> Result<Self> {
        oracle::check_names(&project)?;
        let toolchain = Toolchain::find()?;
        let (archs, _) = toolchain.divide(&project.of_archs(&checks::archs(Some(arch)))?, &Known::nothing());
        let build = compile::build(&project, &archs, &toolchain, false, &|_| {})?;
        Ok(Self { project, build })
    }

    /// An error where a kernel exceeds its budget: no evidence is recorded of it.
    pub(crate) fn within_budgets(&self) -> Result<()> {
        let over = self.build.over_budget(&self.project);
        if over.is_empty() {
            return Ok(());
        }
        bail!("nothing was recorded, a budget is overrun:\n{}", over.join("\n"))
    }

    /// Checks the chosen cases against the oracles.
    pub(crate) fn verify(&self, choice: &Choice, tell: Tell) -> Result<VerifyReport> {
        // Before the process of any code path finds none.
        let mut any = false;
        for operation in &self.project.spec.operations {
            let seed = choice.seed.unwrap_or_default();
            any |= !choice.cases(operation, &operation.verify, seed)?.is_empty();
            any |= !choice.cases(operation, &operation.bench, seed)?.is_empty();
        }
        if !any {
            bail!("no case is left of {}: --filter, --dtype or --shape leave nothing", self.project.name);
        }
        verify::run::run(&self.project, &self.build, choice, tell)
    }

    /// Times the chosen cases.
    pub(crate) fn bench(&self, choice: &Choice, rounds: u32, tell: Tell) -> Result<BenchReport> {
        bench::run::run(&self.project, &self.build, choice, rounds, tell)
    }

    /// Writes evidence of both reports, and returns the files.
    pub(crate) fn record(
        &self,
        folder: Option<&Path>,
        bench: &BenchReport,
        verified: &VerifyReport,
    ) -> Result<Vec<PathBuf>> {
        let folder = evidence::folder(&self.project.root, folder);
        let digest = self.build.device_digest()?;
        evidence::record(&folder, bench, verified, &digest, (&self.project).into())
    }
}
