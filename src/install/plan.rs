//! What an `add` or an `update` is going to do, worked out before anything is touched.

use std::fs;
use std::path::{Path, PathBuf};

use super::elsewhere;
use super::place::{Place, merge};
use super::receipt::relative;
use super::refusal::Refused;
use super::scan::Change;
use super::state::{Foreign, Judgement, State, judge};
use super::transaction::{OldTree, link_fingerprint};
use crate::agent::table::{self, Copies};
use crate::agent::{Machine, Scope};
use crate::skill::source::Skill;

/// How to treat what is already there.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Replace what is protected, after moving it to a backup.
    pub force: bool,
    /// One real copy, links elsewhere.
    pub link: bool,
}

/// What happens at one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Put the skill where nothing is.
    Install,
    /// Write a receipt beside a copy that is the skill already.
    Adopt,
    /// Replace an untouched other version.
    Update {
        /// The version that is there, where it is known.
        from: Option<String>,
    },
    /// Put back files that are gone.
    Repair(Vec<Change>),
    /// Move what is there to a backup and put the skill in its place.
    Replace {
        /// What is there.
        what: String,
    },
    /// Put a relative link.
    Link {
        /// Where it points, from the skills folder.
        to: PathBuf,
        /// Whether a copy must not stand in for it: some agent would list the skill twice.
        only: bool,
        /// What is moved to a backup for it, if anything is.
        replaces: Option<String>,
    },
    /// Nothing: it is there.
    Unchanged,
    /// Nothing: a link is there already.
    KeepLink {
        /// Where it points, as written.
        to: PathBuf,
    },
}

/// One place and what happens there.
#[derive(Clone, Debug)]
pub struct Step {
    /// Where.
    pub place: Place,
    /// What.
    pub action: Action,
    /// What is to become of what is there.
    pub old: OldTree,
    /// How many folders above an existing install it had created, to be remembered.
    pub created_folders: usize,
}

/// All steps, real copies before links, and everything that is protected.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// What would be done.
    pub steps: Vec<Step>,
    /// What must not be touched. When there is any, nothing is done at all.
    pub refused: Vec<Refused>,
    /// What a person should know.
    pub notes: Vec<String>,
    /// All skills folders that were looked at.
    pub folders: Vec<PathBuf>,
}

/// Plans installing `skill` at `places`.
pub fn plan(machine: &Machine, skill: &Skill, places: Vec<Place>, options: Options) -> Plan {
    let mut plan = Plan::default();
    let mut places = merge(places);
    follow_links(machine, &skill.name, &mut places);
    let links = choose_links(machine, &skill.name, &mut places, options);
    plan.folders = places.iter().map(|place| place.folder.clone()).collect();
    for place in places {
        let dest = place.dest(&skill.name);
        let judged = judge(&dest, &skill.name, Some(skill));
        let link = links.iter().find(|link| link.folder == place.folder);
        let decided = match link {
            Some(link) => decide_link(link, &dest, &judged, options),
            None => decide_copy(machine, skill, &place, &judged, options),
        };
        match decided {
            Ok((action, old)) => {
                let created_folders = judged.receipt.as_ref().map_or(0, |r| r.created_folders);
                plan.steps.push(Step {
                    place,
                    action,
                    old,
                    created_folders,
                });
            }
            Err(refused) => plan.refused.push(refused),
        }
    }
    // A link must never be there before what it points to.
    plan.steps
        .sort_by_key(|step| matches!(step.action, Action::Link { .. }));
    plan.notes = elsewhere::notes(machine, skill, &plan.steps);
    plan
}

/// A place whose skill is to be a link.
struct Link {
    folder: PathBuf,
    primary: PathBuf,
    only: bool,
}

/// Where a place holds a link to another agent's copy, that copy is what is really meant.
fn follow_links(machine: &Machine, name: &str, places: &mut Vec<Place>) {
    let mut found = Vec::new();
    for place in places.iter() {
        if let Some(folder) = linked_folder(machine, &place.dest(name), name, place.scope) {
            found.push(Place {
                folder,
                scope: place.scope,
                agents: place.agents.clone(),
            });
        }
    }
    places.extend(found);
    *places = merge(std::mem::take(places));
}

