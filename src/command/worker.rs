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
    #[cfg(target_os = "linux")]
    if let Some(parent) = parent {
        // What nobody waits for any more keeps no card busy. The parent may have ended before.
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
        if rustix::process::getppid().is_none_or(|now| now.as_raw_nonzero().get().cast_unsigned() != *parent) {
            anyhow::bail!("process {parent}, which waited for this verification, has ended");
        }
    }
    let card = prepare::card(choice.ordinal)?;
    let progress = Progress::new(output);
    let tell = |what: &str| progress.tell(what);
    let open = |arch| Session::compiled(Project::open(project)?, arch, std::iter::empty(), &tell);
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
