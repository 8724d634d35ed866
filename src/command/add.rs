//! `kernels skills add`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use serde_json::{Value, json};

use super::batch::Batch;
use super::failure::{self, Usage};
use super::{elsewhere, offered, target};
use crate::agent::{Machine, Scope, table};
use crate::base::plural;
use crate::cli::agents::Agents;
use crate::cli::skills;
use crate::install::apply::{self, Done};
use crate::install::discover::{self, Install};
use crate::install::manifest::{self, Manifest};
use crate::install::pins::{self, Pin, Pins};
use crate::install::plan::{self, LAST_COPY};
use crate::install::step::{Action, Merge, Options, Step};
use crate::install::transaction::Recovered;
use crate::install::{Place, Refusal};
use crate::report::{Output, style};
use crate::skill::address::Address;
use crate::skill::bundled;
use crate::skill::source::{Skill, Source};

pub(crate) fn run(machine: &Machine, arguments: &skills::Add, output: Output) -> Result<ExitCode> {
    let path = arguments.skill.as_deref();
    if arguments.list {
        return offered::list(path, output);
    }
    let several = arguments.all || !arguments.chosen.is_empty();
    let skills = if arguments.all {
        offered::by(path, output)?.into_iter().map(|one| one.skill).collect::<Result<_>>()?
    } else if let Some(from) = path.and_then(Address::typed) {
        let from = from.map_err(|error| Usage(error.to_string()))?;
        elsewhere::fetch(&from, &arguments.chosen, !arguments.yes, output)?
    } else if several {
        Skill::open_several(path, &arguments.chosen)?
    } else {
        vec![Skill::open(path.unwrap_or(Path::new(bundled::DEFAULT)))?]
    };
    elsewhere::ask(machine, &skills.iter().collect::<Vec<_>>(), arguments.yes, arguments.looking, output)?;
    let mut targets = arguments.targets.clone();
    if arguments.all && !target::is_named(&targets) {
        targets.agents = Agents::every();
    }
    let unnamed = !targets.global && !target::is_named(&targets);
    let mut asked = None;
    let mut wanted = Vec::new();
    for skill in skills {
        let mut places = if unnamed { target::places_of(machine, &skill.name) } else { Vec::new() };
        if places.is_empty() {
            if asked.is_none() {
                asked = Some(target::places_to_add(machine, &targets, output)?);
            }
            places = asked.clone().unwrap_or_default();
        }
        wanted.push((skill, places));
    }
    let (options, looking) =
        (Options { force: arguments.force, link: arguments.link, merge: merge(arguments.merge) }, arguments.looking);
    let (mut batch, mut heading) = (Batch::default(), Heading::default());
    for (skill, places) in wanted {
        let in_project = places.iter().any(|place| place.scope == Scope::Project);
        batch.take(install(machine, &skill, places, options, looking.is_only(), &mut heading, output));
        if in_project && !looking.is_only() {
            show_manifest(machine, &skill.name, output);
        }
    }
    Ok(batch.end(several.then_some("skills"), json!({}), looking, output))
}

pub(crate) fn merge(wanted: skills::Merge) -> Merge {
    match (wanted.merge, wanted.conflicts) {
        (false, _) => Merge::No,
        (true, false) => Merge::Clean,
        (true, true) => Merge::WithMarkers,
    }
}

/// The heading that was printed last.
#[derive(Default)]
pub(crate) struct Heading {
    skill: String,
    project: String,
}

/// Prints where skills.toml contradicts the installs of a skill.
fn show_manifest(machine: &Machine, name: &String, output: Output) {
    let Ok(Some(manifest)) = Manifest::read(machine) else {
        return;
    };
    let drift = manifest.drift(machine, std::slice::from_ref(name)).into_iter().map(|drift| drift.what);
    let unnamed = manifest.names().all(|known| known != name);
    let unnamed = unnamed.then(|| format!("{} does not name {name}; `sync` leaves it alone", manifest::FILE));
    for note in drift.chain(unnamed) {
        output.note(format!("{} {note}", style::warning("note:")));
    }
}

