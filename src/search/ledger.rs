//! A run's folder, task and state, and the one way to change them: an event is written, and then applied.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use serde::Serialize;

use super::places::Places;
use super::state::{Event, State};
use super::task::Task;
use crate::journal::Journal;

pub(super) struct Ledger {
    pub(super) folder: PathBuf,
    pub(super) task: Task,
    pub(super) state: State,
    pub(super) journal: Arc<Mutex<Journal>>,
    pub(super) places: Arc<Places>,
}

impl Ledger {
    /// Writes an event, and applies it to the state.
    pub(super) fn write(&mut self, kind: &str, data: &impl Serialize) -> Result<()> {
        let data = serde_json::value::to_raw_value(data)?;
        let seq = self.journal.lock().unwrap_or_else(PoisonError::into_inner).append(kind, &data)?;
        self.state.apply(&Event { seq, time: String::new(), kind: kind.to_owned(), data })
    }

    /// Keeps contents by their digest.
    pub(super) fn put(&self, contents: &impl Serialize) -> Result<String> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner).put(&serde_json::to_vec(contents)?)
    }
}
