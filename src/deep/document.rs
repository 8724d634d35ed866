//! A Markdown file of the skill: its fenced blocks, its harnesses, its inline code, its headings and its links.

use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag, TagEnd};

use super::anchor::slug;
use super::fence::{self, Block};
use super::report::Gathered;
use crate::skill::Tree;
use crate::skill::links::body_start;

/// One file.
#[derive(Debug)]
pub(super) struct Document {
    /// Relative to the skill.
    pub(super) path: String,
    pub(super) blocks: Vec<Block>,
    pub(super) harnesses: Vec<Harness>,
    /// Code spans, with their line.
    pub(super) spans: Vec<(usize, String)>,
    /// The Markdown file whose files lie below this one's, with the line that says so: `<!-- files PAGE.md -->`.
    pub(super) base: Option<(usize, String)>,
    /// What a link may name behind `#`.
    pub(super) anchors: Vec<String>,
    /// Where links go, with their line.
    pub(super) links: Vec<(usize, String)>,
}

/// What stands around a block when it is compiled: an HTML comment of the same file.
#[derive(Debug)]
pub(super) struct Harness {
    pub(super) name: String,
    /// Of the comment's opening.
    pub(super) line: usize,
    /// Without the comment's first and last line.
    pub(super) text: String,
}

/// What a harness has in the block's place.
pub(super) const HOLE: &str = "{{block}}";

/// Reads every Markdown file; what is wrong with fences and harnesses is found on the way.
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

fn document(path: &str, text: &str, gathered: &mut Gathered) -> Document {
    let body = body_start(text);
    let line_of = |at: usize| text[..body + at].matches('\n').count() + 1;
    let mut document = Document {
        path: path.to_owned(),
        blocks: Vec::new(),
        harnesses: Vec::new(),
        spans: Vec::new(),
        base: None,
        anchors: Vec::new(),
        links: Vec::new(),
    };
    // The block, and the heading, that the events are inside of.
    let mut code: Option<(Option<String>, std::ops::Range<usize>, String)> = None;
    let mut heading: Option<String> = None;
    for (event, range) in Parser::new(&text[body..]).into_offset_iter() {
        match event {
            Event::Start(Tag::CodeBlock(kind)) => {
                let info = match kind {
                    CodeBlockKind::Fenced(info) => Some(info.to_string()),
                    CodeBlockKind::Indented => None,
                };
                code = Some((info, range, String::new()));
            }
            Event::End(TagEnd::CodeBlock) => {
                let Some((info, range, content)) = code.take() else {
                    continue;
                };
                let line = line_of(range.start);
                let source = &text[body..][range];
                match info {
                    Some(info) => {
                        let block = fence::block(path, line, &info, &content, source);
                        document.blocks.push(block);
                    }
                    None if content.starts_with("```") || content.starts_with("~~~") => {
                        gathered.find(
                            "fence",
                            path,
                            line,
                            "this fence is indented by four spaces or more, so Markdown takes it and what follows for text; \
                             indent it less",
                        );
                    }
                    None => {}
                }
            }
            Event::Text(part) => {
                if let Some((_, _, content)) = &mut code {
                    content.push_str(&part);
                } else if let Some(heading) = &mut heading {
                    heading.push_str(&part);
                }
            }
            Event::Code(span) => {
                if let Some(heading) = &mut heading {
                    heading.push_str(&span);
                }
                document
                    .spans
                    .push((line_of(range.start), span.to_string()));
            }
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::End(TagEnd::Heading(_)) => {
                let slug = slug(&heading.take().unwrap_or_default());
                let same = |known: &&String| {
                    let rest = known.strip_prefix(&slug).unwrap_or("?");
                    rest.is_empty()
                        || rest
                            .strip_prefix('-')
                            .is_some_and(|number| number.parse::<u32>().is_ok())
                };
                // The second of a name gets `-1`, as GitHub counts.
                let before = document.anchors.iter().filter(same).count();
                document.anchors.push(match before {
                    0 => slug,
                    number => format!("{slug}-{number}"),
                });
            }
            Event::Start(Tag::Link { dest_url, .. }) => {
                document
                    .links
                    .push((line_of(range.start), dest_url.to_string()));
            }
            Event::Start(Tag::HtmlBlock) => {
                let source = &text[body..][range.clone()];
                anchors_of_html(source, &mut document.anchors);
                if let Some(base) = base(source) {
                    document.base = Some((line_of(range.start), beside(path, base)));
                }
                harness(
                    path,
                    line_of(range.start),
                    source,
                    &mut document.harnesses,
                    gathered,
                );
            }
            Event::InlineHtml(html) => anchors_of_html(&html, &mut document.anchors),
            _ => {}
        }
    }
    for block in &document.blocks {
        if !block.closed {
            gathered.find(
                "fence",
                path,
                block.line,
                "this fence is never closed; close it with a line of as many marks as it opens with",
            );
        }
    }
    document
}

/// `id="…"` and `name="…"`.
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

/// A file of the same folder.
fn beside(path: &str, name: &str) -> String {
    match path.rsplit_once('/') {
        Some((folder, _)) => format!("{folder}/{name}"),
        None => name.to_owned(),
    }
}

/// `<!-- harness NAME`, code, `-->`
fn harness(
    path: &str,
    line: usize,
    source: &str,
    harnesses: &mut Vec<Harness>,
    gathered: &mut Gathered,
) {
    let source = source.replace("\r\n", "\n");
    let Some(rest) = source
        .trim_start()
        .strip_prefix("<!--")
        .map(str::trim_start)
        .and_then(|rest| rest.strip_prefix("harness"))
    else {
        return;
    };
    let (first, rest) = rest.split_once('\n').unwrap_or((rest, ""));
    let name = first.trim();
    let mut wrong = |message: String| gathered.find("fence", path, line, message);
    if name.is_empty() || name.contains(char::is_whitespace) || name.contains("-->") {
        wrong("a harness is `<!-- harness NAME`, then code with {{block}} on a line of its own, then `-->`".to_owned());
        return;
    }
    let Some((text, _)) = rest.split_once("-->") else {
        wrong(format!(
            "the comment of the harness {name} is never closed; end it with `-->`"
        ));
        return;
    };
    let holes = text.lines().filter(|line| line.trim() == HOLE).count();
    if holes != 1 || text.matches(HOLE).count() != 1 {
        wrong(format!(
            "the harness {name} has {HOLE} {holes} times on a line of its own; it needs one"
        ));
        return;
    }
    if let Some(known) = harnesses.iter().find(|known| known.name == name) {
        wrong(format!(
            "a second harness {name}; the first is at line {}",
            known.line
        ));
        return;
    }
    harnesses.push(Harness {
        name: name.to_owned(),
        line,
        text: text.to_owned(),
    });
}
