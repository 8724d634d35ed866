//! Carries out a plan: lock, recover, plan again, stage everything, then swap.

use std::path::PathBuf;
use std::sync::OnceLock;
use std::thread;

use anyhow::{Result, bail};

use super::area::{Area, Held};
use super::discover::all_places;
use super::kept;
use super::lock::Lock;
use super::place::{Place, create_folders, merge, remove_empty};
use super::plan::{Plan, plan};
use super::receipt::{Receipt, recordable};
use super::refusal::Refusal;
use super::step::{Action, Options, Step};
use super::transaction::{Recovered, Transaction, recover_area};
use crate::agent::{Machine, Scope};
use crate::skill::source::Skill;

#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) done: Vec<Done>,
    /// Changes of interrupted runs, now finished or undone.
    pub(crate) recovered: Vec<Recovered>,
    pub(crate) notes: Vec<String>,
}

#[derive(Clone, Debug)]
pub(crate) struct Done {
    pub(crate) step: Step,
    pub(crate) backup: Option<PathBuf>,
}

/// Finishes or undoes the interrupted changes at `places`; without any, nothing is locked or
/// changed.
pub(crate) fn recover(places: &[Place]) -> Result<Vec<Recovered>> {
    let mut areas = Vec::new();
    for place in places {
        let area = Area::of(&place.folder);
        if area.has_leftovers() {
            areas.push(area);
        }
    }
    let locks = Lock::all(areas.iter().map(|area| area.host().to_path_buf()).collect())?;
    let mut recovered = Vec::new();
    for area in &areas {
        // Without a lock, its host is gone.
        if let Ok(area) = area.held(&locks) {
            recovered.extend(recover_area(&area)?);
        }
    }
    Ok(recovered)
}

/// Installs `skill` at all of `places`, or at none if anything is protected.
pub(crate) fn install(machine: &Machine, skill: &Skill, places: Vec<Place>, options: Options) -> Result<Outcome> {
    super::note_change();
    // An interrupted run can hide an install that the plan must include.
    let mut known = places.clone();
    for scope in [Scope::Project, Scope::User] {
        if places.iter().any(|place| place.scope == scope) {
            known.extend(all_places(machine, &[scope]));
        }
    }
    let early = recover(&known)?;
    // A refusal must leave no new folder, so plan once before creating any.
    let mut first = plan(machine, skill, places.clone(), options);
    if !first.refused.is_empty() {
        // Another process may be in the middle of a change: only a plan made under the lock counts.
        let _locks = lock_existing(&first.folders)?;
        first = plan(machine, skill, places.clone(), options);
        refuse(&first)?;
    }
    let wanted = merge(first.steps.into_iter().map(|step| step.place).collect());
    let mut made = Vec::new();
    let mut result = install_locked(machine, skill, places, options, &wanted, &mut made);
    if let Ok(outcome) = &mut result {
        outcome.recovered.splice(0..0, early);
    } else {
        for (folder, count) in made {
            remove_empty(&folder, count);
        }
    }
    result
}

/// How often to recreate the folders when another process removes them before they are locked.
const TRIES: usize = 5;

/// Makes the skills folders and locks them.
fn lock_folders(wanted: &[Place], made: &mut Vec<(PathBuf, usize)>) -> Result<(Vec<Area>, Vec<Lock>)> {
    let mut tried = 0;
    loop {
        let mut areas = Vec::new();
        for place in wanted {
            let created = create_folders(&place.folder)?;
            match made.iter_mut().find(|(folder, _)| *folder == place.folder) {
                Some((_, count)) => *count = created.max(*count),
                None => made.push((place.folder.clone(), created)),
            }
            areas.push(Area::of(&place.folder));
        }
        tried += 1;
        let mut hosts: Vec<_> = areas.iter().map(|area| area.host().to_path_buf()).collect();
        hosts.sort();
        hosts.dedup();
        let locks = Lock::all(hosts.clone())?;
        if locks.len() == hosts.len() && wanted.iter().all(|place| place.folder.is_dir()) {
            return Ok((areas, locks));
        }
        if tried == TRIES {
            bail!("another process keeps removing the skills folders; run the command again");
        }
    }
}

fn lock_existing(folders: &[PathBuf]) -> Result<Vec<Lock>> {
    Lock::all(folders.iter().map(|folder| Area::of(folder).host().to_path_buf()).collect())
}

fn install_locked(
    machine: &Machine,
    skill: &Skill,
    places: Vec<Place>,
    options: Options,
    wanted: &[Place],
    made: &mut Vec<(PathBuf, usize)>,
) -> Result<Outcome> {
    let (areas, locks) = lock_folders(wanted, made)?;
    let mut recovered = Vec::new();
    for area in &areas {
        recovered.extend(recover_area(&area.held(&locks)?)?);
    }
    let plan = plan(machine, skill, places, options);
    refuse(&plan)?;
    if plan.steps.iter().any(|step| !wanted.iter().any(|p| p.folder == step.place.folder)) {
        bail!("another process changed the installs meanwhile; run the command again");
    }
    // Staging is where a disk fills up or a permission is missing, so stage everything before any swap.
    let folders = |step: Step| {
        let created = made.iter().find(|(folder, _)| *folder == step.place.folder);
        let created = created.map_or(0, |(_, count)| *count) + step.created_folders;
        (step, created)
    };
    let base = OnceLock::new();
    let staged = together(plan.steps.into_iter().map(folders).collect(), |(step, created)| {
        let area = Area::of(&step.place.folder).held(&locks)?;
        prepare(machine, skill, &base, &area, step, created)
    });
    let mut outcome = Outcome { done: Vec::new(), recovered, notes: plan.notes };
    outcome.done = swap_in(skill, all_or_none(staged)?, &mut outcome.notes)?;
    Ok(outcome)
}

