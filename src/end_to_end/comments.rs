//! The text of a file without the comments on lines of their own. In Python, a line of a string may look like one.

use std::ops::Range;

/// A Python file without comments on lines of their own. The text itself where Python may see other lines, characters or
/// strings in it.
pub(super) fn python(text: String) -> String {
    let returns = text.replace("\r\n", "").contains('\r');
    let recoded = text.lines().take(2).any(|line| line.trim_start().starts_with('#') && line.contains("coding"));
    match strings(&text) {
        Some(strings) if !returns && !recoded => without_comments(&text, &strings),
        _ => text,
    }
}

/// The lines that are not empty and not a comment, without trailing white space; those that begin in one of the strings, as
/// they are. Indentation matters in Python.
pub(super) fn without_comments(text: &str, strings: &[Long]) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut start = 0;
    for whole in text.split_inclusive('\n') {
        let end = start + whole.trim_end_matches(['\n', '\r']).len();
        let holding = |at: usize| strings.iter().find(|string| string.at.start < at && at < string.at.end);
        let (first, last) = (holding(start), holding(end));
        let line =
            if last.is_some_and(|string| !string.alone) { &text[start..end] } else { text[start..end].trim_end() };
        let counts = match first {
            Some(string) => !string.alone || !line.is_empty(),
            None => !line.is_empty() && !line.trim_start().starts_with('#'),
        };
        kept.extend(counts.then_some(line));
        start += whole.len();
    }
    kept.join("\n")
}

/// A string of several lines.
pub(super) struct Long {
    at: Range<usize>,
    /// Whether it is a statement of its own: a docstring, in which blanks at the ends of lines do not count.
    alone: bool,
}

/// The strings of several lines in Python; `None` where it is uncertain what is a string.
fn strings(text: &str) -> Option<Vec<Long>> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let (mut at, mut depth, mut line) = (0, 0_usize, 0);
    while let Some(&next) = bytes.get(at) {
        match next {
            b'#' => at += text[at..].find('\n').unwrap_or(text.len() - at),
            b'"' | b'\'' => {
                let end = at + string(&text[at..])?;
                let word = text[line..at].trim_end_matches(|c: char| c.is_alphanumeric() || c == '_').len() + line;
                let prefix = &text[word..at];
                if prefix.contains(['f', 'F', 't', 'T']) && prefix.len() <= 2 && !is_balanced(&text[at..end]) {
                    return None;
                }
                if text[at..end].contains('\n') {
                    let first = text[line..word].trim().is_empty() && !text[..line].trim_end().ends_with('\\');
                    found.push(Long { at: at..end, alone: depth == 0 && first });
                    line = at + text[at..end].rfind('\n').unwrap_or_default() + 1;
                }
                at = end;
            }
            _ => {
                match next {
                    b'(' | b'[' | b'{' => depth += 1,
                    b')' | b']' | b'}' => depth = depth.saturating_sub(1),
                    b'\n' => line = at + 1,
                    _ => {}
                }
                at += 1;
            }
        }
    }
    Some(found)
}

/// The length of the string literal that a text begins with, from its first quote.
fn string(text: &str) -> Option<usize> {
    let quote = &text[..1];
    let triple = quote.repeat(3);
    let end = if text.starts_with(&triple) { &*triple } else { quote };
    let mut at = end.len();
    loop {
        let rest = text.get(at..)?;
        if rest.starts_with(end) {
            return Some(at + end.len());
        }
        match rest.chars().next()? {
            // A line end behind it as well.
            '\\' => at += 1 + rest[1..].chars().next()?.len_utf8(),
            '\n' if end == quote => return None,
            other => at += other.len_utf8(),
        }
    }
}

/// Whether what an f-string computes ends in it: quotes of the same kind may stand in it, which look like its end.
fn is_balanced(text: &str) -> bool {
    let mut depth = 0_usize;
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        let twice = rest.starts_with("{{") || rest.starts_with("}}");
        rest = &rest[next.len_utf8()..];
        match next {
            '{' | '}' if depth == 0 && twice => rest = &rest[1..],
            '{' => depth += 1,
            '}' if depth == 0 => return false,
            '}' => depth -= 1,
            _ => {}
        }
    }
    depth == 0
}
