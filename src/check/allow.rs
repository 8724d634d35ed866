//! Findings that a project allows, each with its reason: in kernel.toml, or in a comment at the line.

use std::ops::Range;

use serde::Serialize;
use toml::de::DeTable;

use super::finding::Finding;
use super::findings::Findings;
use super::load::Project;
use super::manifest;
use super::rule;
use super::text::Text;
use crate::project::KERNEL_TOML;

/// A finding that was allowed.
#[derive(Clone, Debug, Serialize)]
pub struct Allowed {
    /// What was found.
    #[serde(flatten)]
    pub finding: Finding,
    /// Why it may stay.
    pub reason: String,
    /// Whether a comment in the source allows it; else kernel.toml does.
    pub in_source: bool,
}

/// One allow.
struct Allow {
    rule: String,
    /// In kernel.toml: the file or folder; none: everywhere.
    path: Option<String>,
    /// In a comment: the lines whose findings it allows.
    lines: Option<Range<usize>>,
    reason: String,
    /// The file it stands in, as an index.
    file: usize,
    at: Range<usize>,
    used: bool,
}

/// The files with comments, and the kernel.toml, by which allows are placed.
enum Place<'p> {
    Project(&'p Text),
    Own(Text),
}

impl Place<'_> {
    fn text(&self) -> &Text {
        match self {
            Self::Project(text) => text,
            Self::Own(text) => text,
        }
    }
}

