//! Where the rules put what they find.

use std::ops::Range;

use super::finding::{Edit, Finding, Severity};
use super::rule;
use super::text::Text;

/// What was found so far.
#[derive(Debug, Default)]
pub(super) struct Findings(pub(super) Vec<Finding>);

impl Findings {
    /// Adds one at some bytes of a file.
    pub(super) fn add(
        &mut self,
        rule: &str,
        text: &Text,
        at: &Range<usize>,
        message: impl Into<String>,
    ) {
        let Some(rule) = rule::find(rule) else {
            debug_assert!(false, "no rule {rule}");
            return;
        };
        self.0.push(Finding {
            rule: rule.id,
            severity: rule.severity,
            path: text.path.clone(),
            place: text.place(at),
            // One line, whatever a name in a file holds.
            message: message.into().replace(['\n', '\r'], " "),
            fixable: false,
            edit: None,
        });
    }

    /// Makes the last one a warning: the rule cannot be sure of it.
    pub(super) fn unsure(&mut self) {
        if let Some(last) = self.0.last_mut() {
            last.severity = Severity::Warning;
        }
    }

    /// Gives the last one the edit that fixes it.
    pub(super) fn fix_with(&mut self, edit: Edit) {
        if let Some(last) = self.0.last_mut() {
            last.fixable = true;
            last.edit = Some(edit);
        }
    }
}
