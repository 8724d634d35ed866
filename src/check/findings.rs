//! Collects findings.

use std::ops::Range;

use super::finding::{Edit, Finding, Severity};
use super::rule;
use super::text::Text;

#[derive(Debug, Default)]
pub(super) struct Findings(pub(super) Vec<Finding>);

impl Findings {
    /// Adds a finding at a byte range.
    pub(super) fn add(&mut self, rule: &str, text: &Text, at: &Range<usize>, message: impl Into<String>) {
        let Some(rule) = rule::find(rule) else {
            debug_assert!(false, "no rule {rule}");
            return;
        };
        self.0.push(Finding {
            rule: rule.id,
            severity: rule.severity,
            path: text.path.clone(),
            place: text.place(at),
            // Keeps the message on one line, whatever names it contains.
            message: message.into().replace(['\n', '\r'], " "),
            fixable: false,
            edit: None,
        });
    }

    /// Downgrades the last finding to a warning, because the rule is uncertain.
    pub(super) fn unsure(&mut self) {
        if let Some(last) = self.0.last_mut() {
            last.severity = Severity::Warning;
        }
    }

    /// Attaches a fix to the last finding.
    pub(super) fn fix_with(&mut self, edit: Edit) {
        if let Some(last) = self.0.last_mut() {
            last.fixable = true;
            last.edit = Some(edit);
        }
    }
}
