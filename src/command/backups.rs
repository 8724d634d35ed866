//! `kernels skills backups`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use serde_json::{Value, json};

use super::{status, target};
use crate::agent::Machine;
use crate::base::text::for_shell;
use crate::cli::skills::Select;
use crate::install::backups::{self, Backup, What};
use crate::report::{Output, style};

/// Lists the backups with what was edited in each.
pub(crate) fn run(machine: &Machine, select: &Select, output: Output) -> Result<ExitCode> {
    let places = target::places_to_search(machine, &select.targets)?;
    let recovered = status::recover(machine, &places, output);
    let all = backups::list(&places, &select.names);
    let named = target::is_named(&select.targets).then_some(&places[..]);
    let others = |backup: &Backup| -> Vec<PathBuf> {
        backup.others(named).into_iter().map(|folder| folder.join(&backup.skill)).collect()
    };
    for backup in &all {
        let version = match &backup.what {
            What::Install { version, .. } => version.clone().unwrap_or_else(|| "without a version".to_owned()),
            What::Folder => "a folder that kernels did not install".to_owned(),
            What::File => "a file".to_owned(),
            What::Link(to) => format!("a link to {}", to.display()),
        };
        let dests = std::iter::once(backup.dest()).chain(others(backup));
        let dests: Vec<String> = dests.map(|dest| machine.show(&dest)).collect();
        let from = style::faint(format!("from {}, {}", dests.join(" or "), backup.when));
        output.line(format!("  {}  {version}  {from}", style::strong(&backup.id)));
        if let What::Install { changes, .. } = &backup.what {
            for change in changes {
                output.line(format!("      {} {}", change.kind.letter(), change.path));
            }
        }
    }
    // Without --dest, `restore` looks only in the agents' own folders.
    let to: Vec<String> = select.targets.dest.iter().map(|dest| format!(" --dest {}", for_shell(dest))).collect();
    output.line(style::faint(match all.as_slice() {
        [] => "no backups".to_owned(),
        _ => format!("`kernels skills restore ID{}` puts one back", to.concat()),
    }));
    let listed: Vec<Value> = all.iter().map(|backup| to_json(backup, &others(backup))).collect();
    output.json(&json!({ "backups": listed, "recovered": recovered }));
    Ok(ExitCode::SUCCESS)
}

fn to_json(backup: &Backup, others: &[PathBuf]) -> Value {
    let (kind, version, changes) = match &backup.what {
        What::Install { version, changes } => ("install", version.as_ref(), changes.as_slice()),
        What::Folder => ("folder", None, [].as_slice()),
        What::File => ("file", None, [].as_slice()),
        What::Link(_) => ("link", None, [].as_slice()),
    };
    json!({
        "id": backup.id,
        "skill": backup.skill,
        "version": version,
        "made": backup.when,
        "kind": kind,
        "changes": changes,
        "path": backup.path.to_string_lossy(),
        "from": backup.dest().to_string_lossy(),
        "or_from": others.iter().map(|path| path.to_string_lossy()).collect::<Vec<_>>(),
        "scope": backup.place.scope,
    })
}
