//! Tokenises Python into logical lines, enough to find imports, calls, decorators and class members.

use std::ops::Range;

use super::text::{Text, closing};

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    /// A name or keyword.
    Name,
    Number,
    /// With prefix and quotes.
    String,
    /// One character of punctuation.
    Sign,
}

#[derive(Clone, Debug)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) at: Range<usize>,
}

/// A logical line: a simple statement or the head of a compound one.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) tokens: Range<usize>,
    /// Indices of the enclosing block heads, outermost first.
    pub(super) inside: Vec<usize>,
}

#[derive(Debug)]
pub(super) struct Python {
    pub(super) text: Text,
    pub(super) tokens: Vec<Token>,
    pub(super) lines: Vec<Line>,
    /// Comments, without the `#`.
    pub(super) comments: Vec<Range<usize>>,
    closing: Vec<Option<usize>>,
}

/// One imported name.
#[derive(Clone, Debug)]
pub(super) struct Import {
    /// The number of leading dots.
    pub(super) dots: usize,
    /// The module; empty for `from . import x`.
    pub(super) module: String,
    /// The imported names of a `from`; none for `import module`.
    pub(super) names: Option<Vec<String>>,
    /// The bytes of dots and module, or of the module.
    pub(super) at: Range<usize>,
    /// The line's index.
    pub(super) line: usize,
}

/// A call, or a decorator's name.
#[derive(Clone, Debug)]
pub(super) struct Call {
    /// `torch.library.register_fake`
    pub(super) path: Vec<String>,
    /// The token range of each argument.
    pub(super) arguments: Vec<Range<usize>>,
    /// The bytes of the path.
    pub(super) at: Range<usize>,
    /// The index of its line.
    pub(super) line: usize,
}

impl Python {
    pub(super) fn new(text: Text) -> Self {
        let mut lexer =
            Lexer { text: &text.content, at: 0, depth: 0, tokens: Vec::new(), comments: Vec::new(), lines: Vec::new() };
        lexer.run();
        let Lexer { tokens, comments, lines, .. } = lexer;
        let closing = closing(tokens.iter().map(|token| &text.content[token.at.clone()]));
        let mut python = Self { text, tokens, lines: Vec::new(), comments, closing };
        python.nest(lines);
        python
    }

    /// The text of a token; empty after the end.
    pub(super) fn word(&self, at: usize) -> &str {
        self.tokens.get(at).map_or("", |token| &self.text.content[token.at.clone()])
    }

    pub(super) fn is_name(&self, at: usize) -> bool {
        self.tokens.get(at).is_some_and(|token| token.kind == Kind::Name)
    }

    /// The bytes between two tokens.
    pub(super) fn bytes(&self, range: &Range<usize>) -> Range<usize> {
        let end = self.text.content.len();
        let start = self.tokens.get(range.start).map_or(end, |one| one.at.start);
        let last = range.end.max(range.start + 1) - 1;
        start..self.tokens.get(last).map_or(end, |one| one.at.end)
    }

    /// The bytes of one token.
    pub(super) fn token_bytes(&self, at: usize) -> Range<usize> {
        self.bytes(&(at..at + 1))
    }

    /// The concatenation of plain string literals; `None` with other tokens or f-strings.
    pub(super) fn string(&self, range: Range<usize>) -> Option<String> {
        let mut value = String::new();
        for at in range.clone() {
            if self.tokens.get(at)?.kind != Kind::String {
                return None;
            }
            let word = self.word(at);
            let open = word.find(['"', '\''])?;
            if word[..open].contains(['f', 'F', 't', 'T', 'b', 'B']) {
                return None;
            }
            let quote = if word[open..].starts_with("\"\"\"") || word[open..].starts_with("'''") { 3 } else { 1 };
            let inside = &word[open..];
            let marks = &inside[..quote];
            let inside = inside.get(quote..)?;
            value.push_str(inside.strip_suffix(marks).unwrap_or(inside));
        }
        (!range.is_empty()).then_some(value)
    }

    /// The first words of the enclosing block heads, outermost first: `if`, `try`, `def`.
    pub(super) fn blocks(&self, line: usize) -> impl Iterator<Item = &Line> {
        let inside: &[usize] = self.lines.get(line).map_or(&[], |line| line.inside.as_slice());
        inside.iter().filter_map(|head| self.lines.get(*head))
    }

