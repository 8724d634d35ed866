//! `kernels check`.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use serde_json::{Value, json};

use super::failure::Usage;
use crate::check::{self, Finding, Fix, RULES, Report, Severity};
use crate::cli::project::{Check as Arguments, Format};
use crate::project::BUILD_TOML;
use crate::report::{Output, file, sarif, style};

/// Checks the text of every project; exit 1 when one has an error, and with `--strict` on warnings as well.
pub(crate) fn run(arguments: &Arguments, output: Output) -> Result<ExitCode> {
    if arguments.list {
        list(output);
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(id) = &arguments.explain {
        explain(id, output)?;
        return Ok(ExitCode::SUCCESS);
    }
    for path in &arguments.export {
        format_of(path)?;
    }
    for dir in &arguments.dirs {
        is_project(dir)?;
    }
    // Machine-readable output has no lines for people in it.
    let format = if output.is_json() { Format::Json } else { arguments.format };
    let people = format == Format::Text;
    let mut reports = Vec::new();
    for dir in &arguments.dirs {
        let mut report = check::check(dir)?;
        let mut fixes = Vec::new();
        if arguments.fix {
            fixes = check::apply(&std::fs::canonicalize(dir)?, &report, arguments.dry_run);
            if !arguments.dry_run && fixes.iter().any(|fix| fix.refused.is_none()) {
                report = check::check(dir)?;
            }
        }
        if people {
            show(dir, &report, &fixes, arguments, output);
        }
        reports.push((dir.as_path(), report, fixes));
    }
    let limit = if arguments.strict { Severity::Warning } else { Severity::Error };
    let failing = |report: &Report| report.findings.iter().any(|finding| finding.severity >= limit);
    let ok = !reports.iter().any(|(_, report, _)| failing(report));
    let render = |format| rendered(&reports, ok, format);
    for path in &arguments.export {
        let text = serde_json::to_string_pretty(&render(format_of(path)?))? + "\n";
        file::write(path, text.as_bytes())?;
        if people {
            output.note(format!("wrote {}", path.display()));
        }
    }
    match format {
        Format::Text => {}
        Format::Json => Output::new(true, false).json(&render(Format::Json)),
        Format::Sarif => Output::new(true, false).json(&render(Format::Sarif)),
    }
    Ok(if ok { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A project folder, its findings, and its fixes.
type Checked<'a> = (&'a Path, Report, Vec<Fix>);

fn rendered(reports: &[Checked], ok: bool, format: Format) -> Value {
    match format {
        Format::Sarif => {
            let projects: Vec<_> = reports.iter().map(|(dir, report, _)| (*dir, report)).collect();
            sarif::render(&projects, env!("CARGO_PKG_VERSION"))
        }
        Format::Text | Format::Json => to_json(reports, ok),
    }
}

/// Rejects a wrong folder before anything is checked.
fn is_project(dir: &Path) -> Result<()> {
    if dir.join(BUILD_TOML).is_file() {
        return Ok(());
    }
    let what = if dir.is_dir() { format!("it has no {BUILD_TOML}") } else { "there is no such folder".to_owned() };
    Err(Usage(format!(
        "{} is not a kernel project: {what}. Name a folder with kernel-builder's {BUILD_TOML}",
        dir.display()
    ))
    .into())
}

/// The output format, by the file's extension.
fn format_of(path: &Path) -> Result<Format> {
    match path.extension().and_then(|ending| ending.to_str()) {
        Some(ending) if ending.eq_ignore_ascii_case("json") => Ok(Format::Json),
        Some(ending) if ending.eq_ignore_ascii_case("sarif") => Ok(Format::Sarif),
        _ => Err(Usage(format!(
            "--export {}: the ending says which format to write, and must be .json or .sarif",
            path.display()
        ))
        .into()),
    }
}

fn show(dir: &Path, report: &Report, fixes: &[Fix], arguments: &Arguments, output: Output) {
    for fix in fixes {
        let path = dir.join(&fix.path);
        match &fix.refused {
            Some(why) => {
                output.error(format!("{} {} was not fixed: it {why}", style::warning("left alone:"), path.display()));
            }
            None => {
                for what in &fix.what {
                    let word = if arguments.dry_run { "would mend:" } else { "mended:" };
                    output.line(format!("{} {}: {what}", style::good(word), path.display()));
                }
            }
        }
    }
    for finding in &report.findings {
        output.line(line(dir, finding));
    }
    let paint = if report.count(Severity::Error) > 0 {
        |text| style::bad(text)
    } else if report.findings.is_empty() {
        |text| style::good(text)
    } else {
        |text| style::warning(text)
    };
    for note in &report.notes {
        output.note(format!("{} {}: {note}", style::faint("note:"), dir.display()));
    }
    output.line(format!("{}: {}", style::strong(dir.display()), paint(report.summary())));
}

/// `kernels/x/build.toml:3:9: error: the license is empty; … [build-toml/empty-license]`
fn line(dir: &Path, finding: &Finding) -> String {
    let severity = match finding.severity {
        Severity::Warning => style::warning("warning"),
        Severity::Error => style::bad("error"),
    };
    let place = format!("{}:{}:{}", dir.join(&finding.path).display(), finding.place.line, finding.place.column);
    let fixable = if finding.fixable { ", --fix" } else { "" };
    format!(
        "{}: {severity}: {} {}",
        style::place(place),
        finding.message,
        style::faint(format!("[{}{fixable}]", finding.rule))
    )
}

fn to_json(reports: &[Checked], ok: bool) -> Value {
    let sum = |severity| reports.iter().map(|(_, report, _)| report.count(severity)).sum::<usize>();
    let projects: Vec<Value> = reports
        .iter()
        .map(|(dir, report, fixes)| {
            json!({
                "dir": dir.to_string_lossy(),
                "name": report.name,
                "files": report.files,
                "findings": report.findings,
                "allowed": report.allowed,
                "notes": report.notes,
                "fixes": fixes,
            })
        })
        .collect();
    json!({
        "ok": ok,
        "errors": sum(Severity::Error),
        "warnings": sum(Severity::Warning),
        "projects": projects,
    })
}

fn list(output: Output) {
    let width = RULES.iter().map(|rule| rule.id.len()).max().unwrap_or(0);
    for rule in RULES {
        let fix = if rule.fixable { ", --fix" } else { "" };
        output.line(format!(
            "{:<width$}  {} {}",
            rule.id,
            rule.asks,
            style::faint(format!("({}{fix})", rule.severity))
        ));
    }
    let rules: Vec<Value> = RULES
        .iter()
        .map(|rule| {
            json!({
                "rule": rule.id,
                "severity": rule.severity,
                "asks": rule.asks,
                "fixable": rule.fixable,
            })
        })
        .collect();
    output.json(&json!({ "rules": rules }));
}

fn explain(id: &str, output: Output) -> Result<()> {
    let Some(rule) = check::find(id) else {
        let group = id.split('/').next().unwrap_or_default();
        let mut near: Vec<&str> = RULES
            .iter()
            .map(|rule| rule.id)
            .filter(|known| known.starts_with(&format!("{group}/")) || known.ends_with(&format!("/{id}")))
            .collect();
        if near.is_empty() {
            near.push("`kernels check --list` has them all");
        }
        return Err(Usage(format!("there is no rule {id}: {}", near.join(", "))).into());
    };
    if output.is_json() {
        output.json(&json!({
            "rule": rule.id,
            "severity": rule.severity,
            "asks": rule.asks,
            "fixable": rule.fixable,
            "page": rule.page,
        }));
    } else {
        output.content(rule.page.as_bytes());
    }
    Ok(())
}
