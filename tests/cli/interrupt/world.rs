//! A home and a project that can be reset to a saved state, and their contents.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use fancy_regex::{Captures, Regex};
use serde_json::Value;
use tempfile::TempDir;

use super::trace::{self, Plan, Traced};

pub const KERNELS: &str = env!("CARGO_BIN_EXE_kernels");
/// The folders of the agents that the scenarios use.
pub const HOSTS: [&str; 4] = [".claude", ".codex", ".opencode", ".agents"];
const RECEIPT: &str = ".kernels.json";
const PREFIX: &str = "kernels-interrupt-";

/// What is at a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Node {
    Folder(u32),
    File(u32, Vec<u8>),
    Link(PathBuf),
    Other,
}

/// Everything that a command can depend on, as text that is equal for two runs that differ
/// only in ids and times.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct State(String);

/// A folder's contents by path; a file or a link has one entry with an empty path.
pub type Snapshot = BTreeMap<PathBuf, Node>;

/// The result of an untraced run.
#[derive(Debug)]
pub struct Ran {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

pub struct World {
    root: TempDir,
    pub project: PathBuf,
    pub home: PathBuf,
}

impl World {
    /// A project with two versions of a skill in `sources`, one of them also as `current`, and
    /// user files beside everything that will change.
    ///
    /// It is in memory if possible: only the order of calls matters for a kill, and no
    /// sweep then has to wait for a disk.
    pub fn new() -> Self {
        let memory = TempDir::with_prefix_in(PREFIX, "/dev/shm");
        Self::in_folder(memory.or_else(|_| TempDir::with_prefix(PREFIX)).unwrap())
    }

    /// The same in the folder for temporary files, usually on a disk.
    pub fn on_disk() -> Self {
        Self::in_folder(TempDir::with_prefix(PREFIX).unwrap())
    }

    fn in_folder(root: TempDir) -> Self {
        let real = root.path().canonicalize().unwrap();
        let world = Self { project: real.join("project"), home: real.join("home"), root };
        fs::create_dir(&world.home).unwrap();
        world.furnish();
        world
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

    /// Writes version `n` of the skill, with a script, an empty file and nested folders.
    pub fn write_skill(&self, folder: &str, n: u32) {
        let path = self.project.join(folder);
        let _ = fs::remove_dir_all(&path);
        let header =
            format!("---\nname: demo\ndescription: Does it. Use when asked.\nmetadata:\n  version: \"{n}.0\"\n---\n");
        self.write(&format!("{folder}/SKILL.md"), format!("{header}# Demo {n}\n"));
        self.write(&format!("{folder}/references/deep/a.md"), format!("a {n}\n"));
        self.write(&format!("{folder}/references/only-{n}.md"), "");
        self.write(&format!("{folder}/scripts/run.sh"), format!("#!/bin/sh\necho {n}\n"));
        let script = path.join("scripts/run.sh");
        fs::set_permissions(script, fs::Permissions::from_mode(0o755)).unwrap();
    }

    pub fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.project.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub fn delete(&self, path: &str) {
        let path = self.project.join(path);
        if path.is_dir() {
            fs::remove_dir_all(path).unwrap();
        } else {
            fs::remove_file(path).unwrap();
        }
    }

    /// Saves the project for [`World::reset`].
    pub fn keep(&self) {
        let kept = self.root.path().join("kept");
        let _ = fs::remove_dir_all(&kept);
        copy(&self.project, &kept);
    }

    pub fn reset(&self) {
        fs::remove_dir_all(&self.project).unwrap();
        copy(&self.root.path().join("kept"), &self.project);
    }

    fn at_home<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.env_clear().env("HOME", &self.home).env("PATH", "/usr/bin:/bin").current_dir(&self.project)
    }