/// Installs a skill, prints the result and returns the JSON report and how many places change; `update` calls it for each
/// of its skills.
pub(crate) fn install(
    machine: &Machine,
    skill: &Skill,
    places: Vec<Place>,
    options: Options,
    dry_run: bool,
    heading: &mut Heading,
    output: Output,
) -> Result<(Value, usize)> {
    show_findings(skill, output);
    let mut not_pinned = None;
    let (done, recovered, notes) = if dry_run {
        let plan = plan::plan(machine, skill, places, options);
        if !plan.refused.is_empty() {
            return Err(Refusal(plan.refused).into());
        }
        let done: Vec<Done> = plan.steps.into_iter().map(|step| Done { step, backup: None }).collect();
        let pin = lost_pin(machine, skill, &done);
        let notes = plan.notes.into_iter().chain(pin.map(|pin| unpinned(skill, &pin))).collect();
        (done, Vec::new(), notes)
    } else {
        let is_remote = skill.source.address().is_some();
        let in_project = places.iter().any(|place| place.scope == Scope::Project);
        if in_project && is_remote {
            // A lock that cannot be read stops the command before anything is changed.
            Pins::read(machine.project())?;
        }
        let mut outcome = apply::install(machine, skill, places, options)?;
        let pinned = match lost_pin(machine, skill, &outcome.done) {
            _ if in_project && is_remote => Pins::add(machine.project(), skill),
            Some(pin) => {
                outcome.notes.push(unpinned(skill, &pin));
                Pins::remove(machine.project(), &skill.name)
            }
            None => Ok(()),
        };
        not_pinned = pinned.err().map(|error| {
            format!("{} is installed, and {} was not changed: {}", skill.name, pins::FILE, failure::message(&error))
        });
        (outcome.done, outcome.recovered, outcome.notes)
    };
    show(machine, skill, &done, dry_run, heading, output);
    show_recovered(machine, &recovered, output);
    for note in &notes {
        output.note(format!("{} {note}", style::warning("note:")));
    }
    let report = json!({
        "dry_run": dry_run,
        "skill": {
            "name": skill.name,
            "version": skill.version,
            "tree": skill.digest,
            "source": source_json(&skill.source),
            "contents": skill.source.address().map(|_| elsewhere::contents(skill)),
        },
        "project": machine.project().to_string_lossy(),
        "git_root": machine.git_root.is_some(),
        "steps": done.iter().map(|done| step_json(skill, done)).collect::<Vec<_>>(),
        "recovered": recovered,
        "notes": notes,
        "not_pinned": not_pinned,
        "findings": skill.findings,
    });
    Ok((report, done.iter().filter(|done| done.step.action.changes_anything()).count()))
}

/// The pin of a skill's name, where a skill from here, or the embedded one, takes the place of all that it pins. A lock that cannot
/// be read says nothing.
fn lost_pin(machine: &Machine, skill: &Skill, done: &[Done]) -> Option<Pin> {
    if skill.source.address().is_some() {
        return None;
    }
    let pin = Pins::read(machine.project()).ok()?.get(&skill.name)?;
    let places = discover::all_places(machine, &[Scope::Project]);
    let changed = done.iter().map(|done| &done.step).filter(|step| step.action.changes_anything());
    let changed: Vec<&Path> = changed.map(|step| step.place.folder.as_path()).collect();
    let is_pinned = |copy: &Install| copy.address().is_some_and(|from| pin.from.covers(&from));
    let stays = |copy: &Install| is_pinned(copy) && !changed.contains(&copy.folder.as_path());
    let takes_a_place = places.iter().any(|place| changed.contains(&place.folder.as_path()));
    let is_left = discover::installs(&places, std::slice::from_ref(&skill.name)).iter().any(stays);
    (takes_a_place && !is_left).then_some(pin)
}

fn unpinned(skill: &Skill, pin: &Pin) -> String {
    format!("{} does not pin {} to {} any more", pins::FILE, skill.name, pin.from)
}

/// Prints the findings about a skill that can be installed nevertheless.
pub(crate) fn show_findings(skill: &Skill, output: Output) {
    for finding in &skill.findings {
        output.note(format!(
            "{} {}: {} [{}]",
            style::warning(format!("{}:", finding.severity)),
            finding.place(Path::new("")),
            finding.message,
            finding.rule
        ));
    }
}

/// Prints the steps, below a heading unless it was printed last.
fn show(machine: &Machine, skill: &Skill, done: &[Done], dry_run: bool, heading: &mut Heading, output: Output) {
    let version = skill.version.as_deref().unwrap_or("without a version");
    let from = match &skill.source {
        Source::Embedded => String::new(),
        Source::Remote { from, .. } => format!(" from {from}"),
        Source::Folder { path } | Source::Archive { path } => {
            path.as_deref().map(|path| format!(" from {}", machine.show(path))).unwrap_or_default()
        }
    };
    let plan = if dry_run { "plan for " } else { "" };
    let title = format!("{plan}{} {version}{from}", skill.name);
    if heading.skill != title {
        output.line(style::strong(&title));
        heading.skill = title;
    }
    if done.iter().any(|done| done.step.place.scope == Scope::Project) {
        let why = if machine.git_root.is_some() { "git root" } else { "no git here: this folder alone" };
        let project = format!("project {} ({why})", machine.project().display());
        if heading.project != project {
            output.line(style::faint(&project));
            heading.project = project;
        }
    }
    show_steps(machine, skill, done, dry_run, output);
}

/// Prints a line per place, with the backups made.
fn show_steps(machine: &Machine, skill: &Skill, done: &[Done], dry_run: bool, output: Output) {
    let rows: Vec<_> = done
        .iter()
        .map(|done| {
            let agents = table::names(done.step.place.agents.iter().copied());
            (words(&done.step, dry_run), machine.show(&done.step.place.dest(&skill.name)), agents)
        })
        .collect();
    let widths = rows.iter().fold((0, 0), |(a, b), (word, path, _)| (a.max(word.len()), b.max(path.chars().count())));
    let (word_width, path_width) = widths;
    for ((word, path, agents), done) in rows.iter().zip(done) {
        let word = format!("{word:<word_width$}");
        let word = if done.step.action.changes_anything() { style::good(word) } else { style::faint(word) };
        let path = format!("{path:<path_width$}");
        output.line(format!("  {word}  {path}  {}", style::faint(agents)).trim_end());
        if let Some(detail) = detail(&done.step, dry_run) {
            output.line(format!("  {:word_width$}  {}", "", style::faint(detail)));
        }
        if let Some(backup) = &done.backup {
            let kept = style::strong(machine.show(backup));
            output.line(format!("  {:word_width$}  {} kept in {kept}", "", replaced(&done.step)));
        }
    }
}

