//! A project file as text, with lines and columns.

use std::fs;
use std::io;
use std::ops::Range;
use std::path::Path;

use super::finding::Span;
use crate::base::disk;

/// The maximum size in bytes. A larger file is reported and not read.
const LIMIT: u64 = 8 << 20;

#[derive(Clone, Debug)]
pub(super) struct Text {
    /// Relative to the project, with `/` between folders.
    pub(super) path: String,
    /// Its text, with invalid UTF-8 replaced.
    pub(super) content: String,
    /// Whether the text equals the file's bytes, so that edits by offset are valid.
    pub(super) exact: bool,
    /// The offset of each line's first byte.
    lines: Vec<usize>,
}

impl Text {
    /// Reads a regular file; the last component of `full` must not be a link.
    pub(super) fn read(full: &Path, path: String) -> io::Result<Self> {
        let bytes = disk::read_plain(full, LIMIT)?;
        Ok(match String::from_utf8(bytes) {
            Ok(text) => Self::new(path, text, true),
            Err(error) => {
                let text = String::from_utf8_lossy(error.as_bytes()).into_owned();
                Self::new(path, text, false)
            }
        })
    }

    /// Reads a file of the project at `root`; a link may lead to it from inside.
    pub(super) fn read_inside(root: &Path, path: &str) -> io::Result<Self> {
        let real = fs::canonicalize(root.join(path))?;
        if disk::leads_out(&real, root) {
            return Err(io::Error::other("a link out of the project's folder; copy the file into the project"));
        }
        Self::read(&real, path.to_owned())
    }

    pub(super) fn new(path: String, text: String, exact: bool) -> Self {
        let starts = text.match_indices('\n').map(|(at, _)| at + 1);
        let lines = std::iter::once(0).chain(starts).collect();
        Self { path, content: text, exact, lines }
    }

    /// The line (from 1) of a byte offset.
    pub(super) fn line(&self, at: usize) -> usize {
        self.lines.partition_point(|start| *start <= at)
    }

    /// The byte range of a line without its end; empty if there is no such line.
    pub(super) fn line_range(&self, line: usize) -> Range<usize> {
        let Some(start) = line.checked_sub(1).and_then(|at| self.lines.get(at)) else {
            return self.content.len()..self.content.len();
        };
        let end = self.lines.get(line).copied().unwrap_or(self.content.len());
        let text = &self.content[*start..end];
        *start..*start + text.trim_end_matches(['\n', '\r']).len()
    }

    /// Converts a byte range to lines and columns.
    pub(super) fn place(&self, range: &Range<usize>) -> Span {
        let (line, column) = self.position(range.start);
        let (end_line, end_column) = self.position(range.end.max(range.start));
        Span { line, column, end_line, end_column }
    }

    fn position(&self, at: usize) -> (usize, usize) {
        let mut at = at.min(self.content.len());
        while !self.content.is_char_boundary(at) {
            at -= 1;
        }
        let line = self.line(at);
        let start = self.lines.get(line - 1).copied().unwrap_or(0);
        // Editors do not count a byte-order mark as a column.
        let before = self.content[start..at].trim_start_matches('\u{feff}');
        (line, before.chars().count() + 1)
    }
}

/// For each opening bracket the index of the closing one, ignoring its kind: mismatches are the compiler's
/// to report.
pub(super) fn closing<'a>(words: impl Iterator<Item = &'a str>) -> Vec<Option<usize>> {
    let (mut closing, mut open) = (Vec::new(), Vec::new());
    for (at, word) in words.enumerate() {
        closing.push(None);
        match word {
            "(" | "[" | "{" => open.push(at),
            ")" | "]" | "}" => {
                if let Some(opened) = open.pop() {
                    closing[opened] = Some(at);
                }
            }
            _ => {}
        }
    }
    closing
}

/// The byte ranges of comments in TOML, without the `#`.
pub(super) fn toml_comments(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(offset) = text[at..].find(['#', '"', '\'']) {
        at += offset;
        let rest = &text[at..];
        let line = rest.find('\n').unwrap_or(rest.len());
        if rest.starts_with('#') {
            found.push(at + 1..at + rest[..line].trim_end_matches('\r').len());
            at += line;
            continue;
        }
        let quote = &rest[..1];
        let triple = quote.repeat(3);
        let (open, close, end) =
            if rest.starts_with(&triple) { (3, triple.as_str(), rest.len()) } else { (1, quote, line) };
        let mut inside = open;
        while inside < end && !rest[inside..].starts_with(close) {
            if quote == "\"" && rest[inside..].starts_with('\\') {
                inside += 1;
            }
            inside += rest[inside..].chars().next().map_or(1, char::len_utf8);
        }
        at = text.len().min(at + end.min(inside + close.len()).max(open));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_columns_count_characters_from_one() {
        let text = Text::new("a".into(), "\u{feff}ab\r\né = 1\n".into(), true);
        let of = |range| text.place(&range);
        assert_eq!((of(3..4).line, of(3..4).column), (1, 1));
        let start = text.content.find('=').unwrap();
        assert_eq!((of(start..start).line, of(start..start).column), (2, 3));
        let inside = text.content.find('é').unwrap() + 1;
        assert_eq!((of(inside..inside).line, of(inside..inside).column), (2, 1));
        assert_eq!(&text.content[text.line_range(1)], "\u{feff}ab");
        assert_eq!(text.line_range(9), text.content.len()..text.content.len());
        let end = text.content.len();
        assert_eq!((of(end..end + 5).line, of(end..end + 5).end_column), (3, 1));
    }

    #[test]
    fn comments_are_not_in_strings() {
        let text = "a = \"# no\" # one\r\nb = '''\n# no\n''' #two\nc = \"\\\"# no\"\nd = \"open # no\n#three";
        let found: Vec<_> = toml_comments(text).into_iter().map(|at| &text[at]).collect();
        assert_eq!(found, [" one", "two", "three"]);
    }
}
