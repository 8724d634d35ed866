//! The rules for skills: the specification, and what real agents reject.
//!
//! Sources: the agentskills specification and its reference validator (skills-ref 0.1.1), and what
//! the clients named in the messages rejected in tests.

use std::borrow::Cow;
use std::fmt;
use std::path::Path;

use serde::Serialize;

use super::frontmatter::{Document, Node, Value};
use super::links;
use super::path::RelPath;
use super::tokens;
use super::tree::{SKILL_MD, Tree, TreeError, has_shebang};
use crate::base::text;

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Severity {
    /// Worth fixing; the skill works.
    Warning,
    /// Against the specification: the reference validator or a client rejects it.
    Error,
    /// Not installable: no agent could use it, or unpacking it would be unsafe.
    Fatal,
}

/// A finding of a rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    /// The rule's stable id.
    pub(crate) rule: &'static str,
    /// How much it matters.
    pub(crate) severity: Severity,
    /// The file, relative to the skill's folder; empty for the folder itself.
    pub(crate) file: String,
    /// The line, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) line: Option<usize>,
    /// The column, from 1, where the line is not enough.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) column: Option<usize>,
    /// The problem and the fix.
    pub message: String,
}

impl Finding {
    /// The file below `base`, with the line and the column if they are known.
    pub(crate) fn place(&self, base: &Path) -> String {
        let file = if self.file.is_empty() { base.to_path_buf() } else { base.join(&self.file) };
        let numbers = [self.line, self.column].into_iter().flatten();
        numbers.fold(file.display().to_string(), |place, number| format!("{place}:{number}"))
    }
}

/// Every rule: its id, its severity, and what it requires. The documentation lists this table.
pub(crate) const RULES: &[(&str, Severity, &str)] = &[
    (
        "tree",
        Severity::Fatal,
        "regular files with portable UTF-8 names of up to 255 bytes, up to 32 deep, no links, at most 1,000 files and 25 MB",
    ),
    (
        "hidden-character",
        Severity::Fatal,
        "no bidirectional controls, zero-width characters, tags or others that nobody sees, but for joiners in emoji and scripts; \
         no control characters but tabs, line ends and form feeds",
    ),
    ("skill-md-missing", Severity::Fatal, "a file SKILL.md, in upper case, directly in the folder"),
    ("skill-md-utf8", Severity::Fatal, "SKILL.md is UTF-8"),
    (
        "header",
        Severity::Fatal,
        "SKILL.md starts with '---', YAML keys, '---': no byte-order mark, no text before it, no key twice, at most 64 KB",
    ),
    ("name-missing", Severity::Fatal, "the header has a name"),
    ("name-format", Severity::Fatal, "the name is 1 to 64 of a-z, 0-9 and single hyphens between them"),
    ("name-folder", Severity::Fatal, "the name equals the folder's"),
    ("description-missing", Severity::Fatal, "the header has a description that is not empty"),
    ("description-length", Severity::Error, "the description is at most 1,024 characters"),
    ("description-angle", Severity::Error, "the description has no '<' or '>'"),
    ("description-when", Severity::Warning, "the description says when to use the skill"),
    (
        "key-unknown",
        Severity::Error,
        "the only keys are name, description, license, compatibility, metadata, allowed-tools",
    ),
    ("license", Severity::Error, "license is a string"),
    ("compatibility", Severity::Error, "compatibility is a string of 1 to 500 characters"),
    ("metadata", Severity::Error, "metadata maps strings to strings: quote numbers and booleans"),
    ("allowed-tools", Severity::Error, "allowed-tools is one string, separated by spaces"),
    ("body-empty", Severity::Warning, "SKILL.md has a body"),
    ("body-lines", Severity::Warning, "the body is under 500 lines"),
    ("body-tokens", Severity::Warning, "the body is under 5,000 tokens (o200k_base)"),
    ("link-outside", Severity::Error, "links are relative and stay inside the skill"),
    ("link-broken", Severity::Warning, "links name files that are there"),
    ("link-deep", Severity::Warning, "files that SKILL.md names lie at most one folder deep"),
    (
        "secret-file",
        Severity::Warning,
        "no .env, .env.NAME or .envrc: they hold secrets, and are left out of installs and archives",
    ),
    ("nested-skill", Severity::Warning, "no second SKILL.md below the first: only some agents would see it"),
];

