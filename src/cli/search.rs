//! The command line of `kernels search`: definitions, nothing else.

use std::path::PathBuf;

use clap::{Args, Subcommand, value_parser};

/// The commands of a search.
#[derive(Debug, Subcommand)]
pub(crate) enum Search {
    /// Make projects of torch modules, to be searched for kernels
    #[command(
        after_help = "Examples:\n  kernels search import --from robust-kbench --out tasks/\n  kernels search import --module relu2.py --shapes s.toml --out tasks/\n\nA module has `Model` and `get_inputs`, as KernelBench's have, and perhaps `forward_fn`; s.toml has the arguments of\nboth under [bench], and others under each [[verify]]. The module becomes reference.py, which computes in double\nprecision what is right; parameters become inputs; the launcher's source compiles and refuses every call.\nFilters name worthless tasks: constant-output, output-range, output-std, output-axes, input-impact, not-finite.\nWhat torch computes in the task's own type on the CPU is judged as a candidate would be. Both take the torch\nof KERNELS_PYTHON, else of python3.\n\nThe module is read in a process without network that writes to a scratch folder alone. Its reference.py then runs\nwith your rights, in the import as well: read a stranger's module first.\nExit codes: 0 all are projects, 1 some are not or torch's own result fails, 2 usage."
    )]
    Import(Import),
    /// Start a run: make candidates of a project's kernels, and keep what the harness believes
    #[command(
        after_help = "Examples:\n  kernels search run kernels/rmsnorm --proposer dir:proposals --out runs/1\n  kernels search run my-kernel --proposer 'exec:./mutate.py' --budget evals=200,minutes=60\n\nEach candidate is applied to a copy, compared with earlier ones, checked, compiled, verified, timed beside a\ncopy of the same bytes, and, where it is better, confirmed in a fresh process beside torch. Without a card it\nis compiled, and the later stages are reported as not judged. docs/search.md says what is believed and what\nis not."
    )]
    Run(Run),
    /// Go on with a run that was ended or killed; nothing is paid or evaluated twice
    #[command(
        after_help = "Examples:\n  kernels search resume runs/1\n  kernels search resume runs/1 --budget evals=400"
    )]
    Resume(Resume),
    /// Show what a run has found: its best candidates, what was caught, what it cost
    #[command(after_help = "Example:\n  kernels search status runs/1")]
    Status(Of),
    /// Show one candidate: its stages and findings, figures, parents, and what it changes
    #[command(after_help = "Example:\n  kernels search show 7 runs/1")]
    Show(Show),
    /// Compare two candidates: times, compiled figures, and the difference of their sources
    #[command(after_help = "Example:\n  kernels search compare 0 7 runs/1")]
    Compare(Compare),
    /// Write a run as one HTML file: leaderboard, elites, lineage, differences, cost, what was caught
    #[command(
        after_help = "Example:\n  kernels search site runs/1 -o runs/1.html\n\nThe page has no script and loads nothing: it works from disk. Sources and texts of candidates are shown as text."
    )]
    Site(Site),
    /// Write a run as a data set: JSON lines and Parquet, one row a candidate, failures included
    #[command(
        after_help = "Example:\n  kernels search export runs/1 -o data\n\nThe columns are those of the AI CUDA Engineer's archive, then this program's. In Python:\n  datasets.load_dataset(\"data\")"
    )]
    Export(Export),
}

/// A run's folder.
#[derive(Args, Clone, Debug)]
pub(crate) struct Of {
    /// The run: the folder that --out named
    #[arg(value_name = "RUN", default_value = "search")]
    pub(crate) run: PathBuf,
}

/// `kernels search import`.
#[derive(Args, Debug)]
pub(crate) struct Import {
    /// A checkout of robust-kbench, or a folder of tasks in its format
    #[arg(long, value_name = "ROBUST_KBENCH", conflicts_with_all = ["module", "shapes"])]
    pub(crate) from: Option<PathBuf>,
    /// Only the tasks of this name (level_1-task_40), or with this in their title, repeatable
    #[arg(long, value_name = "TEXT", requires = "from")]
    pub(crate) only: Vec<String>,
    /// A torch module: a Python file with `Model` and `get_inputs`
    #[arg(long, value_name = "FILE", requires = "shapes", required_unless_present = "from")]
    pub(crate) module: Option<PathBuf>,
    /// The arguments of `Model` and `get_inputs`: [bench] and [[verify]] of a TOML file
    #[arg(long, value_name = "FILE", requires = "module")]
    pub(crate) shapes: Option<PathBuf>,
    /// The folder of the projects; one that is there is not touched
    #[arg(short, long, value_name = "FOLDER")]
    pub(crate) out: PathBuf,
    /// The seed of the cases by which torch's own result is judged
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
}

