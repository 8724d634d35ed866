//! All records of one card.

use std::path::Path;

use anyhow::Result;

use super::end_to_end::{EndToEndEvidence, PREFIX};
use super::{Evidence, Peers};
use crate::end_to_end::EndToEnd;
use crate::gpu::slug;

/// The records of a folder that are of one card.
pub(super) struct Records {
    /// By file name.
    pub(crate) operations: Vec<Evidence>,
    pub(crate) peers: Option<Peers>,
    pub(crate) models: Vec<EndToEnd>,
}

impl Records {
    pub(super) fn of(dir: &Path, card: &str) -> Result<Self> {
        let operations = Evidence::read_all(dir)?.into_iter().map(|(_, one)| one);
        let models = EndToEndEvidence::read_all(dir)?.into_iter();
        Ok(Self {
            operations: operations.filter(|one| one.card.slug() == card).collect(),
            peers: Peers::of_card(dir, card)?,
            models: models
                .map(|(_, one)| one.result)
                .filter(|result| result.card.as_ref().is_some_and(|of| slug(&of.name) == card))
                .collect(),
        })
    }

    /// The record of an operation.
    pub(super) fn operation(&self, name: &str) -> Option<&Evidence> {
        self.operations.iter().find(|one| one.operation == name)
    }

    /// The record of a model, by its name or that of its block, `e2e-NAME`.
    pub(super) fn model(&self, name: &str) -> Option<&EndToEnd> {
        let name = name.strip_prefix(PREFIX).unwrap_or(name);
        self.models.iter().find(|one| one.name == name)
    }

    /// Grouped by project, then sorted by operation.
    pub(super) fn by_project(&self) -> Vec<&Evidence> {
        let mut all: Vec<&Evidence> = self.operations.iter().collect();
        all.sort_by_key(|one| (&one.project, &one.operation));
        all
    }
}

/// The text of a block of all operations if there are none.
pub(super) fn nothing_yet() -> String {
    "Nothing is recorded yet: on a card, benches/gpu/prove does it.\n".to_owned()
}
