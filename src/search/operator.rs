//! The operators: `operators.toml` as data, and the question that one of them makes of a task and its parents.

use std::fmt::Write as _;
use std::sync::OnceLock;

use serde::Deserialize;

use super::sources::Sources;
use super::task::Task;

/// What an operator needs.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Needs {
    Start,
    Broken,
    Elite,
    Two,
    Launches,
    Donor,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Operator {
    pub(crate) name: String,
    pub(crate) needs: Needs,
    prompt: String,
}

#[derive(Debug, Deserialize)]
struct Table {
    system: String,
    operator: Vec<Operator>,
}

fn table() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| {
        toml::from_str(include_str!("operators.toml")).unwrap_or(Table { system: String::new(), operator: Vec::new() })
    })
}

/// All operators, in the file's order.
pub(crate) fn all() -> &'static [Operator] {
    &table().operator
}

/// What holds for every question.
pub(crate) fn system() -> &'static str {
    table().system.trim()
}

/// What a question is made of.
pub(crate) struct Material<'a> {
    pub(crate) task: &'a Task,
    pub(crate) parent: &'a Sources,
    pub(crate) second: Option<&'a Sources>,
    pub(crate) feedback: &'a [String],
    pub(crate) second_feedback: &'a [String],
}

/// The question of an operator.
pub(crate) fn question(operator: &str, material: &Material) -> String {
    let mut text = String::from("The task, in files that may not be changed:\n\n");
    for (path, content) in material.task.described() {
        shown(&mut text, &path, &content);
    }
    let _ = writeln!(text, "The sources that may be changed: {}\n", material.task.editable.join(", "));
    let Some(operator) = all().iter().find(|one| one.name == operator) else { return text };
    // One pass: a source may itself contain the name of a place.
    let mut rest = operator.prompt.trim();
    while let Some(open) = rest.find('{') {
        let (before, after) = rest.split_at(open);
        text.push_str(before);
        let end = after.find('}').map_or(after.len(), |end| end + 1);
        match &after[..end] {
            "{parent}" => listed(&mut text, material.parent),
            "{second}" => listed(&mut text, material.second.unwrap_or(material.parent)),
            "{feedback}" => sentences(&mut text, material.feedback),
            "{second_feedback}" => sentences(&mut text, material.second_feedback),
            other => text.push_str(other),
        }
        rest = &after[end..];
    }
    text.push_str(rest);
    text
}

fn listed(text: &mut String, sources: &Sources) {
    for (path, content) in sources.iter() {
        shown(text, path, content);
    }
}

fn shown(text: &mut String, path: &str, content: &str) {
    let _ = writeln!(text, "FILE: {path}\n```\n{}\n```\n", content.trim_end());
}

fn sentences(text: &mut String, sentences: &[String]) {
    if sentences.is_empty() {
        text.push_str("- Nothing was measured.\n");
    }
    for sentence in sentences {
        let _ = writeln!(text, "- {sentence}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_read_and_names_only_places_that_there_are() {
        assert_eq!(all().len(), 7);
        assert!(system().contains("SEARCH"));
        for operator in all() {
            let mut rest = operator.prompt.as_str();
            while let Some(open) = rest.find('{') {
                let end = rest[open..].find('}').map_or(rest.len(), |end| open + end + 1);
                let known = ["{parent}", "{second}", "{feedback}", "{second_feedback}"].contains(&&rest[open..end]);
                assert!(known, "{}: {}", operator.name, &rest[open..end]);
                rest = &rest[end..];
            }
        }
    }
}
