//! Findings as SARIF 2.1.0, which code hosts show beside the lines.

use std::path::{Component, Path};

use serde_json::{Value, json};

use crate::check::{Allowed, Finding, RULES, Report, Severity};

/// The whole log: one run over all projects, each with its folder as given.
pub(crate) fn render(projects: &[(&Path, &Report)], version: &str) -> Value {
    let results: Vec<Value> = projects
        .iter()
        .flat_map(|(dir, report)| {
            let found = report.findings.iter().map(|finding| result(dir, finding));
            let allowed = report.allowed.iter().map(|allowed| suppressed(dir, allowed));
            found.chain(allowed).collect::<Vec<_>>()
        })
        .collect();
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "kernels",
                "version": version,
                "rules": RULES.iter().map(rule).collect::<Vec<_>>(),
            }},
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    })
}

fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Warning => "warning",
        Severity::Error => "error",
    }
}

fn rule(rule: &crate::check::Rule) -> Value {
    let mut value = json!({
        "id": rule.id,
        "shortDescription": { "text": rule.asks },
        "help": { "text": rule.page, "markdown": rule.page },
        "defaultConfiguration": { "level": level(rule.severity) },
    });
    // A link only if the package has a repository: never invent an address.
    if let Some(repository) = option_env!("CARGO_PKG_REPOSITORY").filter(|url| !url.is_empty()) {
        let page = rule.id.replace('/', "-");
        value["helpUri"] = json!(format!("{}/blob/HEAD/docs/rules/{page}.md", repository.trim_end_matches('/')));
    }
    value
}

fn result(dir: &Path, finding: &Finding) -> Value {
    json!({
        "ruleId": finding.rule,
        "ruleIndex": RULES.iter().position(|rule| rule.id == finding.rule),
        "level": level(finding.severity),
        "message": { "text": finding.message },
        "locations": [{ "physicalLocation": {
            "artifactLocation": { "uri": uri(&dir.join(&finding.path)) },
            "region": {
                "startLine": finding.place.line,
                "startColumn": finding.place.column,
                "endLine": finding.place.end_line,
                "endColumn": finding.place.end_column,
            },
        }}],
    })
}

fn suppressed(dir: &Path, allowed: &Allowed) -> Value {
    let mut value = result(dir, &allowed.finding);
    value["suppressions"] = json!([{
        "kind": if allowed.in_source { "inSource" } else { "external" },
        "justification": allowed.reason,
    }]);
    value
}

/// A path as a URI reference: relative where it is, percent-encoded.
fn uri(path: &Path) -> String {
    let absolute = path.has_root();
    let parts: Vec<String> = path
        .components()
        .filter_map(|component| match component {
            Component::Normal(part) => Some(encode(&part.to_string_lossy())),
            Component::ParentDir => Some("..".to_owned()),
            _ => None,
        })
        .collect();
    let joined = parts.join("/");
    if absolute { format!("file:///{joined}") } else { joined }
}

fn encode(part: &str) -> String {
    use std::fmt::Write as _;
    part.bytes().fold(String::new(), |mut text, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
        text
    })
}

#[cfg(test)]
mod tests {
    use super::uri;
    use std::path::Path;

    #[test]
    fn paths_become_uris() {
        for (path, expected) in [("./a/b c.cu", "a/b%20c.cu"), ("../é.py", "../%C3%A9.py"), ("/a/b", "file:///a/b")] {
            assert_eq!(uri(Path::new(path)), expected);
        }
    }
}
