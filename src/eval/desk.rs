//! Where a subject works: a fresh home, and a workspace that is a repository of one commit, with the skill in it or not.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::files::{Files, names};
use super::task::Task;
use crate::agent::{Machine, Scope, table};
use crate::base::scratch::Scratch;
use crate::install::step::Options;
use crate::install::{Place, apply};
use crate::skill::source::Skill;

/// When each task's commit was made: the same everywhere.
const DATE: &str = "2026-01-01T00:00:00Z";

/// The variable with which the command of a desk has no `skills`. In an arm without the skill a subject could install it, and
/// in the others the embedded one beside that of the arm.
pub(crate) const SKILLS: &str = "KERNELS_SKILLS";

pub(crate) struct Desk {
    scratch: Scratch,
    /// The workspace as the subject finds it.
    pub(crate) before: Files,
    pub(crate) home_before: Vec<String>,
    /// The script that was put on PATH as `kernels`.
    kernels: Option<String>,
}

impl Desk {
    /// Sets it up. The skill is installed for an agent of the table. `kernels` is the program that is to be on PATH, if any.
    pub(crate) fn new(task: &Task, skill: Option<(&Skill, &str)>, kernels: Option<&Path>) -> Result<Self> {
        let scratch = Scratch::new()?;
        let kernels = kernels.map(script);
        let mut desk = Self { scratch, before: Files::default(), home_before: Vec::new(), kernels };
        for folder in ["workspace", "home", "bin", "log"].map(|name| desk.at(name)) {
            fs::create_dir(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        }
        furnish(&desk.at("workspace"), &desk.at("home"), task, skill)?;
        if let Some(kernels) = &desk.kernels {
            let path = desk.at("bin").join("kernels");
            fs::write(&path, kernels)
                .and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(0o755)))
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        desk.before = Files::read(&desk.at("workspace"))?;
        desk.home_before = names(&desk.at("home"));
        Ok(desk)
    }

    /// One of its folders: `workspace`, `home`, `bin`, `log`.
    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// Whether the command that was put on PATH is another one now.
    pub(crate) fn command_is_another(&self) -> bool {
        let there = fs::read_to_string(self.at("bin").join("kernels")).ok();
        there != self.kernels || names(&self.at("bin")).len() > usize::from(there.is_some())
    }

    /// A text without the path of this desk, which is another one each time.
    pub(crate) fn without_paths(&self, text: &str) -> String {
        text.replace(&self.scratch.path().display().to_string(), "")
    }
}

/// Runs the program without `skills`.
fn script(kernels: &Path) -> String {
    let quoted = kernels.display().to_string().replace('\'', "'\\''");
    format!("#!/bin/sh\n{SKILLS}=off exec '{quoted}' \"$@\"\n")
}

/// Fills an empty workspace: the task's files, the skill, one commit.
pub(super) fn furnish(workspace: &Path, home: &Path, task: &Task, skill: Option<(&Skill, &str)>) -> Result<()> {
    task.environment.write(workspace)?;
    if let Some((skill, agent)) = skill {
        install(workspace, home, skill, agent)?;
    }
    commit(workspace, home)
}

/// Installs a skill in the project, where agents look for it.
fn install(workspace: &Path, home: &Path, skill: &Skill, agent: &str) -> Result<()> {
    let agent = table::find(agent).with_context(|| format!("agents.toml has no {agent}"))?;
    let machine = Machine::at(workspace.to_owned(), Some(workspace.to_owned()), Some(home.to_owned()));
    let place = Place::of_agent(&machine, agent, Scope::Project)?;
    apply::install(&machine, skill, vec![place], Options::default())?;
    Ok(())
}

/// Makes the workspace a repository of one commit. The settings are ours alone: the user's are not read.
fn commit(workspace: &Path, home: &Path) -> Result<()> {
    let steps: [&[&str]; 3] = [
        &["init", "--quiet", "--template=", "--initial-branch=main"],
        &["add", "--all", "--force"],
        &["commit", "--quiet", "--no-verify", "--allow-empty", "--message=Task"],
    ];
    for arguments in steps {
        let mut command = Command::new("git");
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("HOME", home);
        command.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null").env("LC_ALL", "C");
        for who in ["AUTHOR", "COMMITTER"] {
            command.env(format!("GIT_{who}_NAME"), "Task").env(format!("GIT_{who}_EMAIL"), "task@localhost");
            command.env(format!("GIT_{who}_DATE"), DATE);
        }
        command.args(["-c", "core.hooksPath=/dev/null", "-c", "gc.auto=0"]).arg("-C").arg(workspace).args(arguments);
        let output = command.stdin(Stdio::null()).output().context("cannot start git, which the workspaces need")?;
        if !output.status.success() {
            bail!("git {} failed: {}", arguments[0], String::from_utf8_lossy(&output.stderr).trim());
        }
    }
    Ok(())
}
