//! Copies of a skill in other folders that the same agents read.

use std::path::{Path, PathBuf};

use super::place::resolve;
use super::state::{State, judge};
use super::step::Step;
use crate::agent::table::{self, Copies};
use crate::agent::{Agent, Machine, Scope};
use crate::skill::source::Skill;

/// Copies of the skill in other folders that the same agents read: some agents list them all, others
/// let one copy hide another, which matters when they differ.
pub(super) fn notes(machine: &Machine, skill: &Skill, steps: &[Step]) -> Vec<String> {
    let planned: Vec<PathBuf> = steps.iter().map(|step| step.place.dest(&skill.name)).collect();
    let mut notes: Vec<String> = Vec::new();
    // One that reports conflicts does so for a copy in a folder of another agent that it reads as well.
    let warned = |step: &Step, agent: &Agent| {
        let mut folders = machine.folders_read(agent, step.place.scope).into_iter();
        agent.copies == Copies::Warn && folders.any(|folder| resolve(&folder).is_ok_and(|it| it == step.place.folder))
    };
    let reads = |step: &Step, agent: &Agent| step.place.agents.iter().any(|a| a.id == agent.id) || warned(step, agent);
    let readers = |step| table::all().iter().filter(move |agent| reads(step, agent)).map(move |agent| (step, agent));
    for (step, agent) in steps.iter().flat_map(readers) {
        for scope in [Scope::Project, Scope::User] {
            for folder in machine.folders_read(agent, scope) {
                let there = folder.join(&skill.name);
                let Ok(real) = there.canonicalize() else {
                    continue;
                };
                if planned.contains(&real) || is_planned_link(&there, &planned) {
                    continue;
                }
                let differs = !matches!(judge(&real, &skill.name, Some(skill)).state, State::Current { .. });
                let effect = match (agent.copies, scope, step.place.scope) {
                    (Copies::Each, ..) => "lists both",
                    (Copies::Warn, ..) => "reports a conflict",
                    _ if !differs => continue,
                    (Copies::User, Scope::User, Scope::Project) | (Copies::Project, Scope::Project, Scope::User) => {
                        "uses that one"
                    }
                    (Copies::User, Scope::Project, _) | (Copies::Project, Scope::User, _) => {
                        "uses the one just installed"
                    }
                    _ => "may use either",
                };
                notes.push(format!(
                    "{} finds {} in {} too, and {effect}{}",
                    agent.name,
                    skill.name,
                    machine.show(&there),
                    way_out(machine, &folder, &skill.name, scope),
                ));
            }
        }
    }
    notes.dedup();
    notes
}

fn is_planned_link(there: &Path, planned: &[PathBuf]) -> bool {
    let folder = there.parent().and_then(|folder| folder.canonicalize().ok());
    let name = there.file_name();
    folder.zip(name).is_some_and(|(folder, name)| planned.contains(&folder.join(name)))
}

/// The command that removes a copy in one of the table's folders.
fn way_out(machine: &Machine, folder: &Path, name: &str, scope: Scope) -> String {
    let owns = |agent: &&Agent| machine.skills_folder(agent, scope).is_ok_and(|own| own == folder);
    let Some(agent) = table::all().iter().find(owns) else {
        return String::new();
    };
    let level = if scope == Scope::User { " --global" } else { "" };
    format!("; `kernels skills remove {name} --agent {}{level}` takes that one away", agent.id)
}
