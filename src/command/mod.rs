//! One file per subcommand: resolve the arguments, call the module that does the work, show the result.

mod add;
mod add_operation;
mod agents;
mod backups;
mod batch;
mod bench;
mod bench_e2e;
mod build;
mod build_torch;
mod check;
mod ci;
mod complete;
mod diff;
mod doctor;
mod doctor_cuda;
mod elsewhere;
mod eval;
mod eval_runs;
mod failure;
mod find;
mod generate;
mod hub;
mod init;
mod init_skill;
mod list;
mod man;
mod offered;
mod pack;
mod pack_plugin;
mod prepare;
mod publish;
mod remove;
mod restore;
mod search;
mod show;
mod status;
mod sync;
mod target;
mod toolchain;
mod tune;
mod update;
mod validate;
mod verify;
mod worker;
mod workflow;

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use serde_json::{Value, json};

use crate::agent::Machine;
use crate::cli::skills::Skills;
use crate::cli::{Cli, Command, suggest};
use crate::install::Refusal;
use crate::report::{Output, output, style};

pub use complete::answer as answer_shell;

/// Runs a command line and returns its exit code.
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

/// The result of a command run by a program in its own process.
#[derive(Clone, Debug)]
pub struct Called {
    /// Whether its exit code would be 0.
    pub done: bool,
    /// What it prints with `--json`; after an error `error`, `exit_code` and `refused`.
    pub report: Value,
}

/// Runs a command line, without the program's name, and prints nothing.
pub fn call<A: Into<std::ffi::OsString>>(arguments: impl IntoIterator<Item = A>) -> Called {
    let words = ["kernels", "--json"].map(std::ffi::OsString::from);
    let words = words.into_iter().chain(arguments.into_iter().map(Into::into));
    let cli = match suggest::parse(words) {
        Ok(cli) => cli,
        Err(error) => {
            let error = error.render().to_string();
            let error = error.strip_prefix("error: ").unwrap_or(&error).trim_end();
            return Called { done: false, report: json!({"error": error, "exit_code": 2, "refused": null}) };
        }
    };
    let (code, printed) = output::captured(|| run(cli));
    Called { done: code == ExitCode::SUCCESS, report: serde_json::from_slice(&printed).unwrap_or(Value::Null) }
}

fn dispatch(command: Command, output: Output) -> Result<ExitCode> {
    if matches!(command, Command::Skills(_)) {
        eval::skills_are_offered()?;
    }
    match command {
        Command::Completions { shell } => complete::script(shell, output).map(|()| ExitCode::SUCCESS),
        Command::Man { command, list } => man::run(&command, list, output),
        Command::Init(arguments) => init::run(&arguments, output),
        Command::Add(arguments) => add_operation::run(&arguments, output),
        Command::Build(arguments) if arguments.torch => build_torch::run(&arguments, output),
        Command::Build(arguments) => build::run(&arguments, output),
        Command::Verify(arguments) => verify::run(&arguments, output),
        Command::Bench(arguments) => bench::run(&arguments, output),
        Command::Tune(arguments) => tune::run(&arguments, output),
        Command::Check(arguments) => check::run(&arguments, output),
        Command::Ci(arguments) => ci::run(&arguments, output),
        Command::Hub(command) => hub::run(&command, output),
        Command::Publish(arguments) => publish::run(&arguments, output),
        Command::Search(command) => search::run(&command, output),
        Command::Toolchain(arguments) => toolchain::run(&arguments, output),
        Command::Worker { request, more } => worker::run(&request, &more),
        Command::Doctor => Ok(doctor::run(&Machine::here()?, output)),
        Command::Skills(skills) => match skills {
            Skills::Show(arguments) => show::run(&arguments, output),
            Skills::Validate(arguments) => validate::run(&arguments, output),
            Skills::Pack(arguments) => pack::run(&arguments, output),
            Skills::Eval(arguments) => eval::run(&arguments, output),
            Skills::Runs(arguments) => eval_runs::run(&arguments, output),
            Skills::Add(arguments) => add::run(&Machine::here()?, &arguments, output),
            Skills::Agents(arguments) => Ok(agents::run(&Machine::here()?, arguments, output)),
            Skills::Find(arguments) => find::run(&Machine::here()?, &arguments, output),
            Skills::Init(arguments) => init_skill::run(&Machine::here()?, &arguments, output),
            Skills::Generate(arguments) => generate::run(&Machine::here()?, &arguments, output),
            Skills::List => list::run(&Machine::here()?, output),
            Skills::Status(select) => status::run(&Machine::here()?, &select, output),
            Skills::Diff(arguments) => diff::run(&Machine::here()?, &arguments, output),
            Skills::Sync(arguments) => sync::run(&Machine::here()?, &arguments, output),
            Skills::Backups(select) => backups::run(&Machine::here()?, &select, output),
            Skills::Restore(arguments) => restore::run(&Machine::here()?, &arguments, output),
            Skills::Update(arguments) => update::run(&Machine::here()?, &arguments, output),
            Skills::Remove(arguments) => remove::run(&Machine::here()?, &arguments, output),
        },
    }
}

/// Refuses a folder for a new run in which something lies: a run writes files of its own names. `resume` is what to do with one that
/// holds a run.
fn is_free(folder: &Path, resume: &str) -> Result<()> {
    let other = "name another folder after --out";
    let refused = |reason, advice: &[&str]| Err(Refusal::of(folder.to_owned(), reason, advice).into());
    if std::fs::symlink_metadata(folder.join("events.jsonl")).is_ok() {
        return refused("holds a run already", &[resume, other]);
    }
    let is_empty = std::fs::read_dir(folder).map_or(true, |mut entries| entries.next().is_none());
    if is_empty { Ok(()) } else { refused("is not empty", &[other]) }
}