const MAX_NAME: usize = 64;
const MAX_DESCRIPTION: usize = 1_024;
const MAX_COMPATIBILITY: usize = 500;
const MAX_BODY_LINES: usize = 500;
const MAX_BODY_TOKENS: usize = 5_000;
/// Where counting stops.
const COUNTED_TOKENS: usize = 2 * MAX_BODY_TOKENS;
const KEYS: [&str; 6] = ["name", "description", "license", "compatibility", "metadata", "allowed-tools"];

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Warning => "warning",
            Self::Error | Self::Fatal => "error",
        })
    }
}

/// Whether `name` is a valid skill name: 1 to 64 characters, `^[a-z0-9]+(-[a-z0-9]+)*$`.
pub(crate) fn is_valid_name(name: &str) -> bool {
    name.len() <= MAX_NAME
        && name
            .split('-')
            .all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit()))
}

/// Applies every rule to a skill's tree. `folder` is the name of the folder that contains it, if
/// there is one; `unreadable` lists what could not be added to the tree.
pub(crate) fn lint(tree: &Tree, folder: Option<&str>, unreadable: &[TreeError]) -> Vec<Finding> {
    let mut findings = Findings::default();
    for error in unreadable {
        findings.add("tree", "", None, error.to_string());
    }
    if let Some(document) = read_skill_md(tree, &mut findings) {
        check_name(&document, folder, &mut findings);
        check_description(&document, &mut findings);
        check_optional_keys(&document, &mut findings);
        check_escapes(&document.fields, &mut findings);
        check_body(&document, &mut findings);
    }
    for path in tree.left_out() {
        let message = "is left out: such files hold secrets; name a template .env.example".to_owned();
        findings.add("secret-file", path, None, message);
    }
    for link in links::find(tree) {
        findings.add(link.rule, &link.file, Some(link.line), link.message);
    }
    for (path, entry) in tree.iter() {
        if let Some((line, column, c)) = text::first_hidden(&text_of(path, &entry.content)) {
            findings.add("hidden-character", path.as_str(), Some(line), hides(c));
            if let Some(finding) = findings.0.last_mut() {
                finding.column = Some(column);
            }
        }
        if path.file_name().eq_ignore_ascii_case(SKILL_MD) && path.as_str().contains('/') {
            let message =
                "a SKILL.md inside a skill: Claude Code and Gemini never see it, others list a second skill".to_owned();
            findings.add("nested-skill", path.as_str(), None, message);
        }
    }
    findings.0.sort_by(|a, b| b.severity.cmp(&a.severity).then_with(|| (&a.file, a.line).cmp(&(&b.file, b.line))));
    findings.0
}

/// What of a file is text. As git has it, a file with a NUL is none; a stray byte does not make it one, but then it may be
/// compressed data, whose bytes look like control characters. What agents read as prose, and a script, is always text.
fn text_of<'a>(path: &RelPath, content: &'a [u8]) -> Cow<'a, str> {
    let name = path.file_name().to_ascii_lowercase();
    let read = name.ends_with(".md") || name.ends_with(".txt") || has_shebang(content);
    if content.contains(&0) && !read {
        return Cow::Borrowed("");
    }
    match String::from_utf8_lossy(content) {
        Cow::Owned(text) if !read => text.chars().map(|c| if c.is_control() && c != '\n' { ' ' } else { c }).collect(),
        text => text,
    }
}

fn hides(c: char) -> String {
    format!("U+{:04X}, {}, hides text from people; remove it", u32::from(c), text::kind_of_hidden(c))
}

/// The findings that make the skill impossible to install.
pub(crate) fn fatal(findings: &[Finding]) -> impl Iterator<Item = &Finding> {
    findings.iter().filter(|finding| finding.severity == Severity::Fatal)
}

/// The name of a folder, for [`lint`].
pub(crate) fn folder_name(folder: &Path) -> Option<String> {
    let whole = folder.canonicalize().ok()?;
    whole.file_name().map(|name| name.to_string_lossy().into_owned())
}

#[derive(Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn add(&mut self, rule: &'static str, file: &str, line: Option<usize>, message: String) {
        let severity = RULES.iter().find(|(id, ..)| *id == rule).map_or(Severity::Error, |(_, severity, _)| *severity);
        self.0.push(Finding { rule, severity, file: file.to_owned(), line, column: None, message });
    }

    fn header(&mut self, rule: &'static str, line: usize, message: impl Into<String>) {
        self.add(rule, SKILL_MD, Some(line), message.into());
    }
}

