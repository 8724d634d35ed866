//! Links to headings.

use super::document::Document;
use super::report::Gathered;

/// Holds what stands behind `#` against the headings of the file that is named.
pub(super) fn check(documents: &[Document], gathered: &mut Gathered) {
    for document in documents {
        for (line, url) in &document.links {
            let is_web = url.contains("://") || url.starts_with("mailto:") || url.starts_with("//");
            if is_web {
                continue;
            }
            gathered.checked("link", 1);
            let Some((target, anchor)) = url.split_once('#') else {
                continue;
            };
            let path = resolve(&document.path, target);
            // A file that is not there, or is no Markdown, is the other rules' matter.
            let Some(named) = documents.iter().find(|known| known.path == path) else {
                continue;
            };
            let wanted = anchor.to_lowercase();
            if !anchor.is_empty()
                && !named
                    .anchors
                    .iter()
                    .any(|known| known.to_lowercase() == wanted)
            {
                let near = near(&wanted, &named.anchors);
                gathered.find(
                    "anchor",
                    &document.path,
                    *line,
                    format!("'{url}' names no heading of {}{near}", named.path),
                );
            }
        }
    }
}

fn near(wanted: &str, anchors: &[String]) -> String {
    let words: Vec<&str> = wanted.split('-').filter(|word| word.len() > 2).collect();
    let score = |anchor: &String| words.iter().filter(|word| anchor.contains(**word)).count();
    let best = anchors.iter().max_by_key(|anchor| score(anchor));
    best.filter(|anchor| score(anchor) > 0)
        .map_or(String::new(), |anchor| format!("; there is #{anchor}"))
}

/// The path of a link from a file, without `.` and `..`.
fn resolve(from: &str, target: &str) -> String {
    if target.is_empty() {
        return from.to_owned();
    }
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// A heading as GitHub names it in links: small letters, hyphens for spaces, no punctuation.
pub(super) fn slug(heading: &str) -> String {
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
    use super::{resolve, slug};

    #[test]
    fn headings_are_named_as_github_names_them() {
        assert_eq!(slug("RoPE: pairs, or `halves`"), "rope-pairs-or-halves");
        assert_eq!(slug("128-bit loads & stores"), "128-bit-loads--stores");
    }

    #[test]
    fn links_are_resolved_from_their_file() {
        assert_eq!(resolve("references/a.md", "../SKILL.md"), "SKILL.md");
        assert_eq!(resolve("references/a.md", "b.md"), "references/b.md");
        assert_eq!(resolve("SKILL.md", ""), "SKILL.md");
    }
}
