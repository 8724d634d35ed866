//! The YAML header of a SKILL.md, with the line of every key for the findings.

use std::collections::HashSet;

use saphyr_parser::{Event, Parser, ScalarStyle, Span};
use thiserror::Error;

/// A YAML value and the line it starts on (1 is the file's first line).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    /// The line in SKILL.md.
    pub(crate) line: usize,
    /// What it is.
    pub(crate) value: Value,
}

/// The kinds of value in a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    /// A scalar; `plain` if written without quotes, so that YAML may read it as another type.
    Scalar {
        /// The text, unescaped.
        text: String,
        /// Written without quotes and not as a block.
        plain: bool,
    },
    /// A list.
    List(Vec<Node>),
    /// Keys and values in the order they are written.
    Map(Vec<(Node, Node)>),
}

/// A parsed SKILL.md.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Document {
    /// The header's keys and values.
    pub(crate) fields: Vec<(Node, Node)>,
    /// Everything after the closing `---`.
    pub(crate) body: String,
    /// The line of the file on which the body starts.
    pub(crate) body_line: usize,
}

/// The most bytes of a header. Agents load every skill's header into their prompt: one is a few hundred bytes long.
pub(crate) const MAX_HEADER: usize = 64 * 1024;

/// Why there is no header. Lines count from 1.
#[derive(Debug, Error, PartialEq, Eq)]
pub(crate) enum HeaderError {
    /// The file starts with U+FEFF.
    #[error("starts with a byte-order mark, which hides the skill from Codex and Gemini; save as UTF-8 without BOM")]
    ByteOrderMark,
    /// Something precedes the first `---`.
    #[error("the first line must be '---'; anything before it hides the skill from most agents")]
    NotFirst,
    /// No closing line.
    #[error("the header that '---' opens on line 1 is never closed by another '---' line")]
    Unclosed,
    /// Over [`MAX_HEADER`].
    #[error("the header has {0} bytes, and at most {MAX_HEADER} are read; move text into the body or a file")]
    TooLarge(usize),
    /// The YAML does not parse.
    #[error("{message}")]
    Yaml {
        /// Where.
        line: usize,
        /// The parser's message, and a hint.
        message: String,
    },
    /// A list or a scalar instead of keys.
    #[error("the header must be 'key: value' lines")]
    NotAMapping,
}

impl HeaderError {
    /// The line of the error.
    pub(crate) fn line(&self) -> usize {
        match self {
            Self::Yaml { line, .. } => *line,
            _ => 1,
        }
    }
}

impl Document {
    /// Parses the text of a SKILL.md.
    pub(crate) fn parse(text: &str) -> Result<Self, HeaderError> {
        if text.starts_with('\u{feff}') {
            return Err(HeaderError::ByteOrderMark);
        }
        let mut lines = text.split_inclusive('\n');
        let first = lines.next().unwrap_or_default();
        if first.trim_end() != "---" {
            return Err(HeaderError::NotFirst);
        }
        let start = first.len();
        let mut end = start;
        let mut number = 1;
        for line in lines {
            number += 1;
            if line.trim_end() == "---" {
                if end - start > MAX_HEADER {
                    return Err(HeaderError::TooLarge(end - start));
                }
                let fields = parse_fields(&text[start..end])?;
                let body = text[end + line.len()..].to_owned();
                return Ok(Self { fields, body, body_line: number + 1 });
            }
            end += line.len();
        }
        Err(HeaderError::Unclosed)
    }

    /// The value of a key, by its first occurrence.
    pub(crate) fn get(&self, key: &str) -> Option<&Node> {
        self.fields.iter().find(|(k, _)| k.text() == Some(key)).map(|(_, value)| value)
    }

