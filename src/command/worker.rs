//! `kernels __worker`: the program run again as a child process, by itself or by a Python program.

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};

use super::prepare;
use crate::against;
use crate::confine::launcher;
use crate::gpu::child;
use crate::project::Project;
use crate::report::{Output, Progress};
use crate::search;
use crate::session::Session;
use crate::subject::supervise;
use crate::tune;
use crate::verify::run;
use crate::worker::{CodePath, Request, Verify};

pub(super) fn run(request: &str, more: &[PathBuf]) -> Result<ExitCode> {
    let output = Output::new(true, true);
    match serde_json::from_str(request).context("reading the request of __worker")? {
        Request::Record(request) => child::serve(&request)?,
        Request::Confined(request) => {
            let mut command = Command::new(&request.program);
            return Err(launcher::become_confined(command.args(&request.arguments), &request.scratch));
        }
        Request::Supervise(request) => supervise::serve(&request)?,
        Request::Confine(mut request) => {
            request.arguments.extend_from_slice(more);
            return Err(supervise::become_it(&request));
        }
        Request::Verify(request) => return verify(&request, output),
        Request::Search(job) => search::evaluate::serve(&job)?,
        Request::SearchArray(array) => search::engine::serve(&array)?,
        Request::Tune(job) => output.json(&tune::child::serve(&job)?),
        Request::Cases(request) => output.json(&against::cases(&request)?),
    }
    Ok(ExitCode::SUCCESS)
}

fn verify(request: &Verify, output: Output) -> Result<ExitCode> {
    let Verify { project, choice, path, parent } = request;
    parent.map_or(Ok(()), end_with)?;
    let card = prepare::card(choice.ordinal)?;
    let progress = Progress::new(output);
    let tell = |what: &str| progress.tell(what);
    let open = |arch| {
        let mut project = Project::open(project)?;
        prepare::of_shapes(&mut project, choice)?;
        Session::compiled(project, arch, std::iter::empty(), &tell)
    };
    let report = match path {
        CodePath::All => {
            let Session { project, build } = Session::by_default(Project::open(project)?, card.arch)?;
            run::run(&project, &build, choice, &|_| {})?
        }
        CodePath::Arch(arch) => {
            let Session { project, build } = open(*arch)?;
            run::run_path(&project, &build, choice, false)?
        }
        CodePath::Sanitized => {
            let Session { project, build } = open(card.arch)?;
            run::run_path(&project, &build, choice, true)?
        }
    };
    output.json(&report);
    Ok(if report.passed() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Ends this process with its parent: what nobody waits for any more keeps no card busy. An error if the parent has ended before.
#[cfg(target_os = "linux")]
fn end_with(parent: u32) -> Result<()> {
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    let now = rustix::process::getppid().map(|now| now.as_raw_nonzero().get().cast_unsigned());
    anyhow::ensure!(now == Some(parent), "process {parent}, which waited for this verification, has ended");
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn end_with(_: u32) -> Result<()> {
    Ok(())
}
