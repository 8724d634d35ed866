//! One file a subcommand: resolve what is meant, call the room that does it, show the result.

pub mod add;
pub mod bench;
pub mod build;
pub mod check;
pub mod ci;
pub mod diff;
pub mod doctor;
pub mod doctor_cuda;
pub mod failure;
pub mod init;
pub mod list;
mod man;
pub mod pack;
pub mod prepare;
pub mod record;
pub mod remove;
pub mod show;
pub mod status;
pub mod target;
pub mod toolchain;
pub mod update;
pub mod validate;
pub mod verify;

use std::process::ExitCode;

use anyhow::Result;
use clap::CommandFactory;

use crate::agent::Machine;
use crate::cli::{Cli, Command, Skills};
use crate::report::{Output, output, style};

/// Runs a command line and answers its exit code.
pub fn run(cli: Cli) -> ExitCode {
    let output = Output::new(cli.json, cli.quiet);
    let code = match dispatch(cli.command, output) {
        Ok(code) => code,
        Err(error) => failure::report(&error, output),
    };
    match output::lost() {
        Some(error) if code == ExitCode::SUCCESS => {
            output.error(format!(
                "{} the command was carried out, but its output could not all be written to stdout: {error}",
                style::bad("error:")
            ));
            ExitCode::FAILURE
        }
        _ => code,
    }
}

fn dispatch(command: Command, output: Output) -> Result<ExitCode> {
    match command {
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "kernels", &mut script);
            output.content(&script);
            Ok(ExitCode::SUCCESS)
        }
        Command::Man { command, list } => man::run(&command, list, output),
        Command::Init(arguments) => init::run(&arguments, output),
        Command::Build(arguments) => build::run(&arguments, output),
        Command::Verify(arguments) => verify::run(&arguments, output),
        Command::Bench(arguments) => bench::run(&arguments, output),
        Command::Check(arguments) => check::run(&arguments, output),
        Command::Ci(arguments) => ci::run(&arguments, output),
        Command::Toolchain(arguments) => toolchain::run(&arguments, output),
        Command::Record => record::run(),
        Command::Doctor => doctor::run(&Machine::here()?, output),
        Command::Skills(skills) => match skills {
            Skills::Show(arguments) => show::run(&arguments, output),
            Skills::Validate(arguments) => validate::run(&arguments, output),
            Skills::Pack(arguments) => pack::run(&arguments, output),
            Skills::Add(arguments) => add::run(&Machine::here()?, &arguments, output),
            Skills::List => list::run(&Machine::here()?, output),
            Skills::Status(select) => status::run(&Machine::here()?, &select, output),
            Skills::Diff(select) => diff::run(&Machine::here()?, &select, output),
            Skills::Update(arguments) => update::run(&Machine::here()?, &arguments, output),
            Skills::Remove(arguments) => remove::run(&Machine::here()?, &arguments, output),
        },
    }
}
