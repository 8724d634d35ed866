//! Work on the rows of a tensor, shared among threads.

use std::ops::Range;

/// The results of `work` for pieces of the rows, in their order. A thread that panicked leaves its result out.
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

/// How many threads for a look at so many elements: each has some milliseconds of work. Cases are drawn and judged side by side, so
/// that threads for less would only wait for each other's starts: on 16 cores these took most of a verification's time.
pub(crate) fn threads_for(elements: u64) -> u64 {
    const LEAST: u64 = 1 << 18;
    (elements / LEAST).clamp(1, crate::base::cores() as u64)
}
