//! Runs work on all cores.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use anyhow::Result;

/// Maps items in parallel, and keeps their order. After a failure no further item is started. Errors that differ only in
/// the architecture are reported once.
pub(crate) fn map<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> Result<R> + Sync) -> Result<Vec<R>> {
    let cores = crate::base::cores();
    let next = AtomicUsize::new(0);
    let stop = AtomicBool::new(false);
    let done: Mutex<Vec<(usize, Result<R>)>> = Mutex::new(Vec::with_capacity(items.len()));
    thread::scope(|scope| {
        for _ in 0..cores.min(items.len()) {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(at) else { break };
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let result = work(item);
                    if result.is_err() {
                        stop.store(true, Ordering::Relaxed);
                    }
                    if let Ok(mut done) = done.lock() {
                        done.push((at, result));
                    }
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    done.sort_by_key(|(at, _)| *at);
    let mut results = Vec::with_capacity(items.len());
    let mut failures: Vec<String> = Vec::new();
    for (_, result) in done {
        match result {
            Ok(result) => results.push(result),
            Err(error) => {
                // The same error for another architecture.
                let words = format!("{error:#}");
                if failures.iter().all(|known| without_arch(known) != without_arch(&words)) {
                    failures.push(words);
                }
            }
        }
    }
    if failures.is_empty() { Ok(results) } else { anyhow::bail!("{}", failures.join("\n\n")) }
}

/// Replaces `sm_90` by `sm_`.
fn without_arch(text: &str) -> String {
    let mut parts = text.split("sm_");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |all, part| all + "sm_" + part.trim_start_matches(|c: char| c.is_ascii_digit()))
}
