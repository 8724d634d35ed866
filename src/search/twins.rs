//! Which earlier candidate one is again: as a text, as a change of the same parent, or as compiled code.

use std::path::Path;

use anyhow::Result;

use super::event::Plan;
use super::novelty;
use super::sources::Sources;
use super::state::{Candidate, State};

/// The digest of a proposal's tokens, the signature of what it changes of its first parent, and the sources that differ.
pub(super) fn compared(
    state: &State,
    run: &Path,
    plan: &Plan,
    sources: &Sources,
) -> Result<(String, String, Vec<String>)> {
    let program = novelty::program(sources);
    let Some(parent) = plan.parents.first() else { return Ok((program, String::new(), Vec::new())) };
    let parent = state.sources(run, *parent)?;
    Ok((program, novelty::change(&parent, sources), sources.changed(&parent)))
}

/// The earlier candidate that a proposal repeats, and how.
pub(crate) fn twin(state: &State, plan: &Plan, program: &str, change: &str) -> Option<(u32, &'static str)> {
    let earlier = state.candidates.iter().filter(|one| one.id() < plan.candidate);
    let mut earlier = earlier.filter_map(|one| Some((one, one.proposed.as_ref()?)));
    earlier.find_map(|(one, proposed)| {
        if proposed.tree.is_some() && proposed.program == program {
            return Some((one.id(), "but for comments and white space it is"));
        }
        let siblings = !plan.parents.is_empty() && one.plan.parents == plan.parents;
        let same = siblings && novelty::similarity(&proposed.change, change) >= novelty::SAME;
        same.then_some((one.id(), "what it changes of its parent is nearly what was changed by"))
    })
}

/// The earlier candidate with the same code.
pub(crate) fn same_code(state: &State, id: u32, code: &str) -> Option<u32> {
    let earlier = state.candidates.iter().filter(|one| one.id() < id);
    let mut with_code = earlier.filter(|one| {
        one.compiled
            .as_ref()
            .is_some_and(|compiled| compiled.same_as.is_none() && compiled.code.as_deref() == Some(code))
    });
    with_code.next().map(Candidate::id)
}
