//! Findings that a project allows with a reason, in kernel.toml or in a comment in the source.

use std::borrow::Cow;
use std::ops::Range;

use serde::Serialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::finding::Finding;
use super::findings::Findings;
use super::load::Sources;
use super::rule;
use super::text::{Text, toml_comments};
use crate::project::KERNEL_TOML;

/// A finding that the project allows.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Allowed {
    /// The finding.
    #[serde(flatten)]
    pub(crate) finding: Finding,
    /// The reason.
    pub(crate) reason: String,
    /// Whether a comment in the source allows it, rather than kernel.toml.
    pub(crate) in_source: bool,
}

struct Allow {
    rule: String,
    /// In kernel.toml: the file or folder; `None` for all.
    path: Option<String>,
    /// In a comment: the lines to which it applies.
    lines: Option<Range<usize>>,
    reason: String,
    /// The index of its text.
    file: usize,
    at: Range<usize>,
    used: bool,
}

/// All allows, with their texts.
#[derive(Default)]
struct Allows<'p> {
    texts: Vec<Cow<'p, Text>>,
    all: Vec<Allow>,
}

/// Separates allowed findings; reports invalid allows.
pub(super) fn apply(project: &Sources, findings: &mut Findings) -> Vec<Allowed> {
    let mut allows = Allows::default();
    for unit in &project.units {
        allows.read_comments(&unit.code.text, &unit.code.lexed.comments);
    }
    for module in &project.modules {
        allows.read_comments(&module.python.text, &module.python.comments);
    }
    allows.read_comments(&project.build, &toml_comments(&project.build.content));
    allows.read_kernel_toml(project, findings);
    allows.remove_unsound(findings);
    let mut allowed = Vec::new();
    findings.0.retain(|finding| {
        let Some(allow) = allows.covering(finding) else {
            return true;
        };
        allow.used = true;
        allowed.push(Allowed {
            finding: finding.clone(),
            reason: allow.reason.clone(),
            in_source: allow.lines.is_some(),
        });
        false
    });
    allows.report_unused(findings);
    allowed
}

impl<'p> Allows<'p> {
    /// Reads `kernels: allow(rule): reason` in comments.
    fn read_comments(&mut self, text: &'p Text, comments: &[Range<usize>]) {
        let file = self.texts.len();
        self.texts.push(Cow::Borrowed(text));
        for comment in comments {
            let words = &text.content[comment.clone()];
            let inside = words.trim_start_matches(|c: char| c.is_whitespace() || matches!(c, '/' | '*' | '!'));
            let start = comment.start + (words.len() - inside.len());
            let Some((rules, rest)) = rules_of(inside) else {
                continue;
            };
            let reason = rest.trim_start().strip_prefix(':').unwrap_or_default();
            let reason = reason.trim().trim_end_matches("*/").trim();
            let first = text.line(comment.start);
            let last = text.line(comment.end - 1);
            for rule in rules.split(',').map(str::trim) {
                self.all.push(Allow {
                    rule: rule.to_owned(),
                    path: None,
                    // The comment's own line and the next: it may follow the code or precede it.
                    lines: Some(first..last + 2),
                    reason: reason.to_owned(),
                    file,
                    at: start..comment.end,
                    used: false,
                });
            }
        }
    }

    /// Reads the `[[check.allow]]` tables of kernel.toml.
    fn read_kernel_toml(&mut self, project: &Sources, findings: &mut Findings) {
        const RULE: &str = "kernel-toml/syntax";
        if !project.root.join(KERNEL_TOML).is_file() {
            return;
        }
        let problem = match Text::read_inside(&project.root, KERNEL_TOML) {
            Ok(text) if text.exact => {
                let (table, errors) = DeTable::parse_recoverable(&text.content);
                for error in &errors {
                    let at = error.span().unwrap_or(0..0);
                    let message = format!("not TOML, so its allows are not read: {}", error.message());
                    findings.add(RULE, &text, &at, message);
                }
                if errors.is_empty()
                    && let Some(check) = table.get_ref().get("check")
                {
                    self.read_tables(check, &text, findings);
                }
                self.texts.push(Cow::Owned(text.clone()));
                return;
            }
            Ok(_) => "not UTF-8, which TOML must be; save it as UTF-8".to_owned(),
            Err(error) => format!("cannot be read, so its allows are not read: {error}"),
        };
        let empty = Text::new(KERNEL_TOML.to_owned(), String::new(), true);
        findings.add(RULE, &empty, &(0..0), problem);
    }

