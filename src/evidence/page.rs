//! The tables of a page that are rendered from evidence: what stands between `<!-- evidence:CARD BLOCK -->` and
//! `<!-- /evidence -->`, each alone on its line. CARD is the short name in the records' file names, and nothing of
//! another card is in the block. docs/evidence.md lists the blocks.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};

use super::end_to_end::{EndToEndEvidence, PREFIX};
use super::{Evidence, Peers, brief, headline, operation, summary};
use crate::end_to_end::EndToEnd;
use crate::gpu::slug;
use crate::report::end_to_end::markdown;

const OPEN: &str = "<!-- evidence:";
const OPEN_END: &str = " -->";
const CLOSE: &str = "<!-- /evidence -->";

/// Everything recorded on one card.
pub(super) struct Records {
    /// By file name.
    pub operations: Vec<Evidence>,
    pub peers: Option<Peers>,
    pub models: Vec<EndToEnd>,
}

impl Records {
    fn of(dir: &Path, card: &str) -> Result<Self> {
        let operations = Evidence::read_all(dir)?.into_iter().map(|(_, one)| one);
        let models = EndToEndEvidence::read_all(dir)?.into_iter();
        Ok(Self {
            operations: operations.filter(|one| one.card.slug() == card).collect(),
            peers: Peers::of_card(dir, card)?,
            models: models
                .map(|(_, one)| one.result)
                .filter(|result| {
                    result
                        .card
                        .as_ref()
                        .is_some_and(|of| slug(&of.name) == card)
                })
                .collect(),
        })
    }

    /// The record of an operation.
    pub(super) fn operation(&self, name: &str) -> Option<&Evidence> {
        self.operations.iter().find(|one| one.operation == name)
    }

    /// The record of a model, by its name or by its block's, `e2e-NAME`.
    pub(super) fn model(&self, name: &str) -> Option<&EndToEnd> {
        let name = name.strip_prefix(PREFIX).unwrap_or(name);
        self.models.iter().find(|one| one.name == name)
    }

    /// Projects together, and their operations by name.
    pub(super) fn by_project(&self) -> Vec<&Evidence> {
        let mut all: Vec<&Evidence> = self.operations.iter().collect();
        all.sort_by_key(|one| (&one.project, &one.operation));
        all
    }
}

/// The page with every block rendered from the evidence in `dir`. Errors name the line of a block, or the file that
/// cannot be read.
pub fn render(page: &str, dir: &Path) -> Result<String> {
    let mut text = String::with_capacity(page.len());
    let mut inside: Option<usize> = None;
    for (number, line) in (1..).zip(page.split_inclusive('\n')) {
        let marker = line.trim();
        let opened = marker
            .strip_prefix(OPEN)
            .and_then(|rest| rest.strip_suffix(OPEN_END));
        match (inside, opened) {
            (Some(since), Some(_)) => {
                bail!("line {number}: the evidence block of line {since} is not closed")
            }
            (Some(_), None) if marker == CLOSE => {
                text.push_str(line);
                inside = None;
            }
            (Some(_), None) => {}
            (None, Some(words)) => {
                text.push_str(line);
                let (card, block) = words.split_once(' ').with_context(|| {
                    format!(
                        "line {number}: {marker} names no card: write `{OPEN}CARD BLOCK{OPEN_END}`"
                    )
                })?;
                let block = rendered(&Records::of(dir, card)?, block.trim())
                    .with_context(|| format!("line {number}"))?;
                let _ = write!(text, "\n{}\n\n", block.trim_end());
                inside = Some(number);
            }
            (None, None) => {
                ensure!(marker != CLOSE, "line {number}: {CLOSE} closes no block");
                text.push_str(line);
            }
        }
    }
    match inside {
        Some(since) => bail!("line {since}: the evidence block is not closed with {CLOSE}"),
        None => Ok(text),
    }
}

fn rendered(records: &Records, block: &str) -> Result<String> {
    let (kind, words) = block.split_once(' ').unwrap_or((block, ""));
    let names: Vec<&str> = words.split_whitespace().collect();
    Ok(match kind {
        "summary" => summary::table(records),
        "all" => operation::sections(records),
        "headline" => headline::table(records, &names)?,
        "brief" => brief::table(records, &names),
        "compute" => brief::compute(records, &names),
        "estimate" => brief::estimate(records, &names),
        model if model.starts_with(PREFIX) => records.model(model).map_or_else(
            || format!("Nothing is recorded of `{model}` yet: on a card, `kernels bench --e2e --record` in its project does it."),
            markdown::tables,
        ),
        name => records.operation(name).map_or_else(
            || format!("Nothing is recorded of `{name}` yet: on a card, `kernels bench --record` in its project does it."),
            |one| operation::table(one, records.peers.as_ref()),
        ),
    })
}

/// Stands in a block of all operations where there is none.
pub(super) fn nothing_yet() -> String {
    "Nothing is recorded yet: on a card, benches/gpu/prove does it.\n".to_owned()
}
