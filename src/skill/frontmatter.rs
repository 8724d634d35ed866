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

    /// Whether YAML reads this node as a string: quoted, a block, or plain text that is no number,
    /// boolean or null in the core schema.
    pub(crate) fn is_string(&self) -> bool {
        match &self.value {
            Value::Scalar { text, plain } => !plain || !is_other_scalar(text),
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

type Events<'a> = Parser<'a, saphyr_parser::StrInput<'a>>;

fn parse_fields(yaml: &str) -> Result<Vec<(Node, Node)>, HeaderError> {
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
    let value = match event {
        Event::Scalar(text, style, anchor, tag) => {
            if anchor != 0 || tag.is_some() {
                return refuse("anchors and tags are YAML features that agents do not share; write the value out");
            }
            Value::Scalar { text: text.into_owned(), plain: style == ScalarStyle::Plain }
        }
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
