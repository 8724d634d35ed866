//! `kernels skills validate`.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail};
use clap::CommandFactory;
use serde_json::{Value, json};

use super::failure::Usage;
use crate::cli;
use crate::deep::{self, Unchecked};
use crate::report::{Output, style};
use crate::skill::lint::{self, Finding, RULES, Severity};
use crate::skill::tree::{SKILL_MD, Tree};
use crate::skill::{archive, bundled};

/// Checks skills against every rule; exit 1 when one has an error.
pub(crate) fn run(arguments: &cli::skills::Validate, output: Output) -> Result<ExitCode> {
    if arguments.rules {
        list_rules(output);
        return Ok(ExitCode::SUCCESS);
    }
    let options = arguments.deep.then(|| options(arguments.python.as_ref())).transpose()?;
    let embedded = [PathBuf::from(bundled::DEFAULT)];
    let paths = if arguments.paths.is_empty() { &embedded[..] } else { &arguments.paths };
    let mut reports = Vec::new();
    let mut sound = true;
    for path in paths {
        let subject = read(path)?;
        let mut findings = subject.findings;
        let deep =
            options.as_ref().map(|options| deep::check(&subject.tree, subject.root.as_deref(), options)).transpose()?;
        if let Some(deep) = &deep {
            findings.extend(deep.findings.iter().cloned());
            if arguments.strict {
                findings.extend(deep.not_checked.iter().map(Unchecked::finding));
            }
        }
        let limit = if arguments.strict { Severity::Warning } else { Severity::Error };
        let valid = findings.iter().all(|finding| finding.severity < limit);
        sound &= valid;
        show(path, &findings, deep.as_ref(), valid, output);
        let mut report = json!({
            "path": path.to_string_lossy(),
            "valid": valid,
            "findings": findings.iter().map(finding_json).collect::<Vec<_>>(),
        });
        if let Some(deep) = deep {
            report["deep"] = json!(deep);
        }
        reports.push(report);
    }
    output.json(&json!({ "skills": reports }));
    Ok(if sound { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A Python named on the command line must exist; the default may be missing.
fn options(named: Option<&PathBuf>) -> Result<deep::Options> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let python = match (named, set("KERNELS_PYTHON"), set("VIRTUAL_ENV")) {
        (Some(path), ..) => {
            let starts = Command::new(path).args(["-I", "-c", ""]).stdin(Stdio::null()).output();
            if !starts.is_ok_and(|output| output.status.success()) {
                let path = path.display();
                return Err(Usage(format!("--python {path}: is not a Python that starts")).into());
            }
            // It is started from another folder, so a relative path must be made absolute.
            if path.components().count() > 1 { std::path::absolute(path)? } else { path.clone() }
        }
        (None, Some(path), _) => path.into(),
        (None, None, Some(folder)) => PathBuf::from(folder).join("bin/python"),
        (None, None, None) => "python3".into(),
    };
    Ok(deep::Options { python, commands: cli::Cli::command() })
}

/// A skill as read, even if only in part.
struct Subject {
    tree: Tree,
    /// The folder that contains it.
    root: Option<PathBuf>,
    findings: Vec<Finding>,
}

fn read(path: &Path) -> Result<Subject> {
    if let Some(name) = path.to_str()
        && !path.exists()
        && let Some(tree) = bundled::tree(name)
    {
        return Ok(Subject { findings: lint::lint(&tree, Some(name), &[]), root: None, tree });
    }
    let meta = path.metadata().with_context(|| format!("cannot look at {}", path.display()))?;
    if meta.is_dir() {
        return Ok(read_folder(path));
    }
    if path.file_name().is_some_and(|name| name.eq_ignore_ascii_case(SKILL_MD)) {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        return Ok(read_folder(folder.unwrap_or(Path::new("."))));
    }
    if !meta.is_file() {
        bail!("{} is neither a folder nor a .skill file", path.display());
    }
    Ok(match archive::open(path) {
        Ok((folder, tree)) => Subject { findings: lint::lint(&tree, Some(&folder), &[]), root: None, tree },
        Err(error) => Subject {
            tree: Tree::default(),
            root: None,
            findings: vec![Finding {
                rule: "tree",
                severity: Severity::Fatal,
                file: String::new(),
                line: None,
                column: None,
                message: format!("{:#}", error.root_cause()),
            }],
        },
    })
}

fn read_folder(folder: &Path) -> Subject {
    let (tree, unreadable) = Tree::read_what_is_readable(folder);
    Subject {
        findings: lint::lint(&tree, lint::folder_name(folder).as_deref(), &unreadable),
        root: folder.canonicalize().ok(),
        tree,
    }
}

fn show(path: &Path, findings: &[Finding], deep: Option<&deep::Report>, valid: bool, output: Output) {
    let base = if path.file_name().is_some_and(|name| name == SKILL_MD) { path.parent().unwrap_or(path) } else { path };
    for finding in findings {
        let severity = match finding.severity {
            Severity::Warning => style::warning("warning"),
            Severity::Error | Severity::Fatal => style::bad("error"),
        };
        output.line(format!(
            "{}: {severity}: {} {}",
            style::place(finding.place(base)),
            finding.message,
            style::faint(format!("[{}]", finding.rule))
        ));
    }
    if let Some(deep) = deep {
        output.line(format!("checked: {}", deep.summary()));
        for unchecked in &deep.not_checked {
            output.line(format!("{} {}", style::warning("not checked:"), unchecked.line()));
        }
    }
    let verdict = if valid { style::good("valid") } else { style::bad("not valid") };
    output.line(format!("{}: {verdict}", path.display()));
}

fn finding_json(finding: &Finding) -> Value {
    json!({
        "rule": finding.rule,
        "severity": finding.severity.to_string(),
        "blocks_install": finding.severity == Severity::Fatal,
        "file": finding.file,
        "line": finding.line,
        "column": finding.column,
        "message": finding.message,
    })
}

fn list_rules(output: Output) {
    let all = || {
        let deep = deep::RULES.iter().map(|rule| (rule, true));
        RULES.iter().map(|rule| (rule, false)).chain(deep)
    };
    let width = all().map(|((id, ..), _)| id.len()).max().unwrap_or(0);
    for ((id, severity, asks), deep) in all() {
        let fatal = match (severity, deep) {
            (Severity::Fatal, _) => ", not installable",
            (_, true) => ", --deep",
            _ => "",
        };
        output.line(format!("{id:<width$}  {asks} {}", style::faint(format!("({severity}{fatal})"))));
    }
    let rules: Vec<_> = all()
        .map(|((id, severity, asks), deep)| {
            json!({
                "deep": deep,
                "rule": id,
                "severity": severity.to_string(),
                "blocks_install": *severity == Severity::Fatal,
                "asks": asks,
            })
        })
        .collect();
    output.json(&json!({ "rules": rules }));
}
