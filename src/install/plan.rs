//! The steps of an `add` or an `update`, determined before anything is changed.

use std::fs;
use std::path::{Path, PathBuf};

use super::elsewhere;
use super::merge;
use super::place::{Place, link_file, merge as merge_places};
use super::protect::protect;
use super::receipt::{recordable, relative};
use super::refusal::Refused;
use super::state::{Foreign, Judgement, State, judge};
use super::step::{Action, Merge, Options, Step};
use super::transaction::{OldTree, link_fingerprint};
use crate::agent::table::{self, Copies};
use crate::agent::{Agent, Machine, Scope};
use crate::skill::source::{Skill, Source};
use crate::skill::tree::SKILL_MD;

/// All steps, real copies before links, and everything protected.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plan {
    pub(crate) steps: Vec<Step>,
    /// Protected places. If there are any, nothing is done at all.
    pub(crate) refused: Vec<Refused>,
    pub(crate) notes: Vec<String>,
    /// All skills folders examined.
    pub(crate) folders: Vec<PathBuf>,
}

/// Plans installing `skill` at `places`.
pub(crate) fn plan(machine: &Machine, skill: &Skill, places: Vec<Place>, options: Options) -> Plan {
    let mut plan = Plan::default();
    let mut places = merge_places(places);
    follow_links(machine, &skill.name, &mut places);
    let left_out = leave_out(machine, skill, &mut places);
    let links = choose_links(machine, skill, &mut places, options);
    plan.folders = places.iter().map(|place| place.folder.clone()).collect();
    let mut originals = Vec::new();
    for place in places {
        let dest = place.dest(&skill.name);
        if is_source(skill, &dest) {
            originals.push(format!("{}: is the source itself, and stays as it is", machine.show(&dest)));
            plan.steps.push(Step { place, action: Action::Unchanged, old: OldTree::default(), created_folders: 0 });
            continue;
        }
        if let Some(source) = source_around(skill, &dest) {
            plan.refused.push(inside_its_source(&dest, source));
            continue;
        }
        let judged = judge(&dest, &skill.name, Some(skill));
        let link = links.iter().find(|link| link.folder == place.folder);
        let decided = match link {
            Some(link) => {
                let is_last = is_last_copy(machine, skill, &place, &judged);
                decide_link(link, (&dest, place.scope), &judged, is_last, options)
            }
            None => decide_copy(machine, skill, &place, &judged, options),
        };
        match decided {
            Ok((action, old)) => {
                let created_folders = judged.receipt.as_ref().map_or(0, |r| r.created_folders);
                plan.steps.push(Step { place, action, old, created_folders });
            }
            Err(refused) => plan.refused.push(refused),
        }
    }
    // Create a link only after its target.
    plan.steps.sort_by_key(|step| matches!(step.action, Action::Link { .. }));
    plan.notes = elsewhere::notes(machine, skill, &plan.steps);
    plan.notes.extend(left_out);
    plan.notes.extend(originals);
    plan
}

/// The folder that a skill is read from.
fn source_folder(skill: &Skill) -> Option<&Path> {
    match &skill.source {
        Source::Folder { path } => path.as_deref(),
        _ => None,
    }
}

/// Whether `dest` is the folder that the skill is read from. With a receipt, or as a link, the only copy of somebody's work
/// would count as one of several, which `remove` deletes.
fn is_source(skill: &Skill, dest: &Path) -> bool {
    source_folder(skill) == Some(dest)
}

/// The folder that the skill is read from, where `dest` lies in it.
fn source_around<'a>(skill: &'a Skill, dest: &Path) -> Option<&'a Path> {
    source_folder(skill).filter(|source| dest.starts_with(source))
}

fn inside_its_source(dest: &Path, source: &Path) -> Refused {
    Refused {
        path: dest.to_path_buf(),
        reason: format!(
            "lies inside its source {}, so that each update would copy the last install as well",
            source.display()
        ),
        changes: Vec::new(),
        advice: vec![
            "choose a place outside of the source, or move the skill's files into a folder of their own".to_owned(),
        ],
    }
}

/// Drops the empty places of agents that report a second copy as a conflict, a link too, where they find the skill in
/// another of their folders.
fn leave_out(machine: &Machine, skill: &Skill, places: &mut Vec<Place>) -> Vec<String> {
    let mut notes = Vec::new();
    let all = places.clone();
    places.retain(|place| {
        let dest = place.dest(&skill.name);
        let warns = !place.agents.is_empty() && place.agents.iter().all(|agent| agent.copies == Copies::Warn);
        if !warns || fs::symlink_metadata(&dest).is_ok() {
            return true;
        }
        let is_there = |folder: &PathBuf| {
            let there = folder.join(&skill.name).canonicalize();
            let current =
                |there: PathBuf| matches!(judge(&there, &skill.name, Some(skill)).state, State::Current { .. });
            *folder != place.folder && (all.iter().any(|other| other.folder == *folder) || there.is_ok_and(current))
        };
        let finds = |agent: &&Agent| {
            let folders = machine.folders_read(agent, place.scope);
            folders.iter().filter_map(|folder| super::place::resolve(folder).ok()).find(is_there)
        };
        let found: Vec<_> = place.agents.iter().map(|agent| finds(agent).map(|folder| (agent, folder))).collect();
        let Some(found) = found.into_iter().collect::<Option<Vec<_>>>() else {
            return true;
        };
        notes.extend(found.iter().map(|(agent, folder)| {
            let (name, there) = (&agent.name, machine.show(&folder.join(&skill.name)));
            format!("{}: left out; {name} finds {there} and would report a conflict", machine.show(&dest))
        }));
        false
    });
    notes
}

