//! The call of a function in place of a launcher.

use anyhow::Result;

use super::layout::Layout;
use crate::project::{Bound, Case, Operation};

/// What a call needs: the case, and the content of its slot before the call.
pub(crate) struct Given<'a> {
    pub(crate) operation: &'a Operation,
    pub(crate) case: &'a Case,
    pub(crate) bound: &'a Bound,
    pub(crate) layout: &'a Layout,
    pub(crate) slot: &'a [u8],
}

/// Why a call gave no result.
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