/// `kernels search run`.
#[derive(Args, Debug)]
pub(crate) struct Run {
    /// The project: a folder with build.toml and kernel.toml
    #[arg(value_name = "DIR", default_value = ".")]
    pub(crate) dir: PathBuf,
    /// Who writes candidates, repeatable: dir:PATH (each entry of a folder is a proposal), exec:COMMAND (edits a copy of the
    /// project), sweep (the rows of the project's tuning tables), agent:NAME[:MODEL] (claude, codex, opencode, gemini, copilot:
    /// confined in a copy, asks its model with your key), `http:URL#MODEL` (a language model; connects to URL)
    #[arg(long, value_name = "PROPOSER", required = true)]
    pub(crate) proposer: Vec<String>,
    /// The run's folder, new
    #[arg(long, value_name = "DIR", default_value = "search")]
    pub(crate) out: PathBuf,
    /// End the run at the first of usd=N, minutes=N, evals=N (candidates compiled)
    #[arg(long, value_name = "LIMITS", default_value = "evals=200")]
    pub(crate) budget: String,
    /// The seed of every choice
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
    /// Candidates that are made at the same time
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = value_parser!(u32).range(1..))]
    pub(crate) flight: u32,
    /// Populations that share a parent only now and then
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = value_parser!(u32).range(1..))]
    pub(crate) islands: u32,
    /// End the run after this many candidates without a new elite
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = value_parser!(u32).range(1..))]
    pub(crate) stall: u32,
    /// Seconds for a proposal, a compilation, and a judgement, each; then it is ended
    #[arg(long, value_name = "SECONDS", default_value_t = 900, value_parser = value_parser!(u32).range(1..))]
    pub(crate) patience: u32,
    /// What confirmed candidates are timed beside, in a Python with torch: `kernels bench --against`
    #[arg(long, value_name = "PEER", value_delimiter = ',', default_value = "torch,compile,compile-max,liger")]
    pub(crate) against: Vec<String>,
    /// Where candidates are compiled and judged: local (all cards of this machine), or slurm, with options of sbatch behind a
    /// colon ("slurm:--partition=gpu --account=lab"). The nodes need the run's folder, this program, and its cache; no variable
    /// that holds a key goes there
    #[arg(long, value_name = "ENGINE", default_value = "local")]
    pub(crate) engine: String,
    /// The most cards that --engine slurm uses at once
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = value_parser!(u32).range(1..))]
    pub(crate) cards: u32,
    /// A run of another task, whose best kernel the operator `transplant` takes
    #[arg(long, value_name = "RUN")]
    pub(crate) donor: Vec<PathBuf>,
    /// Where models' answers are kept: a question that has one there is not asked [default: RUN/answers]
    #[arg(long, value_name = "DIR")]
    pub(crate) answers: Option<PathBuf>,
}

/// `kernels search resume`.
#[derive(Args, Debug)]
pub(crate) struct Resume {
    /// The run.
    #[command(flatten)]
    pub(crate) of: Of,
    /// A new budget, over the whole run [default: the earlier one]
    #[arg(long, value_name = "LIMITS")]
    pub(crate) budget: Option<String>,
}

/// `kernels search show`.
#[derive(Args, Debug)]
pub(crate) struct Show {
    /// The candidate's number
    #[arg(value_name = "ID")]
    pub(crate) id: u32,
    /// The run.
    #[command(flatten)]
    pub(crate) of: Of,
}

/// `kernels search site`.
#[derive(Args, Debug)]
pub(crate) struct Site {
    /// The run.
    #[command(flatten)]
    pub(crate) of: Of,
    /// The page; a file that is there is replaced
    #[arg(short, long, value_name = "FILE")]
    pub(crate) out: PathBuf,
}

/// `kernels search export`.
#[derive(Args, Debug)]
pub(crate) struct Export {
    /// The run.
    #[command(flatten)]
    pub(crate) of: Of,
    /// The data set's folder, new or empty
    #[arg(short, long, value_name = "FOLDER")]
    pub(crate) out: PathBuf,
}

/// `kernels search compare`.
#[derive(Args, Debug)]
pub(crate) struct Compare {
    /// The one candidate's number
    #[arg(value_name = "A")]
    pub(crate) one: u32,
    /// The other's
    #[arg(value_name = "B")]
    pub(crate) other: u32,
    /// The run.
    #[command(flatten)]
    pub(crate) of: Of,
}
