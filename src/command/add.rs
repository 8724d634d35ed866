//! `kernels skills add`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use serde_json::{Value, json};

use super::target;
use crate::agent::{Machine, Scope};
use crate::base::plural;
use crate::cli;
use crate::install::apply::{self, Done};
use crate::install::plan;
use crate::install::step::{Action, Merge, Options, Step};
use crate::install::transaction::Recovered;
use crate::install::{Place, Refusal};
use crate::report::{Output, style};
use crate::skill::source::{Skill, Source};

pub(crate) fn run(machine: &Machine, arguments: &cli::Add, output: Output) -> Result<ExitCode> {
    let skill = Skill::open(Path::new(&arguments.skill))?;
    let places = target::places_to_add(machine, &arguments.targets, output)?;
    let options = Options { force: arguments.force, link: arguments.link, merge: merge(arguments.merge) };
    let report = install(machine, &skill, places, options, arguments.dry_run, &mut Heading::default(), output)?;
    output.json(&report);
    Ok(code(&[report]))
}

pub(crate) fn merge(wanted: cli::Merge) -> Merge {
    match (wanted.merge, wanted.conflicts) {
        (false, _) => Merge::No,
        (true, false) => Merge::Clean,
        (true, true) => Merge::WithMarkers,
    }
}

/// Exit code 1 where conflicts wait in an install, as git has it.
pub(crate) fn code(reports: &[Value]) -> ExitCode {
    let mut steps = reports.iter().filter_map(|report| report["steps"].as_array()).flatten();
    let conflict = |step: &Value| step["conflicts"].as_array().is_some_and(|all| !all.is_empty());
    if steps.any(conflict) { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// What was printed above the steps last.
#[derive(Default)]
pub(crate) struct Heading {
    skill: String,
    project: String,
}

/// Installs a skill, prints the result and returns the JSON report; `update` calls it for each of
/// its skills.
pub(crate) fn install(
    machine: &Machine,
    skill: &Skill,
    places: Vec<Place>,
    options: Options,
    dry_run: bool,
    heading: &mut Heading,
    output: Output,
) -> Result<Value> {
    show_findings(skill, output);
    let (done, recovered, notes) = if dry_run {
        let plan = plan::plan(machine, skill, places, options);
        if !plan.refused.is_empty() {
            return Err(Refusal(plan.refused).into());
        }
        let done = plan.steps.into_iter().map(|step| Done { step, backup: None }).collect();
        (done, Vec::new(), plan.notes)
    } else {
        let outcome = apply::install(machine, skill, places, options)?;
        (outcome.done, outcome.recovered, outcome.notes)
    };
    show(machine, skill, &done, dry_run, heading, output);
    show_recovered(machine, &recovered, output);
    for note in &notes {
        output.note(format!("{} {note}", style::warning("note:")));
    }
    Ok(json!({
        "dry_run": dry_run,
        "skill": {
            "name": skill.name,
            "version": skill.version,
            "tree": skill.digest,
            "source": source_json(&skill.source),
        },
        "project": machine.project().to_string_lossy(),
        "git_root": machine.git_root.is_some(),
        "steps": done.iter().map(|done| step_json(skill, done)).collect::<Vec<_>>(),
        "recovered": recovered,
        "notes": notes,
        "findings": skill.findings,
    }))
}

/// Prints what is wrong with a skill that can be installed nevertheless.
pub(crate) fn show_findings(skill: &Skill, output: Output) {
    for finding in &skill.findings {
        let line = finding.line.map(|line| format!(":{line}")).unwrap_or_default();
        output.note(format!(
            "{} {}{line}: {} [{}]",
            style::warning(format!("{}:", finding.severity)),
            finding.file,
            finding.message,
            finding.rule
        ));
    }
}

/// Prints the steps, below a heading that is not there already.
fn show(machine: &Machine, skill: &Skill, done: &[Done], dry_run: bool, heading: &mut Heading, output: Output) {
    let version = skill.version.as_deref().unwrap_or("without a version");
    let from = match &skill.source {
        Source::Embedded => String::new(),
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
            let agents: Vec<_> = done.step.place.agents.iter().map(|agent| agent.name.as_str()).collect();
            (words(&done.step, dry_run), machine.show(&done.step.place.dest(&skill.name)), agents.join(", "))
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
        Action::Merge { .. } => "the tree before the merge is".to_owned(),
        // Nothing had been protected when the plan was made: it was written to since.
        _ => "what was changed meanwhile is".to_owned(),
    }
}

/// Prints what interrupted runs left.
pub(crate) fn show_recovered(machine: &Machine, recovered: &[Recovered], output: Output) {
    for recovered in recovered {
        output.note(format!("{} {} {}", style::warning("recovered:"), machine.show(&recovered.path), recovered.what));
    }
}

fn source_json(source: &Source) -> Value {
    match source {
        Source::Embedded => json!({ "kind": "embedded" }),
        Source::Folder { path } => json!({ "kind": "folder", "path": lossy(path.as_deref()) }),
        Source::Archive { path } => json!({ "kind": "archive", "path": lossy(path.as_deref()) }),
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
        Action::Update { from: Some(from) } => Some(format!("was {from}")),
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
