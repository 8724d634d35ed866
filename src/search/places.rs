//! Where jobs run: so many compilations at once, and one job a card, on the machines of an engine.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use super::job::Engine;

/// The processors and cards of an engine, shared by all threads of a run.
#[derive(Debug)]
pub(crate) struct Places {
    engine: Arc<dyn Engine>,
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
    /// Those of an engine; `cards`: whether the run has a card at all.
    pub(super) fn new(engine: Arc<dyn Engine>, cards: bool) -> Self {
        let (compilers, count) = engine.places();
        let (compilers, cards) = (Pool::new(compilers), Pool::new(if cards { count } else { 0 }));
        Self { engine, compilers, cards, codes: Mutex::default() }
    }

    pub(super) fn engine(&self) -> &dyn Engine {
        self.engine.as_ref()
    }

    pub(crate) fn has_card(&self) -> bool {
        self.cards.count > 0
    }

    pub(crate) fn compiler(&self) -> Place<'_> {
        self.compilers.take(None)
    }

    /// A card; another one than `not` where there are several.
    pub(crate) fn card(&self, not: Option<usize>) -> Place<'_> {
        self.cards.take(not.filter(|_| self.cards.count > 1))
    }

    /// The lock of a code.
    pub(crate) fn code(&self, code: &str) -> Arc<Mutex<()>> {
        let mut codes = self.codes.lock().unwrap_or_else(PoisonError::into_inner);
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
