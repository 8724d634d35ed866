//! The signals that end a process, where it has something to do first.

use std::io;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Those of SIGHUP, SIGINT and SIGTERM that this process was not started to ignore, as under `nohup`.
pub(crate) fn that_end() -> io::Result<Signals> {
    let ignored = ignored().unwrap_or_default();
    Signals::new([SIGHUP, SIGINT, SIGTERM].into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0))
}

/// A bit for each ignored signal, as Linux tells it.
fn ignored() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
    u64::from_str_radix(mask.trim(), 16).ok()
}
