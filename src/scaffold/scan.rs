//! Lines of Python and C++ as [`super::shake`] reads them: brackets and words, without comments and long strings.

use std::borrow::Cow;
use std::collections::BTreeSet;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Language {
    Python,
    Cpp,
}

/// What a line says.
#[derive(Debug)]
pub(super) enum Word<'a> {
    /// A name of the file's own, or one that it imports.
    Name(&'a str),
    /// An attribute of the kernel, its ops or its layers: `kernel.NAME`.
    Member(&'a str),
    /// A string that is a name, or in C++ a schema that starts with one.
    Text(&'a str),
}

/// A line without its end.
#[derive(Debug)]
pub(super) struct Line<'a> {
    pub(super) text: Cow<'a, str>,
    /// Whether it begins within a string of several lines.
    pub(super) continues: bool,
    /// The number of opened minus closed brackets.
    pub(super) balance: i32,
    pub(super) words: Vec<Word<'a>>,
}

impl Line<'_> {
    pub(super) fn indent(&self) -> usize {
        self.text.len() - self.text.trim_start().len()
    }

    /// Whether it is blank or a comment.
    pub(super) fn is_lead(&self, language: Language) -> bool {
        let text = self.text.trim_start();
        !self.continues && (text.is_empty() || text.starts_with(comment(language)))
    }

    /// Whether it mentions one of these operations, functions or layers. In C++ only strings name operations.
    pub(super) fn mentions(&self, names: &BTreeSet<String>, language: Language) -> bool {
        self.words.iter().any(|word| match word {
            Word::Text(name) => names.contains(*name),
            Word::Name(name) | Word::Member(name) => language == Language::Python && names.contains(*name),
        })
    }
}

fn comment(language: Language) -> &'static str {
    if language == Language::Python { "#" } else { "//" }
}

/// The lines of a file.
pub(super) fn scan(text: &str, language: Language) -> Vec<Line<'_>> {
    let mut in_string = false;
    text.lines()
        .map(|text| {
            let mut line = Line { text: text.into(), continues: in_string, balance: 0, words: Vec::new() };
            read(text, language, &mut in_string, &mut line);
            line
        })
        .collect()
}

const LONG: &str = "\"\"\"";

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn read<'a>(text: &'a str, language: Language, in_string: &mut bool, line: &mut Line<'a>) {
    let mut rest = text;
    // The last name before the position, and whether a dot follows it.
    let (mut owner, mut is_member) = ("", false);
    while let Some(first) = rest.chars().next() {
        if *in_string {
            let Some((_, behind)) = rest.split_once(LONG) else { return };
            (rest, *in_string) = (behind, false);
        } else if rest.starts_with(comment(language)) {
            return;
        } else if let Some(inside) = rest.strip_prefix(LONG) {
            (rest, *in_string) = (inside, true);
        } else if first == '"' || first == '\'' {
            let end = end_of_string(rest, first);
            let inside = rest.get(1..end).unwrap_or_default();
            let name = &inside[..inside.find(|c| !is_name(c)).unwrap_or(inside.len())];
            if name == inside || language == Language::Cpp && inside[name.len()..].starts_with('(') {
                line.words.push(Word::Text(name));
            } else {
                // The expressions of an f-string.
                let parts = inside.split('{').skip(1).filter_map(|part| part.split('}').next());
                let words = parts.flat_map(|part| part.split(|c| !is_name(c)));
                line.words.extend(words.filter(|word| !word.is_empty()).map(Word::Name));
            }
            rest = rest.get(end + 1..).unwrap_or_default();
        } else if is_name(first) {
            let end = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
            let (name, behind) = rest.split_at(end);
            let is_keyword = behind.starts_with('=') && !behind.starts_with("==");
            if is_member && matches!(owner, "kernel" | "ops" | "layers") {
                line.words.push(Word::Member(name));
            } else if !is_member && !is_keyword && !behind.starts_with(['"', '\'']) {
                line.words.push(Word::Name(name));
            }
            (owner, is_member, rest) = (name, false, behind);
        } else {
            line.balance += i32::from("([{".contains(first)) - i32::from(")]}".contains(first));
            is_member = first == '.';
            rest = &rest[first.len_utf8()..];
        }
    }
}

/// The position of the quote that ends a string.
fn end_of_string(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        if c == quote && !escaped {
            return at;
        }
        escaped = c == '\\' && !escaped;
    }
    text.len()
}
