//! `kernels doctor`.

use std::collections::BTreeMap;
use std::fs;
use std::process::ExitCode;

use serde_json::{Value, json};

use super::failure;
use super::status::{self, Row};
use crate::agent::presence::Presence;
use crate::agent::sight::{self, Seen};
use crate::agent::table::{self, Copies};
use crate::agent::{Agent, Machine, Scope};
use crate::base::{bundle, plural};
use crate::install::State;
use crate::install::discover;
use crate::install::state::Foreign;
use crate::report::{Output, style};
use crate::skill::digest::Digest;
use crate::skill::lint;
use crate::skill::tree::{SKILL_MD, Tree};

/// Examines every agent on the machine; exit 1 on a problem.
pub(crate) fn run(machine: &Machine, output: Output) -> ExitCode {
    output.line(format!("{} {}", style::strong("kernels"), bundle::version()));
    let git = match &machine.git_root {
        Some(root) => machine_path(machine, root),
        None => "none: project installs go to the current folder".to_owned(),
    };
    output.line(format!("{} {git}", style::strong("git root")));
    let mut agents = Vec::new();
    let mut absent = Vec::new();
    let scopes = [Scope::Project, Scope::User];
    let recovered = status::recover(machine, &discover::all_places(machine, &scopes), output);
    let mut problems: Vec<String> = home_problem(machine).into_iter().collect();
    problems.extend(discover::blind_spots(machine, &scopes));
    for agent in table::all() {
        let presence = Presence::of(agent, machine);
        if !presence.is_present() {
            absent.push(agent.name.as_str());
            problems.extend(check_for_others(machine, agent, seen(agent, machine)));
            continue;
        }
        let seen = seen(agent, machine);
        show_agent(machine, agent, &presence, &seen, output);
        problems.extend(check(machine, agent, &seen));
        agents.push(agent_json(agent, &presence, &seen));
    }
    if !absent.is_empty() {
        let absent = format!("{} (`kernels skills agents` lists all)", plural(absent.len(), "agent"));
        output.line(format!("{} {}", style::strong("not found"), style::faint(absent)));
    }
    let cuda = super::doctor_cuda::show(output);
    let rows = status::rows(machine, discover::installs(&discover::all_seen(machine), &[]));
    problems.extend(installs_problems(machine, &rows));
    problems.extend(status::contradictions(machine, &rows, &[]));
    problems.sort();
    problems.dedup();
    for problem in &problems {
        output.line(format!("{} {problem}", style::warning("problem")));
    }
    if problems.is_empty() {
        output.line(style::good("no problems"));
    }
    output.json(&json!({
        "version": bundle::version(),
        "cwd": machine.cwd.to_string_lossy(),
        "git_root": machine.git_root.as_ref().map(|root| root.to_string_lossy()),
        "home": machine.home.as_ref().map(|home| home.to_string_lossy()),
        "agents": agents,
        "not_found": absent,
        "cuda": cuda,
        "recovered": recovered,
        "problems": problems,
    }));
    failure::quietly(&problems, output);
    if problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What an agent sees as a skill, and what it cannot look into. A folder without a SKILL.md, as one that groups skills, is none.
fn seen(agent: &Agent, machine: &Machine) -> Vec<Seen> {
    let is_skill = |entry: &Seen| {
        let Some(Ok(mut inside)) = entry.real.as_ref().map(fs::read_dir) else {
            return true;
        };
        // In lower case it is one for some.
        inside.any(|file| file.is_ok_and(|file| file.file_name().eq_ignore_ascii_case(SKILL_MD)))
    };
    sight::of(agent, machine).into_iter().filter(is_skill).collect()
}

fn machine_path(machine: &Machine, path: &std::path::Path) -> String {
    match machine.show(path).as_str() {
        "." => format!("{} (here)", path.display()),
        shown => shown.to_owned(),
    }
}

fn home_problem(machine: &Machine) -> Option<String> {
    machine.home().err().map(|error| error.to_string())
}

fn show_agent(machine: &Machine, agent: &Agent, presence: &Presence, seen: &[Seen], output: Output) {
    let version = presence.version.as_deref().unwrap_or_default();
    let mut traces = Vec::new();
    traces.extend(presence.program.as_deref().map(|path| machine.show(path)));
    traces.extend(presence.config.as_deref().map(|path| machine.show(path)));
    output.line(format!("{} {version} {}", style::strong(&agent.name), style::faint(traces.join("  "))).trim_end());
    if seen.is_empty() {
        output.line(style::faint("  sees no skills from here"));
    }
    for entry in seen {
        let level = if entry.scope == Scope::User { " (user)" } else { "" };
        output.line(format!("  {}  {}{level}", entry.name, style::faint(machine.show(&entry.path))));
    }
}

/// Problems with what an agent sees: unreadable entries and duplicate names.
fn check(machine: &Machine, agent: &Agent, seen: &[Seen]) -> Vec<String> {
    let mut problems = Vec::new();
    let mut by_name: BTreeMap<&str, Vec<(&Seen, Option<Digest>)>> = BTreeMap::new();
    for entry in seen {
        let shown = machine.show(&entry.path);
        let Some(real) = &entry.real else {
            problems.push(format!("{shown} is a link to nothing"));
            continue;
        };
        let (tree, unreadable) = Tree::read_what_is_readable(real);
        if !tree.iter().any(|(path, _)| path.as_str().eq_ignore_ascii_case(SKILL_MD)) {
            // It cannot be read, or is a link, which agents may follow.
            continue;
        }
        let findings = lint::lint(&tree, Some(&entry.name), &[]);
        if let Some(finding) = lint::fatal(&findings).next() {
            problems.push(format!("{shown} is hidden from some agents: {}", finding.message));
        }
        let digest = unreadable.is_empty().then(|| Digest::of_tree(&tree));
        let copies = by_name.entry(&entry.name).or_default();
        if !copies.iter().any(|(known, _)| known.real == entry.real) {
            copies.push((entry, digest));
        }
    }
    for (name, copies) in by_name.iter().filter(|(_, copies)| copies.len() > 1) {
        let paths: Vec<_> = copies.iter().map(|(entry, _)| machine.show(&entry.path)).collect();
        let paths = paths.join(" and ");
        let differ = copies.iter().any(|(_, digest)| digest.is_none() || *digest != copies[0].1);
        match (agent.copies, differ) {
            (Copies::Each, _) => {
                problems.push(format!("{} lists {name} {} times: {paths}", agent.name, copies.len()));
            }
            (Copies::Warn, _) => {
                problems.push(format!("{} reports a conflict of {} {name}: {paths}", agent.name, copies.len()));
            }
            (_, false) => {}
            (Copies::User, true) => problems.push(format!(
                "{} uses the user's {name}, which hides the project's different one: {paths}",
                agent.name
            )),
            (Copies::Project, true) => problems.push(format!(
                "{} uses the project's {name}, which hides the user's different one: {paths}",
                agent.name
            )),
            (Copies::Any, true) => {
                problems.push(format!("{} sees {name} in different versions and may use any: {paths}", agent.name));
            }
        }
    }
    problems
}

/// Problems of an agent that is not on this machine, if the project has skills for it: others may use it.
fn check_for_others(machine: &Machine, agent: &Agent, mut seen: Vec<Seen>) -> Vec<String> {
    // Agents that read only the same one folder would report the same problems, so the first of them is checked.
    let first = table::all().iter().find(|one| one.project == agent.project);
    if agent.reads.is_empty() && first.is_some_and(|first| first.id != agent.id) {
        return Vec::new();
    }
    seen.retain(|entry| entry.scope == Scope::Project);
    let own = machine.skills_folder(agent, Scope::Project);
    if own.is_ok_and(|own| seen.iter().any(|entry| entry.path.starts_with(&own))) {
        check(machine, agent, &seen)
    } else {
        Vec::new()
    }
}

fn installs_problems(machine: &Machine, rows: &[Row]) -> Vec<String> {
    let mut problems = Vec::new();
    for row in rows {
        // Without `--dest`, `update` looks only in the agents' own folders.
        let dest = row.install.scope.option(&row.install.folder);
        let advice = match &row.judged.state {
            _ if row.fork.is_some() => format!(
                "`kernels skills diff{dest}` shows how it differs from the embedded skill; a source in skills.toml declares \
                 it"
            ),
            State::Current { .. } => continue,
            State::Unchecked => row.why_unchecked().unwrap_or("its source is gone").to_owned(),
            State::Stale | State::Missing(_) => format!("`kernels skills update{dest}` repairs it"),
            State::Newer => "upgrade kernels, or what it was installed from".to_owned(),
            State::Modified(_) => format!("`kernels skills diff{dest}` shows your edits"),
            State::Foreign(Foreign::LinkFile(_)) => format!("git wrote a link as a file; `kernels skills update{dest}` repairs it"),
            State::Foreign(Foreign::LaterReceipt) => "installed by a later kernels; upgrade kernels to manage it".to_owned(),
            State::Foreign(Foreign::DamagedReceipt(why)) => format!("{why}; {}", discover::RENEW),
            State::Foreign(_) => {
                "not installed by kernels, which leaves it alone; `kernels skills add --force` moves it to a backup and \
                 installs its own"
                    .to_owned()
            }
            State::Absent => "a link to nothing; `kernels skills add --force` replaces it".to_owned(),
            State::Unreadable(why) => why.clone(),
        };
        problems.push(format!("{} is {} ({advice})", machine.show(&row.install.path), row.word()));
    }
    problems
}

fn agent_json(agent: &Agent, presence: &Presence, seen: &[Seen]) -> Value {
    json!({
        "id": agent.id,
        "name": agent.name,
        "program": presence.program.as_ref().map(|path| path.to_string_lossy()),
        "version": presence.version,
        "config": presence.config.as_ref().map(|path| path.to_string_lossy()),
        "sees": seen.iter().map(|entry| json!({
            "name": entry.name,
            "path": entry.path.to_string_lossy(),
            "real": entry.real.as_ref().map(|path| path.to_string_lossy()),
            "scope": entry.scope,
        })).collect::<Vec<_>>(),
    })
}