    /// The text of a key's scalar value.
    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        self.get(key).and_then(Node::text)
    }

    /// The text of a key in `metadata`.
    pub(crate) fn metadata(&self, wanted: &str) -> Option<&str> {
        match &self.get("metadata")?.value {
            Value::Map(fields) => {
                fields.iter().find(|(key, _)| key.text() == Some(wanted)).and_then(|(_, value)| value.text())
            }
            _ => None,
        }
    }

    /// `metadata.version`, where a skill's version belongs.
    pub(crate) fn version(&self) -> Option<&str> {
        self.metadata("version")
    }
}

impl Node {
    /// A scalar's text.
    pub(crate) fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Scalar { text, .. } => Some(text),
            _ => None,
        }
    }

    /// Whether YAML reads this node as a string: quoted, a block, or plain text that is no number, boolean, null or date,
    /// neither in the core schema of YAML 1.2 nor in YAML 1.1, which most parsers of agents still read.
    pub(crate) fn is_string(&self) -> bool {
        match &self.value {
            Value::Scalar { text, plain } => !plain || !(is_other_scalar(text) || is_other_in_yaml_1_1(text)),
            _ => false,
        }
    }
}

/// YAML 1.2 core schema: null, booleans, integers and floats in plain style.
fn is_other_scalar(text: &str) -> bool {
    matches!(text, "" | "~" | "null" | "Null" | "NULL")
        || matches!(text, "true" | "True" | "TRUE" | "false" | "False" | "FALSE")
        || matches!(text.trim_start_matches(['+', '-']), ".inf" | ".Inf" | ".INF" | ".nan" | ".NaN")
        || (text.bytes().any(|b| b.is_ascii_digit()) && (text.parse::<f64>().is_ok() || text.parse::<i128>().is_ok()))
        || text.strip_prefix("0x").is_some_and(|hex| i128::from_str_radix(hex, 16).is_ok())
        || text.strip_prefix("0o").is_some_and(|octal| i128::from_str_radix(octal, 8).is_ok())
}

/// What YAML 1.1 takes for something else besides: booleans, dates, numbers with `_` or in base 2 or 60, and `=` and `<<`, which
/// parsers refuse as values.
fn is_other_in_yaml_1_1(text: &str) -> bool {
    let one =
        |word: &str| text == word || text == word.to_uppercase() || (text.to_lowercase() == word && is_title(text));
    ["yes", "no", "on", "off"].into_iter().any(one)
        || matches!(text, "=" | "<<")
        || is_date(text)
        || is_old_number(text)
}

fn is_title(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_uppercase()) && text.chars().skip(1).all(|c| c.is_ascii_lowercase())
}

fn is_digits(text: &str, lengths: std::ops::RangeInclusive<usize>) -> bool {
    lengths.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// `2024-01-01`, and with a time behind it `2024-1-1 12:30:00.5 +1:00`.
fn is_date(text: &str) -> bool {
    let (date, time) = match text.split_once(['T', 't', ' ', '\t']) {
        Some((date, time)) => (date, Some(time)),
        None => (text, None),
    };
    let [year, month, day] = date.split('-').collect::<Vec<_>>()[..] else {
        return false;
    };
    let shortest = if time.is_some() { 1 } else { 2 };
    is_digits(year, 4..=4) && is_digits(month, shortest..=2) && is_digits(day, shortest..=2) && time.is_none_or(is_time)
}

fn is_time(text: &str) -> bool {
    let text = text.trim_start_matches([' ', '\t']);
    let (clock, zone) = text.split_at(text.find(['Z', '+', '-', ' ', '\t']).unwrap_or(text.len()));
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, ""));
    let [hours, minutes, seconds] = clock.split(':').collect::<Vec<_>>()[..] else {
        return false;
    };
    let zone = zone.trim_start_matches([' ', '\t']);
    let is_zone = zone.strip_prefix(['+', '-']).map_or(zone.is_empty() || zone == "Z", |zone| {
        let (hours, minutes) = zone.split_once(':').unwrap_or((zone, "00"));
        is_digits(hours, 1..=2) && is_digits(minutes, 2..=2)
    });
    is_digits(hours, 1..=2)
        && is_digits(minutes, 2..=2)
        && is_digits(seconds, 2..=2)
        && is_digits(fraction, 0..=usize::MAX)
        && is_zone
}

