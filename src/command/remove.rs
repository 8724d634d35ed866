//! `kernels skills remove`.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, bail};
use serde_json::json;

use super::{add, failure, status, target};
use crate::agent::{Machine, Scope};
use crate::cli::skills;
use crate::install::discover::{self, Install};
use crate::install::pins::{self, Pins};
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
    // Before folders that become empty go.
    let of_project = discover::all_places(machine, &[Scope::Project]);
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
    let from_elsewhere = targets.iter().any(|install| install.address().is_some());
    let options = Options { force: arguments.force, ..Options::default() };
    let Removed { removals, put_back, notes } = if looking.is_only() {
        Removed { removals: remove::plan(&targets, &all, options)?, ..Removed::default() }
    } else {
        remove::remove(machine, &targets, &all, options)?
    };
    let failed = if looking.is_only() {
        None
    } else {
        let gone = removals.iter().map(|removal| removal.install.path.as_path());
        let gone: Vec<&Path> = gone.chain(recovered.iter().map(|one| one.path.as_path())).collect();
        let unpinned = forget(machine, &of_project, &names, &gone).err();
        unpinned
            .filter(|_| from_elsewhere)
            .map(|error| format!("removed, and {} was not changed: {}", pins::FILE, failure::message(&error)))
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
    let failed: Vec<String> = failed.into_iter().chain(failure::pending(removals.len(), looking)).collect();
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

/// Removes from skills-lock.json the skills that are gone from one of the project's places, and of which it has no copy any more.
fn forget(machine: &Machine, places: &[Place], names: &[String], gone: &[&Path]) -> Result<()> {
    let was_here = |name: &&String| places.iter().any(|place| gone.contains(&place.dest(name).as_path()));
    let names: Vec<String> = names.iter().filter(was_here).cloned().collect();
    if names.is_empty() {
        return Ok(());
    }
    let pins = Pins::read(machine.project())?;
    let left = discover::installs(places, &names);
    let is_pinned = |name: &&String| pins.get(name).is_some() && !left.iter().any(|install| install.name == **name);
    names.iter().filter(is_pinned).try_for_each(|name| Pins::remove(machine.project(), name))
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
