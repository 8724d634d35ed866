//! `kernels man`: manual pages, generated from the same definitions as the help.

use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::cli;
use crate::report::Output;

/// Prints the page of a command, or the names of all commands that have one.
pub(super) fn run(command: &[String], list: bool, output: Output) -> Result<ExitCode> {
    let mut program = cli::definitions();
    program.build();
    if list {
        let mut names = Vec::new();
        collect(&program, &mut names);
        output.content(names.join("\n").as_bytes());
        output.content(b"\n");
        return Ok(ExitCode::SUCCESS);
    }
    let mut found = &program;
    for name in command {
        found = found.get_subcommands().find(|sub| sub.get_name() == name && sub.get_name() != "help").with_context(
            || {
                format!(
                    "{} has no command {name}; `kernels man --list` names all that have a page",
                    found.get_bin_name().unwrap_or("kernels")
                )
            },
        )?;
    }
    let mut page = Vec::new();
    clap_mangen::Man::new(found.clone())
        .source(concat!("kernels ", env!("CARGO_PKG_VERSION")))
        .render(&mut page)
        .context("the manual page cannot be made")?;
    output.content(&page);
    Ok(ExitCode::SUCCESS)
}

/// A command and its subcommands, as typed after `kernels`; the program itself has an empty name.
fn collect(command: &clap::Command, names: &mut Vec<String>) {
    let typed = command.get_bin_name().unwrap_or("kernels");
    names.push(typed.to_owned());
    for sub in command.get_subcommands() {
        if !sub.is_hide_set() && sub.get_name() != "help" {
            collect(sub, names);
        }
    }
}