/// A place whose skill is to be a link.
struct Link {
    folder: PathBuf,
    primary: PathBuf,
    only: bool,
}

/// Replaces a place that links to another agent's copy by the place of that copy.
fn follow_links(machine: &Machine, name: &str, places: &mut Vec<Place>) {
    let mut found = Vec::new();
    for place in places.iter() {
        if let Some(folder) = linked_folder(machine, &place.dest(name), name, place.scope) {
            found.push(Place { folder, scope: place.scope, agents: place.agents.clone() });
        }
    }
    places.extend(found);
    *places = merge_places(std::mem::take(places));
}

/// The skills folder that a link at `dest` points into, if it is in the table.
fn linked_folder(machine: &Machine, dest: &Path, name: &str, scope: Scope) -> Option<PathBuf> {
    let to = fs::read_link(dest).ok().or_else(|| link_file(dest))?;
    let real = dest.parent()?.join(to).canonicalize().ok()?;
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

/// Decides which places get links: with `--link` all but one; otherwise those where an agent that
/// lists every copy would find a second one.
fn choose_links(machine: &Machine, skill: &Skill, places: &mut Vec<Place>, options: Options) -> Vec<Link> {
    let mut links: Vec<Link> = Vec::new();
    let lists_each = |agent: &&'static Agent| agent.copies == Copies::Each;
    for agent in table::all().iter().filter(lists_each) {
        for scope in [Scope::Project, Scope::User] {
            links.extend(links_of_agent(machine, agent, scope, skill, places));
        }
    }
    if options.link {
        link_all(&mut links, places, skill);
    }
    links
}

/// The links that keep an agent that lists every copy from finding a second one. An existing copy stays
/// the real one, and is planned too.
fn links_of_agent(
    machine: &Machine,
    agent: &'static Agent,
    scope: Scope,
    skill: &Skill,
    places: &mut Vec<Place>,
) -> Vec<Link> {
    let name = &skill.name;
    let folders: Vec<PathBuf> =
        machine.folders_read(agent, scope).iter().filter_map(|folder| super::place::resolve(folder).ok()).collect();
    let planned = || places.iter().filter(|p| folders.contains(&p.folder));
    let unplanned: Vec<_> = folders
        .iter()
        .filter(|folder| !places.iter().any(|p| p.folder == **folder))
        .filter(|folder| is_real(&folder.join(name)))
        .cloned()
        .collect();
    if planned().next().is_none() || planned().count() + unplanned.len() < 2 {
        return Vec::new();
    }
    let there = unplanned.first().cloned();
    let Some(primary) = there.clone().or_else(|| primary(planned(), skill)) else {
        return Vec::new();
    };
    let links = planned()
        .filter(|place| place.folder != primary)
        .map(|place| Link {
            folder: place.folder.clone(),
            primary: primary.join(name),
            only: place.agents.iter().all(|a| a.copies == Copies::Each),
        })
        .collect();
    if let Some(folder) = there {
        places.push(Place { folder, scope, agents: vec![agent] });
    }
    links
}

/// Makes every place but one a link, for `--link`.
fn link_all(links: &mut Vec<Link>, places: &[Place], skill: &Skill) {
    let linkable = || places.iter().filter(|place| place.scope != Scope::Dest);
    let candidates = linkable().filter(|p| !links.iter().any(|link| link.folder == p.folder));
    let Some(primary) = primary(candidates, skill) else {
        return;
    };
    for place in linkable().filter(|place| place.folder != primary) {
        links.retain(|link| link.folder != place.folder);
        links.push(Link { folder: place.folder.clone(), primary: primary.join(&skill.name), only: false });
    }
}

/// The place for the real copy: the source, else an existing one, else the shared folder, else the first.
fn primary<'a>(places: impl Iterator<Item = &'a Place>, skill: &Skill) -> Option<PathBuf> {
    let places: Vec<_> = places.collect();
    let is_original = |place: &&&Place| is_source(skill, &place.dest(&skill.name));
    places
        .iter()
        .find(is_original)
        .or_else(|| places.iter().find(|place| is_real(&place.dest(&skill.name))))
        .or_else(|| places.iter().find(|p| p.agents.iter().any(|agent| agent.id == "agents")))
        .or_else(|| places.first())
        .map(|place| place.folder.clone())
}

fn is_real(dest: &Path) -> bool {
    fs::symlink_metadata(dest).is_ok_and(|meta| !meta.is_symlink()) && link_file(dest).is_none()
}

type Decision = Result<(Action, OldTree), Refused>;

