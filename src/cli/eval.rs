//! The command line of `kernels skills eval` and `runs`: definitions, nothing else.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

pub(super) const EVAL: &str = "Examples:
  kernels skills eval --check evals/
  kernels skills eval cuda-kernels --tasks evals/ --agent 'http://127.0.0.1:8080/v1#MODEL'
  kernels skills eval cuda-kernels --tasks evals/ --agent claude:sonnet --agent codex:MODEL --runs 3
  kernels skills eval ./my-skill --tasks evals.json --agent 'https://api.anthropic.com#MODEL' --arms without,with,forced --runs 3
  kernels skills eval cuda-kernels --tasks evals/ --agent exec:/opt/agent.sh --plot lift.svg --fail-under lift=0.1,harm=0
  kernels skills eval --resume .kernels/evals/RUN
  kernels skills eval cuda-kernels --tasks evals/ --agent claude --prepare filled   # for agents that are run elsewhere
  kernels skills eval cuda-kernels --tasks evals/ --agent dir:filled                # judges what they left

Arms: without, with (installed as `kernels skills add` does), forced (installed, and the prompt says to use it),
inline (SKILL.md before the prompt), old=PATH (another version). They differ in nothing else: fresh home and
workspace, a repository of one commit, an order drawn from --seed.

Agents: claude, codex, gemini (with :MODEL or without), opencode:MODEL, copilot:MODEL, as they are installed;
http:URL#MODEL, a bare model that reads, writes and lists files and runs commands (URL?key=VARIABLE names the
variable with its key; api=chat, responses or messages); exec:COMMAND, with the prompt in its standard input;
dir:PATH, a workspace that was filled elsewhere, or a folder of them that --prepare laid out. Commands and tests run confined, without a network. Models are
asked at the URL, and those of coding agents at ANTHROPIC_BASE_URL, OPENAI_BASE_URL, GOOGLE_GEMINI_BASE_URL or
COPILOT_PROVIDER_BASE_URL (default: their makers'), with the key of your environment, which the agent does not get:
that is the only use of the network. docs/evaluation.md has the keys, and what an agent can reach.

Exit code 3 where --out or --prepare names a folder that is not empty; 1 where --check finds a task that does not hold, or a result is below --fail-under.";

pub(super) const RUNS: &str = "Examples:
  kernels skills runs
  kernels skills runs --csv > runs.csv
  kernels skills runs --html runs.html
  kernels skills runs .kernels/evals/RUN --plot lift.svg";

/// `skills eval`.
#[derive(Args, Debug)]
pub(crate) struct Eval {
    /// An embedded skill, a folder, or a .skill file [default: cuda-kernels]
    #[arg(value_name = "NAME|PATH", conflicts_with_all = ["check", "resume"])]
    pub(crate) skill: Option<PathBuf>,
    /// Check tasks instead: the solution passes, the untouched workspace and every mutant fail
    #[arg(long, value_name = "DIR", num_args = 1.., conflicts_with_all = ["tasks", "resume", "agents"])]
    pub(crate) check: Vec<PathBuf>,
    /// Tasks: folders with a task.toml, folders of such, or a JSON file of prompts
    #[arg(long, value_name = "PATH", required_unless_present_any = ["check", "resume"])]
    pub(crate) tasks: Vec<PathBuf>,
    /// Only tasks whose id contains this
    #[arg(long, value_name = "TEXT")]
    pub(crate) filter: Option<String>,
    /// The agents, with their models
    #[arg(short, long = "agent", value_name = "AGENT", required_unless_present_any = ["check", "resume"])]
    pub(crate) agents: Vec<String>,
    /// What is compared, with commas between
    #[arg(long, value_name = "ARMS", value_delimiter = ',', default_value = "without,with")]
    pub(crate) arms: Vec<String>,
    /// Whether agents have the command `kernels`, without its `skills`
    #[arg(long, value_enum, default_value = "on")]
    pub(crate) cli: Cli,
    /// How often each agent does each task in each arm
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) runs: u32,
    /// How long an agent may take
    #[arg(long, value_name = "TIME", default_value = "20m", value_parser = humantime::parse_duration)]
    pub(crate) timeout: std::time::Duration,
    /// How many turns an agent may take, where it can be told
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) max_turns: u32,
    /// The most tokens of one answer of a model that `http:` asks
    #[arg(long, value_name = "N", default_value_t = 8192)]
    pub(crate) max_tokens: u32,
    /// What the order of runs and the intervals are drawn from
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
    /// The folder of the run [default: a new one in .kernels/evals]
    #[arg(long, value_name = "RUN", conflicts_with = "resume")]
    pub(crate) out: Option<PathBuf>,
    /// Run nothing: lay out a workspace for each task, arm and run in this new folder, with the prompt beside it, and the skill
    /// installed for the one agent that is named
    #[arg(long, value_name = "DIR", conflicts_with_all = ["check", "resume", "out"])]
    pub(crate) prepare: Option<PathBuf>,
    /// Go on with a run that was interrupted; what it has is not paid for again
    #[arg(long, value_name = "RUN", conflicts_with_all = ["tasks", "filter", "agents", "arms", "cli", "runs", "timeout",
        "max_turns", "max_tokens", "seed"])]
    pub(crate) resume: Option<PathBuf>,
    /// Exit with 1 where the lift of an arm is below, or its harm above: lift=0.1,harm=0
    #[arg(long, value_name = "LIMITS", value_delimiter = ',')]
    pub(crate) fail_under: Vec<String>,
    /// Write `JUnit` XML
    #[arg(long, value_name = "FILE")]
    pub(crate) junit: Option<PathBuf>,
    /// Where to draw the result.
    #[command(flatten)]
    pub(crate) pictures: Pictures,
}

/// `skills runs`.
#[derive(Args, Debug)]
pub(crate) struct Runs {
    /// The folders of runs [default: those in .kernels/evals]
    #[arg(value_name = "RUN")]
    pub(crate) runs: Vec<PathBuf>,
    /// Print every row as CSV
    #[arg(long, conflicts_with = "json")]
    pub(crate) csv: bool,
    /// Where to draw them.
    #[command(flatten)]
    pub(crate) pictures: Pictures,
}

#[derive(Args, Debug)]
pub(crate) struct Pictures {
    /// Write a picture of lift, tokens and tasks as SVG
    #[arg(long, value_name = "FILE")]
    pub(crate) plot: Option<PathBuf>,
    /// Write one HTML page with the pictures and every row
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Write skill-creator's benchmark.json
    #[arg(long, value_name = "FILE")]
    pub(crate) benchmark: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum Cli {
    On,
    Off,
    Both,
}
