//! What was found, what was checked, and what was not.

use std::collections::BTreeMap;

use serde::Serialize;

use super::RULES;
use crate::skill::lint::{Finding, Severity};

/// The whole of it.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// What is wrong, by file and line.
    #[serde(skip)]
    pub findings: Vec<Finding>,
    /// How many of each kind were checked: `cuda block` → 4.
    pub checked: BTreeMap<&'static str, usize>,
    /// With which tools: `nvcc` → `13.0.88`.
    pub tools: BTreeMap<&'static str, String>,
    /// What was not checked, and why.
    pub not_checked: Vec<Unchecked>,
    /// Blocks that nothing here looks at, by their language; unmarked ones under an empty name.
    pub not_looked_at: BTreeMap<String, usize>,
}

/// Things that could not be checked for one reason.
#[derive(Clone, Debug, Serialize)]
pub struct Unchecked {
    /// `cuda block`, `import of diffusers`
    pub what: String,
    /// Why not.
    pub reason: String,
    /// Where they stand: `references/x.md:12`.
    pub places: Vec<String>,
    /// The first of them, for a finding.
    #[serde(skip)]
    first: (String, usize),
}

impl Unchecked {
    /// `3 imports of diffusers: python3 has no such module`
    pub fn line(&self) -> String {
        format!("{}: {}", count(self.places.len(), &self.what), self.reason)
    }

    /// For `--strict`.
    pub fn finding(&self) -> Finding {
        Finding {
            rule: "unchecked",
            severity: Severity::Warning,
            file: self.first.0.clone(),
            line: Some(self.first.1),
            message: format!("not checked: {}", self.line()),
        }
    }
}

/// `1 cuda block`, `2 cuda blocks`, `2 imports of torch`
pub(super) fn count(number: usize, what: &str) -> String {
    if number == 1 {
        return format!("1 {what}");
    }
    match what.split_once(" of ") {
        Some((head, tail)) => format!("{number} {head}s of {tail}"),
        None => format!("{number} {what}s"),
    }
}

impl Report {
    /// `4 cuda blocks, 9 python blocks, 31 commands`
    pub fn summary(&self) -> String {
        let parts: Vec<String> = self
            .checked
            .iter()
            .map(|(what, number)| count(*number, what))
            .collect();
        let tools: Vec<String> = self
            .tools
            .iter()
            .map(|(tool, version)| format!("{tool} {version}"))
            .collect();
        let with = if tools.is_empty() {
            String::new()
        } else {
            format!(" (with {})", tools.join(", "))
        };
        if parts.is_empty() {
            "nothing".to_owned()
        } else {
            parts.join(", ") + &with
        }
    }
}

/// What the parts add to.
#[derive(Default)]
pub(super) struct Gathered {
    findings: Vec<Finding>,
    checked: BTreeMap<&'static str, usize>,
    tools: BTreeMap<&'static str, String>,
    unchecked: BTreeMap<(String, String), Vec<(String, usize)>>,
    ignored: BTreeMap<String, usize>,
}

impl Gathered {
    pub(super) fn find(
        &mut self,
        rule: &'static str,
        file: &str,
        line: usize,
        message: impl Into<String>,
    ) {
        let severity = RULES
            .iter()
            .find(|(id, ..)| *id == rule)
            .map_or(Severity::Error, |(_, severity, _)| *severity);
        self.findings.push(Finding {
            rule,
            severity,
            file: file.to_owned(),
            line: Some(line),
            message: message.into(),
        });
    }

    pub(super) fn checked(&mut self, what: &'static str, number: usize) {
        if number > 0 {
            *self.checked.entry(what).or_default() += number;
        }
    }

    /// A version that was used.
    pub(super) fn tool(&mut self, name: &'static str, version: &str) {
        self.tools.insert(name, version.to_owned());
    }

    pub(super) fn unchecked(&mut self, what: &str, reason: &str, file: &str, line: usize) {
        let key = (what.to_owned(), reason.to_owned());
        let places = self.unchecked.entry(key).or_default();
        places.push((file.to_owned(), line));
    }

    pub(super) fn ignored(&mut self, language: &str) {
        *self.ignored.entry(language.to_owned()).or_default() += 1;
    }

    pub(super) fn finish(mut self) -> Report {
        self.findings.sort_by(|a, b| {
            (&a.file, a.line, a.rule, &a.message).cmp(&(&b.file, b.line, b.rule, &b.message))
        });
        self.findings.dedup();
        let unchecked = self.unchecked.into_iter();
        Report {
            findings: self.findings,
            checked: self.checked,
            tools: self.tools,
            not_checked: unchecked
                .map(|((what, reason), mut places)| {
                    places.sort();
                    Unchecked {
                        what,
                        reason,
                        first: places.first().cloned().unwrap_or_default(),
                        places: places
                            .into_iter()
                            .map(|(file, line)| format!("{file}:{line}"))
                            .collect(),
                    }
                })
                .collect(),
            not_looked_at: self.ignored,
        }
    }
}