/// Whether the tree at a place may be the last copy of what it was installed from: another source takes its place, and its own is
/// not known, or gone. Two sources outside the project, which its receipts do not name, are not told apart.
fn is_last_copy(machine: &Machine, skill: &Skill, place: &Place, judged: &Judgement) -> bool {
    let Some(receipt) = &judged.receipt else { return false };
    let at = |path: &Option<PathBuf>| path.as_ref().map(|path| place.folder.join(path));
    let is_there = match &receipt.source {
        Source::Embedded | Source::Remote { .. } => return false,
        Source::Folder { path } => at(path).is_some_and(|folder| folder.join(SKILL_MD).is_file()),
        Source::Archive { path } => at(path).is_some_and(|archive| archive.is_file()),
    };
    !is_there && recordable(&skill.source, &place.folder, place.project(machine).as_deref()) != receipt.source
}

/// What is said of an install that is the only copy of its skill, whatever its receipt says.
const ITS_OWN_SOURCE: &str = "skill that was its own source";
/// What is said of one whose source is not known, or gone.
pub(crate) const LAST_COPY: &str = "old skill, whose source is gone or not known,";

fn is_only_copy(dest: &Path, judged: &Judgement) -> bool {
    judged.receipt.as_ref().is_some_and(|receipt| receipt.names_itself(dest))
}

fn decide_copy(machine: &Machine, skill: &Skill, place: &Place, judged: &Judgement, options: Options) -> Decision {
    let dest = place.dest(&skill.name);
    let kept = OldTree { keep: true, fingerprint: None };
    let clean = OldTree { keep: false, fingerprint: judged.fingerprint.clone() };
    match &judged.state {
        State::Absent => Ok((Action::Install, OldTree::default())),
        State::Current { receipt: true } => Ok((Action::Unchanged, clean)),
        State::Current { receipt: false } => Ok((Action::Adopt, clean)),
        State::Stale | State::Unchecked | State::Missing(_) if is_only_copy(&dest, judged) => {
            Ok((Action::Replace { what: ITS_OWN_SOURCE.to_owned() }, kept))
        }
        State::Stale | State::Unchecked | State::Missing(_) if is_last_copy(machine, skill, place, judged) => {
            Ok((Action::Update { from: judged.version.clone(), last_copy: true }, OldTree { keep: true, ..clean }))
        }
        State::Stale | State::Unchecked => {
            Ok((Action::Update { from: judged.version.clone(), last_copy: false }, clean))
        }
        State::Missing(changes) => Ok((Action::Repair(changes.clone()), clean)),
        State::Foreign(Foreign::Link(to)) if linked_folder(machine, &dest, &skill.name, place.scope).is_some() => {
            Ok((Action::KeepLink { to: to.clone() }, OldTree::default()))
        }
        State::Foreign(Foreign::LinkFile(to)) if linked_folder(machine, &dest, &skill.name, place.scope).is_some() => {
            Ok((Action::Link { to: to.clone(), only: false, replaces: None }, clean))
        }
        State::Modified(_) if options.merge != Merge::No => {
            merge::decide(skill, (&dest, place.scope), judged, options.merge)
        }
        State::Unreadable(_) | State::Newer | State::Modified(_) | State::Foreign(_) => {
            let what = protect((&dest, place.scope), judged, options, "add")?;
            Ok((Action::Replace { what }, kept))
        }
    }
}

fn decide_link(
    link: &Link,
    (dest, scope): (&Path, Scope),
    judged: &Judgement,
    is_last: bool,
    options: Options,
) -> Decision {
    let to = relative(&link.folder, &link.primary);
    let place = |replaces| Action::Link { to: to.clone(), only: link.only, replaces };
    match &judged.state {
        State::Absent => Ok((place(None), OldTree::default())),
        State::Unchecked | State::Stale | State::Missing(_) if is_last => {
            Ok((place(Some(LAST_COPY.to_owned())), OldTree { keep: true, fingerprint: judged.fingerprint.clone() }))
        }
        State::Current { .. } | State::Unchecked | State::Stale | State::Missing(_) if is_only_copy(dest, judged) => {
            Ok((place(Some(ITS_OWN_SOURCE.to_owned())), OldTree { keep: true, fingerprint: None }))
        }
        State::Current { .. }
        | State::Unchecked
        | State::Stale
        | State::Missing(_)
        | State::Foreign(Foreign::LinkFile(_)) => {
            Ok((place(None), OldTree { keep: false, fingerprint: judged.fingerprint.clone() }))
        }
        State::Foreign(Foreign::Link(there)) if *there == to => {
            Ok((Action::KeepLink { to: to.clone() }, OldTree::default()))
        }
        // A link to the same copy with another spelling can be rewritten without loss.
        State::Foreign(Foreign::Link(there)) if dest.canonicalize().is_ok_and(|real| real == link.primary) => {
            let fingerprint = Some(link_fingerprint(there));
            Ok((place(None), OldTree { keep: false, fingerprint }))
        }
        State::Unreadable(_) | State::Newer | State::Modified(_) | State::Foreign(_) => {
            let what = protect((dest, scope), judged, options, "add")?;
            Ok((place(Some(what)), OldTree { keep: true, fingerprint: None }))
        }
    }
}
