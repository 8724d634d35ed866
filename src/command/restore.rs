//! `kernels skills restore`.

use std::fs;
use std::process::ExitCode;

use anyhow::{Result, bail};
use serde_json::json;

use super::failure::Usage;
use super::{add, sync, target};
use crate::agent::Machine;
use crate::cli::skills;
use crate::install::apply;
use crate::install::backups::{self, Backup};
use crate::install::transaction::{RESTORED, Settled};
use crate::report::{Output, style};

/// Puts a backup back; without one, installs what is pinned.
pub(crate) fn run(machine: &Machine, arguments: &skills::Restore, output: Output) -> Result<ExitCode> {
    let Some(id) = &arguments.id else {
        let looking = skills::Looking { dry_run: arguments.dry_run, check: false };
        return sync::run(machine, &skills::Sync { init: false, yes: false, force: false, looking }, output);
    };
    let places = target::places_to_search(machine, &arguments.targets)?;
    let recovered = if arguments.dry_run { Vec::new() } else { apply::recover(&places)? };
    add::show_recovered(machine, &recovered, output);
    let Some(backup) = find(machine, id, backups::list(&places, &[]))? else {
        if recovered.iter().any(|recovered| recovered.what == RESTORED) {
            output.json(&json!({ "dry_run": false, "id": id, "recovered": recovered, "notes": [] }));
            return Ok(ExitCode::SUCCESS);
        }
        bail!("there is no backup {id} there; `kernels skills backups` lists them");
    };
    let others = backup.others(target::is_named(&arguments.targets).then_some(&places[..]));
    if !others.is_empty() {
        let folders = std::iter::once(backup.place.folder.as_path()).chain(others.iter().copied());
        let folders: Vec<String> = folders.map(|folder| machine.show(folder)).collect();
        let (id, folders, first) = (&backup.id, folders.join(" or "), &folders[0]);
        return Err(Usage(format!("{id} is from {folders}, and does not say which; name it: --dest {first}")).into());
    }
    let dest = backup.dest();
    let settled = if arguments.dry_run { Settled::default() } else { backups::restore(&backup)? };
    let word = if arguments.dry_run { "restore" } else { "restored" };
    output.line(format!("  {} {}", style::good(word), machine.show(&dest)));
    if arguments.dry_run && fs::symlink_metadata(&dest).is_ok() {
        output.line("           what is there is moved to a backup first");
    }
    if let Some(kept) = &settled.backup {
        output.line(format!("           what was there is kept in {}", style::strong(machine.show(kept))));
    }
    for note in settled.notes() {
        output.note(format!("{} {note}", style::warning("note:")));
    }
    output.json(&json!({
        "dry_run": arguments.dry_run,
        "id": backup.id,
        "path": dest.to_string_lossy(),
        "backup": settled.backup.as_ref().map(|path| path.to_string_lossy()),
        "recovered": recovered,
        "notes": settled.notes(),
    }));
    Ok(ExitCode::SUCCESS)
}

/// The backup of this id, or at this path.
fn find(machine: &Machine, id: &str, all: Vec<Backup>) -> Result<Option<Backup>> {
    let named = machine.cwd.join(id);
    let path = named.parent().and_then(|above| above.canonicalize().ok()).zip(named.file_name());
    let path = path.map(|(above, name)| above.join(name));
    let mut found: Vec<Backup> =
        all.into_iter().filter(|backup| backup.id == id || Some(&backup.path) == path.as_ref()).collect();
    if found.len() > 1 {
        let paths: Vec<String> = found.iter().map(|backup| machine.show(&backup.path)).collect();
        return Err(Usage(format!("{id} is in several places; name the agent, or a path: {}", paths.join(", "))).into());
    }
    Ok(found.pop())
}
