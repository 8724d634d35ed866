//! The report: findings, counts and unchecked items.

use std::collections::BTreeMap;

use serde::Serialize;

use super::RULES;
use crate::skill::lint::{Finding, Severity};

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Report {
    /// Sorted by file and line.
    #[serde(skip)]
    pub(crate) findings: Vec<Finding>,
    /// Counts by kind: `cuda block` → 4.
    pub(crate) checked: BTreeMap<&'static str, usize>,
    /// Tool versions: `nvcc` → `13.0.88`.
    pub(crate) tools: BTreeMap<&'static str, String>,
    pub(crate) not_checked: Vec<Unchecked>,
    /// Number of blocks by unchecked language; unmarked blocks have an empty one.
    pub(crate) not_looked_at: BTreeMap<String, usize>,
}

/// Items that could not be checked for the same reason.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Unchecked {
    /// `cuda block`, `import of diffusers`
    pub(crate) what: String,
    pub(crate) reason: String,
    /// Locations: `references/x.md:12`.
    pub(crate) places: Vec<String>,
    /// The first location, for a finding.
    #[serde(skip)]
    first: (String, usize),
}

impl Unchecked {
    /// `3 imports of diffusers: python3 has no such module`
    pub(crate) fn line(&self) -> String {
        format!("{}: {}", count(self.places.len(), &self.what), self.reason)
    }

    /// The finding that `--strict` reports.
    pub(crate) fn finding(&self) -> Finding {
        Finding {
            rule: "unchecked",
            severity: Severity::Warning,
            file: self.first.0.clone(),
            line: Some(self.first.1),
            column: None,
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
    pub(crate) fn summary(&self) -> String {
        let parts: Vec<String> = self.checked.iter().map(|(what, number)| count(*number, what)).collect();
        let tools: Vec<String> = self.tools.iter().map(|(tool, version)| format!("{tool} {version}")).collect();
        let with = if tools.is_empty() { String::new() } else { format!(" (with {})", tools.join(", ")) };
        if parts.is_empty() { "nothing".to_owned() } else { parts.join(", ") + &with }
    }
}

/// Collects results while checks run.
#[derive(Default)]
pub(super) struct Gathered {
    findings: Vec<Finding>,
    checked: BTreeMap<&'static str, usize>,
    tools: BTreeMap<&'static str, String>,
    unchecked: BTreeMap<(String, String), Vec<(String, usize)>>,
    ignored: BTreeMap<String, usize>,
}

impl Gathered {
    pub(super) fn find(&mut self, rule: &'static str, file: &str, line: usize, message: impl Into<String>) {
        let severity = RULES.iter().find(|(id, ..)| *id == rule).map_or(Severity::Error, |(_, severity, _)| *severity);
        self.findings.push(Finding {
            rule,
            severity,
            file: file.to_owned(),
            line: Some(line),
            column: None,
            message: message.into(),
        });
    }

    pub(super) fn checked(&mut self, what: &'static str, number: usize) {
        if number > 0 {
            *self.checked.entry(what).or_default() += number;
        }
    }

    /// Records the version of a tool.
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
        self.findings.sort_by(|a, b| (&a.file, a.line, a.rule, &a.message).cmp(&(&b.file, b.line, b.rule, &b.message)));
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
                        places: places.into_iter().map(|(file, line)| format!("{file}:{line}")).collect(),
                    }
                })
                .collect(),
            not_looked_at: self.ignored,
        }
    }
}
