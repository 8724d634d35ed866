//! Where jobs run on this machine: so many compilers at once, and one job a card.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use crate::base;
use crate::gpu;

/// The machine's processors and cards, shared by all threads of a run.
#[derive(Clone, Debug)]
pub(crate) struct Places(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    compilers: Pool,
    cards: Pool,
    /// A lock for each code that is judged, so that the same code is judged once.
    codes: Mutex<BTreeMap<String, Arc<Mutex<()>>>>,
}

/// Numbered places that one holder at a time may have.
#[derive(Debug)]
struct Pool {
    free: Mutex<Vec<usize>>,
    changed: Condvar,
    count: usize,
}

/// A place, given back when it is dropped.
pub(crate) struct Place<'a> {
    pool: &'a Pool,
    pub(crate) number: usize,
}

impl Places {
    /// All processors and cards of this machine.
    pub(crate) fn here(cards: bool) -> Self {
        let count = if cards { gpu::probe().map_or(0, |cards| cards.len()) } else { 0 };
        // A compilation runs several compilers by itself.
        let compilers = Pool::new((base::cores() / 2).max(1));
        Self(Arc::new(Inner { compilers, cards: Pool::new(count), codes: Mutex::default() }))
    }

    pub(crate) fn has_card(&self) -> bool {
        self.0.cards.count > 0
    }

    pub(crate) fn compiler(&self) -> Place<'_> {
        self.0.compilers.take(None)
    }

    /// A card; another one than `not` where there are several.
    pub(crate) fn card(&self, not: Option<usize>) -> Place<'_> {
        self.0.cards.take(not.filter(|_| self.0.cards.count > 1))
    }

    /// The lock of a code.
    pub(crate) fn code(&self, code: &str) -> Arc<Mutex<()>> {
        let mut codes = self.0.codes.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(codes.entry(code.to_owned()).or_default())
    }
}

impl Pool {
    fn new(count: usize) -> Self {
        Self { free: Mutex::new((0..count).rev().collect()), changed: Condvar::new(), count }
    }

    /// Waits for a place that is free.
    fn take(&self, not: Option<usize>) -> Place<'_> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(at) = free.iter().rposition(|number| Some(*number) != not) {
                return Place { pool: self, number: free.remove(at) };
            }
            free = self.changed.wait(free).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.pool.free.lock().unwrap_or_else(PoisonError::into_inner).push(self.number);
        self.pool.changed.notify_all();
    }
}
