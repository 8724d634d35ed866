//! The command line of kernel projects: definitions, nothing else.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use crate::base::arch;
use crate::base::text::{and, numbers};

/// `kernels toolchain`.
#[derive(Args, Debug)]
pub struct Toolchain {
    /// What to do; without it, show which nvcc would be used.
    #[command(subcommand)]
    pub(crate) command: Option<ToolchainCommand>,
}

/// The commands about the toolchain.
#[derive(Debug, Subcommand)]
pub(crate) enum ToolchainCommand {
    /// Install the pinned CUDA compiler into the user's cache (downloads about 110 MB through pip)
    #[command(
        after_help = "Examples:\n  kernels toolchain install\n  kernels toolchain install --torch\n\nOpens a network connection: pip fetches five wheels, or that of torch, from its configured index\nand checks their hashes. Nothing needs the network afterwards."
    )]
    Install {
        /// The Python whose pip fetches the wheels
        #[arg(long, value_name = "PATH", default_value = "python3")]
        python: PathBuf,
        /// Install again, even when it is complete
        #[arg(long)]
        force: bool,
        /// Install the headers of torch 2.11.0 instead, for `kernels build --torch` (downloads 530 MB, keeps 86)
        #[arg(long)]
        torch: bool,
    },
}

/// `kernels init`.
#[derive(Args, Debug)]
pub(crate) struct Init {
    /// The project's name: small letters, digits and hyphens
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Its operations, several as `a,b` or `a b`, each with its gradient where it has one; `blank` is a small kernel to start
    /// from
    #[arg(long, value_name = "OP", value_delimiter = ',', num_args = 1..)]
    pub(crate) op: Vec<String>,
    /// All that a model needs: ltx-video, qwen3
    #[arg(long = "for", value_name = "MODEL", value_delimiter = ',')]
    pub(crate) models: Vec<String>,
    /// The project's folder, new or empty [default: NAME, in the current folder]
    #[arg(long, value_name = "DIR")]
    pub(crate) dest: Option<PathBuf>,
    /// Its owner on the Hub: the first half of `repo-id` in build.toml [default: your-name]
    #[arg(long, value_name = "OWNER")]
    pub(crate) owner: Option<String>,
    /// Start no git repository; without it one is started, unless the folder lies in one
    #[arg(long)]
    pub(crate) no_git: bool,
    /// List what --op and --for take
    #[arg(long, conflicts_with_all = ["name", "op", "models", "dest", "owner", "no_git"])]
    pub(crate) list: bool,
}

/// `kernels add`.
#[derive(Args, Debug)]
pub(crate) struct AddOperation {
    /// Operations of `kernels init --list`, or of the project's own, whose files for torch are written anew from kernel.toml
    #[arg(value_name = "OP", required_unless_present = "blank")]
    pub(crate) op: Vec<String>,
    /// A new operation of your own: a small kernel with its gradient, to be edited
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) blank: Vec<String>,
    /// The project's folder
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) dir: PathBuf,
    /// Show what would be written, and write nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Which project, and for which architectures.
#[derive(Args, Clone, Debug)]
pub(crate) struct Compile {
    /// The project: a folder with build.toml and kernel.toml
    #[arg(value_name = "DIR", default_value = ".")]
    pub(crate) dir: PathBuf,
    /// Compute capabilities, as numbers without the point.
    #[arg(long, value_name = "CC", value_delimiter = ',', value_parser = arch_number, help = arch_help())]
    pub(crate) arch: Vec<u32>,
}

/// `kernels build`.
#[derive(Args, Debug)]
pub struct Build {
    /// What to compile.
    #[command(flatten)]
    pub(crate) compile: Compile,
    /// Compile again, ignoring the cache; with --torch, replace a folder with files of other origin, after moving it to a
    /// backup
    #[arg(long)]
    pub(crate) force: bool,
    /// Build a variant for torch.
    #[arg(long, help = torch_help())]
    pub(crate) torch: bool,
    /// With --torch, where the variant's folder is written [default: build/ of the project]
    #[arg(long, value_name = "DIR", requires = "torch")]
    pub(crate) out: Option<PathBuf>,
    /// With --torch, the Python in whose environment torch is [default: an active environment, python3, the cache]
    #[arg(long, value_name = "PATH", requires = "torch")]
    pub(crate) python: Option<PathBuf>,
}

