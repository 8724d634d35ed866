//! Compares slots after timed rounds with the oracle. This takes the host longer than a round takes the card, so that
//! it runs on other threads while the next cases are timed.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Scope, ScopedJoinHandle};

use anyhow::{Result, bail};

use super::slots::{Round, Slots};
use crate::base::{cores, nice};
use crate::project::{Operation, Project};
use crate::verify::compare::{Sample, Scope as Compared, compare};
use crate::verify::finding::Kind;
use crate::verify::judge::{damaged, judge};
use crate::verify::path::Fault;
use crate::verify::random::fresh_seed;
use crate::verify::reference::oracle_for;
use crate::verify::slot::{results, tensors};

/// Elements that the oracle reads for an output of a slot at most. The loss of a cross-entropy over many rows exceeds it: then rows
/// are compared that are drawn when the timing is done.
const MOST_READ: u64 = 1 << 33;

/// A slot after a round.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) round: Round,
    pub(super) number: u32,
    pub(super) slot: u32,
    pub(super) after: Vec<u8>,
}

/// The slots of a case that are compared with the oracle.
#[derive(Debug)]
pub(super) struct Check<'a> {
    pub(super) project: &'a Project,
    pub(super) operation: &'a Operation,
    pub(super) slots: Slots<'a>,
    pub(super) kept: Vec<Kept>,
}

/// How many slots were compared, and what was wrong in the last of them.
pub(super) type Checked = (u32, Option<Fault>);

/// Those of cases, by their indices.
type Results = Vec<(usize, Checked)>;

impl Check<'_> {
    /// Compares the slots up to the first that is wrong.
    fn run(&self) -> Result<Checked> {
        let mut checked = 0;
        for kept in &self.kept {
            checked += 1;
            if let Some(fault) = self.slot(kept)? {
                return Ok((checked, Some(fault)));
            }
        }
        Ok((checked, None))
    }

    fn slot(&self, kept: &Kept) -> Result<Option<Fault>> {
        let Slots { bound, layout, .. } = self.slots;
        let expected = self.slots.expected(&kept.round, kept.slot);
        let place = |message: &str| format!("round {}, slot {}: {message}", kept.number, kept.slot);
        if let Some((kind, message)) = damaged(&expected, bound, layout, &kept.after) {
            return Ok(Some((kind, place(&message))));
        }
        let given = tensors(bound, layout, &expected.bytes, &kept.after);
        let got = results(bound, layout, &kept.after);
        let oracle = oracle_for(self.project, self.operation, bound, &given, cores())?;
        let sampled = Some(Sample { seed: fresh_seed(), elements: MOST_READ });
        let fault = judge(&compare(oracle.as_ref(), &given, &got, Compared { sampled, ..Compared::default() }));
        Ok(fault.map(|(kind, message)| {
            (Kind::TimedOutput, place(&format!("{} in a timed launch: {message}", kind.name())))
        }))
    }
}

/// Threads that run the checks of cases.
pub(super) struct Checker<'scope, 'a> {
    checks: SyncSender<(usize, Check<'a>)>,
    threads: Vec<ScopedJoinHandle<'scope, Result<Results>>>,
}

impl<'scope, 'a: 'scope> Checker<'scope, 'a> {
    pub(super) fn start(scope: &'scope Scope<'scope, '_>) -> Self {
        // At most one check waits while others run, because each holds slots in memory.
        let (checks, to_run) = sync_channel(1);
        let to_run = Arc::new(Mutex::new(to_run));
        let thread = || {
            let to_run = Arc::clone(&to_run);
            scope.spawn(move || all(&to_run))
        };
        // A check starts threads of its own for most of its work; the rest of it leaves cores idle.
        Self { checks, threads: (0..(cores() / 4).clamp(1, 4)).map(|_| thread()).collect() }
    }

    /// Queues the check of the case with this index.
    pub(super) fn check(&self, case: usize, check: Check<'a>) {
        // Nobody receives after an error, which `finish` returns.
        let _ = self.checks.send((case, check));
    }

    /// The results of all checks.
    pub(super) fn finish(self) -> Result<Results> {
        drop(self.checks);
        let mut results = Vec::new();
        for thread in self.threads {
            match thread.join() {
                Ok(some) => results.extend(some?),
                Err(_) => bail!("comparing timed launches with the oracle panicked"),
            }
        }
        Ok(results)
    }
}

fn all(checks: &Mutex<Receiver<(usize, Check)>>) -> Result<Results> {
    // The thread that times has priority.
    nice();
    let mut results = Vec::new();
    loop {
        let next = checks.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((case, check)) = next else { return Ok(results) };
        results.push((case, check.run()?));
    }
}