    /// Runs `kernels skills` with these arguments.
    pub fn run(&self, typed: &str) -> Ran {
        let mut command = Command::new(KERNELS);
        command.arg("skills").args(typed.split(' '));
        let output = self.at_home(&mut command).output().unwrap();
        Ran {
            code: output.status.code(),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Runs it and expects success.
    pub fn ok(&self, typed: &str) {
        let ran = self.run(typed);
        assert_eq!(ran.code, Some(0), "{typed}: {ran:#?}");
    }

    /// Runs it with faults.
    pub fn traced(&self, typed: &str, plan: Plan) -> Traced {
        let arguments: Vec<&str> = ["skills"].into_iter().chain(typed.split(' ')).collect();
        let mut command = trace::behind_a_shell(KERNELS, &arguments);
        trace::run(self.at_home(&mut command), plan).expect("the program can be followed")
    }

    /// Runs it and calls `at_stop` at the entry and the exit of each call that can change something.
    pub fn watched(&self, typed: &str, plan: Plan, at_stop: &mut dyn FnMut()) -> Traced {
        let arguments: Vec<&str> = ["skills"].into_iter().chain(typed.split(' ')).collect();
        let mut command = trace::behind_a_shell(KERNELS, &arguments);
        trace::watch(self.at_home(&mut command), plan, at_stop).expect("the program can be followed")
    }

    /// The contents of the project and of the home.
    pub fn state(&self) -> State {
        // Ids distinguish trees, so each becomes a number; times are only displayed.
        static ID_OR_TIME: LazyLock<Regex> =
            LazyLock::new(|| Regex::new(r"([0-9a-f]{12,}-[0-9a-f]+-[0-9a-f]+)|\d{4}-?\d\d-?\d\dT[0-9:.]+Z").unwrap());
        let mut all = String::new();
        for folder in [&self.project, &self.home] {
            for (path, node) in whole_snapshot(folder).unwrap_or_default() {
                let node = match node {
                    Node::File(mode, bytes) => {
                        format!("{mode:o} {}", String::from_utf8_lossy(&bytes))
                    }
                    other => format!("{other:?}"),
                };
                all += &format!("{} {node}\n", path.display());
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
        let mut command = trace::behind_a_shell("/bin/true", &[]);
        let plan = Plan::changing(trace::Fault::None, false);
        trace::run(self.at_home(&mut command), plan).err().map(|error| format!("ptrace: {error}"))
    }

    /// `status --json`, whose output must be JSON in every state.
    pub fn status(&self) -> Result<Value, String> {
        let ran = self.run("status --json");
        if !matches!(ran.code, Some(0 | 1)) {
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
    pub fn at(&self, path: &str) -> Option<Snapshot> {
        snapshot(&self.project.join(path))
    }

    /// The files and links of the project that no command may change: all except `dests` and the areas.
    pub fn rest(&self, dests: &[&str]) -> Snapshot {
        let mut all = snapshot(&self.project).unwrap_or_default();
        all.retain(|path, node| {
            let free = dests.iter().any(|dest| path.starts_with(dest)) || path.iter().any(|part| part == ".kernels");
            // Commands may create and remove an empty skills folder.
            !free && !matches!(node, Node::Folder(_))
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
            .flat_map(|host| list(&self.project.join(host).join("skills")))
            .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
            .filter(|name| name != ".kernels")
            .collect();
        names.sort();
        names.dedup();
        names
    }

    /// Whether exactly this tree exists at a destination, in a backup or, with
    /// `under_way`, in an unfinished change.
    pub fn holds(&self, tree: &Snapshot, dests: &[&str], under_way: bool) -> bool {
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

/// The sorted entries of a folder; none if it does not exist.
pub fn list(folder: &Path) -> Vec<PathBuf> {
    let mut entries: Vec<PathBuf> =
        fs::read_dir(folder).map(|entries| entries.map(|entry| entry.unwrap().path()).collect()).unwrap_or_default();
    entries.sort();
    entries
}

/// Everything at and below a path: bytes, modes and names. Of a receipt, only the fields that do not
/// differ between runs.
pub fn snapshot(path: &Path) -> Option<Snapshot> {
    let mut all = whole_snapshot(path)?;
    for (inside, node) in &mut all {
        if inside.file_name().is_some_and(|name| name == RECEIPT)
            && let Node::File(_, bytes) = node
        {
            *bytes = steady(std::mem::take(bytes));
        }
    }
    Some(all)
}

fn whole_snapshot(path: &Path) -> Option<Snapshot> {
    fs::symlink_metadata(path).ok()?;
    let mut all = Snapshot::new();
    collect(path, Path::new(""), &mut all);
    Some(all)
}

fn collect(path: &Path, inside: &Path, all: &mut Snapshot) {
    let meta = fs::symlink_metadata(path).unwrap();
    let mode = meta.permissions().mode() & 0o7777;
    let node = if meta.is_symlink() {
        Node::Link(fs::read_link(path).unwrap())
    } else if meta.is_dir() {
        for below in list(path) {
            collect(&below, &inside.join(below.file_name().unwrap()), all);
        }
        Node::Folder(mode)
    } else if meta.is_file() {
        Node::File(mode, fs::read(path).unwrap())
    } else {
        Node::Other
    };
    all.insert(inside.to_path_buf(), node);
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

fn copy(from: &Path, to: &Path) {
    let meta = fs::symlink_metadata(from).unwrap();
    if meta.is_symlink() {
        std::os::unix::fs::symlink(fs::read_link(from).unwrap(), to).unwrap();
    } else if meta.is_dir() {
        fs::create_dir(to).unwrap();
        for below in list(from) {
            copy(&below, &to.join(below.file_name().unwrap()));
        }
        fs::set_permissions(to, meta.permissions()).unwrap();
    } else {
        fs::copy(from, to).unwrap();
    }
}
