//! Which cases of an operation are verified or timed.

use anyhow::Result;

use crate::project::{Case, CaseSet, Operation};
use crate::worker::Choice;

impl Choice {
    /// The chosen cases of an operation, from one of its lists.
    pub(crate) fn cases(&self, operation: &Operation, sets: &[CaseSet], seed: u64) -> Result<Vec<Case>> {
        let mut cases = if self.shapes.is_empty() {
            operation.cases(sets, seed)?
        } else {
            let mut named = Vec::new();
            for shape in &self.shapes {
                for dtype in &operation.dtypes {
                    named.push(operation.case_of_shape(shape, *dtype)?);
                }
            }
            named
        };
        cases.retain(|case| self.dtypes.is_empty() || self.dtypes.contains(&case.dtype));
        if let Some(text) = &self.filter {
            cases.retain(|case| operation.name.contains(text.as_str()) || case.label.contains(text.as_str()));
        }
        Ok(cases)
    }

    /// Whether every operation is meant, whatever its cases.
    pub(super) fn is_whole(&self) -> bool {
        self.shapes.is_empty() && self.filter.is_none()
    }
}
