//! What a function is called on in place of a launcher, and what comes of it.

use anyhow::Result;

use super::layout::Layout;
use crate::project::{Bound, Case, Operation};

/// What a function is called on.
pub(crate) struct Given<'a> {
    pub(crate) operation: &'a Operation,
    pub(crate) case: &'a Case,
    pub(crate) bound: &'a Bound,
    pub(crate) layout: &'a Layout,
    pub(crate) slot: &'a [u8],
}

/// Why there is no result.
pub(crate) enum Unanswered {
    /// The function does not take this case, and says why.
    Refused(String),
    /// There is no such function, or it cannot be called so.
    Absent(String),
    /// The card or the process is lost.
    Lost(String),
}

/// Calls a function once, and returns the slot afterwards.
pub(crate) type Call<'a> = dyn FnMut(&Given) -> Result<Result<Vec<u8>, Unanswered>> + 'a;
