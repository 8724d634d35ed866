//! A `Test` that can be reset to a saved state, and what a command leaves in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use fancy_regex::{Captures, Regex};
use nix::libc;
use serde_json::Value;

use super::trace::{self, Plan, Traced};
use crate::support::{Picture, Test, copy, list, names, picture, program, write_skill};

/// The folders of the agents that the scenarios use.
pub const HOSTS: [&str; 4] = [".claude", ".codex", ".opencode", ".agents"];
const RECEIPT: &str = ".kernels.json";

/// Everything that a command can depend on, as text that is equal for two runs that differ
/// only in ids and times.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct State(String);

impl Test {
    /// A project with two versions of a skill in `sources`, one of them also as `current`, and
    /// user files beside everything that will change.
    pub fn furnished(self) -> Self {
        self.furnish();
        self
    }

    /// Fills an empty project with the files that exist before any install.
    pub fn furnish(&self) {
        self.write(".git/HEAD", "ref: refs/heads/main\n");
        self.write(".claude/settings.json", "{}\n");
        self.write(".claude/skills/mine/SKILL.md", "my own\n");
        self.write_skill("sources/v1/demo", 1);
        self.write_skill("sources/v2/demo", 2);
        self.write_skill("sources/current/demo", 1);
    }

    /// Writes version `n` of the skill, with an empty file and nested folders. No version comes after another,
    /// so that each replaces the other.
    pub fn write_skill(&self, folder: &str, n: u32) {
        let _ = fs::remove_dir_all(self.at(folder));
        write_skill(&self.at(folder), "demo", &format!("v{n}"));
        self.write(&format!("{folder}/references/deep/only-{n}.md"), "");
    }

    pub fn delete(&self, path: &str) {
        let path = self.project.join(path);
        if path.is_dir() {
            fs::remove_dir_all(path).unwrap();
        } else {
            fs::remove_file(path).unwrap();
        }
    }

    /// Saves the project for [`Test::reset`].
    pub fn keep(&self) {
        let kept = self.root().join("kept");
        let _ = fs::remove_dir_all(&kept);
        copy(&self.project, &kept);
    }

    pub fn reset(&self) {
        fs::remove_dir_all(&self.project).unwrap();
        copy(&self.root().join("kept"), &self.project);
    }

    /// Saves the project for [`Test::bring_back`].
    pub fn put_aside(&self) {
        copy(&self.project, &self.root().join("aside"));
    }

    pub fn bring_back(&self) {
        fs::remove_dir_all(&self.project).unwrap();
        fs::rename(self.root().join("aside"), &self.project).unwrap();
    }

    /// Runs it with faults.
    pub fn traced(&self, typed: &str, plan: Plan) -> Traced {
        self.watched(typed, plan, &mut || ())
    }

    /// Runs it and calls `at_stop` at the entry and the exit of each call that can change something.
    pub fn watched(&self, typed: &str, plan: Plan, at_stop: &mut dyn FnMut()) -> Traced {
        let arguments: Vec<&str> = typed.split(' ').collect();
        trace::watch(&mut self.behind_a_shell(program(), &arguments), plan, at_stop)
            .expect("the program can be followed")
    }

    /// A command for [`trace::run`].
    pub fn behind_a_shell(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = self.command_of("/bin/sh");
        command.args(["-c", trace::AFTER_A_LINE, program]).args(arguments);
        command
    }

