//! The program run again as a child process, `kernels __worker REQUEST`: the request is one argument of JSON.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::process::Command;

use serde::{Deserialize, Serialize};

use crate::confine::verifier::Bounds;
use crate::project::DType;

/// The hidden subcommand.
pub(crate) const COMMAND: &str = "__worker";

/// What the child process does.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Request {
    /// Record launches of a project's library, as the parent asks for them on standard input.
    Record(Record),
    /// Verify one code path, or all of a project, and print the report as JSON.
    Verify(Verify),
    /// Become a program that runs a stranger's code.
    Confined(Confined),
    /// Run a command confined, end what it started, and print how it ended as JSON.
    Supervise(Supervised),
    /// Become a command that is confined as the tests of a task are.
    Confine(Supervised),
    /// Print the bound cases of a project as JSON, for Python programs that launch them.
    Cases(Cases),
    /// Carry out one job of a search, and leave its result in the run's folder.
    Search(SearchJob),
    /// Carry out one job of a list, on a node of a cluster that says which.
    SearchArray(SearchArray),
    /// Verify or time some cases of a project, and print the report as JSON.
    Tune(TuneJob),
}

#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct TuneJob {
    pub(crate) project: PathBuf,
    /// The card, by its number.
    pub(crate) ordinal: usize,
    pub(crate) cases: Vec<TuneCase>,
    /// How many rounds are timed; none: the cases are verified.
    pub(crate) rounds: Option<u32>,
}

/// A case with all its numbers.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct TuneCase {
    pub(crate) operation: String,
    pub(crate) dtype: DType,
    pub(crate) values: BTreeMap<String, f64>,
    pub(crate) offsets: BTreeMap<String, u64>,
    /// How its inputs are drawn.
    pub(crate) inputs: String,
    /// Whether it is timed, too.
    pub(crate) timed: bool,
}

#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct SearchJob {
    /// The run's folder.
    pub(crate) run: PathBuf,
    /// The job's name in it.
    pub(crate) key: String,
}

#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct SearchArray {
    /// The run's folder.
    pub(crate) run: PathBuf,
    /// The name of the list in it.
    pub(crate) batch: String,
}

#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Record {
    /// The card, by its number.
    pub(crate) ordinal: usize,
    /// The shared object with the launchers.
    pub(crate) library: PathBuf,
    /// The one folder that the process may write to.
    pub(crate) scratch: PathBuf,
    /// Whether the driver is opened before files are limited, and its threads keep the rights of the user.
    #[serde(default)]
    pub(crate) driver_first: bool,
}

#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Confined {
    pub(crate) program: PathBuf,
    pub(crate) arguments: Vec<PathBuf>,
    /// The one folder that it may write to.
    pub(crate) scratch: PathBuf,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Supervised {
    pub(crate) program: PathBuf,
    pub(crate) arguments: Vec<PathBuf>,
    /// The folders that it may write to.
    pub(crate) writes: Vec<PathBuf>,
    /// Whether it uses the card.
    pub(crate) card: bool,
    /// How long it may run.
    pub(crate) seconds: f64,
    /// Folders that it cannot read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) hidden: Vec<PathBuf>,
    /// Of a coding agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) bounds: Option<Bounds>,
}

#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Verify {
    pub(crate) project: PathBuf,
    pub(crate) choice: Choice,
    pub(crate) path: CodePath,
    /// The process with which it ends; none if a tool starts it.
    pub(crate) parent: Option<u32>,
}

/// Which code path a child process verifies.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CodePath {
    /// All code that a project is compiled to by default, each path in a process of its own.
    All,
    /// The code for this architecture.
    Arch(u32),
    /// The card's machine code, under compute-sanitizer: each tensor has an allocation of exactly its size.
    Sanitized,
}

#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Cases {
    pub(crate) project: PathBuf,
    /// Also the cases of `[[operation.verify]]`, less those that are drawn at random.
    #[serde(default)]
    pub(crate) verify: bool,
    /// Cases besides: each an operation, a dtype, and sizes as `--shape` takes them.
    #[serde(default)]
    pub(crate) shapes: Vec<(String, DType, String)>,
}

/// Which cases to verify or time, and on which card.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Choice {
    /// Only operations and cases whose name contains this.
    pub(crate) filter: Option<String>,
    /// Only these dtypes; empty: all.
    pub(crate) dtypes: Vec<DType>,
    /// These cases instead of the project's.
    pub(crate) shapes: Vec<String>,
    /// The seed; none: a fresh one.
    pub(crate) seed: Option<u64>,
    /// The card, by its number.
    pub(crate) ordinal: usize,
    /// Only the card's own machine code.
    pub(crate) native_only: bool,
    /// The file by which processes take turns on the card; none: they do not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) turns: Option<PathBuf>,
}

impl Request {
    /// This program's path, and the arguments that give it the request.
    pub(crate) fn arguments(&self) -> io::Result<(PathBuf, [String; 2])> {
        let request = serde_json::to_string(self)?;
        Ok((std::env::current_exe()?, [COMMAND.to_owned(), request]))
    }

    pub(crate) fn command(&self) -> io::Result<Command> {
        let (program, arguments) = self.arguments()?;
        let mut command = Command::new(program);
        command.args(arguments);
        Ok(command)
    }
}