/// Takes the allowed findings out; what is wrong with the allows is found.
pub(super) fn apply(project: &Project, findings: &mut Findings) -> Vec<Allowed> {
    let mut places: Vec<Place<'_>> = Vec::new();
    let mut allows: Vec<Allow> = Vec::new();
    for unit in &project.units {
        let comments = &unit.code.lexed.comments;
        in_comments(&unit.code.text, comments, &mut places, &mut allows);
    }
    for module in &project.modules {
        in_comments(
            &module.python.text,
            &module.python.comments,
            &mut places,
            &mut allows,
        );
    }
    let build = &project.manifest.text;
    in_comments(
        build,
        &manifest::comments(&build.content),
        &mut places,
        &mut allows,
    );
    in_kernel_toml(project, &mut places, &mut allows, findings);
    sound(&places, &mut allows, findings);
    let mut allowed = Vec::new();
    findings.0.retain(|finding| {
        let matching = allows.iter_mut().find(|allow| {
            let here = match (&allow.lines, &allow.path) {
                (Some(lines), _) => {
                    places[allow.file].text().path == finding.path
                        && lines.contains(&finding.place.line)
                }
                (None, Some(path)) => {
                    finding.path == *path
                        || finding
                            .path
                            .strip_prefix(path.as_str())
                            .is_some_and(|rest| rest.starts_with('/'))
                }
                (None, None) => true,
            };
            here && allow.rule == finding.rule
        });
        let Some(allow) = matching else {
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
    for allow in allows.iter().filter(|allow| !allow.used) {
        let place = allow
            .path
            .as_ref()
            .map(|path| format!(" in {path}"))
            .unwrap_or_default();
        let message = format!("nothing{place} breaks {}; remove this allow", allow.rule);
        findings.add(
            "allow/unused",
            places[allow.file].text(),
            &allow.at,
            message,
        );
    }
    allowed
}

/// Reads `kernels: allow(rule): reason` in comments.
fn in_comments<'p>(
    text: &'p Text,
    comments: &[Range<usize>],
    places: &mut Vec<Place<'p>>,
    allows: &mut Vec<Allow>,
) {
    for comment in comments {
        let words = &text.content[comment.clone()];
        let inside =
            words.trim_start_matches(|c: char| c.is_whitespace() || matches!(c, '/' | '*' | '!'));
        let start = comment.start + (words.len() - inside.len());
        let Some(rest) = inside.strip_prefix("kernels:").map(str::trim_start) else {
            continue;
        };
        let Some(rest) = rest.strip_prefix("allow").map(str::trim_start) else {
            continue;
        };
        let Some((rules, rest)) = rest.strip_prefix('(').and_then(|rest| rest.split_once(')'))
        else {
            continue;
        };
        let reason = rest.trim_start().strip_prefix(':').unwrap_or_default();
        let reason = reason.trim().trim_end_matches("*/").trim();
        let file = places.len();
        places.push(Place::Project(text));
        let first = text.line(comment.start);
        let last = text.line(comment.end.max(comment.start + 1) - 1);
        for rule in rules.split(',').map(str::trim) {
            allows.push(Allow {
                rule: rule.to_owned(),
                path: None,
                // The comment's own line, and the one below: it stands behind the code or above it.
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
fn in_kernel_toml(
    project: &Project,
    places: &mut Vec<Place<'_>>,
    allows: &mut Vec<Allow>,
    findings: &mut Findings,
) {
    let full = project.root.join(KERNEL_TOML);
    if !full.is_file() {
        return;
    }
    let own = |text: String, exact| Text::new(KERNEL_TOML.to_owned(), text, exact);
    let real = std::fs::canonicalize(&full).unwrap_or(full);
    let text = match Text::read(&real, KERNEL_TOML.to_owned()) {
        Ok(text) if text.exact => text,
        Ok(_) => {
            let message = "not UTF-8, which TOML must be; save it as UTF-8";
            findings.add(
                "kernel-toml/syntax",
                &own(String::new(), true),
                &(0..0),
                message,
            );
            return;
        }
        Err(error) => {
            let message =
                format!("cannot be read ({error}); mend that, or its allows count for nothing");
            findings.add(
                "kernel-toml/syntax",
                &own(String::new(), true),
                &(0..0),
                message,
            );
            return;
        }
    };
    let shift = text.content.len() - text.content.trim_start_matches('\u{feff}').len();
    let at = |range: Range<usize>| range.start + shift..range.end + shift;
    let file = places.len();
    let (table, errors) = DeTable::parse_recoverable(&text.content[shift..]);
    for error in &errors {
        let message = format!(
            "no TOML, so its allows count for nothing: {}",
            error.message()
        );
        findings.add(
            "kernel-toml/syntax",
            &text,
            &at(error.span().unwrap_or(0..0)),
            message,
        );
    }
    if errors.is_empty()
        && let Some(check) = table.get_ref().get("check")
    {
        let list = check
            .get_ref()
            .get("allow")
            .and_then(|list| list.get_ref().as_array());
        for item in list.into_iter().flat_map(|list| list.iter()) {
            let word = |key| {
                item.get_ref()
                    .get(key)
                    .and_then(|value| value.get_ref().as_str())
            };
            let Some(rule) = word("rule") else {
                let message = "an allow without `rule`; name one of `kernels check --list`";
                findings.add("kernel-toml/syntax", &text, &at(item.span()), message);
                continue;
            };
            let span = item
                .get_ref()
                .get("rule")
                .map_or(item.span(), toml::Spanned::span);
            allows.push(Allow {
                rule: rule.to_owned(),
                path: word("path").map(|path| {
                    path.trim_start_matches("./")
                        .trim_end_matches('/')
                        .to_owned()
                }),
                lines: None,
                reason: word("reason").unwrap_or_default().trim().to_owned(),
                file,
                at: at(span),
                used: false,
            });
        }
        if list.is_none() {
            let message =
                "[check] holds [[check.allow]] tables and nothing else; write one, or remove it";
            findings.add("kernel-toml/syntax", &text, &at(check.span()), message);
        }
    }
    places.push(Place::Own(text));
}

/// Takes out the allows that name no rule or give no reason; each is found.
fn sound(places: &[Place<'_>], allows: &mut Vec<Allow>, findings: &mut Findings) {
    allows.retain(|allow| {
        let text = places[allow.file].text();
        let known = rule::find(&allow.rule).filter(|_| !allow.rule.starts_with("allow/"));
        if known.is_none() {
            let message = format!(
                "there is no rule `{}` to allow; see `kernels check --list`",
                allow.rule
            );
            findings.add("allow/unknown-rule", text, &allow.at, message);
            return false;
        }
        if allow.reason.is_empty() {
            let message = format!(
                "{} is allowed without a reason; write one behind a colon",
                allow.rule
            );
            let message = if allow.lines.is_some() {
                message
            } else {
                format!(
                    "{} is allowed without a reason; write reason = \"…\"",
                    allow.rule
                )
            };
            findings.add("allow/no-reason", text, &allow.at, message);
            return false;
        }
        true
    });
}
