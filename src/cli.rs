//! The command line: definitions, nothing else.

pub(crate) mod agents;
pub(crate) mod eval;
pub(crate) mod hub;
pub mod project;
pub(crate) mod search;
pub(crate) mod skills;
pub mod suggest;

use clap::builder::styling::{AnsiColor, Styles};
use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

/// Prove CUDA kernels, and teach coding agents to write them.
///
/// Builds a kernel project, checks its results against fp64, and times it beside a copy of the same bytes. Installs the
/// cuda-kernels skill into agents, and never discards an edit of yours.
#[derive(Debug, Parser)]
#[command(
    name = "kernels",
    version = crate::base::bundle::version(),
    styles = STYLES,
    max_term_width = 100,
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "Examples:\n  kernels skills add --claude        the skill, into this project, for Claude Code\n  kernels skills status              what is installed, and whether it is current\n  kernels toolchain install          the CUDA compiler, once\n  kernels init my-norms --op rms_norm --owner ada   a kernel project of your own\n  kernels add --blank relu2_up --dir my-norms   an operation of your own in it\n  kernels check kernels/rmsnorm      what fails on the Hub; needs no card\n  kernels build kernels/rmsnorm      registers, spills, occupancy; needs no card\n  kernels verify kernels/rmsnorm     results against fp64, on the card\n  kernels bench kernels/rmsnorm      time beside a copy of the same bytes\n  kernels publish my-norms           to the Kernel Hub, with its evidence\n\nExit codes: 0 done, 1 failed, 2 wrong usage, 3 refused to protect something of yours.\n\nOnly these use the network: `kernels publish`, `kernels hub`, `kernels toolchain install` (through pip),\n`kernels bench --against hub:OWNER/NAME` and `--e2e -- --kernel OWNER/NAME`, `kernels search`, `kernels skills eval` and `generate` with models\nand coding agents, and `kernels skills add`, `update`, `sync`, `restore` without an ID and `find --in`\nfor skills from elsewhere."
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Print JSON on stdout instead of text
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Print nothing but errors
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Install, inspect, update and remove agent skills
    #[command(subcommand)]
    Skills(skills::Skills),
    /// Start a kernel project from bundled kernels, or from a small example
    #[command(
        after_help = "Examples:\n  kernels init my-norms --op rms_norm\n  kernels init ltx-video-kernels --for ltx-video\n  kernels init my-kernel --op blank       (or, in a project, `kernels add --blank NAME`)\n  kernels init --list\n\nWrites a folder that `kernels` and kernel-builder build: kernels, torch binding, layers, tests,\nbenchmarks, card. Exit code 3 where something is in the way; nothing of it is touched."
    )]
    Init(project::Init),
    /// Add operations to a kernel project, bundled ones or one of your own
    #[command(
        after_help = "Examples:\n  kernels add swiglu\n  kernels add --blank relu2_up\n  kernels add relu2_up               its torch side again, after an edit of kernel.toml\n  kernels add swiglu --dry-run\n\nWrites kernels, binding, functions, layers, tests and benchmarks, and extends build.toml, kernel.toml, __init__.py,\nREADME.md and CARD.md beside your edits. All of it or nothing: exit code 3 where an edit is in the way, with the\nlines to change by hand. A run that was killed is completed by the same command."
    )]
    Add(project::AddOperation),
    /// Compile a kernel project with nvcc, and report each kernel's registers, spills and occupancy
    #[command(
        after_help = "Examples:\n  kernels build kernels/rmsnorm\n  kernels build --arch 80,90\n  kernels build --torch my-kernel\n\nPrints registers, spills, stack, shared memory, occupancy and the width of global accesses,\nand fails when a budget of kernel.toml is exceeded. Needs nvcc: see `kernels toolchain`.\n\nWith --torch, build.toml alone is needed, with [torch] stable-abi. The variant runs with every later\ntorch, is checked against manylinux_2_28, and loads with the kernels library:\n  kernels.get_local_kernel(pathlib.Path(\"my-kernel/build\"))\nNeeds nvcc, g++ and torch's headers: of an active environment, or `kernels toolchain install --torch`."
    )]
    Build(project::Build),
    /// Check a kernel project's results against an fp64 oracle, on the card
    #[command(
        after_help = "Examples:\n  kernels verify kernels/rmsnorm\n  kernels verify --dtype bf16 --shape rows=128,width=4096\n  kernels verify --sanitize"
    )]
    Verify(project::Verify),
    /// Time a kernel project beside a copy of the same bytes
    #[command(
        after_help = "Examples:\n  kernels bench kernels/rmsnorm --dtype bf16\n  kernels bench --export bench.json --export bench.svg\n  kernels bench --against torch,compile,liger,hub:./build --python ~/venv/bin/python\n  kernels bench examples/ltx_video --e2e --export e2e.svg\n\n--against captures each implementation in a CUDA graph over the same rotating tensors, compares results\nwith the fp64 reference, and replays the graphs in turn; what is not installed is named. With the\nmodule kernels_harness in that Python, this program's own clock times them.\n\n--e2e runs the project's benchmark_e2e.py, which needs the kernel built with `kernels build --torch DIR`."
    )]
    Bench(project::Bench),
    /// Find the fastest rows of a project's tuning tables for this card and your shapes, and write them into the project
    #[command(
        after_help = "Examples:\n  kernels tune kernels/rmsnorm --shape rows=4096,width=5120,dtype=bf16\n  kernels tune my-kernel --dry-run\n  kernels tune my-kernel --undo\n\n[[tuning]] of kernel.toml says which table of the sources a case takes its row from, and what may be tried\nin it. Each candidate is built in a copy, verified, and only then timed in turns with the present row. A\nrow is written only where it is faster by more than the spread and no bench case of kernel.toml loses;\ntuning.json keeps the figures and what --undo needs. docs/tune.md says more."
    )]
    Tune(project::Tune),
    /// Lint kernel projects: what fails in a Hub build or for a user; needs no card and no compiler
    #[command(
        after_help = "Examples:\n  kernels check kernels/rmsnorm\n  kernels check --fix --dry-run\n  kernels check --explain cuda/default-stream\n  kernels check kernels/* --export check.sarif\n\nAllow one finding: `// kernels: allow(RULE): reason` at its line, or [[check.allow]] in kernel.toml.\nExit codes: 0 no errors (with --strict no warnings either), 1 findings, 2 wrong usage."
    )]
    Check(project::Check),
    /// Check kernel projects in CI: build, budgets, evidence; verify and bench where there is a card
    #[command(
        after_help = "Examples:\n  kernels ci kernels/rmsnorm --junit report.xml\n  kernels ci --workflow > .github/workflows/kernels.yml\n  kernels ci my-norms --workflow --publish > .github/workflows/kernels.yml"
    )]
    Ci(project::Ci),
    /// Publish a project's variants on the Kernel Hub, with the evidence for them (uses the network)
    #[command(
        after_help = "Examples:\n  kernels publish my-kernel --dry-run\n  kernels publish my-kernel --repo me/my-kernel\n  kernels publish my-kernel --tag v1.1 --json\n\nChecks first, offline: the rules of `kernels check`, every digest, one name and version, the\nlibraries' ABI, git's state, evidence. Then one commit to the version's branch, read back, compared and,\nwhere --python has the library, loaded through get_kernel before anybody can see it; the page on main;\nthe tag. What is the same already is not sent; a run after an interrupted one completes it.\nUses the network through the program curl: HF_ENDPOINT, else https://huggingface.co. The token:\nHF_TOKEN, or the file that `hf auth login` writes; in CI without a secret\nHF_OIDC_RESOURCE=kernels/OWNER/NAME. Exit code 3 where somebody else's files would be lost."
    )]
    Publish(hub::Publish),
    /// Read the Kernel Hub: what a kernel is, its versions and variants; lock, download, verify (uses the network)
    #[command(subcommand)]
    Hub(hub::Hub),
    /// Search for better kernels of a project: candidates by programs, by hand or by models, judged by the harness
    #[command(subcommand)]
    Search(search::Search),
    /// Show which CUDA compiler would be used, or install the pinned one
    #[command(
        args_conflicts_with_subcommands = true,
        after_help = "Examples:\n  kernels toolchain\n  kernels toolchain install"
    )]
    Toolchain(project::Toolchain),
    /// Run as a child process; the harness starts this itself
    #[command(
        name = crate::worker::COMMAND,
        hide = true,
        after_help = "Example: none, the harness starts it"
    )]
    Worker {
        /// What to do, as JSON
        request: String,
        /// More arguments of the program that it becomes
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        more: Vec<std::path::PathBuf>,
    },
    /// Show the agents on this machine, which skills each sees, and problems with them
    #[command(after_help = "Example:\n  kernels doctor")]
    Doctor,
    /// Print a completion script for a shell; it completes the names of skills and agents too
    #[command(
        after_help = "Examples:\n  kernels completions bash > ~/.local/share/bash-completion/completions/kernels\n  source <(kernels completions zsh)\n\nThe script runs `kernels` to complete what is typed. Print it again after an upgrade of kernels."
    )]
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print the manual page of a command
    #[command(after_help = "Examples:\n  kernels man | man -l -\n  kernels man skills add > kernels-skills-add.1")]
    Man {
        /// The command, such as `skills add`; the program itself without one
        command: Vec<String>,
        /// Print the commands that have a page, one a line
        #[arg(long, conflicts_with = "command")]
        list: bool,
    },
}