/// `1_000`, `0b101`, `0x_ff`, `1:30:00`.
fn is_old_number(text: &str) -> bool {
    let text = text.strip_prefix(['+', '-']).unwrap_or(text);
    let of = |prefix: &str, is: fn(char) -> bool| {
        text.strip_prefix(prefix).is_some_and(|rest| !rest.is_empty() && rest.chars().all(|c| c == '_' || is(c)))
    };
    if of("0b", |c| matches!(c, '0' | '1')) || of("0x", |c| c.is_ascii_hexdigit()) {
        return true;
    }
    let plain = text.replace('_', "");
    if !text.starts_with(|c: char| c.is_ascii_digit()) {
        return false;
    }
    let (whole, fraction) = plain.split_once('.').map_or((&*plain, None), |(whole, rest)| (whole, Some(rest)));
    match whole.split_once(':') {
        None => plain != text && plain.parse::<f64>().is_ok(),
        Some((first, rest)) => {
            let is_sixtieth = |part: &str| is_digits(part, 1..=2) && part.parse::<u8>().is_ok_and(|part| part < 60);
            is_digits(first, 1..=usize::MAX)
                && (fraction.is_some() || !first.starts_with('0'))
                && rest.split(':').all(is_sixtieth)
                && is_digits(fraction.unwrap_or_default(), 0..=usize::MAX)
        }
    }
}

/// The line of the file with a character that YAML does not allow, and the character. Parsers refuse all of the header for it.
fn unprintable(yaml: &str) -> Option<(usize, char)> {
    let printable = |c: char| {
        !c.is_control() && !matches!(c, '\u{fffe}' | '\u{ffff}') || matches!(c, '\t' | '\n' | '\r' | '\u{85}')
    };
    let (at, c) = yaml.char_indices().find(|(_, c)| !printable(*c))?;
    Some((2 + yaml[..at].matches('\n').count(), c))
}

type Events<'a> = Parser<'a, saphyr_parser::StrInput<'a>>;

fn parse_fields(yaml: &str) -> Result<Vec<(Node, Node)>, HeaderError> {
    if let Some((line, c)) = unprintable(yaml) {
        let message = format!(
            "not valid YAML: U+{:04X} may not be in it, and parsers refuse the header; remove it",
            u32::from(c)
        );
        return Err(HeaderError::Yaml { line, message });
    }
    let mut events = Parser::new_from_str(yaml);
    loop {
        let (event, span) = next(&mut events, yaml)?;
        match event {
            Event::StreamStart | Event::DocumentStart(_) | Event::Nothing => {}
            Event::StreamEnd | Event::DocumentEnd => return Err(HeaderError::NotAMapping),
            start => {
                let node = node(start, span, &mut events, yaml, 0)?;
                // Read the rest as well: it may contain an error.
                loop {
                    match next(&mut events, yaml)? {
                        (Event::StreamEnd, _) => break,
                        (Event::DocumentEnd | Event::Nothing, _) => {}
                        (_, span) => {
                            return Err(HeaderError::Yaml {
                                line: line_of(span),
                                message: "a second YAML document starts here; one is all a header may hold".into(),
                            });
                        }
                    }
                }
                return match node.value {
                    Value::Map(fields) => Ok(fields),
                    _ => Err(HeaderError::NotAMapping),
                };
            }
        }
    }
}

fn next<'a>(events: &mut Events<'a>, yaml: &str) -> Result<(Event<'a>, Span), HeaderError> {
    match events.next() {
        Some(Ok(found)) => Ok(found),
        Some(Err(error)) => {
            let in_yaml = error.marker().line().max(1);
            // The scanner often reports an unquoted colon only on the next line.
            let (at, text) =
                colon_line(yaml, in_yaml).unwrap_or((in_yaml, yaml.lines().nth(in_yaml - 1).unwrap_or_default()));
            let hint = if has_unquoted_colon(text) { "; a value that contains ': ' must be quoted" } else { "" };
            let message = format!("not valid YAML: {}{hint}", error.info());
            Err(HeaderError::Yaml { line: at + 1, message })
        }
        None => Err(HeaderError::NotAMapping),
    }
}

