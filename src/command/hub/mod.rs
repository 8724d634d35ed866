//! `kernels hub`: one file per verb.

mod download;
mod functions;
mod info;
mod lock;
mod variants;
mod verify;
mod versions;

use std::process::ExitCode;

use anyhow::Result;

use crate::cli::hub::{Hub as Command, Which};
use crate::hub::Hub;
use crate::hub::variants::Wanted;
use crate::report::Output;

pub(super) fn run(command: &Command, output: Output) -> Result<ExitCode> {
    let hub = Hub::open(None)?;
    match command {
        Command::Info { kernel } => info::run(&hub, kernel, output),
        Command::Versions { repo } => versions::run(&hub, repo, output),
        Command::Variants(arguments) => variants::run(&hub, arguments, output),
        Command::Lock { dir } => lock::run(&hub, dir, output),
        Command::Download(arguments) => download::run(&hub, arguments, output),
        Command::Verify(arguments) => verify::run(&hub, arguments, output),
    }
}

fn wanted(which: &Which) -> Wanted<'_> {
    match &which.variant {
        Some(name) => Wanted::Named(name),
        None if which.all_variants => Wanted::All,
        None => Wanted::OfThisPlatform,
    }
}