    pub(super) fn words(&self, line: &Line) -> impl Iterator<Item = &str> {
        line.tokens.clone().map(|at| self.word(at))
    }

    pub(super) fn imports(&self) -> Vec<Import> {
        let mut found = Vec::new();
        for (index, line) in self.lines.iter().enumerate() {
            for statement in self.statements(line) {
                match self.word(statement.start) {
                    "import" => self.import_module(index, statement, &mut found),
                    "from" => found.extend(self.import_from(index, &statement)),
                    _ => {}
                }
            }
        }
        found
    }

    /// The simple statements of a line: separated by `;`, or after the `:` of `if x: import y`.
    fn statements(&self, line: &Line) -> Vec<Range<usize>> {
        let mut parts = Vec::new();
        let mut start = line.tokens.start;
        let mut at = start;
        let head = is_head(self.word(start));
        while at < line.tokens.end {
            match self.word(at) {
                "(" | "[" | "{" => at = self.closing[at].unwrap_or(at),
                ";" => {
                    parts.push(start..at);
                    start = at + 1;
                }
                ":" if head && parts.is_empty() => {
                    parts.push(start..at);
                    start = at + 1;
                }
                _ => {}
            }
            at += 1;
        }
        parts.push(start..line.tokens.end);
        parts
    }

    fn import_module(&self, line: usize, statement: Range<usize>, found: &mut Vec<Import>) {
        let mut at = statement.start + 1;
        while at < statement.end {
            let start = at;
            let module = self.dotted(&mut at, statement.end);
            if module.is_empty() {
                return;
            }
            found.push(Import { dots: 0, module, names: None, at: self.bytes(&(start..at)), line });
            while at < statement.end && self.word(at) != "," {
                at += 1;
            }
            at += 1;
        }
    }

    fn import_from(&self, line: usize, statement: &Range<usize>) -> Option<Import> {
        let start = statement.start + 1;
        let mut at = start;
        let mut dots = 0;
        while self.word(at) == "." {
            dots += 1;
            at += 1;
        }
        let module = if self.word(at) == "import" { String::new() } else { self.dotted(&mut at, statement.end) };
        if self.word(at) != "import" || dots == 0 && module.is_empty() {
            return None;
        }
        let end = at;
        let mut names = Vec::new();
        let mut fresh = true;
        for name in at + 1..statement.end {
            match self.word(name) {
                "," => fresh = true,
                "(" | ")" => {}
                _ if fresh => {
                    names.push(self.word(name).to_owned());
                    fresh = false;
                }
                _ => {}
            }
        }
        Some(Import { dots, module, names: Some(names), at: self.bytes(&(start..end)), line })
    }

    /// Reads `a.b.c` and advances past it.
    fn dotted(&self, at: &mut usize, end: usize) -> String {
        let mut path = String::new();
        while *at < end && self.is_name(*at) {
            path.push_str(self.word(*at));
            *at += 1;
            if self.word(*at) == "." && *at + 1 < end && self.is_name(*at + 1) {
                path.push('.');
                *at += 1;
            } else {
                break;
            }
        }
        path
    }

    /// Every dotted path that is called.
    pub(super) fn calls(&self) -> Vec<Call> {
        let mut found = Vec::new();
        for (index, line) in self.lines.iter().enumerate() {
            for at in line.tokens.clone() {
                let called = self.word(at) == "("
                    && at > line.tokens.start
                    && self.is_name(at - 1)
                    && !matches!(self.word(at.wrapping_sub(2)), "def" | "class");
                let Some(close) = self.closing[at].filter(|_| called) else {
                    continue;
                };
                let path = self.path_before(at, line.tokens.start);
                found.push(Call {
                    path: path.clone().step_by(2).map(|at| self.word(at).to_owned()).collect(),
                    arguments: self.parts(at + 1..close),
                    at: self.bytes(&path),
                    line: index,
                });
            }
        }
        found
    }

    /// The dotted name that ends before `at`.
    fn path_before(&self, at: usize, least: usize) -> Range<usize> {
        let mut start = at - 1;
        while start >= least + 2 && self.word(start - 1) == "." && self.is_name(start - 2) {
            start -= 2;
        }
        start..at
    }

