//! A writer's answer as a skill: its files, and everything that speaks against them.

use std::fmt::Write as _;

use anyhow::Result;

use crate::deep;
use crate::skill::frontmatter::Document;
use crate::skill::lint::{self, Finding, Severity};
use crate::skill::tree::{Entry, SKILL_MD, Tree, has_shebang};
use crate::skill::{RelPath, tokens};
use crate::trace::redact::redact;

/// The most that a writer may answer, and the most files that a draft may have.
pub(super) const MOST_BYTES: usize = 1 << 20;
const MOST_FILES: usize = 40;
/// The most tokens of all files that are looked at one by one; more is more than a skill of one round needs.
const MOST_TOKENS: usize = 60_000;
/// How a file and the answer's end are marked.
const MARK: &str = "=== ";
pub(super) const END: &str = "=== END";

/// The files of an answer, or why it has none.
pub(super) fn files(answer: &str) -> Result<Tree, String> {
    if answer.len() > MOST_BYTES {
        return Err(format!("the answer has {} KB; at most {} are read", answer.len() >> 10, MOST_BYTES >> 10));
    }
    let mut all: Vec<(&str, String)> = Vec::new();
    let mut ended = false;
    for line in answer.lines() {
        if line.trim_end() == END {
            ended = true;
            break;
        }
        if let Some(name) = line.strip_prefix(MARK) {
            all.push((name.trim(), String::new()));
        } else if let Some((_, text)) = all.last_mut() {
            text.extend([line, "\n"]);
        }
    }
    if all.is_empty() {
        return Err(format!("the answer has no file: no line begins with `{MARK}`, as in `{MARK}{SKILL_MD}`"));
    }
    if !ended {
        return Err(format!("the answer is cut off: no line is `{END}`"));
    }
    if all.len() > MOST_FILES {
        return Err(format!("the draft has {} files; at most {MOST_FILES} are taken", all.len()));
    }
    let mut tree = Tree::default();
    for (name, text) in all {
        let path = RelPath::parse(name).map_err(|error| error.to_string())?;
        let content = unfenced(text.trim_matches('\n')).into_bytes();
        let entry = Entry { executable: has_shebang(&content), content: content.into() };
        tree.insert(path, entry).map_err(|error| error.to_string())?;
    }
    Ok(tree)
}

/// A text without the fence that many models put around a whole file.
fn unfenced(text: &str) -> String {
    let inside = text.strip_prefix("```").and_then(|rest| rest.split_once('\n')).and_then(|(language, rest)| {
        let bare = language.len() < 12 && !language.contains('`');
        rest.strip_suffix("```").filter(|rest| bare && rest.matches("\n```").count() % 2 == 0)
    });
    format!("{}\n", inside.unwrap_or(text).trim_end())
}

/// What speaks against a draft as a skill of this name: the rules of `skills validate`, and those for what a stranger wrote.
pub(super) fn objections(tree: &Tree, name: &str, deep: Option<&deep::Options>) -> Result<Vec<String>> {
    let mut findings = lint::lint(tree, Some(name), &[]);
    // Tools would run what no lint has seen.
    let fatal = lint::fatal(&findings).next().is_some();
    if let Some(options) = deep.filter(|_| !fatal) {
        findings.extend(deep::check(tree, None, options)?.findings);
    }
    let broken = findings.iter().filter(|finding| finding.severity > Severity::Warning);
    let shown = |finding: &Finding| {
        let place = finding.place(std::path::Path::new(name)).replace('\\', "/");
        format!("{place}: {} [{}]", finding.message, finding.rule)
    };
    let mut all: Vec<String> = broken.map(shown).collect();
    for (path, entry) in tree.iter() {
        let Ok(text) = std::str::from_utf8(&entry.content) else { continue };
        if redact(text).1 > 0 || redact(path.as_str()).1 > 0 {
            all.push(format!(
                "{name}/{path}: holds what looks like a key, a token, an address or encoded text [secret]"
            ));
        }
        if path.as_str() == SKILL_MD && Document::parse(text).is_ok_and(|header| header.get("allowed-tools").is_some())
        {
            all.push(format!("{name}/{path}: asks for tools; a generated skill may not [allowed-tools]"));
        }
    }
    let all_tokens = cost(tree).1;
    if all_tokens >= MOST_TOKENS {
        all.push(format!("{name}: has more than {MOST_TOKENS} tokens [size]"));
    }
    Ok(all)
}

/// The tokens of SKILL.md, which is read whole when the skill is loaded, and of all files.
pub(super) fn cost(tree: &Tree) -> (usize, usize) {
    let of = |content: &[u8]| std::str::from_utf8(content).map_or(0, |text| tokens::count_up_to(text, MOST_TOKENS));
    let own = tree.get(SKILL_MD).map_or(0, |entry| of(&entry.content));
    (own, tree.iter().map(|(_, entry)| of(&entry.content)).sum())
}

/// The files as a writer answers them.
pub(super) fn shown(tree: &Tree) -> String {
    let mut text = String::new();
    for (path, entry) in tree.iter() {
        let _ = writeln!(text, "{MARK}{path}\n{}", String::from_utf8_lossy(&entry.content).trim_end());
    }
    text + END + "\n"
}
