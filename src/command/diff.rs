//! `kernels skills diff`.

use std::fs;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use serde_json::json;

use super::{status, target};
use crate::agent::Machine;
use crate::cli::skills;
use crate::install::base::Base;
use crate::install::discover::Install;
use crate::install::scan::{Change, ChangeKind};
use crate::report::{Output, style, unified};
use crate::skill::source::Skill;
use crate::skill::tree::Entry;

/// Shows the user's edits against the installed text, and how a fork differs from the embedded skill. Exit 0 also when
/// there are edits, unless `--exit-code` asks: they are no failure.
pub(crate) fn run(machine: &Machine, arguments: &skills::Diff, output: Output) -> Result<ExitCode> {
    let installs = target::installs(machine, &arguments.select)?;
    if installs.is_empty() {
        bail!("nothing is installed");
    }
    let mut reports = Vec::new();
    for row in status::rows(machine, installs.into_iter().filter(|install| install.link.is_none()).collect()) {
        let (install, judged, changes) = (&row.install, &row.judged, row.changes());
        if changes.is_empty() {
            continue;
        }
        let offer =
            if row.fork.is_some() { Skill::bundled(&install.name).ok() } else { row.offer.as_ref().ok().cloned() };
        let receipt = judged.receipt.as_ref().filter(|_| row.fork.is_none());
        let base = receipt.map(|receipt| Base::of(&install.path, receipt, offer.as_ref()));
        let installed = |change: &Change| base.as_ref().and_then(|base| base.get(&change.path));
        let exact = |change: &Change| change.kind == ChangeKind::Added || installed(change).is_some();
        let exact = changes.iter().all(exact);
        if row.fork.is_some() {
            let shown = machine.show(&install.path);
            output.note(format!("{} {shown} is a fork; shown against the embedded skill", style::warning("note:")));
        } else if !exact {
            let version = judged.version.as_deref().unwrap_or("unknown");
            output.note(format!(
                "{} {} was installed from version {version}, whose text is not here; shown against {}",
                style::warning("note:"),
                machine.show(&install.path),
                offer.as_ref().and_then(|offer| offer.version.as_deref()).unwrap_or("nothing"),
            ));
        }
        let mut text = String::new();
        for change in changes {
            let other = || offer.as_ref().and_then(|offer| offer.tree.get(&change.path)).cloned();
            text.push_str(&one(machine, install, change, installed(change).or_else(other))?);
        }
        reports.push(json!({
            "path": install.path.to_string_lossy(),
            "changes": changes,
            "base_is_exact": exact,
            "diff": text,
        }));
        if !output.is_json() {
            output.text(&text, unified::colour);
        }
    }
    if reports.is_empty() {
        output.note(style::faint("no edits"));
    }
    output.json(&json!({ "installs": reports }));
    Ok(if arguments.exit_code && !reports.is_empty() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn one(machine: &Machine, install: &Install, change: &Change, base: Option<Entry>) -> Result<String> {
    let file = install.path.join(&change.file);
    let shown = machine.show(&install.path.join(&change.path));
    let was_executable = base.as_ref().is_some_and(|entry| entry.executable);
    let old = base.map(|entry| entry.content.to_vec());
    let meta = fs::symlink_metadata(&file);
    let new = match (change.kind, &meta) {
        (ChangeKind::Missing, _) => None,
        (_, Ok(meta)) if meta.is_symlink() => {
            let to = fs::read_link(&file).with_context(|| format!("cannot read {shown}"))?;
            return Ok(format!("{shown} is now a link to {}\n", to.display()));
        }
        (_, Ok(meta)) if !meta.is_file() => return Ok(format!("{shown} is not a regular file\n")),
        _ => Some(fs::read(&file).with_context(|| format!("cannot read {shown}"))?),
    };
    if change.kind == ChangeKind::Mode {
        let (old, new) = if was_executable { (755, 644) } else { (644, 755) };
        return Ok(format!("{shown}: old mode {old}, new mode {new}\n"));
    }
    Ok(unified::of_file(&shown, &format!("{}/{}", install.name, change.path), old, new))
}