/// A step with its staged tree or link, if it needs one.
struct Prepared {
    step: Step,
    transaction: Option<Transaction>,
    note: Option<String>,
}

/// Runs independent work in parallel: most of it waits for the disk.
fn together<T: Send, R: Send>(items: Vec<T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    if items.len() < 2 {
        return items.into_iter().map(work).collect();
    }
    let work = &work;
    thread::scope(|scope| {
        let threads: Vec<_> = items.into_iter().map(|item| scope.spawn(move || work(item))).collect();
        // Propagate a panic of the thread.
        let join = |thread: thread::ScopedJoinHandle<'_, R>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        threads.into_iter().map(join).collect()
    })
}

fn all_or_none(staged: Vec<Result<Prepared>>) -> Result<Vec<Prepared>> {
    let (good, bad): (Vec<_>, Vec<_>) = staged.into_iter().partition(Result::is_ok);
    let good: Vec<Prepared> = good.into_iter().flatten().collect();
    match bad.into_iter().find_map(Result::err) {
        None => Ok(good),
        Some(error) => {
            good.iter().filter_map(|p| p.transaction.as_ref()).for_each(Transaction::abandon);
            Err(error)
        }
    }
}

/// Swaps everything in: real copies at once, then the links to them.
fn swap_in(skill: &Skill, staged: Vec<Prepared>, notes: &mut Vec<String>) -> Result<Vec<Done>> {
    let is_link = |prepared: &Prepared| matches!(prepared.step.action, Action::Link { .. });
    let (links, copies): (Vec<_>, Vec<_>) = staged.into_iter().partition(is_link);
    let mut done = Vec::new();
    let mut failure = None;
    for group in [copies, links] {
        if failure.is_some() {
            group.iter().filter_map(|p| p.transaction.as_ref()).for_each(Transaction::abandon);
            continue;
        }
        let commit = |prepared: Prepared| -> Result<_> {
            let settled = prepared.transaction.map(Transaction::commit).transpose()?;
            Ok((prepared.step, prepared.note, settled.unwrap_or_default()))
        };
        for result in together(group, commit) {
            match result {
                Ok((step, note, settled)) => {
                    notes.extend(note.into_iter().chain(settled.notes()));
                    done.push(Done { step, backup: settled.backup });
                }
                Err(error) => failure = Some(error),
            }
        }
    }
    let Some(error) = failure else {
        return Ok(done);
    };
    let changed: Vec<_> = done
        .iter()
        .filter(|done| done.step.action.changes_anything())
        .map(|done| done.step.place.dest(&skill.name).display().to_string())
        .collect();
    Err(match changed.as_slice() {
        [] => error,
        changed => error.context(format!("done before the failure: {}", changed.join(", "))),
    })
}

fn refuse(plan: &Plan) -> Result<()> {
    if plan.refused.is_empty() { Ok(()) } else { Err(Refusal(plan.refused.clone()).into()) }
}

/// Stages one step; a link that cannot be made becomes a copy, or nothing where a copy is not
/// allowed.
fn prepare(
    machine: &Machine,
    skill: &Skill,
    base: &OnceLock<Vec<u8>>,
    area: &Held,
    mut step: Step,
    created_folders: usize,
) -> Result<Prepared> {
    let mut note = None;
    if let Action::Link { to, only, replaces } = &step.action {
        if let Some(transaction) = Transaction::stage_link(area, &skill.name, to, &step.old)? {
            return Ok(Prepared { step, transaction: Some(transaction), note });
        }
        let dest = step.place.dest(&skill.name);
        let instead = if *only {
            let real = step.place.folder.join(to);
            format!("left out, the agent sees the skill in {}", real.display())
        } else {
            "copied".to_owned()
        };
        note = Some(format!("{}: no link can be made here; {instead}", dest.display()));
        step.action = match replaces {
            _ if *only => Action::Unchanged,
            Some(what) => Action::Replace { what: what.clone() },
            None => Action::Install,
        };
    }
    if !step.action.changes_anything() {
        return Ok(Prepared { step, transaction: None, note });
    }
    let folder = step.place.folder.clone();
    let source = recordable(&skill.source, &folder, step.place.project(machine).as_deref());
    let tree = match &step.action {
        Action::Merge { tree, .. } => tree,
        _ => &skill.tree,
    };
    let base = base.get_or_init(|| kept::pack(skill));
    let transaction = Transaction::stage(area, skill, tree, base, &step.old, |id| Receipt {
        created_folders,
        ..Receipt::new(skill, id, source)
    })?;
    Ok(Prepared { step, transaction: Some(transaction), note })
}
