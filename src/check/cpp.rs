//! Tokenises C++ and CUDA, with comments, strings and preprocessor lines separate, each with its position.
//!
//! Any text is accepted: an unclosed quote ends with its line, other unclosed constructs with the file.

use std::ops::Range;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    /// A name or keyword.
    Name,
    Number,
    /// With prefix and quotes.
    String,
    /// A character literal.
    Character,
    /// One character of punctuation, `::` or `<<<`.
    Sign,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) at: Range<usize>,
}

/// A preprocessor line with its continuation lines.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Directive {
    /// `include`, `if`, `define`.
    pub(super) name: String,
    /// The bytes after the directive's name, with comments.
    pub(super) rest: Range<usize>,
    /// Whether it is below an `#if` other than an include guard, hence conditional.
    pub(super) conditional: bool,
}

#[derive(Debug, Default)]
pub(super) struct Lexed {
    /// Compiled tokens: no comments, preprocessor lines, or code below `#if 0`.
    pub(super) tokens: Vec<Token>,
    pub(super) directives: Vec<Directive>,
    /// Comments without their delimiters.
    pub(super) comments: Vec<Range<usize>>,
}

/// One `#if` … `#endif`.
struct Conditional {
    /// Whether the current branch is skipped: it is below `#if 0`, or another branch has opened or closed braces that this
    /// one would open or close again.
    dropped: bool,
    /// Whether all further branches are skipped.
    settled: bool,
    /// The first token of the branch.
    start: usize,
}

struct Lexer<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    out: Lexed,
    open: Vec<Conditional>,
}

pub(super) fn tokens(text: &str) -> Lexed {
    let mut lexer = Lexer { text, bytes: text.as_bytes(), at: 0, out: Lexed::default(), open: Vec::new() };
    lexer.run();
    lexer.out
}

