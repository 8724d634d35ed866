//! C++ in pieces with the bytes where they stand: as much as a table of constants needs.

use std::ops::Range;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    Word,
    Number,
    Sign,
    /// A string or a character.
    Text,
    /// A preprocessor's line, with those that continue it.
    Directive,
}

#[derive(Clone, Debug)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) at: Range<usize>,
}

/// The tokens of a part of `text`, without comments and white space. What never ends, ends with the part.
pub(super) fn tokens(text: &str, part: Range<usize>) -> Vec<Token> {
    let (bytes, mut at, mut all) = (text.as_bytes(), part.start, Vec::new());
    let mut fresh = true; // nothing but white space on this line so far
    let find =
        |what: &str, from: usize| text[from..part.end].find(what).map_or(part.end, |found| from + found + what.len());
    while at < part.end {
        let rest = &text[at..part.end];
        let (kind, end) = match bytes[at] {
            b'\n' => {
                (fresh, at) = (true, at + 1);
                continue;
            }
            byte if byte.is_ascii_whitespace() || byte == b'\\' => {
                at += 1;
                continue;
            }
            b'/' if rest.starts_with("//") => {
                at += rest.find('\n').unwrap_or(rest.len());
                continue;
            }
            b'/' if rest.starts_with("/*") => {
                at = find("*/", at + 2);
                continue;
            }
            b'#' if fresh => {
                let mut end = at;
                loop {
                    let line = text[end..part.end].find('\n').map_or(part.end, |found| end + found);
                    let goes_on = text[at..line].trim_end_matches('\r').ends_with('\\');
                    end = (line + 1).min(part.end);
                    if !goes_on || end == part.end {
                        break (Kind::Directive, line);
                    }
                }
            }
            quote @ (b'"' | b'\'') => {
                let mut end = at + 1;
                while end < part.end && bytes[end] != quote && bytes[end] != b'\n' {
                    end += if bytes[end] == b'\\' { 2 } else { 1 };
                }
                (Kind::Text, (end + 1).min(part.end))
            }
            byte if byte.is_ascii_digit() => {
                (Kind::Number, at + run(rest, |c| c.is_ascii_alphanumeric() || ".'".contains(c)))
            }
            byte if byte.is_ascii_alphabetic() || byte == b'_' => {
                (Kind::Word, at + run(rest, |c| c.is_ascii_alphanumeric() || c == '_'))
            }
            _ => (Kind::Sign, at + rest.chars().next().map_or(1, char::len_utf8)),
        };
        fresh = false;
        all.push(Token { kind, at: at..end });
        at = end;
    }
    all
}

fn run(text: &str, of: impl Fn(char) -> bool) -> usize {
    text.find(|c| !of(c)).unwrap_or(text.len())
}