/// Which cases.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Selection {
    /// Only operations and cases whose name contains this
    #[arg(long, value_name = "TEXT")]
    pub(crate) filter: Option<String>,
    /// Only cases of these element types, with commas between: f32, bf16, e4m3, … (docs/kernel-toml.md lists all)
    #[arg(long, value_name = "DTYPE", value_delimiter = ',')]
    pub(crate) dtype: Vec<String>,
    /// Instead of the project's cases, this one: rows=128,width=4096. Operations that have no such
    /// sizes are left out
    #[arg(long, value_name = "SIZES")]
    pub(crate) shape: Vec<String>,
    /// Seed of the inputs and of the cases drawn afresh [default: drawn, and printed]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) seed: Option<u64>,
    /// The card, by its number
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) device: usize,
}

/// `kernels verify`.
#[derive(Args, Debug)]
pub(crate) struct Verify {
    /// The project: a folder with build.toml and kernel.toml
    #[arg(value_name = "DIR", default_value = ".")]
    pub(crate) dir: PathBuf,
    /// Which cases.
    #[command(flatten)]
    pub(crate) selection: Selection,
    /// Run under compute-sanitizer: memcheck, racecheck, initcheck
    #[arg(long)]
    pub(crate) sanitize: bool,
    /// Leave out the T4 and A100 code paths, whose PTX runs through the driver's compiler
    #[arg(long)]
    pub(crate) native_only: bool,
}

/// `kernels bench`.
#[derive(Args, Debug)]
#[command(group = clap::ArgGroup::new("through Python").args(["against", "e2e"]).multiple(true))]
pub(crate) struct Bench {
    /// The project: a folder with build.toml and kernel.toml
    #[arg(value_name = "DIR", default_value = ".")]
    pub(crate) dir: PathBuf,
    /// Which cases.
    #[command(flatten)]
    pub(crate) selection: Selection,
    /// Write the results; the ending says how: .json, .md, .csv, .svg (with --e2e no .csv)
    #[arg(long, value_name = "FILE")]
    pub(crate) export: Vec<PathBuf>,
    /// Verify first, and write evidence/OPERATION-GPU.json; with --e2e write evidence/e2e-NAME-GPU.json and .svg
    #[arg(long)]
    pub(crate) record: bool,
    /// Where --record writes [default: evidence/ of the git root, else of the project]
    #[arg(long, value_name = "DIR", requires = "record")]
    pub(crate) evidence: Option<PathBuf>,
    /// Sign what --record writes with this SSH key, through `ssh-keygen -Y sign`, into RECORD.json.sig
    #[arg(long, value_name = "KEY", requires = "record")]
    pub(crate) sign: Option<PathBuf>,
    /// Timed rounds of a case, at least 5 [default: 30]; with --e2e as the script takes them
    #[arg(long, value_name = "N")]
    pub(crate) rounds: Option<u32>,
    /// Time others as well, through Python: torch, compile, compile-max, liger, quack, hub:OWNER/NAME[@VERSION],
    /// hub:PATH. Only hub:OWNER/NAME may use the network, unless the Hub library has it cached
    #[arg(long, value_name = "PEERS", value_delimiter = ',', conflicts_with = "record")]
    pub(crate) against: Vec<String>,
    /// The Python that has torch and the peers [default: `KERNELS_PYTHON`, the active environment's, python3]
    #[arg(long, value_name = "PATH", requires = "through Python")]
    pub(crate) python: Option<PathBuf>,
    /// Time the whole model instead, with `benchmark_e2e.py` of DIR: eager, with the kernels, compiled, and both, in one
    /// run; arguments after `--` are passed to the script
    #[arg(
        long,
        conflicts_with_all = ["filter", "dtype", "shape", "seed", "device", "against"]
    )]
    pub(crate) e2e: bool,
    /// Arguments of the script of --e2e: `-- --smoke`, `-- --cases step-49`
    #[arg(last = true, value_name = "ARGS", requires = "e2e")]
    pub(crate) script: Vec<OsString>,
}

/// `kernels tune`.
#[derive(Args, Debug)]
pub(crate) struct Tune {
    /// The project: a folder with build.toml and kernel.toml
    #[arg(value_name = "DIR", default_value = ".")]
    pub(crate) dir: PathBuf,
    /// Only for these operations [default: all with a table]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) operation: Vec<String>,
    /// For this case, repeatable: rows=4096,width=5120,dtype=bf16 [default: the bench cases of kernel.toml]
    #[arg(long, value_name = "SIZES")]
    pub(crate) shape: Vec<String>,
    /// The card, by its number
    #[arg(long, visible_alias = "card", value_name = "N", default_value_t = 0)]
    pub(crate) device: usize,
    /// Show what would be written, and write nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Take back the rows of the last run; edits elsewhere in the files stay
    #[arg(long, conflicts_with_all = ["operation", "shape", "device"])]
    pub(crate) undo: bool,
}

