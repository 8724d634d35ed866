//! CARD.md as kernel-builder's template: `{{ name }}`, `{% if %}`, `{% else %}`, `{% for %}` and `{# comments #}`, the part of
//! Jinja that cards use. Anything else is an error with its line.

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Map, Value};

#[derive(Debug)]
enum Node {
    Text(String),
    Name(String, usize),
    If { name: String, line: usize, wanted: bool, then: Vec<Node>, or: Vec<Node> },
    For { item: String, list: String, line: usize, body: Vec<Node> },
}

struct Reader<'a> {
    whole: &'a str,
    rest: &'a str,
    line: usize,
    depth: usize,
}

/// Limits of nested tags and of steps, because a card of a few bytes could ask for any number of them.
const DEEPEST: usize = 32;
const MOST: usize = 1 << 20;

/// The text with its variables filled in.
pub(super) fn render(text: &str, values: &Map<String, Value>) -> Result<String> {
    let mut reader = Reader { whole: text, rest: text, line: 1, depth: 0 };
    let (nodes, end) = reader.nodes()?;
    ensure!(end.is_none(), "line {}: {{% {} %}} ends nothing", reader.line, end.unwrap_or_default());
    let mut page = Page { text: String::new(), steps: 0 };
    page.write(&nodes, values)?;
    Ok(page.text)
}

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(length);
        self.line += taken.matches('\n').count();
        self.rest = rest;
        taken
    }

    /// The contents of the tag at the reader's position.
    fn tag(&mut self, close: &str) -> Result<&'a str> {
        let end =
            self.rest.find(close).with_context(|| format!("line {}: a tag is not closed with {close}", self.line))?;
        let inside = self.take(end + close.len());
        Ok(inside[2..end].trim_matches('-').trim())
    }

    /// The nodes up to an `else` or `end` that belongs to an outer tag, and that tag.
    fn nodes(&mut self) -> Result<(Vec<Node>, Option<&'a str>)> {
        self.depth += 1;
        ensure!(self.depth <= DEEPEST, "line {}: more than {DEEPEST} tags inside of each other", self.line);
        let nodes = self.level();
        self.depth -= 1;
        nodes
    }

    fn level(&mut self) -> Result<(Vec<Node>, Option<&'a str>)> {
        let mut nodes = Vec::new();
        loop {
            let start = ["{{", "{%", "{#"].iter().filter_map(|open| self.rest.find(open)).min();
            let text = self.take(start.unwrap_or(self.rest.len()));
            let Some(open) = self.rest.get(..2) else {
                nodes.push(Node::Text(text.to_owned()));
                return Ok((nodes, None));
            };
            if open == "{{" {
                nodes.push(Node::Text(text.to_owned()));
                let line = self.line;
                nodes.push(Node::Name(self.tag("}}")?.to_owned(), line));
                continue;
            }
            // A statement alone on its line leaves no empty line.
            let kept = text.trim_end_matches([' ', '\t']);
            let end = self.whole.len() - self.rest.len() - (text.len() - kept.len());
            let begins = end == 0 || self.whole[..end].ends_with('\n');
            nodes.push(Node::Text(if begins { kept } else { text }.to_owned()));
            let line = self.line;
            let inside = self.tag(if open == "{%" { "%}" } else { "#}" })?;
            if begins && self.rest.starts_with('\n') {
                self.take(1);
            }
            if open == "{#" {
                continue;
            }
            let words: Vec<&str> = inside.split_whitespace().collect();
            match words[..] {
                ["if", name] => nodes.push(self.condition(name, true, line)?),
                ["if", "not", name] => nodes.push(self.condition(name, false, line)?),
                ["for", item, "in", list] => {
                    let (body, end) = self.nodes()?;
                    ensure!(end == Some("endfor"), "line {line}: {{% {inside} %}} has no endfor");
                    nodes.push(Node::For { item: item.to_owned(), list: list.to_owned(), line, body });
                }
                ["else" | "endif" | "endfor"] => return Ok((nodes, Some(inside))),
                _ => bail!("line {line}: {{% {inside} %}} is not known; a card has if, else, endif, for, endfor"),
            }
        }
    }

    fn condition(&mut self, name: &str, wanted: bool, line: usize) -> Result<Node> {
        let (then, mut end) = self.nodes()?;
        let mut or = Vec::new();
        if end == Some("else") {
            (or, end) = self.nodes()?;
        }
        ensure!(end == Some("endif"), "line {line}: {{% if {name} %}} has no endif");
        Ok(Node::If { name: name.to_owned(), line, wanted, then, or })
    }
}

/// The card as far as it is written.
struct Page {
    text: String,
    steps: usize,
}

impl Page {
    fn write(&mut self, nodes: &[Node], values: &Map<String, Value>) -> Result<()> {
        let of = |name: &str, line: usize| {
            let known = || values.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
            values.get(name).with_context(|| format!("line {line}: `{name}` is not known; a card has {}", known()))
        };
        for node in nodes {
            self.steps += 1;
            ensure!(
                self.steps.max(self.text.len()) <= MOST,
                "the page would be longer than {MOST} bytes, or take as many steps"
            );
            match node {
                Node::Text(text) => self.text.push_str(text),
                Node::Name(name, line) => match of(name, *line)? {
                    Value::String(text) => self.text.push_str(text),
                    Value::Null => {}
                    other => self.text += &other.to_string(),
                },
                Node::If { name, line, wanted, then, or } => {
                    let value = of(name, *line)?;
                    let empty = value.is_null()
                        || *value == false
                        || value.as_str() == Some("")
                        || value.as_array().is_some_and(Vec::is_empty);
                    self.write(if empty == *wanted { or } else { then }, values)?;
                }
                Node::For { item, list, line, body } => {
                    for value in of(list, *line)?.as_array().into_iter().flatten() {
                        self.steps += 1;
                        ensure!(self.steps <= MOST, "line {line}: the card takes more than {MOST} steps");
                        let mut inner = values.clone();
                        inner.insert(item.clone(), value.clone());
                        self.write(body, &inner)?;
                    }
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::render;
    use serde_json::json;

    #[test]
    fn a_card_is_rendered_as_jinja_does_and_what_is_not_known_has_its_line() {
        let values = json!({"name": "x", "none": null, "all": ["a", "b"]});
        let values = values.as_object().unwrap();
        let shown = |text: &str| render(text, values).map_err(|error| error.to_string());
        assert_eq!(
            shown("# {{ name }}{# c #}\n{% if none %}\nno\n{% else %}\nyes\n{% endif %}\nend").unwrap(),
            "# x\nyes\nend"
        );
        assert_eq!(shown("{% for one in all %}\n- {{ one }}\n{% endfor %}\n").unwrap(), "- a\n- b\n");
        assert_eq!(shown("{% if not none %}a{% endif %}b").unwrap(), "ab");
        for (text, error) in [
            ("\n{{ nome }}", "line 2: `nome` is not known"),
            ("{% if name %}", "no endif"),
            ("{% endfor %}", "ends nothing"),
            ("\n\n{% macro x %}", "line 3"),
            ("{{ name", "not closed"),
            (&"{% if name %}".repeat(100_000), "inside of each other"),
            (&[&*"{% for x in all %}".repeat(30), &*"{% endfor %}".repeat(30)].concat(), "steps"),
        ] {
            assert!(shown(text).unwrap_err().contains(error), "{text}");
        }
    }
}
