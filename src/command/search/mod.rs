//! `kernels search`: one file per verb.

mod compare;
mod export;
mod import;
mod run;
mod show;
mod site;
mod status;

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::cli::search::Search as Command;
use crate::command::failure::Usage;
use crate::journal::Journal;
use crate::report::Output;
use crate::search::state::{Candidate, State};

pub(super) fn run(command: &Command, output: Output) -> Result<ExitCode> {
    match command {
        Command::Import(arguments) => import::run(arguments, output),
        Command::Run(arguments) => run::run(arguments, output),
        Command::Resume(arguments) => run::resume(arguments, output),
        Command::Status(arguments) => status::run(&arguments.run, output),
        Command::Show(arguments) => show::run(arguments, output),
        Command::Compare(arguments) => compare::run(arguments, output),
        Command::Site(arguments) => site::run(arguments, output),
        Command::Export(arguments) => export::run(arguments, output),
    }
}

fn state(run: &Path) -> Result<State> {
    let events = Journal::read(run).with_context(|| {
        format!("{} is not a run: name the folder that `kernels search run --out` created", run.display())
    })?;
    State::of(&events)
}

fn candidate<'a>(state: &'a State, id: u32, run: &Path) -> Result<&'a Candidate> {
    state.candidate(id).ok_or_else(|| {
        Usage(format!("{} has no candidate {id}: it has 0 to {}", run.display(), state.candidates.len().max(1) - 1))
            .into()
    })
}