    /// Reads the tables of `check`; kernel.toml becomes the next of `texts`.
    fn read_tables(&mut self, check: &Spanned<DeValue<'_>>, text: &Text, findings: &mut Findings) {
        const RULE: &str = "kernel-toml/syntax";
        let list = check.get_ref().get("allow");
        let Some(list) = list.and_then(|list| list.get_ref().as_array()) else {
            let message = "[check] holds [[check.allow]] tables and nothing else; write one, or remove it";
            findings.add(RULE, text, &check.span(), message);
            return;
        };
        for item in list {
            let of_another = |(key, value): &(&Spanned<Cow<'_, str>>, &Spanned<DeValue<'_>>)| {
                !["rule", "path", "reason"].contains(&key.get_ref().as_ref()) || value.get_ref().as_str().is_none()
            };
            if let Some((key, _)) = item.get_ref().as_table().and_then(|table| table.iter().find(of_another)) {
                let message = format!(
                    "an allow has `rule`, `path` and `reason`, which are texts, and not this `{}`",
                    key.get_ref()
                );
                findings.add(RULE, text, &key.span(), message);
                continue;
            }
            let value = |key| item.get_ref().get(key);
            let word = |key| value(key).and_then(|value| value.get_ref().as_str());
            let Some(rule) = word("rule") else {
                let message = "an allow without `rule`; name one of `kernels check --list`";
                findings.add(RULE, text, &item.span(), message);
                continue;
            };
            let path = word("path").map(|path| path.trim_start_matches("./").trim_end_matches('/').to_owned());
            self.all.push(Allow {
                rule: rule.to_owned(),
                path,
                lines: None,
                reason: word("reason").unwrap_or_default().trim().to_owned(),
                file: self.texts.len(),
                at: value("rule").map_or(item.span(), Spanned::span),
                used: false,
            });
        }
    }

    /// Removes and reports allows without a known rule or a reason.
    fn remove_unsound(&mut self, findings: &mut Findings) {
        let texts = &self.texts;
        self.all.retain(|allow| {
            let name = &allow.rule;
            let known = rule::find(name).filter(|_| !name.starts_with("allow/"));
            let (breaks, message) = if known.is_none() {
                let message = format!("there is no rule `{name}` to allow; see `kernels check --list`");
                ("allow/unknown-rule", message)
            } else if allow.reason.is_empty() {
                let next = match allow.lines {
                    Some(_) => "one behind a colon",
                    None => "reason = \"…\"",
                };
                let message = format!("{name} is allowed without a reason; write {next}");
                ("allow/no-reason", message)
            } else {
                return true;
            };
            findings.add(breaks, &texts[allow.file], &allow.at, message);
            false
        });
    }

    /// The first allow that matches a finding.
    fn covering(&mut self, finding: &Finding) -> Option<&mut Allow> {
        let texts = &self.texts;
        self.all.iter_mut().find(|allow| {
            allow.rule == finding.rule
                && match (&allow.lines, &allow.path) {
                    (Some(lines), _) => texts[allow.file].path == finding.path && lines.contains(&finding.place.line),
                    (None, Some(path)) => {
                        let below = finding.path.strip_prefix(path.as_str());
                        below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
                    }
                    (None, None) => true,
                }
        })
    }

    fn report_unused(&self, findings: &mut Findings) {
        for allow in self.all.iter().filter(|allow| !allow.used) {
            let place = allow.path.as_ref().map(|path| format!(" in {path}"));
            let message = format!("nothing{} breaks {}; remove this allow", place.unwrap_or_default(), allow.rule);
            findings.add("allow/unused", &self.texts[allow.file], &allow.at, message);
        }
    }
}

/// Splits `kernels: allow(rules) rest` into the rules and the rest.
fn rules_of(comment: &str) -> Option<(&str, &str)> {
    let rest = comment.strip_prefix("kernels:")?.trim_start();
    let rest = rest.strip_prefix("allow")?.trim_start();
    rest.strip_prefix('(')?.split_once(')')
}
