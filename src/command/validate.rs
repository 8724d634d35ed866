//! `kernels skills validate`.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::cli;
use crate::report::{Output, style};
use crate::skill::archive;
use crate::skill::lint::{self, Finding, RULES, Severity};
use crate::skill::tree::{SKILL_MD, Tree};

/// Checks skills against every rule; exit 1 when one has an error.
pub fn run(arguments: &cli::Validate, output: Output) -> Result<ExitCode> {
    if arguments.rules {
        list_rules(output);
        return Ok(ExitCode::SUCCESS);
    }
    let mut reports = Vec::new();
    let mut sound = true;
    for path in &arguments.paths {
        let findings = check(path)?;
        let limit = if arguments.strict {
            Severity::Warning
        } else {
            Severity::Error
        };
        let valid = findings.iter().all(|finding| finding.severity < limit);
        sound &= valid;
        show(path, &findings, valid, output);
        reports.push(json!({
            "path": path.to_string_lossy(),
            "valid": valid,
            "findings": findings.iter().map(finding_json).collect::<Vec<_>>(),
        }));
    }
    output.json(&json!({ "skills": reports }));
    Ok(if sound {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn check(path: &Path) -> Result<Vec<Finding>> {
    let meta = path
        .metadata()
        .with_context(|| format!("cannot look at {}", path.display()))?;
    if meta.is_dir() {
        return Ok(check_folder(path));
    }
    if path
        .file_name()
        .is_some_and(|name| name.eq_ignore_ascii_case(SKILL_MD))
    {
        let folder = path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty());
        return Ok(check_folder(folder.unwrap_or(Path::new("."))));
    }
    if !meta.is_file() {
        bail!("{} is neither a folder nor a .skill file", path.display());
    }
    let (folder, tree) = match archive::open(path) {
        Ok(read) => read,
        Err(error) => {
            return Ok(vec![Finding {
                rule: "tree",
                severity: Severity::Fatal,
                file: String::new(),
                line: None,
                message: format!("{:#}", error.root_cause()),
            }]);
        }
    };
    Ok(lint::lint(&tree, Some(&folder), &[]))
}

fn check_folder(folder: &Path) -> Vec<Finding> {
    let (tree, unreadable) = Tree::read_what_is_readable(folder);
    lint::lint(&tree, lint::folder_name(folder).as_deref(), &unreadable)
}

fn show(path: &Path, findings: &[Finding], valid: bool, output: Output) {
    let base = if path.file_name().is_some_and(|name| name == SKILL_MD) {
        path.parent().unwrap_or(path)
    } else {
        path
    };
    for finding in findings {
        let file = if finding.file.is_empty() {
            base.to_path_buf()
        } else {
            base.join(&finding.file)
        };
        let line = finding
            .line
            .map(|line| format!(":{line}"))
            .unwrap_or_default();
        let severity = match finding.severity {
            Severity::Warning => style::warning("warning"),
            Severity::Error | Severity::Fatal => style::bad("error"),
        };
        output.line(format!(
            "{}: {severity}: {} {}",
            style::place(format!("{}{line}", file.display())),
            finding.message,
            style::faint(format!("[{}]", finding.rule))
        ));
    }
    let verdict = if valid {
        style::good("valid")
    } else {
        style::bad("not valid")
    };
    output.line(format!("{}: {verdict}", path.display()));
}

fn finding_json(finding: &Finding) -> Value {
    json!({
        "rule": finding.rule,
        "severity": finding.severity.to_string(),
        "blocks_install": finding.severity == Severity::Fatal,
        "file": finding.file,
        "line": finding.line,
        "message": finding.message,
    })
}

fn list_rules(output: Output) {
    let width = RULES.iter().map(|(id, ..)| id.len()).max().unwrap_or(0);
    for (id, severity, asks) in RULES {
        let fatal = if *severity == Severity::Fatal {
            ", not installable"
        } else {
            ""
        };
        output.line(format!(
            "{id:<width$}  {asks} {}",
            style::faint(format!("({severity}{fatal})"))
        ));
    }
    let rules: Vec<_> = RULES
        .iter()
        .map(|(id, severity, asks)| {
            json!({
                "rule": id,
                "severity": severity.to_string(),
                "blocks_install": *severity == Severity::Fatal,
                "asks": asks,
            })
        })
        .collect();
    output.json(&json!({ "rules": rules }));
}