/// `kernels ci`.
#[derive(Args, Clone, Debug)]
pub(crate) struct Ci {
    /// The projects
    #[arg(value_name = "DIR", default_value = ".")]
    pub(crate) dirs: Vec<PathBuf>,
    /// Write the results as `JUnit` XML
    #[arg(long, value_name = "FILE")]
    pub(crate) junit: Option<PathBuf>,
    /// Recorded evidence to compare the code with [default: evidence/ of the git root]
    #[arg(long, value_name = "DIR")]
    pub(crate) evidence: Option<PathBuf>,
    /// Who may sign evidence, as `ssh-keygen -Y verify` reads it: evidence that none of them signed fails
    #[arg(long, value_name = "FILE")]
    pub(crate) signers: Option<PathBuf>,
    /// Print a GitHub workflow that runs this command, with --signers and --evidence as given, and do nothing else
    #[arg(long, conflicts_with_all = ["json", "junit", "python", "require_torch", "require_card"])]
    pub(crate) workflow: bool,
    /// With --workflow, where the workflow gets this program: a release or a commit of a repository on GitHub [default: the
    /// repository's variable `KERNELS_FROM`]
    #[arg(long, value_name = "URL@TAG", requires = "workflow")]
    pub(crate) from: Option<String>,
    /// With --workflow, add a job that publishes the projects on the Hub when a tag such as v1.2 is pushed: without a secret,
    /// signed and attested
    #[arg(long, requires = "workflow")]
    pub(crate) publish: bool,
    /// The Python that has torch, the Hub's library and pytest [default: `KERNELS_PYTHON`, the active environment's, python3]
    #[arg(long, value_name = "FILE")]
    pub(crate) python: Option<PathBuf>,
    /// Fail when something is missing that a project for torch is built, loaded or tested with
    #[arg(long)]
    pub(crate) require_torch: bool,
    /// Fail when there is no card to verify and bench on
    #[arg(long)]
    pub(crate) require_card: bool,
}

/// How findings are printed.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
pub(crate) enum Format {
    /// A line each, for people
    #[default]
    Text,
    /// As `--json` does
    Json,
    /// SARIF 2.1.0, for code hosts
    Sarif,
}

/// `kernels check`.
#[derive(Args, Debug)]
pub struct Check {
    /// The projects: folders with build.toml
    #[arg(value_name = "DIR", default_value = ".")]
    pub(crate) dirs: Vec<PathBuf>,
    /// Fail on warnings as well
    #[arg(long)]
    pub(crate) strict: bool,
    /// Fix what can be fixed mechanically, and report what was changed
    #[arg(long)]
    pub(crate) fix: bool,
    /// With --fix, report what would be changed and change nothing
    #[arg(long, requires = "fix")]
    pub(crate) dry_run: bool,
    /// How to print the findings
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    pub(crate) format: Format,
    /// Write the findings; the ending says how: .json, .sarif
    #[arg(long, value_name = "FILE")]
    pub(crate) export: Vec<PathBuf>,
    /// List the rules instead
    #[arg(long, conflicts_with_all = ["fix", "export", "explain", "format"])]
    pub(crate) list: bool,
    /// Print the page of a rule instead: the reason for it, and how to fix what it finds
    #[arg(long, value_name = "RULE", conflicts_with_all = ["fix", "export", "format"])]
    pub(crate) explain: Option<String>,
}

/// `90`, also as `sm_90`, `compute_90` or `9.0`.
fn arch_number(text: &str) -> Result<u32, String> {
    let number = ["sm_", "compute_"].iter().find_map(|prefix| text.strip_prefix(prefix)).unwrap_or(text);
    let number = number.replacen('.', "", 1);
    number.parse().map_err(|_| format!("it is one of {}", numbers(&arch::known())))
}

fn arch_help() -> String {
    let defaults: Vec<String> = arch::defaults().iter().map(u32::to_string).collect();
    format!(
        "Compute capability, without the point: {} [default: the card's, else those of {} \
         that nvcc compiles for]",
        numbers(&arch::known()),
        defaults.join(", ")
    )
}

fn torch_help() -> String {
    let defaults: Vec<String> = arch::defaults().iter().map(u32::to_string).collect();
    format!(
        "Build what torch loads and the Kernel Hub takes, into build/torch-stable-abi…-linux of the project; for its \
         cuda-capabilities, else for {} with PTX, as far as nvcc compiles for them, and for the processor of the C++ compiler (CXX)",
        and(&defaults)
    )
}