    /// Every dotted path, with its tokens.
    pub(super) fn paths(&self) -> Vec<Range<usize>> {
        let mut found = Vec::new();
        let mut at = 0;
        while at < self.tokens.len() {
            let start = at;
            if self.is_name(at) && (at == 0 || self.word(at - 1) != ".") {
                while self.word(at + 1) == "." && self.is_name(at + 2) {
                    at += 2;
                }
                found.push(start..at + 1);
            }
            at += 1;
        }
        found
    }

    /// Splits at top-level commas.
    pub(super) fn parts(&self, range: Range<usize>) -> Vec<Range<usize>> {
        let mut parts = Vec::new();
        let (mut start, mut at) = (range.start, range.start);
        while at < range.end {
            match self.word(at) {
                "(" | "[" | "{" => at = self.closing[at].unwrap_or(at),
                "," => {
                    parts.push(start..at);
                    start = at + 1;
                }
                _ => {}
            }
            at += 1;
        }
        if start < range.end {
            parts.push(start..range.end);
        }
        parts
    }

    /// Computes the enclosing blocks of each line.
    fn nest(&mut self, lines: Vec<(usize, Range<usize>)>) {
        let mut open: Vec<(usize, usize)> = Vec::new();
        for (index, (indent, tokens)) in lines.into_iter().enumerate() {
            while open.last().is_some_and(|(outer, _)| *outer >= indent) {
                open.pop();
            }
            // Depth is capped against pathological nesting.
            let inside = open.iter().take(64).map(|(_, head)| *head).collect();
            if is_head(self.word(tokens.start)) && self.word(tokens.end - 1) == ":" {
                open.push((indent, index));
            }
            self.lines.push(Line { tokens, inside });
        }
    }
}

fn is_head(word: &str) -> bool {
    matches!(
        word,
        "if" | "elif" | "else" | "for" | "while" | "try" | "except" | "finally" | "with" | "def" | "class" | "async"
    )
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    tokens: Vec<Token>,
    comments: Vec<Range<usize>>,
    lines: Vec<(usize, Range<usize>)>,
}