impl Lexer<'_> {
    fn run(&mut self) {
        let mut line_start = true;
        while let Some(byte) = self.peek(0) {
            match byte {
                b'\n' => {
                    line_start = true;
                    self.at += 1;
                }
                b'#' if line_start => self.directive(),
                b'/' if matches!(self.peek(1), Some(b'/' | b'*')) => self.comment(),
                b'"' | b'\'' => {
                    self.quoted(self.at);
                    line_start = false;
                }
                _ if is_name_start(byte) => {
                    line_start = false;
                    self.name();
                }
                b'0'..=b'9' => {
                    line_start = false;
                    self.number();
                }
                b'.' if self.peek(1).is_some_and(|next| next.is_ascii_digit()) => self.number(),
                // White space, line continuations, and other characters without tokens.
                _ if byte.is_ascii_whitespace() || byte == b'\\' || !byte.is_ascii() => {
                    self.at += self.width();
                }
                _ => {
                    line_start = false;
                    let length = if self.text[self.at..].starts_with("<<<") {
                        3
                    } else if self.text[self.at..].starts_with("::") {
                        2
                    } else {
                        1
                    };
                    self.push(Kind::Sign, self.at..self.at + length);
                    self.at += length;
                }
            }
        }
    }

    fn peek(&self, ahead: usize) -> Option<u8> {
        self.bytes.get(self.at + ahead).copied()
    }

    fn width(&self) -> usize {
        self.text[self.at..].chars().next().map_or(1, char::len_utf8)
    }

    fn push(&mut self, kind: Kind, at: Range<usize>) {
        if !self.open.iter().any(|conditional| conditional.dropped) {
            self.out.tokens.push(Token { kind, at });
        }
    }

    fn name(&mut self) {
        let start = self.at;
        while self.peek(0).is_some_and(is_name_part) {
            self.at += self.width();
        }
        // R"delim( … )delim", u8"…", L'…'
        if matches!(self.peek(0), Some(b'"' | b'\''))
            && matches!(&self.text[start..self.at], "R" | "u8R" | "uR" | "UR" | "LR" | "u8" | "u" | "U" | "L")
        {
            if self.bytes[self.at - 1] == b'R' && self.peek(0) == Some(b'"') && self.raw(start) {
                return;
            }
            self.quoted(start);
            return;
        }
        self.push(Kind::Name, start..self.at);
    }

    fn number(&mut self) {
        let start = self.at;
        while let Some(byte) = self.peek(0) {
            let sign = matches!(byte, b'+' | b'-')
                && matches!(self.bytes[self.at - 1], b'e' | b'E' | b'p' | b'P')
                && !self.text[start..self.at].starts_with("0x");
            let digits = byte == b'\'' && self.peek(1).is_some_and(|next| next.is_ascii_alphanumeric());
            if !(byte.is_ascii_alphanumeric() || byte == b'.' || byte == b'_' || sign || digits) {
                break;
            }
            self.at += 1;
        }
        self.push(Kind::Number, start..self.at);
    }

    /// A string or character literal from `start`, at its quote; unclosed, it ends with the line.
    fn quoted(&mut self, start: usize) {
        let quote = self.bytes[self.at];
        self.at += 1;
        while let Some(byte) = self.peek(0) {
            match byte {
                b'\\' => {
                    self.at += 1;
                    if self.text[self.at..].starts_with("\r\n") {
                        self.at += 2;
                    } else if self.at < self.bytes.len() {
                        self.at += self.width();
                    }
                }
                b'\n' => break,
                _ => {
                    self.at += 1;
                    if byte == quote {
                        break;
                    }
                }
            }
        }
        let kind = if quote == b'"' { Kind::String } else { Kind::Character };
        self.push(kind, start..self.at);
    }

    /// A raw string from `start`, at its quote; false if it is not one.
    fn raw(&mut self, start: usize) -> bool {
        let inside = self.at + 1;
        let Some(open) = self.text[inside..].find('(').map(|found| inside + found) else {
            return false;
        };
        let delimiter = &self.text[inside..open];
        if delimiter.len() > 16 || delimiter.contains([' ', '\\', ')', '"', '\n', '\t']) {
            return false;
        }
        let close = format!("){delimiter}\"");
        let end = self.text[open..].find(&close);
        self.at = end.map_or(self.bytes.len(), |found| open + found + close.len());
        self.push(Kind::String, start..self.at);
        true
    }

    /// A comment from here; its text is kept.
    fn comment(&mut self) {
        let start = self.at + 2;
        if self.peek(1) == Some(b'*') {
            let end = self.text[start..].find("*/").map(|found| start + found);
            self.out.comments.push(start..end.unwrap_or(self.bytes.len()));
            self.at = end.map_or(self.bytes.len(), |end| end + 2);
            return;
        }
        self.at = self.line_end(start);
        self.out.comments.push(start..self.at);
    }

    /// The end of the line, with continuation lines.
    fn line_end(&self, from: usize) -> usize {
        let mut at = from;
        loop {
            let Some(found) = self.text[at..].find('\n') else {
                return self.bytes.len();
            };
            let end = at + found;
            if !self.text[from..end].trim_end_matches('\r').ends_with('\\') {
                return end;
            }
            at = end + 1;
        }
    }

    fn directive(&mut self) {
        self.at += 1;
        while matches!(self.peek(0), Some(b' ' | b'\t')) {
            self.at += 1;
        }
        let start = self.at;
        while self.peek(0).is_some_and(is_name_part) {
            self.at += self.width();
        }
        let name = self.text[start..self.at].to_owned();
        let rest = self.at;
        // To the end of the line; a comment may continue on further lines, and a string may contain comment delimiters.
        while let Some(byte) = self.peek(0) {
            match byte {
                b'\n' if !self.text[rest..self.at].trim_end_matches('\r').ends_with('\\') => {
                    break;
                }
                b'/' if matches!(self.peek(1), Some(b'/' | b'*')) => self.comment(),
                // `#error don't` contains no character literal, so only complete strings are skipped.
                b'"' => {
                    let line = self.line_end(self.at);
                    let close = self.text[self.at + 1..line].find('"');
                    self.at += close.map_or(1, |found| found + 2);
                }
                _ => self.at += self.width(),
            }
        }
        let rest = rest..self.at;
        self.condition(&name, self.text[rest.clone()].trim());
        if !self.open.iter().any(|conditional| conditional.dropped) {
            let guard = usize::from(self.is_guarded());
            let conditional = self.open.len() > guard;
            self.out.directives.push(Directive { name, rest, conditional });
        }
    }

    /// Whether the file begins with `#ifndef X` and `#define X`.
    fn is_guarded(&self) -> bool {
        let [first, second, ..] = self.out.directives.as_slice() else {
            return false;
        };
        let said = |directive: &Directive| self.text[directive.rest.clone()].trim();
        first.name == "ifndef" && second.name == "define" && said(first) == said(second)
    }

    fn condition(&mut self, name: &str, rest: &str) {
        match name {
            "if" | "ifdef" | "ifndef" => {
                let zero = name == "if" && rest.split_whitespace().next() == Some("0");
                self.open.push(Conditional { dropped: zero, settled: false, start: self.out.tokens.len() });
            }
            "else" | "elif" | "elifdef" | "elifndef" => {
                let start = self.out.tokens.len();
                let Some(conditional) = self.open.last_mut() else {
                    return;
                };
                let branch = self.out.tokens.get(conditional.start..).unwrap_or_default();
                if !conditional.dropped && balance(self.text, branch) != 0 {
                    conditional.settled = true;
                }
                conditional.dropped = conditional.settled;
                conditional.start = start;
            }
            "endif" => {
                self.open.pop();
            }
            _ => {}
        }
    }
}

