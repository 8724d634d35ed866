//! What verify, bench and ci do first: read the project, find the compiler, build.

use std::path::Path;

use anyhow::Result;

use crate::cli::project::Selection;
use crate::command::failure::Usage;
use crate::compile::{self, Build};
use crate::gpu::{self, Card};
use crate::project::{DType, Project};
pub(super) use crate::report::Progress;
use crate::report::{Output, style};
use crate::toolchain::Toolchain;
use crate::verify::Choice;

/// The architectures whose PTX stands in for a T4 and an A100 on any later card.
pub const STAND_INS: [u32; 2] = [75, 80];

/// The card of that number, or why there is none.
pub fn card(ordinal: usize) -> Result<Card> {
    let cards = gpu::probe().map_err(|why| {
        anyhow::anyhow!(
            "no card to run on: {why}; `kernels build` needs none, `kernels ci` checks what can be checked without one"
        )
    })?;
    let count = cards.len();
    cards.into_iter().nth(ordinal).ok_or_else(|| {
        Usage(format!(
            "--device {ordinal}: this machine has {count}, counted from 0"
        ))
        .into()
    })
}

/// A project read and compiled for a card, and for the stand-ins that are older than it.
pub fn build_for(
    dir: &Path,
    card: &Card,
    stand_ins: bool,
    progress: &Progress,
) -> Result<(Project, Build)> {
    let project = Project::open(dir)?;
    let toolchain = Toolchain::find()?;
    let mut archs: Vec<u32> = if stand_ins {
        STAND_INS
            .into_iter()
            .filter(|arch| *arch < card.arch)
            .collect()
    } else {
        Vec::new()
    };
    archs.push(card.arch);
    // A card that is too old is an error; a stand-in that is, is left out.
    project.of_archs(&[card.arch])?;
    let archs = project.of_archs(&archs)?;
    progress.tell(&format!("building {}", project.name));
    let build = compile::build(&project, &archs, &toolchain, false, &|line| {
        progress.tell(line);
    })?;
    Ok((project, build))
}

/// What a selection on the command line means.
pub fn choice(selection: &Selection, native_only: bool) -> Result<Choice> {
    let dtypes = selection
        .dtype
        .iter()
        .map(|name| {
            DType::from_name(name).ok_or_else(|| {
                Usage(format!(
                    "--dtype {name}: no such type; there are f32, f16, bf16, i32, i64"
                ))
                .into()
            })
        })
        .collect::<Result<_>>()?;
    Ok(Choice {
        filter: selection.filter.clone(),
        dtypes,
        shapes: selection.shape.clone(),
        seed: selection.seed,
        ordinal: selection.device,
        native_only,
    })
}

/// What a report is of: project, card, driver, compiler, seed.
pub fn show_heading(project: &str, card: &Card, compiler: &str, seed: u64, output: Output) {
    output.line(format!(
        "{} on {} (driver {}, nvcc {compiler}), seed {seed}",
        style::strong(project),
        card.name,
        card.driver.as_deref().unwrap_or("unknown"),
    ));
}
