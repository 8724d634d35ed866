//! A Markdown file of the skill: its fenced blocks, its harnesses, its inline code, its headings and its links.

use std::ops::Range;

use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag, TagEnd};

use super::fence::{self, Block};
use super::report::Gathered;
use crate::skill::Tree;
use crate::skill::links::body_start;

#[derive(Debug, Default)]
pub(super) struct Document {
    /// Relative to the skill.
    pub(super) path: String,
    pub(super) blocks: Vec<Block>,
    pub(super) harnesses: Vec<Harness>,
    /// Code spans with their lines.
    pub(super) spans: Vec<(usize, String)>,
    /// The Markdown file whose files are laid out first, with the line that names it: `<!-- files PAGE.md -->`.
    pub(super) base: Option<(usize, String)>,
    /// Valid link fragments.
    pub(super) anchors: Vec<String>,
    /// Link targets with their lines.
    pub(super) links: Vec<(usize, String)>,
}

/// Code around a block for its compilation: an HTML comment of the same file.
#[derive(Debug)]
pub(super) struct Harness {
    pub(super) name: String,
    /// The line of the comment's opening.
    pub(super) line: usize,
    /// Without the comment's first and last line.
    pub(super) text: String,
}

/// The placeholder of the block in a harness.
pub(super) const HOLE: &str = "{{block}}";

/// Reads every Markdown file and reports malformed fences and harnesses.
pub(super) fn read(tree: &Tree, gathered: &mut Gathered) -> Vec<Document> {
    let mut documents = Vec::new();
    for (path, entry) in tree.iter() {
        let path = path.as_str();
        if !path.to_ascii_lowercase().ends_with(".md") {
            continue;
        }
        match std::str::from_utf8(&entry.content) {
            Ok(text) => documents.push(document(path, text, gathered)),
            Err(_) => gathered.find("fence", path, 1, "is not UTF-8; convert it"),
        }
    }
    documents
}

struct Builder<'t, 'g> {
    path: &'t str,
    /// The file without its front matter.
    body: &'t str,
    /// Number of front-matter lines.
    before: usize,
    document: Document,
    gathered: &'g mut Gathered,
}

fn document(path: &str, text: &str, gathered: &mut Gathered) -> Document {
    let start = body_start(text);
    let mut builder = Builder {
        path,
        body: &text[start..],
        before: text[..start].matches('\n').count(),
        document: Document { path: path.to_owned(), ..Document::default() },
        gathered,
    };
    builder.read();
    builder.document
}

impl Builder<'_, '_> {
    fn line_of(&self, at: usize) -> usize {
        self.before + self.body[..at].matches('\n').count() + 1
    }

    fn fault(&mut self, line: usize, message: impl Into<String>) {
        self.gathered.find("fence", self.path, line, message);
    }

    fn read(&mut self) {
        // Text of the open code block and of the open heading.
        let mut code: Option<String> = None;
        let mut heading: Option<String> = None;
        let body = self.body;
        let mut info = None;
        for (event, range) in Parser::new(body).into_offset_iter() {
            match event {
                Event::Start(Tag::CodeBlock(kind)) => {
                    info = match kind {
                        CodeBlockKind::Fenced(info) => Some(info.to_string()),
                        CodeBlockKind::Indented => None,
                    };
                    code = Some(String::new());
                }
                Event::End(TagEnd::CodeBlock) => {
                    let content = code.take().unwrap_or_default();
                    self.code_block(info.take(), &content, range);
                }
                Event::Text(part) => {
                    if let Some(open) = code.as_mut().or(heading.as_mut()) {
                        open.push_str(&part);
                    }
                }
                Event::Code(span) => {
                    if let Some(heading) = &mut heading {
                        heading.push_str(&span);
                    }
                    let line = self.line_of(range.start);
                    self.document.spans.push((line, span.to_string()));
                }
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::End(TagEnd::Heading(_)) => {
                    self.heading(&heading.take().unwrap_or_default());
                }
                Event::Start(Tag::Link { dest_url, .. }) => {
                    let line = self.line_of(range.start);
                    self.document.links.push((line, dest_url.to_string()));
                }
                Event::Start(Tag::HtmlBlock) => self.html_block(range),
                Event::InlineHtml(html) => anchors_of_html(&html, &mut self.document.anchors),
                _ => {}
            }
        }
    }

