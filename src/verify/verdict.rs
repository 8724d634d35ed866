//! What was found of each case on the first code path, as the processes that verify the others hear it. All paths have the same inputs:
//! one that leaves the same bytes is right or wrong as the first one is, and the oracle computes once for all of them.

use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::ChildStdin;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use serde::{Deserialize, Serialize};

/// The index of an operation, and that of one of its cases.
pub(super) type Place = (usize, usize);

/// What was found of a case.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(super) struct Verdict {
    /// Digests of the results that launches left, by the numbers of the launches. Empty: something was wrong, or nothing was compared,
    /// and every path is judged by itself.
    pub(super) left: BTreeMap<usize, Vec<String>>,
    /// Elements of each launch that were compared with the oracle.
    pub(super) elements: u64,
    /// The largest error in units of its budget.
    pub(super) worst: f64,
}

/// The verdicts of a run.
#[derive(Debug, Default)]
pub(super) enum Verdicts {
    /// Nobody hears them, and none are heard.
    #[default]
    Apart,
    /// Those of this process are written to others.
    Told(Mutex<Vec<ChildStdin>>),
    /// Those of another process arrive here.
    Heard(Arc<Heard>),
}

/// Verdicts that have arrived.
#[derive(Debug, Default)]
pub(super) struct Heard {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    known: HashMap<Place, Verdict>,
    /// Nothing more arrives.
    ended: bool,
}

impl Verdicts {
    /// Reads verdicts on a thread of its own, as far as they are whole.
    pub(super) fn from(source: impl Read + Send + 'static) -> Self {
        let heard = Arc::new(Heard::default());
        let here = Arc::clone(&heard);
        std::thread::spawn(move || {
            for line in BufReader::new(source).lines() {
                let Some((place, verdict)) = line.ok().and_then(|line| serde_json::from_str(&line).ok()) else { break };
                here.change(|state| drop(state.known.insert(place, verdict)));
            }
            here.change(|state| state.ended = true);
        });
        Self::Heard(heard)
    }

    /// Whether somebody hears them.
    pub(super) fn are_told(&self) -> bool {
        matches!(self, Self::Told(others) if !others.lock().unwrap_or_else(PoisonError::into_inner).is_empty())
    }

    /// Whether those of another process arrive here.
    pub(super) fn are_heard(&self) -> bool {
        matches!(self, Self::Heard(_))
    }

    /// The verdict of the first path, once it has arrived; an empty one if there is none, or never will be.
    pub(super) fn hear(&self, place: Place) -> Verdict {
        let Self::Heard(heard) = self else { return Verdict::default() };
        let state = heard.state.lock().unwrap_or_else(PoisonError::into_inner);
        let waits = |state: &mut State| !state.ended && !state.known.contains_key(&place);
        let mut state = heard.changed.wait_while(state, waits).unwrap_or_else(PoisonError::into_inner);
        state.known.remove(&place).unwrap_or_default()
    }

    /// Writes a verdict to those who hear them.
    pub(super) fn tell(&self, place: Place, verdict: &Verdict) {
        let Self::Told(others) = self else { return };
        let Ok(mut line) = serde_json::to_vec(&(place, verdict)) else { return };
        line.push(b'\n');
        // One that has ended hears nothing more; the rest of what it was to do is reported as missing.
        others.lock().unwrap_or_else(PoisonError::into_inner).retain_mut(|other| other.write_all(&line).is_ok());
    }
}

impl Heard {
    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_is_waited_for_until_there_are_no_more() {
        let (reader, mut writer) = std::io::pipe().expect("a pipe");
        let heard = Verdicts::from(reader);
        let verdict = |worst| Verdict { left: BTreeMap::from([(2, vec!["a".to_owned()])]), elements: 7, worst };
        let mut line = |place: Place, worst| {
            let text = serde_json::to_string(&(place, verdict(worst))).expect("JSON");
            writeln!(writer, "{text}").expect("a reader");
        };
        line((0, 1), 0.25);
        line((1, 0), 0.5);
        assert_eq!(heard.hear((1, 0)), verdict(0.5));
        assert_eq!(heard.hear((0, 1)), verdict(0.25));
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| heard.hear((2, 2)));
            line((2, 2), 0.75);
            assert_eq!(waits.join().ok(), Some(verdict(0.75)));
        });
        drop(writer);
        assert_eq!(heard.hear((3, 0)), Verdict::default());
        assert!(!Verdicts::Apart.are_heard() && !Verdicts::Apart.are_told() && heard.are_heard());
    }
}
