//! A task: what a subject is asked, the files it begins with, and who judges what it leaves.
//!
//! A folder in Harbor's layout (`task.toml`, `instruction.md`, `environment/`, `tests/test.sh`, `solution/`) with the folder
//! `mutants/` and the table `[metadata.kernels]` besides. Prompts of other formats become tasks in [`super::cases`].

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::cases;
use super::files::Files;

/// How long tests may take where task.toml does not say.
const TESTS: Duration = Duration::from_secs(600);

#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub(crate) id: String,
    /// Its folder; of a prompt the file that it is in.
    pub(crate) folder: PathBuf,
    pub(crate) prompt: String,
    /// The workspace as a subject finds it.
    pub(crate) environment: Files,
    pub(crate) judge: Judge,
    pub(crate) about: About,
    /// How long its tests may take.
    pub(crate) limit: Duration,
    /// SHA-256 of all of it.
    pub(crate) digest: String,
}

/// Who says what the work is worth.
#[derive(Clone, Debug)]
pub(crate) enum Judge {
    /// `tests/test.sh`, and files that the tests of several tasks share.
    Tests { tests: Files, common: Files },
    /// The answer must contain all of these, in upper or lower case.
    Contains(Vec<String>),
    /// Nothing that can be executed; why.
    Nobody(String),
}

/// `[metadata.kernels]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct About {
    /// What its tests need of the machine.
    pub(crate) needs: Vec<Need>,
    pub(crate) kind: Kind,
    /// The share of the roof that passes.
    pub(crate) roof: Option<f64>,
    /// The file of the hidden cases, which must be there.
    pub(crate) hidden: Option<String>,
    /// The files that a subject may change; none: all but those in folders called `tests`.
    pub(crate) edit: Vec<String>,
    /// Whether the skill has business here; none: unless it is off-topic.
    pub(crate) skill_expected: Option<bool>,
    pub(crate) max_changed_lines: Option<usize>,
}

#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Need {
    Card,
    Nvcc,
    Torch,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    #[default]
    Kernel,
    Package,
    Fix,
    Read,
    OffTopic,
}

impl About {
    /// Whether a subject that loads the skill here is right to.
    pub(crate) fn expects_the_skill(&self) -> bool {
        self.skill_expected.unwrap_or(self.kind != Kind::OffTopic)
    }
}

/// The part of Harbor's `task.toml` that is read here.
#[derive(Deserialize)]
struct Harbor {
    #[serde(default)]
    metadata: BTreeMap<String, toml::Value>,
    #[serde(default)]
    verifier: Timeout,
}

#[derive(Default, Deserialize)]
struct Timeout {
    timeout_sec: Option<f64>,
}

impl Task {
    /// A folder with a `task.toml`. `common` are the files that the tests of several tasks share.
    fn read(folder: &Path, common: &Files) -> Result<Self> {
        let text = |name: &str| {
            let path = folder.join(name);
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
        };
        let toml = text("task.toml")?;
        let said = |error| format!("{}: {error}", folder.join("task.toml").display());
        let harbor: Harbor = toml::from_str(&toml).map_err(|error| anyhow::anyhow!(said(error.to_string())))?;
        let about: About = match harbor.metadata.get("kernels") {
            Some(table) => {
                let about = table.clone().try_into();
                about.map_err(|error: toml::de::Error| anyhow::anyhow!(said(format!("[metadata.kernels]: {error}"))))?
            }
            None => About::default(),
        };
        let prompt = text("instruction.md")?;
        let id = folder.file_name().and_then(|name| name.to_str()).context("a task's folder has no name")?;
        let mut environment = below(folder, "environment")?;
        // What Harbor builds the container of; there is none here.
        for name in ["Dockerfile", "docker-compose.yaml", ".dockerignore"] {
            environment.remove(name);
        }
        let tests = below(folder, "tests")?;
        if tests.get("test.sh").is_none() {
            bail!("{} has no tests/test.sh, which judges the work", folder.display());
        }
        if let Some(hidden) = about.hidden.as_ref().filter(|hidden| !folder.join(hidden).is_file()) {
            bail!("{}: `hidden` names {hidden}, which is not there", folder.join("task.toml").display());
        }
        let seconds = harbor.verifier.timeout_sec.and_then(|s| Duration::try_from_secs_f64(s).ok());
        let mut whole = Files::read(folder)?;
        whole.insert("common", common.digest().into_bytes());
        Ok(Self {
            id: id.to_owned(),
            folder: folder.to_owned(),
            prompt,
            environment,
            judge: Judge::Tests { tests, common: common.clone() },
            about,
            limit: seconds.unwrap_or(TESTS),
            digest: whole.digest(),
        })
    }

    /// The names of its mutants, in order.
    pub(crate) fn mutants(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder.join("mutants")).into_iter().flatten().flatten();
        let folders = entries.filter(|entry| entry.path().is_dir());
        let mut names: Vec<String> = folders.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names
    }
}

/// The files of a part of a task; none where there is no such folder.
pub(crate) fn below(folder: &Path, part: &str) -> Result<Files> {
    let path = folder.join(part);
    if path.is_dir() { Files::read(&path) } else { Ok(Files::default()) }
}

/// The tasks of these paths, each a task's folder, a folder of such folders, or a JSON file of prompts; by their ids.
pub(crate) fn read_all(paths: &[PathBuf]) -> Result<Vec<Task>> {
    let mut tasks = Vec::new();
    for path in paths {
        let path = &path.canonicalize().with_context(|| format!("cannot read tasks from {}", path.display()))?;
        if path.is_file() {
            tasks.extend(cases::read(path)?);
            continue;
        }
        let folders = folders(path)?;
        if folders.is_empty() {
            bail!("{} has no tasks: neither it nor a folder in it has a task.toml", path.display());
        }
        for folder in folders {
            tasks.push(Task::read(&folder, &common(&folder)?)?);
        }
    }
    tasks.sort_by(|one, other| one.id.cmp(&other.id));
    if let Some(pair) = tasks.windows(2).find(|pair| pair[0].id == pair[1].id) {
        let [one, other] = [&pair[0], &pair[1]].map(|task| task.folder.display());
        bail!("two tasks are called {}: {one} and {other}; rename one", pair[0].id);
    }
    Ok(tasks)
}

/// The folders with a `task.toml`, down to two levels.
fn folders(path: &Path) -> Result<Vec<PathBuf>> {
    let walk = walkdir::WalkDir::new(path).min_depth(1).max_depth(3).sort_by_file_name();
    let mut found = Vec::new();
    for entry in walk {
        let entry = entry.with_context(|| format!("cannot look into {}", path.display()))?;
        if entry.file_name() == "task.toml" {
            found.extend(entry.path().parent().map(Path::to_owned));
        }
    }
    Ok(found)
}

/// What lies in `common` beside a task's folder, or beside the folder that this one is in.
fn common(folder: &Path) -> Result<Files> {
    let near = folder.ancestors().skip(1).take(2).find(|above| above.join("common").is_dir());
    near.map_or_else(|| Ok(Files::default()), |above| Files::read(&above.join("common")))
}