/// The skills folder that a link at `dest` points into, if it is one of the table's.
fn linked_folder(machine: &Machine, dest: &Path, name: &str, scope: Scope) -> Option<PathBuf> {
    fs::read_link(dest).ok()?;
    let real = dest.canonicalize().ok()?;
    let folder = real.parent()?;
    if real.file_name()? != name {
        return None;
    }
    let known = table::all()
        .iter()
        .flat_map(|agent| machine.folders_read(agent, scope))
        .any(|known| known.canonicalize().is_ok_and(|known| known == folder));
    known.then(|| folder.to_path_buf())
}

/// Decides which places hold links: with `--link` all but one; otherwise where an agent that lists
/// every copy would find a second one.
fn choose_links(
    machine: &Machine,
    name: &str,
    places: &mut Vec<Place>,
    options: Options,
) -> Vec<Link> {
    let mut links: Vec<Link> = Vec::new();
    for agent in table::all()
        .iter()
        .filter(|agent| agent.copies == Copies::Each)
    {
        for scope in [Scope::Project, Scope::User] {
            let folders: Vec<PathBuf> = machine
                .folders_read(agent, scope)
                .iter()
                .filter_map(|folder| super::place::resolve(folder).ok())
                .collect();
            let planned = || places.iter().filter(|p| folders.contains(&p.folder));
            if planned().next().is_none() {
                continue;
            }
            let unplanned: Vec<_> = folders
                .iter()
                .filter(|folder| !places.iter().any(|p| p.folder == **folder))
                .filter(|folder| is_real(&folder.join(name)))
                .cloned()
                .collect();
            if planned().count() + unplanned.len() < 2 {
                continue;
            }
            let primary = unplanned
                .first()
                .cloned()
                .or_else(|| primary(places.iter().filter(|p| folders.contains(&p.folder)), name));
            let Some(primary) = primary else { continue };
            for place in planned().filter(|place| place.folder != primary) {
                let only = place.agents.iter().all(|a| a.copies == Copies::Each);
                links.push(Link {
                    folder: place.folder.clone(),
                    primary: primary.join(name),
                    only,
                });
            }
            if unplanned.contains(&primary) {
                places.push(Place {
                    folder: primary,
                    scope,
                    agents: vec![agent],
                });
            }
        }
    }
    if options.link {
        let linkable = |p: &&Place| p.scope != Scope::Dest;
        let taken: Vec<_> = links.iter().map(|link| link.folder.clone()).collect();
        let candidates = places
            .iter()
            .filter(linkable)
            .filter(|p| !taken.contains(&p.folder));
        if let Some(primary) = primary(candidates, name) {
            for place in places
                .iter()
                .filter(linkable)
                .filter(|p| p.folder != primary)
            {
                links.retain(|link| link.folder != place.folder);
                links.push(Link {
                    folder: place.folder.clone(),
                    primary: primary.join(name),
                    only: false,
                });
            }
        }
    }
    links
}

/// The place for the one real copy: where one is already, else the shared folder, else the first.
fn primary<'a>(places: impl Iterator<Item = &'a Place>, name: &str) -> Option<PathBuf> {
    let places: Vec<_> = places.collect();
    places
        .iter()
        .find(|place| is_real(&place.dest(name)))
        .or_else(|| {
            places
                .iter()
                .find(|p| p.agents.iter().any(|agent| agent.id == "agents"))
        })
        .or_else(|| places.first())
        .map(|place| place.folder.clone())
}

fn is_real(dest: &Path) -> bool {
    fs::symlink_metadata(dest).is_ok_and(|meta| !meta.is_symlink())
}

type Decision = Result<(Action, OldTree), Refused>;

fn decide_copy(
    machine: &Machine,
    skill: &Skill,
    place: &Place,
    judged: &Judgement,
    options: Options,
) -> Decision {
    let dest = place.dest(&skill.name);
    let clean = OldTree {
        keep: false,
        fingerprint: judged.fingerprint.clone(),
    };
    match &judged.state {
        State::Absent => Ok((Action::Install, OldTree::default())),
        State::Current { receipt: true } => Ok((Action::Unchanged, clean)),
        State::Current { receipt: false } => Ok((Action::Adopt, clean)),
        State::Stale => Ok((
            Action::Update {
                from: judged.version.clone(),
            },
            clean,
        )),
        State::Missing(changes) => Ok((Action::Repair(changes.clone()), clean)),
        State::Foreign(Foreign::Link(to))
            if linked_folder(machine, &dest, &skill.name, place.scope).is_some() =>
        {
            Ok((Action::KeepLink { to: to.clone() }, OldTree::default()))
        }
        State::Unreadable(_) | State::Newer | State::Modified(_) | State::Foreign(_) => {
            let what = protect(&dest, judged, options, "add")?;
            Ok((
                Action::Replace { what },
                OldTree {
                    keep: true,
                    fingerprint: None,
                },
            ))
        }
    }
}

