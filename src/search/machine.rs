//! The machine on which the jobs of a run are carried out.

use serde::{Deserialize, Serialize};

use crate::base::arch;
use crate::gpu::{self, Card};
use crate::toolchain::Toolchain;

/// What candidates are compiled with and judged on.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Machine {
    pub(super) card: Result<Card, String>,
    pub(super) compiler: Result<String, String>,
}

impl Machine {
    /// This one.
    pub(super) fn here() -> Self {
        Self {
            card: gpu::probe().map(|mut cards| cards.swap_remove(0)),
            compiler: Toolchain::find().map(|found| found.version).map_err(|why| why.to_string()),
        }
    }

    /// The architecture that candidates are compiled for.
    pub(super) fn arch(&self) -> u32 {
        let newest = || arch::defaults().last().copied().unwrap_or(90);
        self.card.as_ref().map_or_else(|_| newest(), |card| card.arch)
    }
}
