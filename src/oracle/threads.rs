//! Splits work on the rows of a tensor among threads.

use std::ops::Range;

/// Calls `work` for consecutive ranges of rows, one thread each, and returns the results in order of rows. The result
/// of a thread that panicked is missing.
pub(crate) fn share<T: Send>(rows: u64, threads: u64, work: impl Fn(Range<u64>) -> T + Sync) -> Vec<T> {
    let threads = threads.clamp(1, rows.max(1));
    if threads == 1 {
        return vec![work(0..rows)];
    }
    let step = rows.div_ceil(threads);
    let work = &work;
    std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads)
            .map(|thread| {
                let range = (thread * step).min(rows)..((thread + 1) * step).min(rows);
                scope.spawn(move || work(range))
            })
            .collect();
        handles.into_iter().filter_map(|handle| handle.join().ok()).collect()
    })
}

/// The number of threads for one pass over so many elements, such that each works for some milliseconds. Several cases
/// are drawn and judged at the same time; with less work per thread, starting threads took most of the time of a
/// verification on 16 cores.
pub(crate) fn threads_for(elements: u64) -> u64 {
    const LEAST: u64 = 1 << 18;
    (elements / LEAST).clamp(1, crate::base::cores() as u64)
}
