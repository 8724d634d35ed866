//! `kernels skills remove`.

use std::process::ExitCode;

use anyhow::{Result, bail};
use serde_json::json;

use super::{add, target};
use crate::agent::{Machine, Scope};
use crate::cli;
use crate::install::discover::{self, Install};
use crate::install::remove::{self, Removal, Removed};
use crate::install::step::Options;
use crate::install::{Refusal, apply};
use crate::report::{Output, style};

/// Removes a skill from the named places, or from all of one level.
pub(crate) fn run(machine: &Machine, arguments: &cli::Remove, output: Output) -> Result<ExitCode> {
    let name = &arguments.name;
    let named = target::is_named(&arguments.targets);
    let level = if arguments.targets.global { Scope::User } else { Scope::Project };
    let places = if named {
        target::places_to_search(machine, &arguments.targets)?
    } else {
        discover::all_places(machine, &[level])
    };
    let recovered = if arguments.dry_run { Vec::new() } else { apply::recover(&places)? };
    add::show_recovered(machine, &recovered, output);
    let everywhere = discover::all_places(machine, &[Scope::Project, Scope::User]);
    let all = discover::installs(&everywhere, Some(name));
    let mut targets = discover::installs(&places, Some(name));
    for install in &mut targets {
        install.link_is_ours |= all.iter().any(|i| i.path == install.path && i.link_is_ours);
    }
    let finished = recovered.iter().any(|r| r.path.file_name().is_some_and(|n| n == name.as_str()));
    if targets.is_empty() && !finished {
        return not_there(machine, name, &all);
    }
    let options = Options { force: arguments.force, ..Options::default() };
    let Removed { removals, put_back, notes } = if arguments.dry_run {
        Removed { removals: remove::plan(&targets, &all, options)?, ..Removed::default() }
    } else {
        remove::remove(machine, &targets, &all, options)?
    };
    show(machine, &removals, arguments.dry_run, output);
    for note in &notes {
        output.note(format!("{} {note}", style::warning("note:")));
    }
    if !put_back.is_empty() {
        return Err(Refusal(put_back).into());
    }
    output.json(&json!({
        "dry_run": arguments.dry_run,
        "removed": removals.iter().map(|removal| json!({
            "path": removal.install.path.to_string_lossy(),
            "scope": removal.install.scope,
            "agents": removal.install.agents,
            "backup": removal.backup.as_ref().map(|path| path.to_string_lossy()),
        })).collect::<Vec<_>>(),
        "recovered": recovered,
        "notes": notes,
    }));
    Ok(ExitCode::SUCCESS)
}

fn show(machine: &Machine, removals: &[Removal], dry_run: bool, output: Output) {
    let word = if dry_run { "remove " } else { "removed" };
    for removal in removals {
        output.line(format!("  {} {}", style::good(word), machine.show(&removal.install.path)));
        if let Some(backup) = &removal.backup {
            output.line(format!("          kept in {}", style::strong(machine.show(backup))));
        }
    }
}

fn not_there(machine: &Machine, name: &str, all: &[Install]) -> Result<ExitCode> {
    if all.is_empty() {
        bail!("{name} is not installed; `kernels skills list` shows what is");
    }
    let elsewhere: Vec<_> =
        all.iter().map(|install| format!("{} ({} level)", machine.show(&install.path), install.scope)).collect();
    bail!(
        "{name} is not installed there, but in {}; name the agent, or --global for the user level",
        elsewhere.join(", ")
    );
}