fn colon_line(yaml: &str, at: usize) -> Option<(usize, &str)> {
    [at, at.saturating_sub(1)]
        .into_iter()
        .filter(|&n| n > 0)
        .filter_map(|n| yaml.lines().nth(n - 1).map(|line| (n, line)))
        .find(|(_, line)| has_unquoted_colon(line))
}

fn has_unquoted_colon(line: &str) -> bool {
    line.split_once(": ").is_some_and(|(_, value)| {
        !value.trim_start().starts_with(['"', '\'', '|', '>', '{', '['])
            && (value.contains(": ") || value.trim_end().ends_with(':'))
    })
}

/// The header starts on the file's second line, and the parser counts its own lines from 1.
fn line_of(span: Span) -> usize {
    span.start.line() + 1
}

fn node<'a>(
    event: Event<'a>,
    span: Span,
    events: &mut Events<'a>,
    yaml: &str,
    depth: usize,
) -> Result<Node, HeaderError> {
    let line = line_of(span);
    let refuse = |message: &str| Err(HeaderError::Yaml { line, message: message.to_owned() });
    if depth > 16 {
        return refuse("nested more than 16 levels deep");
    }
    if let Event::Scalar(_, _, anchor, tag) | Event::SequenceStart(anchor, tag) | Event::MappingStart(anchor, tag) =
        &event
        && (*anchor != 0 || tag.is_some())
    {
        return refuse("anchors and tags are YAML features that agents do not share; write the value out");
    }
    let value = match event {
        Event::Scalar(text, style, ..) => Value::Scalar { text: text.into_owned(), plain: style == ScalarStyle::Plain },
        Event::Alias(_) => {
            return refuse("aliases are a YAML feature that agents do not share; write the value out");
        }
        Event::SequenceStart(..) => {
            let mut items = Vec::new();
            loop {
                match next(events, yaml)? {
                    (Event::SequenceEnd, _) => break Value::List(items),
                    (event, span) => items.push(node(event, span, events, yaml, depth + 1)?),
                }
            }
        }
        Event::MappingStart(..) => {
            let mut fields: Vec<(Node, Node)> = Vec::new();
            let mut known: HashSet<String> = HashSet::new();
            loop {
                match next(events, yaml)? {
                    (Event::MappingEnd, _) => break Value::Map(fields),
                    (event, span) => {
                        let key = node(event, span, events, yaml, depth + 1)?;
                        let Some(name) = key.text() else {
                            let message = "a key must be a word, not a list or a map".to_owned();
                            return Err(HeaderError::Yaml { line: key.line, message });
                        };
                        if !known.insert(name.to_owned()) {
                            let message = format!("the key '{name}' is there twice");
                            return Err(HeaderError::Yaml { line: key.line, message });
                        }
                        let (event, span) = next(events, yaml)?;
                        fields.push((key, node(event, span, events, yaml, depth + 1)?));
                    }
                }
            }
        }
        other => return refuse(&format!("unexpected YAML: {other:?}")),
    };
    Ok(Node { line, value })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines_count_from_the_top_of_the_file() {
        let text = "---\nname: x\ndescription: >\n  folded\n  text\nmetadata:\n  version: \"1\"\n---\nbody\n";
        let document = Document::parse(text).unwrap();
        let lines: Vec<_> = document.fields.iter().map(|(k, _)| (k.text().unwrap(), k.line)).collect();
        assert_eq!(lines, [("name", 2), ("description", 3), ("metadata", 6)]);
        assert_eq!(document.text("description"), Some("folded text\n"));
        assert_eq!(document.version(), Some("1"));
        assert_eq!((document.body.as_str(), document.body_line), ("body\n", 9));
    }

    #[test]
    fn carriage_returns_are_fine() {
        let document = Document::parse("---\r\nname: x\r\n---\r\nbody").unwrap();
        assert_eq!(document.text("name"), Some("x"));
        assert_eq!(document.body, "body");
    }

    #[test]
    fn broken_headers_point_at_their_line() {
        let cases = [
            ("\u{feff}---\nname: x\n---\n", 1),
            ("\n---\nname: x\n---\n", 1),
            ("", 1),
            ("---\nname: x\n", 1),
            ("---\n- a\n---\n", 1),
            ("---\n---\n", 1),
            ("---\nname: x\nname: y\n---\n", 3),
            ("---\nname: x\ndescription: use: this\n---\n", 3),
            ("---\nname: x\ndescription: a\nlicense: use: this\n---\n", 4),
            ("---\nname: &a x\n---\n", 2),
            ("---\nname: [x\n---\n", 3),
            ("---\nname: x\nmetadata: !!python/object/apply:os.system\n  a: b\n---\n", 3),
            ("---\nname: x\nmetadata: &a\n  a: b\n---\n", 3),
            ("---\n!!map\nname: x\n---\n", 2),
            ("---\nname: x\nallowed-tools: !!set [a]\n---\n", 3),
            ("---\nname: x\ndescription: \"a\u{b}b\"\n---\n", 3),
            ("---\nname: x\ndescription: 'a\u{7}b'\n---\n", 3),
        ];
        for (text, line) in cases {
            let error = Document::parse(text).unwrap_err();
            assert_eq!(error.line(), line, "{text:?}: {error}");
        }
        let error = Document::parse("---\nname: x\ndescription: use: this\n---\n").unwrap_err();
        assert!(error.to_string().contains("must be quoted"), "{error}");
    }

    #[test]
    fn plain_numbers_and_booleans_are_no_strings() {
        for (yaml, string) in [
            ("1.0", false),
            ("1", false),
            ("true", false),
            ("~", false),
            ("0x1f", false),
            ("1e3", false),
            ("\"1.0\"", true),
            ("'true'", true),
            ("1.0.0", true),
            ("abc", true),
            ("infinity", true),
            ("nano", true),
            ("2024-01-01", false),
            ("2024-1-1T1:02:03", false),
            ("2024-01-01 12:30:00.5 +01:00", false),
            ("2024-01-01T12:30:00Z", false),
            ("'2024-01-01'", true),
            ("2024-01", true),
            ("2024-1-1", true),
            ("2024-01-01 at noon", true),
            ("2024-01-01-rc1", true),
            ("yes", false),
            ("No", false),
            ("ON", false),
            ("off", false),
            ("yEs", true),
            ("yesterday", true),
            ("y", true),
            ("1_000", false),
            ("0b101", false),
            ("-0x_ff", false),
            ("12:30:45", false),
            ("12:61", true),
            ("1:2:3.4", false),
            ("1_a", true),
            ("a_1", true),
            ("=", false),
            ("<<", false),
        ] {
            let document = Document::parse(&format!("---\nv: {yaml}\n---\n")).unwrap();
            assert_eq!(document.get("v").unwrap().is_string(), string, "{yaml}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "(---\n)?[ -~\\n\\r\u{e9}\u{feff}]{0,200}(\n---\n)?.{0,20}") {
            let _ = Document::parse(&text);
        }

        #[test]
        fn quoted_values_come_back_as_written(name in "[a-z0-9-]{1,20}", text in "[ -~]{0,80}") {
            let quoted = text.replace('\\', "\\\\").replace('"', "\\\"");
            let source = format!("---\nname: \"{name}\"\ndescription: \"{quoted}\"\n---\nbody");
            let document = Document::parse(&source).unwrap();
            prop_assert_eq!(document.text("name"), Some(name.as_str()));
            prop_assert_eq!(document.text("description"), Some(text.as_str()));
            prop_assert_eq!(document.body.as_str(), "body");
        }
    }
}
