//! Removes installs.

use std::fs;
use std::path::PathBuf;

use anyhow::Result;

use super::area::Area;
use super::discover::Install;
use super::lock::Lock;
use super::place::remove_empty;
use super::protect::protect;
use super::refusal::{Refusal, Refused};
use super::state::{Foreign, State, judge};
use super::step::Options;
use super::transaction::{OldTree, Transaction, link_fingerprint, recover_area};
use crate::agent::Machine;

/// An install to remove, or removed.
#[derive(Clone, Debug)]
pub(crate) struct Removal {
    pub(crate) install: Install,
    pub(crate) backup: Option<PathBuf>,
    /// How to treat its tree: as it was judged, whatever has happened to it since.
    old: OldTree,
    created_folders: usize,
}

/// The outcome of a removal.
#[derive(Debug, Default)]
pub(crate) struct Removed {
    pub(crate) removals: Vec<Removal>,
    /// Installs that somebody edited meanwhile; they are in their places.
    pub(crate) put_back: Vec<Refused>,
    pub(crate) notes: Vec<String>,
}

/// Determines what to remove: everything selected, or, when anything is protected, a refusal. `all` is
/// every known install of the skill, so that no dangling link remains.
pub(crate) fn plan(targets: &[Install], all: &[Install], options: Options) -> Result<Vec<Removal>, Refusal> {
    let mut removals = Vec::new();
    let mut refused = Vec::new();
    for install in targets {
        let judged = judge(&install.path, &install.name, None);
        let keep = match &judged.state {
            State::Foreign(Foreign::Link(_) | Foreign::LinkFile(_)) if install.link_is_ours => false,
            State::Current { .. } | State::Unchecked | State::Stale | State::Newer | State::Missing(_) => {
                judged.receipt.as_ref().is_some_and(|receipt| receipt.names_itself(&install.path))
            }
            _ => match protect((&install.path, install.scope), &judged, options, "remove") {
                Ok(_) => true,
                Err(why) => {
                    refused.push(why);
                    continue;
                }
            },
        };
        if let Some(why) = dangling(install, targets, all) {
            refused.push(why);
            continue;
        }
        let fingerprint = match &install.link {
            Some(to) => Some(link_fingerprint(to)),
            None => judged.fingerprint,
        };
        // A link has no receipt; its skills folder and the parent are removed only when empty.
        let created_folders = match judged.receipt {
            Some(receipt) => receipt.created_folders,
            None if install.link.is_some() || install.link_file.is_some() => 2,
            None => 0,
        };
        let old = OldTree { keep, fingerprint };
        removals.push(Removal { install: install.clone(), backup: None, old, created_folders });
    }
    if refused.is_empty() { Ok(removals) } else { Err(Refusal(refused)) }
}

fn dangling(install: &Install, targets: &[Install], all: &[Install]) -> Option<Refused> {
    if install.link.is_some() {
        return None;
    }
    let real = install.path.canonicalize().ok()?;
    let left: Vec<_> = all
        .iter()
        .filter(|other| other.link.is_some() && !targets.iter().any(|t| t.path == other.path))
        .filter(|other| other.path.canonicalize().is_ok_and(|to| to == real))
        .map(|other| other.path.display().to_string())
        .collect();
    (!left.is_empty()).then(|| Refused {
        path: install.path.clone(),
        reason: format!("is what {} links to", left.join(" and ")),
        changes: Vec::new(),
        advice: vec!["remove them together: name both agents, or none for all".to_owned()],
    })
}

fn edited_meanwhile(install: &Install) -> Refused {
    Refused {
        path: install.path.clone(),
        reason: "was edited while it was being removed, and was put back:".to_owned(),
        changes: judge(&install.path, &install.name, None).state.changes().to_vec(),
        advice: vec!["--force moves it to a backup, then removes it".to_owned()],
    }
}

/// Removes the installs, links before their targets. Each is moved away first and judged again there, where nobody
/// finds it by its path: one that was edited since the plan is put back.
pub(crate) fn remove(machine: &Machine, targets: &[Install], all: &[Install], options: Options) -> Result<Removed> {
    super::note_change();
    let mut areas = Vec::new();
    for install in targets {
        areas.push(Area::of(&install.folder));
    }
    let locks = Lock::all(areas.iter().map(|area| area.host().to_path_buf()).collect())?;
    for area in &areas {
        if let Ok(area) = area.held(&locks) {
            recover_area(&area)?;
        }
    }
    // Another process may have removed some since.
    let targets: Vec<_> = targets.iter().filter(|i| fs::symlink_metadata(&i.path).is_ok()).cloned().collect();
    let mut planned = plan(&targets, all, options)?;
    planned.sort_by_key(|removal| removal.install.link.is_none());
    let mut emptied = Vec::new();
    let mut removed = Removed::default();
    for mut removal in planned {
        let install = &removal.install;
        let area = Area::of(&install.folder).held(&locks)?;
        let settled = Transaction::removal(&area, &install.name, &removal.old)?.commit()?;
        removed.notes.extend(settled.notes());
        if settled.put_back {
            removed.put_back.push(edited_meanwhile(install));
            continue;
        }
        emptied.push((install.folder.clone(), removal.created_folders));
        removal.backup = settled.backup;
        removed.removals.push(removal);
    }
    for (folder, created) in emptied {
        // Never delete the project's folder or the home, whatever a receipt says.
        let limit = folder
            .ancestors()
            .take_while(|above| *above != machine.project() && Some(*above) != machine.home.as_deref())
            .count();
        remove_empty(&folder, created.min(limit));
    }
    drop(locks);
    Ok(removed)
}
