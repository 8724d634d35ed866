//! The links in a skill's Markdown files: their targets must exist inside the skill.

use std::collections::BTreeSet;

use pulldown_cmark::{Event, Parser, Tag};

use super::tree::{SKILL_MD, Tree};

/// A link that breaks a rule of [`super::lint::RULES`].
pub(super) struct BadLink {
    pub(super) rule: &'static str,
    pub(super) file: String,
    pub(super) line: usize,
    pub(super) message: String,
}

/// Checks the relative links of all Markdown files; links to the web are not followed.
pub(super) fn find(tree: &Tree) -> Vec<BadLink> {
    let known: BTreeSet<&str> = tree.iter().flat_map(|(path, _)| path.parents().chain([path.as_str()])).collect();
    let mut bad = Vec::new();
    for (path, entry) in tree.iter() {
        let file = path.as_str();
        if !file.to_ascii_lowercase().ends_with(".md") {
            continue;
        }
        let Ok(text) = std::str::from_utf8(&entry.content) else {
            continue;
        };
        let body = body_start(text);
        let line_ends: Vec<usize> = text.match_indices('\n').map(|(at, _)| at).collect();
        for (event, range) in Parser::new(&text[body..]).into_offset_iter() {
            let Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) = event else {
                continue;
            };
            if let Some((rule, message)) = check(file, &dest_url, &known) {
                let line = line_ends.partition_point(|end| *end < body + range.start) + 1;
                bad.push(BadLink { rule, file: file.to_owned(), line, message });
            }
        }
    }
    bad
}

/// Where the Markdown starts: after the header, which a Markdown parser would read as text.
pub(crate) fn body_start(text: &str) -> usize {
    let mut at = 0;
    for (number, line) in text.split_inclusive('\n').enumerate() {
        let rule = line.trim_end() == "---";
        if number == 0 && !rule {
            return 0;
        }
        at += line.len();
        if number > 0 && rule {
            return at;
        }
    }
    0
}

fn check(file: &str, url: &str, known: &BTreeSet<&str>) -> Option<(&'static str, String)> {
    let target = url.split(['#', '?']).next().unwrap_or_default();
    if target.is_empty() || is_web(url) {
        return None;
    }
    let outside = || Some(("link-outside", format!("'{url}' points outside the skill")));
    if target.starts_with(['/', '\\', '~']) || target.as_bytes().get(1) == Some(&b':') {
        return outside();
    }
    let target = percent_decode(target);
    let mut parts: Vec<&str> = file.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                if parts.pop().is_none() {
                    return outside();
                }
            }
            part => parts.push(part),
        }
    }
    let resolved = parts.join("/");
    if !resolved.is_empty() && !known.contains(resolved.as_str()) {
        return Some(("link-broken", format!("'{url}' names no file of the skill")));
    }
    if file == SKILL_MD && parts.len() > 2 {
        let message = format!("'{url}' lies more than one folder deep; agents may not follow it");
        return Some(("link-deep", message));
    }
    None
}

fn is_web(url: &str) -> bool {
    let scheme = url.split(':').next().unwrap_or_default();
    url.starts_with("//")
        || (scheme.len() > 1
            && scheme.len() < url.len()
            && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.')))
}

fn percent_decode(text: &str) -> String {
    let hex = |at: usize| {
        let digits = text.get(at + 1..at + 3)?;
        u8::from_str_radix(digits, 16).ok()
    };
    let mut bytes = Vec::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        match text.as_bytes()[at] {
            b'%' if hex(at).is_some() => {
                bytes.extend(hex(at));
                at += 3;
            }
            byte => {
                bytes.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::skill::path::RelPath;
    use crate::skill::tree::Entry;

    fn rules(file: &str, markdown: &str) -> Vec<(&'static str, usize)> {
        let mut tree = Tree::default();
        for (path, text) in
            [("references/a b.md", ""), ("references/deep/c.md", ""), ("scripts/x.py", ""), (file, markdown)]
        {
            let content = text.as_bytes().to_vec().into();
            tree.insert(RelPath::parse(path).unwrap(), Entry { executable: false, content }).unwrap();
        }
        find(&tree).into_iter().map(|link| (link.rule, link.line)).collect()
    }

    #[test]
    fn links_that_stay_inside_are_fine() {
        let text = "[a](references/a%20b.md#top) [s](scripts/x.py) [d](scripts/) [w](https://x.y/z)\n\
                    [m](mailto:a@b.c) [h](#here) `[no](../link)`\n\n    [code](/etc/passwd)\n";
        assert_eq!(rules("SKILL.md", text), []);
        assert_eq!(rules("references/b.md", "[up](../SKILL.md/../scripts/x.py) [n](deep/c.md)"), []);
    }

    #[test]
    fn links_that_leave_break_or_go_deep_are_found_with_their_line() {
        let text = "---\nname: x\n---\n[a](../secret)\n\n[b](/etc/passwd) [c](C:/x)\n\n\
                    [d](references/none.md)\n\n[e](references/deep/c.md)\n![f](%2e%2e/x)\n";
        assert_eq!(
            rules("SKILL.md", text),
            [
                ("link-outside", 4),
                ("link-outside", 6),
                ("link-outside", 6),
                ("link-broken", 8),
                ("link-deep", 10),
                ("link-outside", 11)
            ]
        );
    }
}