fn decide_link(link: &Link, dest: &Path, judged: &Judgement, options: Options) -> Decision {
    let to = relative(&link.folder, &link.primary);
    let place = |replaces| Action::Link {
        to: to.clone(),
        only: link.only,
        replaces,
    };
    match &judged.state {
        State::Absent => Ok((place(None), OldTree::default())),
        State::Current { .. } | State::Stale | State::Missing(_) => Ok((
            place(None),
            OldTree {
                keep: false,
                fingerprint: judged.fingerprint.clone(),
            },
        )),
        State::Foreign(Foreign::Link(there)) if *there == to => {
            Ok((Action::KeepLink { to: to.clone() }, OldTree::default()))
        }
        // A link that leads to the same copy by another spelling loses nothing by being rewritten.
        State::Foreign(Foreign::Link(there))
            if dest.canonicalize().is_ok_and(|real| real == link.primary) =>
        {
            let fingerprint = Some(link_fingerprint(there));
            Ok((
                place(None),
                OldTree {
                    keep: false,
                    fingerprint,
                },
            ))
        }
        State::Unreadable(_) | State::Newer | State::Modified(_) | State::Foreign(_) => {
            let what = protect(dest, judged, options, "add")?;
            Ok((
                place(Some(what)),
                OldTree {
                    keep: true,
                    fingerprint: None,
                },
            ))
        }
    }
}

/// Names what is protected at `dest`: an error without `--force`, a description with it.
pub fn protect(
    dest: &Path,
    judged: &Judgement,
    options: Options,
    command: &str,
) -> Result<String, Refused> {
    let refuse = |reason: String, changes: &[Change], advice: Vec<String>| Refused {
        path: dest.to_path_buf(),
        reason,
        changes: changes.to_vec(),
        advice,
    };
    let again = match command {
        "remove" => "--force moves it to a backup, then removes it",
        _ => "--force moves it to a backup, then installs",
    };
    let skill = dest.file_name().unwrap_or_default().to_string_lossy();
    let see = format!("`kernels skills diff {skill}` shows the edits");
    let upgrade = "upgrade kernels to manage it".to_owned();
    let (what, refused) = match &judged.state {
        State::Unreadable(why) => {
            // What cannot be read cannot be backed up by moving it blindly, forced or not.
            return Err(refuse(format!("cannot be read: {why}"), &[], vec![]));
        }
        State::Modified(changes) => (
            "edited tree",
            refuse(
                "was edited since it was installed:".to_owned(),
                changes,
                vec![see, again.to_owned()],
            ),
        ),
        State::Newer => {
            let version = judged.version.as_deref().unwrap_or("a later version");
            let reason = format!("is {version}, newer than what this kernels carries");
            (
                "newer version",
                refuse(reason, &[], vec![upgrade, again.to_owned()]),
            )
        }
        State::Foreign(Foreign::LaterReceipt) => {
            let reason = "was installed by a later kernels".to_owned();
            (
                "newer install",
                refuse(reason, &[], vec![upgrade, again.to_owned()]),
            )
        }
        State::Foreign(Foreign::Folder) => {
            let reason = "was not installed by kernels".to_owned();
            (
                "foreign folder",
                refuse(reason, &[], vec![again.to_owned()]),
            )
        }
        State::Foreign(Foreign::NotAFolder) => {
            let reason = "is not a folder".to_owned();
            ("file", refuse(reason, &[], vec![again.to_owned()]))
        }
        State::Foreign(Foreign::Link(to)) => {
            let reason = format!(
                "is a link to {}, which kernels does not write through",
                to.display()
            );
            let keep =
                "--force moves the link itself to a backup; what it points to stays".to_owned();
            ("link", refuse(reason, &[], vec![keep]))
        }
        State::Absent | State::Current { .. } | State::Stale | State::Missing(_) => {
            return Ok(String::new());
        }
    };
    if options.force {
        Ok(what.to_owned())
    } else {
        Err(refused)
    }
}
