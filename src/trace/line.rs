//! Lines of a file, of which no more than a limit is held in memory.

use std::io::{self, BufRead, Read as _};

/// The next line, with its end, and its length; of a longer one than `most` only the beginning.
pub(super) fn next_line(input: &mut impl BufRead, line: &mut Vec<u8>, most: usize) -> io::Result<Option<usize>> {
    line.clear();
    let mut length = input.by_ref().take(most as u64 + 1).read_until(b'\n', line)?;
    if length > most && !line.ends_with(b"\n") {
        length += input.skip_until(b'\n')?;
    }
    Ok((length > 0).then_some(length))
}
