//! Links to headings.

use super::document::Document;
use super::report::Gathered;

/// Checks that the fragment of each link names a heading of its target file.
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
            // Missing and non-Markdown targets are reported by other rules.
            let Some(named) = documents.iter().find(|known| known.path == path) else {
                continue;
            };
            let wanted = anchor.to_lowercase();
            if !anchor.is_empty() && !named.anchors.iter().any(|known| known.to_lowercase() == wanted) {
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
    best.filter(|anchor| score(anchor) > 0).map_or(String::new(), |anchor| format!("; there is #{anchor}"))
}

/// The path of a link relative to the skill, with `.` and `..` resolved.
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

#[cfg(test)]
mod tests {
    use super::resolve;

    #[test]
    fn links_are_resolved_from_their_file() {
        assert_eq!(resolve("references/a.md", "../SKILL.md"), "SKILL.md");
        assert_eq!(resolve("references/a.md", "b.md"), "references/b.md");
        assert_eq!(resolve("SKILL.md", ""), "SKILL.md");
    }
}
