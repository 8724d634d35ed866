//! The cases of a project in four stages that overlap: threads draw inputs, one asks the recording process, the calling thread
//! launches, and threads judge. On a machine with many cores a launch waits for the host otherwise.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Condvar, Mutex, PoisonError};

use anyhow::{Result, bail};

use super::case::{Asked, CaseOutcome, Launched, Listed, Prepared};
use crate::base::{cores, memory};

/// Bytes of slots that the host holds at a time of the first path of a project, if it has the memory; a case that is larger is processed
/// alone. With more, page faults on new memory, which each process has anew, take longer than the work on it.
const MOST_BYTES: u64 = 4 << 30;
/// The first path may hold this part of the host's memory.
const SHARES: u64 = 12;
/// Each of the others, whose large cases have one launch, may hold this part of what the first may. Three projects with four paths
/// each hold less than half of the memory.
const OTHERS: u64 = 4;

/// The stages of a case but the two that work on one case at a time. Drawing and judging run on several threads.
pub(super) struct Stages<'a> {
    /// The bytes of a case that the host holds.
    pub(super) bytes: &'a (dyn Fn(&Listed) -> u64 + Sync),
    pub(super) draw: &'a (dyn Fn(&Listed) -> Result<Option<Prepared>> + Sync),
    pub(super) judge: &'a (dyn Fn(&Listed, Launched) -> Result<CaseOutcome> + Sync),
    /// Whether most cases are judged by another path.
    pub(super) hears: bool,
    /// Threads that draw, and threads that judge.
    pub(super) threads: [usize; 2],
}

/// Threads that draw, and threads that judge: those of other code paths, in other processes, run beside them. `hears`: most cases of
/// this one are judged by another.
pub(super) fn threads(hears: bool) -> [usize; 2] {
    let some = (cores() / 4).clamp(1, 6);
    [some, if hears { some } else { (cores() / 2).clamp(1, 8) }]
}

/// The bytes that one code path may hold.
fn most_bytes(hears: bool) -> u64 {
    let memory = memory().unwrap_or(MOST_BYTES);
    (memory / SHARES).min(MOST_BYTES) / if hears { OTHERS } else { 1 }
}

impl Stages<'_> {
    /// The outcomes of some of the cases, by their indices, up to one after which the context is lost. Small cases come first.
    pub(super) fn run(
        &self,
        (cases, some): (&[Listed], &[usize]),
        ask: impl FnMut(&Listed, Option<Prepared>) -> Result<Result<Asked, CaseOutcome>> + Send,
        mut launch: impl FnMut(&Listed, Asked) -> Result<Launched>,
    ) -> Result<Vec<(usize, CaseOutcome)>> {
        let room = &Room { most: most_bytes(self.hears), ..Room::default() };
        let next = &AtomicUsize::new(0);
        let mut order: Vec<(u64, usize)> = some.iter().map(|index| ((self.bytes)(&cases[*index]), *index)).collect();
        order.sort_unstable();
        let order = &order;
        let (launched, to_judge) = channel();
        let to_judge = &Mutex::new(to_judge);
        std::thread::scope(|scope| -> Result<Vec<(usize, CaseOutcome)>> {
            let (drawn, to_ask) = channel();
            for _ in 0..self.threads[0] {
                let drawn = drawn.clone();
                scope.spawn(move || self.drawing((cases, order), next, room, &drawn));
            }
            drop(drawn);
            let (asked, to_launch) = channel();
            scope.spawn(move || asking(cases, &to_ask, &asked, ask));
            let judges: Vec<_> =
                (0..self.threads[1]).map(|_| scope.spawn(move || self.judging(cases, room, to_judge))).collect();
            let lost = launching(cases, &to_launch, &launched, &mut launch);
            // Drawing ends: nobody waits for room any more.
            room.close();
            drop((to_launch, launched));
            let mut outcomes = Vec::new();
            for judge in judges {
                match judge.join() {
                    Ok(some) => outcomes.extend(some?),
                    Err(_) => bail!("comparing the results of a case panicked"),
                }
            }
            anyhow::ensure!(lost? || outcomes.len() == some.len(), "a case was not judged");
            Ok(outcomes)
        })
    }

    fn drawing(
        &self,
        (cases, order): (&[Listed], &[(u64, usize)]),
        next: &AtomicUsize,
        room: &Room,
        drawn: &Sender<Staged<Option<Prepared>>>,
    ) {
        while let Some(&(bytes, index)) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
            let listed = &cases[index];
            if !room.enter(bytes) || drawn.send((index, bytes, (self.draw)(listed))).is_err() {
                return;
            }
        }
    }

    fn judging(
        &self,
        cases: &[Listed],
        room: &Room,
        to_judge: &Mutex<Receiver<(usize, u64, Launched)>>,
    ) -> Result<Judged> {
        let mut outcomes = Vec::new();
        loop {
            let received = to_judge.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok((index, bytes, launched)) = received else { return Ok(outcomes) };
            let _leaving = Leaving(room, bytes);
            match (self.judge)(&cases[index], launched) {
                Ok(outcome) => outcomes.push((index, outcome)),
                Err(error) => {
                    room.close();
                    return Err(error);
                }
            }
        }
    }
}