fn replaced(step: &Step) -> String {
    match &step.action {
        Action::Replace { what } | Action::Link { replaces: Some(what), .. } => {
            format!("the {what} is")
        }
        Action::Update { last_copy: true, .. } => format!("the {LAST_COPY} is"),
        Action::Merge { .. } => "the tree before the merge is".to_owned(),
        // The plan found nothing to protect: the edit was made since.
        _ => "what was changed meanwhile is".to_owned(),
    }
}

/// Prints what interrupted runs left.
pub(crate) fn show_recovered(machine: &Machine, recovered: &[Recovered], output: Output) {
    for recovered in recovered {
        output.note(format!("{} {} {}", style::warning("recovered:"), machine.show(&recovered.path), recovered.what));
    }
}

pub(crate) fn source_json(source: &Source) -> Value {
    match source {
        Source::Embedded => json!({ "kind": "embedded" }),
        Source::Folder { path } => json!({ "kind": "folder", "path": lossy(path.as_deref()) }),
        Source::Archive { path } => json!({ "kind": "archive", "path": lossy(path.as_deref()) }),
        Source::Remote { from, at } => json!({ "kind": "remote", "from": from, "at": at }),
    }
}

/// A path as JSON can hold it.
fn lossy(path: Option<&Path>) -> Option<String> {
    path.map(|path| path.to_string_lossy().into_owned())
}

fn words(step: &Step, dry_run: bool) -> &'static str {
    match (&step.action, dry_run) {
        (Action::Install, false) => "installed",
        (Action::Install, true) => "install",
        (Action::Adopt, false) => "adopted",
        (Action::Adopt, true) => "adopt",
        (Action::Update { .. }, false) => "updated",
        (Action::Update { last_copy: true, .. }, true) => "back up, update",
        (Action::Update { .. }, true) => "update",
        (Action::Repair(_), false) => "repaired",
        (Action::Repair(_), true) => "repair",
        (Action::Replace { .. }, false) => "replaced",
        (Action::Replace { .. }, true) => "back up, replace",
        (Action::Merge { .. }, false) => "merged",
        (Action::Merge { .. }, true) => "back up, merge",
        (Action::Link { .. }, false) => "linked",
        (Action::Link { replaces: Some(_), .. }, true) => "back up, link",
        (Action::Link { .. }, true) => "link",
        (Action::Unchanged | Action::KeepLink { .. }, _) => "unchanged",
    }
}

fn detail(step: &Step, dry_run: bool) -> Option<String> {
    match &step.action {
        Action::Link { to, .. } | Action::KeepLink { to } => Some(format!("→ {}", to.display())),
        Action::Update { from: Some(from), .. } => Some(format!("was {from}")),
        Action::Repair(changes) => Some(format!("{} missing or empty", plural(changes.len(), "file"))),
        Action::Merge { from, conflicts, .. } => {
            let from = from.as_deref().unwrap_or("another version");
            let files: Vec<&str> = conflicts.iter().map(|change| change.path.as_str()).collect();
            let conflicts =
                if files.is_empty() { String::new() } else { format!("; conflicts in {}", files.join(", ")) };
            Some(format!("your edits of {from}{conflicts}"))
        }
        Action::Replace { what } if dry_run => Some(format!("there is: {what}")),
        Action::Adopt => Some("the same files, now with a receipt".to_owned()),
        _ => None,
    }
}

fn step_json(skill: &Skill, done: &Done) -> Value {
    let step = &done.step;
    let action = match &step.action {
        Action::Install => "install",
        Action::Adopt => "adopt",
        Action::Update { .. } => "update",
        Action::Repair(_) => "repair",
        Action::Replace { .. } => "replace",
        Action::Merge { .. } => "merge",
        Action::Link { .. } => "link",
        Action::Unchanged => "unchanged",
        Action::KeepLink { .. } => "keep-link",
    };
    let link = match &step.action {
        Action::Link { to, .. } | Action::KeepLink { to } => Some(to),
        _ => None,
    };
    let conflicts = match &step.action {
        Action::Merge { conflicts, .. } => conflicts.as_slice(),
        _ => &[],
    };
    json!({
        "action": action,
        "conflicts": conflicts,
        "path": step.place.dest(&skill.name).to_string_lossy(),
        "scope": step.place.scope,
        "agents": step.place.agents.iter().map(|agent| agent.id.as_str()).collect::<Vec<_>>(),
        "link": lossy(link.map(PathBuf::as_path)),
        "backup": lossy(done.backup.as_deref()),
    })
}