impl Lexer<'_> {
    fn run(&mut self) {
        let mut indent = 0;
        let mut first = 0;
        let mut fresh = true;
        while let Some(character) = self.text[self.at..].chars().next() {
            match character {
                '\n' => {
                    if self.depth == 0 {
                        self.line(indent, &mut first);
                        fresh = true;
                        indent = 0;
                    }
                    self.at += 1;
                }
                '#' => self.comment(),
                '\\' => self.continuation(),
                ' ' if fresh && self.depth == 0 => {
                    indent += 1;
                    self.at += 1;
                }
                '\t' if fresh && self.depth == 0 => {
                    indent += 8 - indent % 8;
                    self.at += 1;
                }
                '"' | '\'' => {
                    fresh = false;
                    self.string(self.at);
                }
                _ if character.is_whitespace() || character == '\u{feff}' => {
                    self.at += character.len_utf8();
                }
                _ if character.is_alphabetic() || character == '_' => {
                    fresh = false;
                    self.name();
                }
                '0'..='9' => {
                    fresh = false;
                    let start = self.at;
                    self.skip(|c| c.is_alphanumeric() || c == '_' || c == '.');
                    self.push(Kind::Number, start);
                }
                _ => {
                    fresh = false;
                    match character {
                        '(' | '[' | '{' => self.depth += 1,
                        ')' | ']' | '}' => self.depth = self.depth.saturating_sub(1),
                        _ => {}
                    }
                    let start = self.at;
                    self.at += character.len_utf8();
                    self.push(Kind::Sign, start);
                }
            }
        }
        self.line(indent, &mut first);
    }

    /// A backslash continuation.
    fn continuation(&mut self) {
        self.at += 1;
        let rest = &self.text[self.at..];
        self.at += if rest.starts_with("\r\n") { 2 } else { usize::from(rest.starts_with('\n')) };
    }

    fn line(&mut self, indent: usize, first: &mut usize) {
        let end = self.tokens.len();
        if *first < end {
            self.lines.push((indent, *first..end));
        }
        *first = end;
    }

    fn push(&mut self, kind: Kind, start: usize) {
        self.tokens.push(Token { kind, at: start..self.at });
    }

    fn skip(&mut self, wanted: impl Fn(char) -> bool) {
        let rest = &self.text[self.at..];
        self.at += rest.find(|c| !wanted(c)).unwrap_or(rest.len());
    }

    fn comment(&mut self) {
        let start = self.at + 1;
        self.skip(|c| c != '\n');
        let end = start + self.text[start..self.at].trim_end_matches('\r').len();
        self.comments.push(start..end);
    }

    fn name(&mut self) {
        let start = self.at;
        self.skip(|c| c.is_alphanumeric() || c == '_');
        let prefix = self.at - start <= 2
            && self.text[start..self.at].chars().all(|c| matches!(c.to_ascii_lowercase(), 'r' | 'b' | 'u' | 'f' | 't'));
        if prefix && self.text[self.at..].starts_with(['"', '\'']) {
            self.string(start);
        } else {
            self.push(Kind::Name, start);
        }
    }

    /// A string from `start`, at its quote. Unclosed, it ends with its line, or if triple-quoted with the file.
    fn string(&mut self, start: usize) {
        let rest = &self.text[self.at..];
        let triple = rest.starts_with("\"\"\"") || rest.starts_with("'''");
        let marks = &rest[..if triple { 3 } else { 1 }];
        self.at += marks.len();
        let mut characters = self.text[self.at..].char_indices();
        let open = self.at;
        self.at = self.text.len();
        while let Some((offset, character)) = characters.next() {
            let here = open + offset;
            if character == '\\' {
                // A line end of two characters is one.
                if characters.next().is_some_and(|(_, next)| next == '\r') && characters.as_str().starts_with('\n') {
                    characters.next();
                }
            } else if self.text[here..].starts_with(marks) {
                self.at = here + marks.len();
                break;
            } else if character == '\n' && !triple {
                self.at = here;
                break;
            }
        }
        self.push(Kind::String, start);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn python(text: &str) -> Python {
        Python::new(Text::new("a.py".into(), text.into(), true))
    }

    #[test]
    fn imports_are_found_where_they_are_code() {
        let read = python(
            "\"\"\"import no\n\"\"\"\nimport a.b as c, d\nfrom .x import (y,\n  z as w)\nfrom ... import q # from no import no\n\
             if TYPE_CHECKING:\n    from t import u\ntry: import v\nexcept ImportError: pass\ns = 'import no'; import e\n\
             from f import *\nyield from g()\n",
        );
        let found: Vec<_> = read
            .imports()
            .iter()
            .map(|one| format!("{}{} {:?}", ".".repeat(one.dots), one.module, one.names.as_deref().unwrap_or_default()))
            .collect();
        assert_eq!(
            found,
            ["a.b []", "d []", ".x [\"y\", \"z\"]", "... [\"q\"]", "t [\"u\"]", "v []", "e []", "f [\"*\"]"]
        );
        let guarded = read.imports()[4].line;
        let heads: Vec<_> = read.blocks(guarded).flat_map(|head| read.words(head)).collect();
        assert_eq!(heads, ["if", "TYPE_CHECKING", ":"]);
    }

    #[test]
    fn calls_have_a_path_and_arguments() {
        let read =
            python("@torch.library.custom_op(prefix('a'), mutates_args=())\ndef f(x): return ops.g(x, [1, 2])\n");
        let found: Vec<_> = read.calls().iter().map(|call| (call.path.join("."), call.arguments.len())).collect();
        assert_eq!(
            found,
            [("torch.library.custom_op".to_owned(), 2), ("prefix".to_owned(), 1), ("ops.g".to_owned(), 2)]
        );
        assert_eq!(read.string(read.calls()[1].arguments[0].clone()).as_deref(), Some("a"));
        assert_eq!(read.text.content[read.calls()[2].at.clone()], *"ops.g");
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(
            words in proptest::collection::vec(prop::sample::select(vec![
                "import", "from", " ", "\n", "\t", ".", "(", ")", ":", ";", "'", "\"\"\"", "#", "\\", "\\\n", "a", ",", "@",
                "def", "if", "é", "\u{feff}", "\r\n", "f'", "1",
            ]), 0..32)
        ) {
            let read = python(&words.concat());
            read.imports();
            read.calls();
            read.paths();
        }
    }
}