    /// The contents of the project and of the home.
    pub fn disk(&self) -> State {
        // Ids distinguish trees, so each becomes a number; times are only displayed.
        static ID_OR_TIME: LazyLock<Regex> =
            LazyLock::new(|| Regex::new(r"([0-9a-f]{12,}-[0-9a-f]+-[0-9a-f]+)|\d{4}-?\d\d-?\d\dT[0-9:.]+Z").unwrap());
        let mut all = String::new();
        for folder in [&self.project, &self.home] {
            for (path, (mode, bytes)) in picture(folder) {
                all += &format!("{} {mode:o} {}\n", path.display(), String::from_utf8_lossy(&bytes));
            }
        }
        let mut ids: Vec<String> = Vec::new();
        let steady = ID_OR_TIME.replace_all(&all, |found: &Captures<'_, str>| {
            let Some(id) = found.get(1) else {
                return "TIME".to_owned();
            };
            let known = ids.iter().position(|known| known == id.as_str());
            let number = known.unwrap_or_else(|| {
                ids.push(id.as_str().to_owned());
                ids.len() - 1
            });
            format!("ID{number}")
        });
        State(steady.into_owned())
    }

    /// Why tracing is not possible here, if it is not.
    pub fn why_untraceable(&self) -> Option<String> {
        let plan = Plan::changing(trace::Fault::None, false);
        trace::run(&mut self.behind_a_shell("/bin/true", &[]), plan).err().map(|error| format!("ptrace: {error}"))
    }

    /// `status --json`, whose output must be JSON in every state.
    pub fn status(&self) -> Result<Value, String> {
        let ran = self.run("skills status --json");
        if !matches!(ran.code, 0 | 1) {
            return Err(format!("status: {ran:?}"));
        }
        serde_json::from_str(&ran.out).map_err(|error| format!("status: {error}: {ran:?}"))
    }

    /// The state of the install at `path` in a status report.
    pub fn word(&self, status: &Value, path: &str) -> Option<String> {
        let whole = self.project.join(path);
        let rows = status["installs"].as_array()?;
        let row = rows.iter().find(|row| row["path"].as_str() == whole.to_str())?;
        Some(row["state"].as_str()?.to_owned())
    }

    /// What is at a path of the project; `None` if nothing is.
    pub fn tree(&self, path: &str) -> Option<Picture> {
        snapshot(&self.project.join(path))
    }

    /// The files and links of the project that no command may change: all except `dests` and the areas.
    pub fn rest(&self, dests: &[&str]) -> Picture {
        let mut all = snapshot(&self.project).unwrap_or_default();
        all.retain(|path, (mode, _)| {
            let free = dests.iter().any(|dest| path.starts_with(dest)) || path.iter().any(|part| part == ".kernels");
            // Commands may create and remove an empty skills folder.
            !free && *mode & libc::S_IFMT != libc::S_IFDIR
        });
        all
    }

    /// The contents of the areas: `txn-*` folders, and trees in the backups.
    pub fn areas(&self) -> Areas {
        let mut areas = Areas::default();
        for host in HOSTS.map(|host| self.project.join(host)) {
            for area in [host.join(".kernels"), host.join("skills/.kernels")] {
                let keeps_trees = !list(&area.join("backups")).is_empty();
                for entry in list(&area) {
                    match entry.file_name().unwrap().to_str().unwrap() {
                        // Without backups, it need not exist yet.
                        ".gitignore" if !keeps_trees => {}
                        ".gitignore" => {
                            let text = fs::read_to_string(&entry).unwrap();
                            areas.gitignores.push(text);
                        }
                        "base" => {}
                        "backups" => areas.backups.extend(list(&entry)),
                        name if name.starts_with("txn-") => areas.changes.push(entry),
                        _ => areas.strange.push(entry),
                    }
                }
            }
        }
        areas
    }

    /// What agents would list: every entry of every skills folder whose name does not begin with a dot.
    pub fn listed(&self) -> Vec<String> {
        let mut names: Vec<String> = HOSTS
            .iter()
            .flat_map(|host| names(&self.project.join(host).join("skills")))
            .filter(|name| name != ".kernels")
            .collect();
        names.sort();
        names.dedup();
        names
    }

    /// Whether exactly this tree exists at a destination, in a backup or, with
    /// `under_way`, in an unfinished change.
    pub fn holds(&self, tree: &Picture, dests: &[&str], under_way: bool) -> bool {
        let areas = self.areas();
        let mut places: Vec<PathBuf> = dests.iter().map(|dest| self.project.join(dest)).collect();
        places.extend(areas.backups);
        if under_way {
            places.extend(areas.changes.iter().flat_map(|at| list(at)));
        }
        places.iter().any(|place| snapshot(place).as_ref() == Some(tree))
    }
}

/// The contents of the areas.
#[derive(Debug, Default)]
pub struct Areas {
    pub changes: Vec<PathBuf>,
    pub backups: Vec<PathBuf>,
    /// The `.gitignore` beside backups.
    pub gitignores: Vec<String>,
    pub strange: Vec<PathBuf>,
}

/// Everything at and below a path: bytes, modes and names. Of a receipt, only the fields that do not
/// differ between runs.
pub fn snapshot(path: &Path) -> Option<Picture> {
    let mut all = picture(path);
    for (inside, (mode, bytes)) in &mut all {
        if inside.file_name().is_some_and(|name| name == RECEIPT) && *mode & libc::S_IFMT == libc::S_IFREG {
            *bytes = steady(std::mem::take(bytes));
        }
    }
    Some(all).filter(|all| !all.is_empty())
}

/// A receipt without its time, its change id, and the list of folders created for it.
fn steady(bytes: Vec<u8>) -> Vec<u8> {
    match serde_json::from_slice::<Value>(&bytes) {
        Ok(Value::Object(mut fields)) => {
            fields.retain(|key, _| !["id", "installed", "created_folders"].contains(&key.as_str()));
            serde_json::to_vec(&fields).unwrap()
        }
        _ => bytes,
    }
}