/// Records the launches of each case that was drawn, until nobody launches.
fn asking(
    cases: &[Listed],
    to_ask: &Receiver<Staged<Option<Prepared>>>,
    asked: &Sender<Staged<Result<Asked, CaseOutcome>>>,
    mut ask: impl FnMut(&Listed, Option<Prepared>) -> Result<Result<Asked, CaseOutcome>>,
) {
    for (index, bytes, drawn) in to_ask {
        let one = drawn.and_then(|drawn| ask(&cases[index], drawn));
        if asked.send((index, bytes, one)).is_err() {
            return;
        }
    }
}

/// Launches what was recorded; returns whether the context is lost.
fn launching(
    cases: &[Listed],
    to_launch: &Receiver<Staged<Result<Asked, CaseOutcome>>>,
    launched: &Sender<(usize, u64, Launched)>,
    launch: &mut impl FnMut(&Listed, Asked) -> Result<Launched>,
) -> Result<bool> {
    for (index, bytes, asked) in to_launch {
        let one = match asked? {
            Ok(asked) => launch(&cases[index], asked)?,
            Err(outcome) => outcome.into(),
        };
        let lost = one.is_lost();
        // The judges end after this one.
        if launched.send((index, bytes, one)).is_err() || lost {
            return Ok(lost);
        }
    }
    Ok(false)
}

/// A case's index, its bytes, and what a stage made of it.
type Staged<T> = (usize, u64, Result<T>);
type Judged = Vec<(usize, CaseOutcome)>;

/// The memory for cases under way.
#[derive(Debug, Default)]
struct Room {
    most: u64,
    used: Mutex<Used>,
    changed: Condvar,
}

/// Gives the memory of a case back, also where its judge panics: the others would wait for it.
struct Leaving<'a>(&'a Room, u64);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.0.leave(self.1);
        if std::thread::panicking() {
            self.0.close();
        }
    }
}

#[derive(Debug, Default)]
struct Used {
    bytes: u64,
    closed: bool,
}

impl Room {
    /// Waits until there is room; false once it is closed.
    fn enter(&self, bytes: u64) -> bool {
        let used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let full = |used: &mut Used| !used.closed && used.bytes > 0 && used.bytes + bytes > self.most;
        let mut used = self.changed.wait_while(used, full).unwrap_or_else(PoisonError::into_inner);
        used.bytes += bytes;
        !used.closed
    }

    fn leave(&self, bytes: u64) {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        used.bytes = used.bytes.saturating_sub(bytes);
        self.changed.notify_all();
    }

    fn close(&self) {
        self.used.lock().unwrap_or_else(PoisonError::into_inner).closed = true;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::RecvTimeoutError;
    use std::time::Duration;

    use super::*;

    const SOON: Duration = Duration::from_millis(50);
    const LATE: Duration = Duration::from_secs(60);

    fn room() -> Room {
        Room { most: 10, ..Room::default() }
    }

    /// Whether a case is let in that has to wait until something is done.
    fn let_in_after(room: &Room, bytes: u64, then: impl FnOnce()) -> bool {
        std::thread::scope(|scope| {
            let (said, hears) = channel();
            scope.spawn(move || said.send(room.enter(bytes)));
            assert_eq!(hears.recv_timeout(SOON), Err(RecvTimeoutError::Timeout), "{bytes} did not wait");
            then();
            let entered = hears.recv_timeout(LATE);
            room.close();
            entered.unwrap_or_else(|_| panic!("{bytes} waits for ever"))
        })
    }

    #[test]
    fn a_case_waits_until_others_leave_room_for_it() {
        let whole = room();
        assert!(whole.enter(6) && whole.enter(4));
        assert!(let_in_after(&whole, 5, || whole.leave(6)));
        // What is larger than all of it is let in alone, and keeps others out.
        let larger = room();
        assert!(larger.enter(11));
        assert!(let_in_after(&larger, 1, || larger.leave(11)));
        let shared = room();
        assert!(shared.enter(1));
        assert!(let_in_after(&shared, 11, || shared.leave(1)));
        // Nobody waits in one that is closed, or is let in.
        let closed = room();
        assert!(closed.enter(6));
        assert!(!let_in_after(&closed, 5, || closed.close()));
        assert!(!closed.enter(1));
    }

    #[test]
    fn a_path_holds_a_part_of_the_memory() {
        let bytes = most_bytes(false);
        assert!(bytes > 1 << 20 && bytes <= MOST_BYTES, "{bytes}");
        assert_eq!(most_bytes(true), bytes / OTHERS);
        for hears in [true, false] {
            assert!(threads(hears).iter().all(|some| (1..=8).contains(some) && *some <= cores()));
        }
    }
}
