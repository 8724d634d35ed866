//! `kernels skills remove`.

use std::process::ExitCode;

use anyhow::{Result, bail};
use serde_json::json;

use super::{add, failure, status, target};
use crate::agent::{Machine, Scope};
use crate::cli::skills;
use crate::install::discover::{self, Install};
use crate::install::pins::Pins;
use crate::install::remove::{self, Removal, Removed};
use crate::install::step::Options;
use crate::install::{Place, apply};
use crate::report::{Output, style};

/// Removes skills from the named places, or from all of one level.
pub(crate) fn run(machine: &Machine, arguments: &skills::Remove, output: Output) -> Result<ExitCode> {
    let looking = arguments.looking;
    let level = if arguments.targets.global { Scope::User } else { Scope::Project };
    let (places, levels) = if target::is_named(&arguments.targets) {
        (target::places_to_search(machine, &arguments.targets)?, status::levels(&arguments.targets))
    } else {
        (discover::all_places(machine, &[level]), vec![level])
    };
    let unlisted = discover::unlisted(machine, &levels, &places);
    if !unlisted.is_empty() {
        bail!("nothing was removed: {}", unlisted.join("; "));
    }
    let recovered = if looking.is_only() { Vec::new() } else { apply::recover(&places)? };
    add::show_recovered(machine, &recovered, output);
    let names = if arguments.all { ours(&places) } else { arguments.names.clone() };
    if names.is_empty() {
        output.line(style::faint("nothing is installed there"));
        output.json(&json!({ "dry_run": looking.is_only(), "removed": [], "recovered": recovered, "notes": [] }));
        return Ok(ExitCode::SUCCESS);
    }
    let everywhere = discover::all_places(machine, &[Scope::Project, Scope::User]);
    let all = discover::installs(&everywhere, &names);
    let mut targets = discover::installs(&places, &names);
    for install in &mut targets {
        install.link_is_ours |= all.iter().any(|i| i.path == install.path && i.link_is_ours);
    }
    if arguments.all {
        targets.retain(is_ours);
    }
    for name in &names {
        let finished = recovered.iter().any(|r| r.path.file_name().is_some_and(|n| n == name.as_str()));
        // `--check` asks whether it is gone.
        if !looking.check && !finished && !targets.iter().any(|install| install.name == *name) {
            return not_there(machine, name, &all);
        }
    }
    let options = Options { force: arguments.force, ..Options::default() };
    let Removed { removals, put_back, notes } = if looking.is_only() {
        Removed { removals: remove::plan(&targets, &all, options)?, ..Removed::default() }
    } else {
        remove::remove(machine, &targets, &all, options)?
    };
    // What was removed elsewhere was not pinned by this project.
    let project = machine.project().canonicalize()?;
    let of_project = |name: &String| {
        let gone = removals.iter().filter(|removal| removal.install.name == *name);
        recovered.iter().any(|one| one.path.starts_with(&project))
            || gone
                .map(|removal| &removal.install)
                .any(|one| one.scope != Scope::User && one.path.starts_with(&project))
    };
    let failed: Vec<String> = if looking.is_only() {
        Vec::new()
    } else {
        let names: Vec<String> = names.into_iter().filter(of_project).collect();
        let unpinned = forget(machine, &names).err();
        unpinned
            .map(|error| format!("it is removed, and still pinned: {}", failure::message(&error)))
            .into_iter()
            .collect()
    };
    if removals.is_empty() && looking.check {
        output.line(style::faint("nothing to remove"));
    }
    show(machine, &removals, looking.is_only(), output);
    for note in &notes {
        output.note(format!("{} {note}", style::warning("note:")));
    }
    let report = json!({
        "dry_run": looking.is_only(),
        "removed": removals.iter().map(|removal| json!({
            "path": removal.install.path.to_string_lossy(),
            "scope": removal.install.scope,
            "agents": removal.install.agents,
            "backup": removal.backup.as_ref().map(|path| path.to_string_lossy()),
        })).collect::<Vec<_>>(),
        "recovered": recovered,
        "notes": notes,
    });
    let failed = [failed, failure::pending(removals.len(), looking)].concat();
    Ok(failure::end(report, put_back, &failed, output))
}

fn is_ours(install: &Install) -> bool {
    install.has_receipt() || install.link_is_ours
}

/// The names of what kernels installed at these places.
fn ours(places: &[Place]) -> Vec<String> {
    let mut names: Vec<String> =
        discover::installs(places, &[]).into_iter().filter(is_ours).map(|install| install.name).collect();
    names.sort();
    names.dedup();
    names
}

/// Removes from skills-lock.json the skills of which the project has no copy any more.
fn forget(machine: &Machine, names: &[String]) -> Result<()> {
    let pins = Pins::read(machine.project())?;
    let left = discover::installs(&discover::all_places(machine, &[Scope::Project]), names);
    let gone = |name: &&String| pins.get(name).is_some() && !left.iter().any(|install| install.name == **name);
    names.iter().filter(gone).try_for_each(|name| Pins::remove(machine.project(), name))
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
    let all: Vec<_> = all.iter().filter(|install| install.name == name).collect();
    if all.is_empty() {
        let everywhere = discover::all_places(machine, &[Scope::Project, Scope::User]);
        bail!("{name} is not installed; {}", target::did_you_mean(name, &everywhere));
    }
    let elsewhere: Vec<_> =
        all.iter().map(|install| format!("{} ({} level)", machine.show(&install.path), install.scope)).collect();
    bail!(
        "{name} is not installed there, but in {}; name the agent, or --global for the user level",
        elsewhere.join(", ")
    );
}
