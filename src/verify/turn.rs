//! Whose turn it is on the card. Code paths are verified at once in one context, but a candidate's kernels run alone: a grid
//! that waits for all of its thread blocks would otherwise wait for those of another.

use std::sync::{Arc, Mutex, PoisonError};

use crate::gpu::GpuError;

/// The turn of one of several code paths; whether one of them has lost the context.
#[derive(Clone, Debug, Default)]
pub(super) struct Turn(Arc<Mutex<bool>>);

impl Turn {
    /// Does something with the card while no other path does.
    ///
    /// # Errors
    /// The work's own, and a context that another path has lost.
    pub(super) fn take<T>(&self, work: impl FnOnce() -> Result<T, GpuError>) -> Result<T, GpuError> {
        let mut lost = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if *lost {
            let said = "another code path has lost the CUDA context".to_owned();
            return Err(GpuError { doing: "waiting for the card".to_owned(), said, sticky: true });
        }
        let done = work();
        *lost |= done.as_ref().is_err_and(|error| error.sticky);
        done
    }

    pub(super) fn is_lost(&self) -> bool {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_done_once_the_context_is_lost() {
        let turn = Turn::default();
        let failed = |sticky| Err::<(), _>(GpuError { doing: String::new(), said: String::new(), sticky });
        assert!(turn.take(|| failed(false)).is_err_and(|error| !error.sticky) && !turn.is_lost());
        assert!(turn.take(|| Ok(1)).is_ok());
        assert!(turn.clone().take(|| failed(true)).is_err() && turn.is_lost());
        assert!(turn.take(|| Ok(1)).is_err_and(|error| error.sticky));
    }
}