fn read_skill_md(tree: &Tree, findings: &mut Findings) -> Option<Document> {
    let Some(entry) = tree.get(SKILL_MD) else {
        let other = tree.iter().find(|(path, _)| path.as_str().eq_ignore_ascii_case(SKILL_MD));
        let message = match other {
            Some((path, _)) => {
                format!("rename {path} to {SKILL_MD}: agents look for upper case only")
            }
            None => format!("there is no {SKILL_MD} in the folder"),
        };
        findings.add("skill-md-missing", "", None, message);
        return None;
    };
    let Ok(text) = std::str::from_utf8(&entry.content) else {
        findings.add("skill-md-utf8", SKILL_MD, None, "is not UTF-8; convert it".to_owned());
        return None;
    };
    match Document::parse(text) {
        Ok(document) => Some(document),
        Err(error) => {
            findings.header("header", error.line(), error.to_string());
            None
        }
    }
}

fn check_name(document: &Document, folder: Option<&str>, findings: &mut Findings) {
    let Some(node) = document.get("name") else {
        findings.header("name-missing", 1, "add 'name: …' with the folder's name");
        return;
    };
    let Some(name) = node.text().filter(|_| node.is_string()) else {
        findings.header("name-format", node.line, "the name must be a string; quote it");
        return;
    };
    if !is_valid_name(name) {
        let message = format!("'{name}' must be 1 to {MAX_NAME} of a-z, 0-9 and single hyphens between them");
        findings.header("name-format", node.line, message);
    } else if let Some(folder) = folder.filter(|folder| *folder != name) {
        let message = format!("the name '{name}' must equal the folder's, which is '{folder}'");
        findings.header("name-folder", node.line, message);
    }
}

fn check_description(document: &Document, findings: &mut Findings) {
    let Some(node) = document.get("description") else {
        findings.header("description-missing", 1, "add 'description: …': what it does and when to use it");
        return;
    };
    let text = node.text().unwrap_or_default().trim();
    if text.is_empty() || !node.is_string() {
        findings.header("description-missing", node.line, "the description must be a string with text in it");
        return;
    }
    let length = text.chars().count();
    if length > MAX_DESCRIPTION {
        let message = format!("{length} characters; Copilot and the specification stop at {MAX_DESCRIPTION}");
        findings.header("description-length", node.line, message);
    }
    if text.contains(['<', '>']) {
        findings.header("description-angle", node.line, "'<' and '>' break prompts that wrap it in XML");
    }
    let lower = text.to_lowercase();
    if !["when", "use for", "use this", "use to", "use it"].iter().any(|cue| lower.contains(cue)) {
        let message = "say when to use it ('Use when …'): agents choose a skill by this text alone";
        findings.header("description-when", node.line, message);
    }
}

fn check_optional_keys(document: &Document, findings: &mut Findings) {
    for (key, value) in &document.fields {
        let name = key.text().unwrap_or_default();
        let one_string = value.is_string();
        match name {
            "license" if !one_string => {
                findings.header("license", value.line, "must be one string");
            }
            "compatibility" => {
                let length = value.text().map_or(0, |text| text.trim().chars().count());
                if !one_string || !(1..=MAX_COMPATIBILITY).contains(&length) {
                    let message = format!("must be a string of 1 to {MAX_COMPATIBILITY} characters");
                    findings.header("compatibility", value.line, message);
                }
            }
            "metadata" => check_metadata(value, findings),
            "allowed-tools" if !one_string => {
                let message = "must be one string with spaces between the tools, not a list";
                findings.header("allowed-tools", value.line, message);
            }
            _ if !KEYS.contains(&name) => {
                let message = format!("'{name}' is not a key of the specification; put it under metadata");
                findings.header("key-unknown", key.line, message);
            }
            _ => {}
        }
    }
}

fn check_metadata(node: &Node, findings: &mut Findings) {
    let Value::Map(fields) = &node.value else {
        findings.header("metadata", node.line, "must map strings to strings");
        return;
    };
    for (key, value) in fields {
        let name = key.text().unwrap_or("a key");
        if !key.is_string() {
            findings.header("metadata", key.line, format!("the key {name} must be a string; put it in quotes"));
        }
        if !value.is_string() {
            findings.header("metadata", value.line, format!("{name} must be a string; put its value in quotes"));
        }
    }
}

/// What an escape between quotes (`"\x1b"`) makes of a value: agents show and read that.
fn check_escapes(fields: &[(Node, Node)], findings: &mut Findings) {
    for node in fields.iter().flat_map(|(key, value)| [key, value]) {
        check_escape(node, findings);
    }
}

fn check_escape(node: &Node, findings: &mut Findings) {
    match &node.value {
        Value::Scalar { text, .. } => {
            if let Some((.., c)) = text::first_hidden(text) {
                findings.header("hidden-character", node.line, hides(c));
            }
        }
        Value::List(nodes) => nodes.iter().for_each(|node| check_escape(node, findings)),
        Value::Map(fields) => check_escapes(fields, findings),
    }
}

