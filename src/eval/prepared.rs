//! Workspaces laid out for agents that this program does not run, and found again when what they left is judged.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use super::desk;
use super::plan::{Arm, Pin, Plan, prompt};
use super::task::Task;
use crate::base::scratch::Scratch;

/// What says of a folder that it was laid out, and with which skills and tasks.
const NOTE: &str = "workspaces.json";

#[derive(Deserialize, Serialize)]
struct Note {
    /// By arm.
    skills: BTreeMap<String, Pin>,
    /// Digests of what a subject sees of each task.
    seen: BTreeMap<String, String>,
}

/// Lays out a workspace for each task, arm and repetition, as a desk has it, with the prompt beside it. The skill is installed for
/// the plan's one subject. The folder must be new.
pub(crate) fn lay_out(plan: &Plan, folder: &Path) -> Result<Vec<PathBuf>> {
    let [subject] = plan.subjects.as_slice() else {
        bail!("--prepare takes one agent, into whose folder the skill is installed");
    };
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let home = Scratch::new()?;
    let mut all = Vec::new();
    let arms = || plan.header.arms.iter().zip(&plan.arms);
    for (task, (name, (arm, skill))) in plan.tasks.iter().flat_map(|task| arms().map(move |arm| (task, arm))) {
        for run in 1..=plan.header.runs {
            let at = place(folder, name, &task.id, run);
            fs::create_dir_all(at.parent().unwrap_or(folder))
                .and_then(|()| fs::create_dir(&at))
                .with_context(|| format!("cannot create {}", at.display()))?;
            let installed = skill.as_ref().filter(|_| *arm != Arm::Inline);
            desk::furnish(&at, home.path(), task, installed.map(|skill| (skill, subject.installs_for())))?;
            let path = PathBuf::from(format!("{}.md", at.display()));
            fs::write(&path, prompt(&task.prompt, arm, skill.as_ref()))
                .with_context(|| format!("cannot write {}", path.display()))?;
            all.push(at);
        }
    }
    let note = Note { skills: plan.header.skills.clone(), seen: seen(&plan.tasks) };
    let path = folder.join(NOTE);
    fs::write(&path, serde_json::to_vec_pretty(&note)?).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(all)
}

/// The folder that a run judges: one of those that were laid out, or else what was named.
pub(crate) fn of_run(named: &Path, arm: &str, task: &str, run: u32) -> PathBuf {
    if named.join(NOTE).exists() { place(named, arm, task, run) } else { named.to_owned() }
}

/// An error where workspaces were laid out with another skill, or for other tasks, than they are to be judged by.
pub(crate) fn check(named: &Path, tasks: &[Task], skills: &BTreeMap<String, Pin>) -> Result<()> {
    let path = named.join(NOTE);
    let Ok(bytes) = fs::read(&path) else { return Ok(()) };
    let note: Note = serde_json::from_slice(&bytes).with_context(|| format!("{} cannot be read", path.display()))?;
    for (arm, skill) in skills {
        if note.skills.get(arm).is_some_and(|there| there != skill) {
            bail!(
                "{}: the workspaces of the arm {arm} have another version of {}; name that one to judge them",
                named.display(),
                skill.name
            );
        }
    }
    let now = seen(tasks);
    match now.iter().find(|(id, digest)| note.seen.get(*id).is_some_and(|there| there != *digest)) {
        Some((id, _)) => bail!("{}: the task {id} has changed since the workspaces were laid out", named.display()),
        None => Ok(()),
    }
}

fn place(folder: &Path, arm: &str, task: &str, run: u32) -> PathBuf {
    let name = if run == 1 { task.to_owned() } else { format!("{task}.{run}") };
    folder.join(arm.split('=').next().unwrap_or(arm)).join(name)
}

fn seen(tasks: &[Task]) -> BTreeMap<String, String> {
    let digest = |task: &Task| {
        let mut files = task.environment.clone();
        files.insert("/instruction.md", task.prompt.clone().into_bytes());
        files.digest()
    };
    tasks.iter().map(|task| (task.id.clone(), digest(task))).collect()
}