fn is_name_start(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_'
}

fn is_name_part(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Opened minus closed braces.
fn balance(text: &str, tokens: &[Token]) -> i64 {
    tokens
        .iter()
        .map(|token| match &text[token.at.clone()] {
            "{" => 1,
            "}" => -1,
            _ => 0,
        })
        .sum()
}

/// The value of a string token, with common escapes decoded.
pub(super) fn string_value(token: &str) -> String {
    let Some(open) = token.find('"') else {
        return String::new();
    };
    let inside = &token[open + 1..];
    if token[..open].ends_with('R')
        && let Some((delimiter, rest)) = inside.split_once('(')
    {
        let close = format!("){delimiter}\"");
        return rest.strip_suffix(close.as_str()).unwrap_or(rest).to_owned();
    }
    let inside = inside.strip_suffix('"').unwrap_or(inside);
    let mut value = String::with_capacity(inside.len());
    let mut characters = inside.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some('n') => value.push('\n'),
                Some('t') => value.push('\t'),
                Some('\n' | '\r') | None => {}
                Some(other) => value.push(other),
            },
            other => value.push(other),
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn words(text: &str) -> Vec<&str> {
        let all = tokens(text).tokens;
        all.into_iter().map(|token| &text[token.at]).collect()
    }

    #[test]
    fn comments_strings_and_directives_are_no_code() {
        assert_eq!(words("a /* b\n */ c // d \\\n e\nf"), ["a", "c", "f"]);
        assert_eq!(words(r#"f("<<<a>>>", 'x', '"')"#), ["f", "(", "\"<<<a>>>\"", ",", "'x'", ",", "'\"'", ")"]);
        assert_eq!(words("a\n#define X f<<<1, 2>>>() \\\n  y\nb"), ["a", "b"]);
        assert_eq!(words("x = R\"q(a)\" b)q\" + 1'000;"), ["x", "=", "R\"q(a)\" b)q\"", "+", "1'000", ";"]);
        assert_eq!(words("k<<<g, b>>>(n::m)"), ["k", "<<<", "g", ",", "b", ">", ">", ">", "(", "n", "::", "m", ")"]);
        assert_eq!(words("a\n#if 0\nb\n#else\nc\n#endif\nd"), ["a", "c", "d"]);
        assert_eq!(words("#error don't\na"), ["a"]);
        assert_eq!(words("/* never closed"), Vec::<&str>::new());
        assert_eq!(words("s = \"never closed\nb"), ["s", "=", "\"never closed", "b"]);
        // A delimiter has at most 16 characters.
        let whole = "R\"0123456789abcdef(a)\" b)0123456789abcdef\"";
        assert_eq!(words(&format!("{whole} c")), [whole, "c"]);
        let longer = "R\"0123456789abcdefg(a\"";
        assert_eq!(words(&format!("{longer} b")), [longer, "b"]);
    }

    #[test]
    fn a_brace_that_two_branches_open_is_open_once() {
        let text = "#ifdef A\nvoid f() {\n#else\nvoid f(int) {\n#endif\n}\nint b;";
        assert_eq!(words(text), ["void", "f", "(", ")", "{", "}", "int", "b", ";"]);
        let text = "#ifdef A\nx();\n#elif defined(B)\ny();\n#endif";
        assert_eq!(words(text), ["x", "(", ")", ";", "y", "(", ")", ";"]);
    }

    #[test]
    fn strings_say_what_they_say() {
        for (token, value) in
            [(r#""a\"b""#, "a\"b"), (r#"R"(a\b)""#, r"a\b"), (r#"u8R"x(a)x""#, "a"), ("\"open", "open"), ("", "")]
        {
            assert_eq!(string_value(token), value, "{token}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[ -~\\n\\r\u{e9}\u{feff}]{0,120}") {
            for token in tokens(&text).tokens {
                prop_assert!(!text[token.at].is_empty());
            }
        }

        #[test]
        fn nor_does_what_looks_like_code(
            words in proptest::collection::vec(prop::sample::select(vec![
                "#if 0\n", "#else\n", "#endif\n", "{", "}", "/*", "*/", "//", "\"", "'", "R\"(", ")\"", "\\", "\n",
                "\\\n", "<<<", ">>>", "1'", "é", "#define x \\\n", "name", "\r\n",
            ]), 0..24)
        ) {
            let text = words.concat();
            let all = tokens(&text);
            let mut end = 0;
            for token in all.tokens {
                prop_assert!(token.at.start >= end && token.at.end > token.at.start);
                end = token.at.end;
            }
        }
    }
}