fn check_body(document: &Document, findings: &mut Findings) {
    let line = document.body_line;
    if document.body.trim().is_empty() {
        findings.header("body-empty", line, "nothing follows the header");
        return;
    }
    let lines = document.body.lines().count();
    if lines >= MAX_BODY_LINES {
        let message = format!("{lines} lines; keep it under {MAX_BODY_LINES} and move the rest to references/");
        findings.header("body-lines", line, message);
    }
    // A token has at least one byte, so most bodies need no counting.
    if document.body.len() >= MAX_BODY_TOKENS {
        let tokens = tokens::count_up_to(&document.body, COUNTED_TOKENS);
        if tokens >= MAX_BODY_TOKENS {
            let more = if tokens >= COUNTED_TOKENS { "at least " } else { "" };
            let message =
                format!("{more}{tokens} tokens; keep it under {MAX_BODY_TOKENS} and move the rest to references/");
            findings.header("body-tokens", line, message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::skill::tree::Entry;

    fn findings(skill_md: &str) -> Vec<&'static str> {
        let mut tree = Tree::default();
        let content = skill_md.as_bytes().to_vec().into();
        tree.insert(RelPath::parse(SKILL_MD).unwrap(), Entry { executable: false, content }).unwrap();
        lint(&tree, Some("demo"), &[]).into_iter().map(|finding| finding.rule).collect()
    }

    fn header(extra: &str) -> String {
        format!("---\nname: demo\ndescription: Does it. Use when asked.\n{extra}---\n# Demo\n")
    }

    #[test]
    fn a_good_skill_has_no_finding() {
        let extra = "license: MIT\ncompatibility: any\nmetadata:\n  version: \"1.0\"\nallowed-tools: Bash Read\n";
        assert_eq!(findings(&header(extra)), [""; 0]);
    }

    #[test]
    fn each_rule_finds_its_own_fault() {
        let long = "x".repeat(1_025);
        for (text, rule) in [
            (header("model: opus\n"), "key-unknown"),
            (header("license: [a]\n"), "license"),
            (header("compatibility: \"\"\n"), "compatibility"),
            (header(&format!("compatibility: {}\n", &long[..501])), "compatibility"),
            (header("metadata:\n  version: 1.0\n"), "metadata"),
            (header("metadata: text\n"), "metadata"),
            (header("allowed-tools: [Bash]\n"), "allowed-tools"),
            (header("").replace("demo", "Demo"), "name-format"),
            (header("").replace("name: demo", "name: de--mo"), "name-format"),
            (header("").replace("name: demo", "name: 12"), "name-format"),
            (header("").replace("name: demo", "name: other"), "name-folder"),
            (header("").replace("name: demo\n", ""), "name-missing"),
            (header("").replace("Does it. Use when asked.", "\"\""), "description-missing"),
            (header("").replace("Does it. Use when asked.", "Does it."), "description-when"),
            (header("").replace("Does it.", "Does <it>."), "description-angle"),
            (header("").replace("Does it.", &long), "description-length"),
            (header("").replace("# Demo\n", ""), "body-empty"),
            (header("") + &"x\n".repeat(500), "body-lines"),
            (header("") + &"one two three\n\n".repeat(200).repeat(9).replace('\n', " "), "body-tokens"),
            (header("metadata:\n  version: 2024-01-01\n"), "metadata"),
            (header("metadata:\n  yes: \"1\"\n"), "metadata"),
            (header("").replace("name: demo", "name: yes"), "name-format"),
            (header("").replace("Does it. Use when asked.", "\"Use when \\x1b[8masked\""), "hidden-character"),
            (header("metadata:\n  a: \"\\u202e\"\n"), "hidden-character"),
            (header("") + "a\u{8}b\n", "hidden-character"),
            (header("") + "a\0b\n", "hidden-character"),
            (format!("\u{feff}{}", header("")), "header"),
            (format!("\n{}", header("")), "header"),
        ] {
            assert_eq!(findings(&text), [rule], "{text:.120}");
        }
    }

    #[test]
    fn valid_names_follow_the_specification() {
        for name in ["a", "a-b", "0", "cuda-kernels", &"a".repeat(64)] {
            assert!(is_valid_name(name), "{name}");
        }
        for name in ["", "-a", "a-", "a--b", "A", "a_b", "a b", "é", "../a", &"a".repeat(65)] {
            assert!(!is_valid_name(name), "{name}");
        }
    }
}
