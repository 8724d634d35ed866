//! A task: what a subject is asked, the files it begins with, and who judges what it leaves.
//!
//! A folder in Harbor's layout (`task.toml`, `instruction.md`, `environment/`, `tests/test.sh`, `solution/`) with the folder
//! `mutants/` and the table `[metadata.kernels]` besides. Prompts of other formats become tasks in `cases.rs`.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::files::{Files, names};

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
    /// `tests`, and the files that the tests of several tasks share.
    pub(crate) tests: Files,
    pub(crate) common: Files,
    pub(crate) about: About,
    /// How long its tests may take.
    pub(crate) limit: Duration,
    /// SHA-256 of all of it.
    pub(crate) digest: String,
}

/// Who says what the work is worth.
#[derive(Clone, Debug)]
pub(crate) enum Judge {
    /// `tests/test.sh`.
    Tests,
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

#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
#[serde(try_from = "String")]
pub(crate) enum Need {
    Card,
    Nvcc,
    Torch,
    /// A module of the Python that has torch.
    Python(String),
}

impl TryFrom<String> for Need {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let is_name = |name: &&str| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        match text.as_str() {
            "card" => Ok(Self::Card),
            "nvcc" => Ok(Self::Nvcc),
            "torch" => Ok(Self::Torch),
            other => match other.strip_prefix("python:").filter(is_name) {
                Some(module) => Ok(Self::Python(module.to_owned())),
                None => Err(format!("`needs` is of card, nvcc, torch, python:MODULE; not `{other}`")),
            },
        }
    }
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
#[derive(Default, Deserialize)]
#[serde(default)]
struct Harbor {
    metadata: Metadata,
    verifier: Timeout,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Metadata {
    kernels: About,
}

#[derive(Default, Deserialize)]
struct Timeout {
    timeout_sec: Option<f64>,
}

impl Task {
    /// A folder with a `task.toml`. `common` are the files that the tests of several tasks share.
    pub(crate) fn read(folder: &Path, common: Files) -> Result<Self> {
        let text = |name: &str| {
            let path = folder.join(name);
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
        };
        let toml = folder.join("task.toml");
        let Harbor { metadata: Metadata { kernels: about }, verifier } =
            toml::from_str(&text("task.toml")?).with_context(|| toml.display().to_string())?;
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
            bail!("{}: `hidden` names {hidden}, which is not there", toml.display());
        }
        let seconds = verifier.timeout_sec.and_then(|s| Duration::try_from_secs_f64(s).ok());
        let mut whole = Files::read(folder)?;
        whole.insert("common", common.digest().into_bytes());
        Ok(Self {
            id: id.to_owned(),
            folder: folder.to_owned(),
            prompt,
            environment,
            judge: Judge::Tests,
            tests,
            common,
            about,
            limit: seconds.unwrap_or(TESTS),
            digest: whole.digest(),
        })
    }

    /// The names of its mutants, in order.
    pub(crate) fn mutants(&self) -> Vec<String> {
        let folder = self.folder.join("mutants");
        names(&folder).into_iter().filter(|name| folder.join(name).is_dir()).collect()
    }
}

/// The files of a part of a task; none where there is no such folder.
pub(crate) fn below(folder: &Path, part: &str) -> Result<Files> {
    let path = folder.join(part);
    if path.is_dir() { Files::read(&path) } else { Ok(Files::default()) }
}