    fn code_block(&mut self, info: Option<String>, content: &str, range: Range<usize>) {
        let line = self.line_of(range.start);
        let Some(info) = info else {
            if content.starts_with("```") || content.starts_with("~~~") {
                self.fault(
                    line,
                    "this fence is indented by four spaces or more, so Markdown takes it and what follows for text; indent it less",
                );
            }
            return;
        };
        let block = fence::block(self.path, line, &info, content, &self.body[range]);
        if !block.closed {
            self.fault(line, "this fence is never closed; close it with a line of as many marks as it opens with");
        }
        self.document.blocks.push(block);
    }

    fn heading(&mut self, text: &str) {
        let slug = slug(text);
        let same = |known: &&String| {
            let rest = known.strip_prefix(&slug).unwrap_or("?");
            let number = rest.strip_prefix('-').map(str::parse::<u32>);
            rest.is_empty() || matches!(number, Some(Ok(_)))
        };
        // A repeated heading gets `-1`, `-2`, …, as on GitHub.
        let anchor = match self.document.anchors.iter().filter(same).count() {
            0 => slug,
            number => format!("{slug}-{number}"),
        };
        self.document.anchors.push(anchor);
    }

    fn html_block(&mut self, range: Range<usize>) {
        let (line, source) = (self.line_of(range.start), &self.body[range]);
        anchors_of_html(source, &mut self.document.anchors);
        if let Some(base) = base(source) {
            self.document.base = Some((line, beside(self.path, base)));
        }
        match harness(line, source, &self.document.harnesses) {
            Ok(harness) => self.document.harnesses.extend(harness),
            Err(message) => self.fault(line, message),
        }
    }
}

/// `id="…"` and `name="…"`
fn anchors_of_html(html: &str, anchors: &mut Vec<String>) {
    for key in ["id=\"", "name=\""] {
        for part in html.split(key).skip(1) {
            if let Some((value, _)) = part.split_once('"') {
                anchors.push(value.to_owned());
            }
        }
    }
}

/// `<!-- files PAGE.md -->`
fn base(source: &str) -> Option<&str> {
    let comment = source.trim().strip_prefix("<!--")?.strip_suffix("-->")?;
    let page = comment.trim().strip_prefix("files ")?.trim();
    (!page.contains(char::is_whitespace)).then_some(page)
}

/// The path of a file in the same folder.
fn beside(path: &str, name: &str) -> String {
    match path.rsplit_once('/') {
        Some((folder, _)) => format!("{folder}/{name}"),
        None => name.to_owned(),
    }
}

/// Parses `<!-- harness NAME`, code, `-->`. `None` for other comments, an error for a malformed harness.
fn harness(line: usize, source: &str, known: &[Harness]) -> Result<Option<Harness>, String> {
    let source = source.replace("\r\n", "\n");
    let Some(rest) =
        source.trim_start().strip_prefix("<!--").and_then(|rest| rest.trim_start().strip_prefix("harness"))
    else {
        return Ok(None);
    };
    let (first, rest) = rest.split_once('\n').unwrap_or((rest, ""));
    let name = first.trim();
    if name.is_empty() || name.contains(char::is_whitespace) || name.contains("-->") {
        return Err(
            "a harness is `<!-- harness NAME`, then code with {{block}} on a line of its own, then `-->`".to_owned()
        );
    }
    let Some((text, _)) = rest.split_once("-->") else {
        return Err(format!("the comment of the harness {name} is never closed; end it with `-->`"));
    };
    let holes = text.lines().filter(|line| line.trim() == HOLE).count();
    if holes != 1 || text.matches(HOLE).count() != 1 {
        return Err(format!("the harness {name} has {HOLE} {holes} times on a line of its own; it needs one"));
    }
    if let Some(known) = known.iter().find(|known| known.name == name) {
        return Err(format!("a second harness {name}; the first is at line {}", known.line));
    }
    Ok(Some(Harness { name: name.to_owned(), line, text: text.to_owned() }))
}

/// The anchor that GitHub generates for a heading: lower case, hyphens for spaces, no punctuation.
fn slug(heading: &str) -> String {
    heading
        .trim()
        .to_lowercase()
        .chars()
        .filter_map(|c| match c {
            ' ' => Some('-'),
            c if c.is_alphanumeric() || matches!(c, '-' | '_') => Some(c),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::slug;

    #[test]
    fn headings_are_named_as_github_names_them() {
        assert_eq!(slug("RoPE: pairs, or `halves`"), "rope-pairs-or-halves");
        assert_eq!(slug("128-bit loads & stores"), "128-bit-loads--stores");
    }
}
