//! The `kernels` command: parse, dispatch, exit code.

use std::process::ExitCode;

use clap::Parser;
use kernels::cli::Cli;
use kernels::command;

fn main() -> ExitCode {
    command::run(Cli::parse())
}
