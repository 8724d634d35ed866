//! A coding agent, a bare model, a program or a filled folder, run headless on a task: confined, timed, and its steps and tokens
//! recorded alike for all.

mod name;

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::model::{Endpoint, Usage};

/// Who does a task.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Subject {
    Claude {
        model: String,
    },
    Codex {
        model: String,
    },
    OpenCode {
        model: String,
    },
    Gemini {
        model: String,
    },
    Copilot {
        model: String,
    },
    /// A command of the shell's, with the prompt in its standard input.
    Exec(String),
    /// A bare model, in a small loop with tools of ours.
    Http(Endpoint),
    /// A workspace that was filled elsewhere.
    Dir(PathBuf),
}

/// What is to be done, and where.
#[derive(Clone, Debug)]
pub(crate) struct Errand<'a> {
    /// The one folder in which the work is done.
    pub(crate) workspace: &'a Path,
    /// The subject's home: its settings, skills and temporary files. Not the user's.
    pub(crate) home: &'a Path,
    pub(crate) prompt: &'a str,
    /// Instructions beside the agent's own.
    pub(crate) system: Option<&'a str>,
    pub(crate) timeout: Duration,
    /// Of the model's answers. Claude Code and bare models keep to it; the others have no such limit.
    pub(crate) max_turns: u32,
    /// Folders before the system's in PATH.
    pub(crate) path: Vec<PathBuf>,
    /// Variables besides; the rest of the environment is made from nothing.
    pub(crate) env: Vec<(String, String)>,
    /// The file that gets what the subject prints.
    pub(crate) log: &'a Path,
}

/// What became of it.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct Outcome {
    pub(crate) end: End,
    pub(crate) usage: Usage,
    pub(crate) turns: u32,
    pub(crate) calls: u32,
    pub(crate) failed_calls: u32,
    pub(crate) seconds: f64,
    /// Whether a skill was loaded; `None` where that cannot be seen.
    pub(crate) loaded: Option<bool>,
    pub(crate) steps: Vec<Step>,
}

#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum End {
    Finished,
    TimedOut,
    /// Why, in a sentence.
    Failed(String),
}

/// A step of the trajectory, the same for all agents.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(crate) struct Step {
    /// `assistant` or `user`.
    pub(crate) role: String,
    pub(crate) text: String,
    /// The name of a tool and its arguments.
    pub(crate) call: Option<(String, Value)>,
    /// What the call returned.
    pub(crate) result: Option<String>,
}