/// All commands. The texts behind their options flow: a terminal's width breaks lines, and not the source.
pub(crate) fn definitions() -> clap::Command {
    flowing(Cli::command())
}

fn flowing(command: clap::Command) -> clap::Command {
    let text = command.get_after_help().map(|text| paragraphs(&text.to_string()));
    let command = match text {
        Some(text) => command.after_help(text),
        None => command,
    };
    command.mut_subcommands(flowing)
}

/// Joins the lines of each paragraph. An indented line and the exit codes have lines of their own.
fn paragraphs(text: &str) -> String {
    let (mut joined, mut goes_on) = (String::new(), false);
    for line in text.lines() {
        let is_prose = !line.is_empty() && !line.starts_with(' ');
        if !joined.is_empty() {
            joined.push(if is_prose && goes_on && !line.starts_with("Exit code") { ' ' } else { '\n' });
        }
        joined.push_str(line);
        goes_on = is_prose;
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definitions_hold_together() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_paragraph_is_one_line_and_what_is_indented_stays() {
        let text = "Examples:\n  one\n  two\n\nA line\nand its end.\nExit code 3.\n\nNeeds this:\n  three\nB.";
        let joined = "Examples:\n  one\n  two\n\nA line and its end.\nExit code 3.\n\nNeeds this:\n  three\nB.";
        assert_eq!(paragraphs(text), joined);
    }

    #[test]
    fn every_command_shows_an_example() {
        fn check(command: &clap::Command, path: &str) {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let group = command.has_subcommands() && !path.is_empty();
            assert!(group || help.contains("Example"), "{path} {} has no example", command.get_name());
            for below in command.get_subcommands().filter(|c| c.get_name() != "help") {
                check(below, &format!("{path} {}", command.get_name()));
            }
        }
        check(&Cli::command(), "");
    }
}
