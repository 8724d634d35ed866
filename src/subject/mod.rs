//! A coding agent, a bare model, a program or a filled folder, run headless on a task: confined, timed, and its steps and tokens recorded alike
//! for all. What runs a stranger's command, for subjects and for the tests that judge them, is [`supervise`].

pub(crate) mod agent;
mod bare;
mod folder;
mod message;
mod name;
mod program;
pub(crate) mod shell;
pub(crate) mod supervise;
mod tools;
mod wire;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::model::{Endpoint, Usage};
pub(crate) use agent::Agent;
use supervise::{Ended, Job};

/// Who does a task.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Subject {
    /// A command of the shell's, with the prompt in its standard input.
    Exec(String),
    /// A bare model, in a small loop with tools of ours.
    Http(Endpoint),
    /// A workspace that was filled elsewhere.
    Dir(PathBuf),
    /// A coding agent, as it is installed.
    Agent(Agent),
}

/// What is to be done, and where.
#[derive(Clone, Debug)]
pub(crate) struct Errand<'a> {
    /// The one folder in which the work is done.
    pub(crate) workspace: &'a Path,
    /// The subject's home, with its temporary files. Not the user's.
    pub(crate) home: &'a Path,
    /// A folder that the subject can read and not write to.
    pub(crate) log: &'a Path,
    /// Where answers of models are kept.
    pub(crate) answers: &'a Path,
    /// Which of several answers to the same question is wanted.
    pub(crate) sample: u32,
    pub(crate) prompt: &'a str,
    pub(crate) timeout: Duration,
    /// The most answers of its model.
    pub(crate) max_turns: u32,
    /// The most tokens of one answer, where this program asks the model: enough for a source file in one call.
    pub(crate) max_tokens: u32,
    /// The folders of PATH.
    pub(crate) path: Vec<PathBuf>,
    /// Folders that a coding agent cannot read, besides the user's home and the current folder.
    pub(crate) hidden: Vec<PathBuf>,
}

/// What became of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) end: End,
    pub(crate) took: Took,
    /// Of a coding agent's answers.
    pub(crate) price: Price,
    pub(crate) steps: Vec<Step>,
}

/// What answers of models cost.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Price {
    /// US dollars, as far as they are known.
    pub(crate) usd: f64,
    /// Requests whose price is not known.
    pub(crate) unknown: u32,
}

/// What it took, and what is seen of the work.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Took {
    /// Whether a skill was loaded; none where the subject does not say.
    pub(crate) loaded: Option<bool>,
    /// None where nobody counted, of one answer or of all; here and below.
    pub(crate) usage: Option<Usage>,
    pub(crate) turns: Option<u32>,
    pub(crate) calls: Option<u32>,
    pub(crate) failed_calls: Option<u32>,
    pub(crate) seconds: f64,
    /// None where the model's price is not known either.
    pub(crate) usd: Option<f64>,
    /// What a coding agent calls itself to the server of its model, with its version.
    #[serde(default)]
    pub(crate) client: Option<String>,
}

#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) enum End {
    #[default]
    Finished,
    TimedOut,
    /// Why, in a sentence.
    Failed(String),
}

/// A step of the trajectory, the same for all subjects.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Step {
    /// `assistant` or `user`.
    pub(crate) role: String,
    pub(crate) text: String,
    /// The name of a tool and its arguments.
    pub(crate) call: Option<(String, Value)>,
    /// What the call returned.
    pub(crate) result: Option<String>,
}

/// The folders of this program's PATH.
pub(crate) fn path() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).filter(|folder| folder.is_absolute()).collect()
}

impl Subject {
    /// Runs it to its end. An error is one of the machine's or of what was asked for, not of the subject's work.
    pub(crate) fn run(&self, errand: &Errand) -> Result<Outcome> {
        match self {
            Self::Exec(command) => program::run(command, errand),
            Self::Http(endpoint) => Ok(bare::run(endpoint, errand)),
            Self::Dir(path) => folder::run(path, errand),
            Self::Agent(agent) => agent.run(errand),
        }
    }

    /// An error says what is missing to run it with these folders of PATH.
    pub(crate) fn ready(&self, path: &[PathBuf]) -> Result<()> {
        match self {
            Self::Agent(agent) => agent.ready(path),
            Self::Http(endpoint) => endpoint.secret().map(drop),
            Self::Exec(_) | Self::Dir(_) => Ok(()),
        }
    }

    /// The agent of the table whose folder a skill is installed into.
    pub(crate) fn installs_for(&self) -> &str {
        match self {
            Self::Agent(agent) => &agent.row.id,
            // They have no folder of their own.
            Self::Exec(_) | Self::Http(_) | Self::Dir(_) => "agents",
        }
    }

    /// The name of its model, where it is known here.
    pub(crate) fn model(&self) -> Option<&str> {
        match self {
            Self::Exec(_) | Self::Dir(_) => None,
            Self::Http(endpoint) => Some(&endpoint.model),
            Self::Agent(agent) => agent.model.as_deref(),
        }
    }
}

impl Errand<'_> {
    /// The whole environment of what is run for it. The user's is not handed on: it has secrets, and is another one elsewhere.
    fn env(&self) -> Result<Vec<(String, String)>> {
        let path = std::env::join_paths(&self.path)?.to_string_lossy().into_owned();
        let home = self.home.display().to_string();
        let fixed = [("PATH", path), ("HOME", home.clone()), ("TMPDIR", home), ("LANG", "C.UTF-8".to_owned())];
        Ok(fixed.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }

    /// Runs a command of the shell's, confined and without a network.
    fn shell(&self, command: &str, more: &[(String, String)], limit: Duration) -> Result<Ended> {
        supervise::run(&Job {
            program: Path::new("/bin/sh"),
            arguments: &["-c".into(), command.into()],
            folder: self.workspace,
            env: &[self.env()?, more.to_vec()].concat(),
            writes: &self.writes(),
            card: false,
            limit,
            bounds: None,
        })
    }

    fn writes(&self) -> [PathBuf; 2] {
        [self.workspace.to_owned(), self.home.to_owned()]
    }
}

impl Outcome {
    /// The subject's last words.
    pub(crate) fn said(&self) -> &str {
        let said = |step: &&Step| step.role == "assistant" && !step.text.trim().is_empty();
        self.steps.iter().rfind(said).map_or("", |step| &step.text)
    }

    /// Of a subject whose tokens and calls are not seen.
    fn unseen(end: End, seconds: f64, text: String) -> Self {
        let said = Step { role: "assistant".to_owned(), text, ..Step::default() };
        Self { end, took: Took { seconds, ..Took::default() }, steps: vec![said], ..Self::default() }
    }
}
