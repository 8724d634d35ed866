//! Lines of a file, of which no more than a limit is held in memory.

use std::io::{self, BufRead};

/// The next line, with its end, and its length; of a longer one than `most` only the beginning.
pub(super) fn next_line(input: &mut impl BufRead, line: &mut Vec<u8>, most: usize) -> io::Result<Option<usize>> {
    line.clear();
    let mut length = 0;
    loop {
        let there = input.fill_buf()?;
        if there.is_empty() {
            return Ok((length > 0).then_some(length));
        }
        let end = there.iter().position(|byte| *byte == b'\n');
        let taken = end.map_or(there.len(), |end| end + 1);
        if length <= most {
            line.extend_from_slice(&there[..taken.min(most + 1 - length)]);
        }
        length += taken;
        input.consume(taken);
        if end.is_some() {
            return Ok(Some(length));
        }
    }
}
