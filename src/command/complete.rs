//! Completion in shells: the script that a shell reads, and the names that this program fills in while somebody types.

use std::ffi::OsStr;

use anyhow::{Context, Result};
use clap::{Arg, Command, CommandFactory};
use clap_complete::engine::{
    ArgValueCandidates, ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter,
};
use clap_complete::env::Shells;
use clap_complete::{CompleteEnv, Shell};

use crate::agent::{Machine, Scope, sight, table};
use crate::cli::Cli;
use crate::install::{backups, discover};
use crate::report::Output;
use crate::skill::bundled;

/// If this variable is set to a shell's name, the program answers the shell's script, and does nothing else.
const VARIABLE: &str = "KERNELS_COMPLETE";

/// Bash puts what it is answered into the line as it is: a folder's name may hold spaces, or a command.
const QUOTED: &str = r#"    local at
    for at in "${!COMPREPLY[@]}"; do
        COMPREPLY[at]=$(printf %q "${COMPREPLY[at]}")
    done
"#;
/// Where the function of its script ends.
const END: &str = "}\nif [[ \"${BASH_VERSINFO[0]}\" -eq 4";

/// Prints the script of a shell.
pub(super) fn script(shell: Shell, output: Output) -> Result<()> {
    let shells = Shells::builtins();
    let script = shells.completer(&shell.to_string()).context("this shell has no completion script")?;
    let mut text = Vec::new();
    script.write_registration(VARIABLE, "kernels", "kernels", "kernels", &mut text)?;
    let text = String::from_utf8(text)?;
    let text = if shell == Shell::Bash { text.replacen(END, &format!("{QUOTED}{END}"), 1) } else { text };
    output.content(text.as_bytes());
    Ok(())
}

/// If a shell's script asks, answers it and ends the process.
pub fn answer() {
    CompleteEnv::with_factory(command).var(VARIABLE).complete();
}

/// The command line, with the names that are known on this machine.
fn command() -> Command {
    Cli::command().mut_subcommand("skills", |skills| skills.mut_subcommands(|command| command.mut_args(names)))
}

fn names(arg: Arg) -> Arg {
    match arg.get_id().as_str() {
        "names" => arg.add(ArgValueCandidates::new(installed)),
        "id" => arg.add(ArgValueCandidates::new(kept)),
        "chosen" => arg.add(ArgValueCandidates::new(embedded)),
        "skill" | "paths" => arg.add(ArgValueCompleter::new(embedded_or_path)),
        _ => arg,
    }
}

/// Shells insert candidates unquoted, so a folder whose name has other characters could become a command.
fn candidates(mut names: Vec<String>) -> Vec<CompletionCandidate> {
    names.retain(|name| name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-'));
    names.sort();
    names.dedup();
    names.into_iter().map(CompletionCandidate::new).collect()
}

/// The skills that agents find from here.
fn installed() -> Vec<CompletionCandidate> {
    let seen = |machine: Machine| table::all().iter().flat_map(|agent| sight::of(agent, &machine)).collect::<Vec<_>>();
    let seen = Machine::here().map(seen).unwrap_or_default();
    candidates(seen.into_iter().map(|seen| seen.name).collect())
}

fn kept() -> Vec<CompletionCandidate> {
    let kept = |machine| backups::list(&discover::all_places(&machine, &[Scope::Project, Scope::User]), &[]);
    let kept = Machine::here().map(kept).unwrap_or_default();
    candidates(kept.into_iter().map(|backup| backup.id).collect())
}

fn embedded() -> Vec<CompletionCandidate> {
    candidates(bundled::names().into_iter().map(str::to_owned).collect())
}

fn embedded_or_path(typed: &OsStr) -> Vec<CompletionCandidate> {
    let fits = |one: &CompletionCandidate| one.get_value().to_string_lossy().starts_with(&*typed.to_string_lossy());
    let embedded = embedded().into_iter().filter(fits);
    embedded.chain(PathCompleter::any().complete(typed)).collect()
}
