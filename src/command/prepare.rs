//! Shared by verify and bench: the card, the choice of cases, the heading of a report, signatures.

use std::path::Path;

use anyhow::Result;

use crate::cli::project::Selection;
use crate::command::failure::Usage;
use crate::evidence::signature;
use crate::gpu::{self, Card};
use crate::project::{DType, Operation, Project};
use crate::report::{Output, style};
use crate::verify::Choice;

/// The card with this number; an error says why there is none.
pub(crate) fn card(ordinal: usize) -> Result<Card> {
    let cards = gpu::probe().map_err(|why| {
        anyhow::anyhow!(
            "no card to run on: {why}; `kernels build` needs none, `kernels ci` checks what can be checked without one"
        )
    })?;
    let count = cards.len();
    cards
        .into_iter()
        .nth(ordinal)
        .ok_or_else(|| Usage(format!("--device {ordinal}: this machine has {count}, counted from 0")).into())
}

/// On a card, says that a program that was compiled in a short time takes long to compare.
pub(crate) fn say_if_slow(output: Output) {
    if env!("KERNELS_OPT_LEVEL") == "0" {
        output.note(
            "this program is compiled without optimization, and compares several times as slowly; \
             `cargo build --profile dist` builds what is shipped",
        );
    }
}

/// The choice that a selection on the command line makes.
pub(crate) fn choice(selection: &Selection, native_only: bool) -> Result<Choice> {
    let dtypes = selection
        .dtype
        .iter()
        .map(|name| {
            DType::from_name(name).ok_or_else(|| {
                Usage(format!("--dtype {name}: there is no such type; the types are {}", DType::NAMES.join(", ")))
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
        turns: None,
    })
}

/// Leaves out the operations that do not take every `--shape`, and returns why. An error if none does.
pub(crate) fn of_shapes(project: &mut Project, choice: &Choice) -> Result<Vec<String>> {
    let mut left_out = Vec::new();
    if !choice.shapes.is_empty() {
        let taken = |operation: &Operation| choice.cases(operation, &[], 0).map_err(|why| why.to_string());
        project.spec.operations.retain(|operation| taken(operation).map_err(|why| left_out.push(why)).is_ok());
    }
    match left_out.first() {
        Some(why) if project.spec.operations.is_empty() => Err(Usage(why.clone()).into()),
        _ => Ok(left_out),
    }
}

/// Prints what was measured: project, card, driver, compiler, seed.
pub(crate) fn show_heading(project: &str, card: &Card, compiler: &str, seed: u64, output: Output) {
    output.line(format!(
        "{} on {} (driver {}, nvcc {compiler}), seed {seed}",
        style::strong(project),
        card.name,
        card.driver.as_deref().unwrap_or("unknown"),
    ));
}

/// Signs a record, or removes the signature of the one that it replaced; returns what to print.
pub(crate) fn signed(record: &Path, key: Option<&Path>) -> Result<String> {
    match key {
        Some(key) => Ok(format!(", signed in {}", signature::sign(record, key)?.display())),
        None => signature::remove(record).map(|()| ", unsigned: --sign KEY signs it".to_owned()),
    }
}
