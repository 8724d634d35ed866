//! The command line about skills: definitions, nothing else.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Args, Subcommand};

use super::agents::Agents;
use crate::skill::plugin::LAYOUTS;

/// The commands about skills.
#[derive(Debug, Subcommand)]
pub(crate) enum Skills {
    /// Install a skill into agents (from elsewhere: uses the network)
    #[command(
        after_help = "Examples:\n  kernels skills add cuda-kernels --claude\n  kernels skills add --claude --codex --opencode\n  kernels skills add ./my-skill --agents --link\n  kernels skills add ./skills -s review,release --agent claude,codex\n  kernels skills add ./skills -s '*'\n  kernels skills add ./skills --all\n  kernels skills add ./skills --list\n  kernels skills add --global\n  kernels skills add acme/skills/skills/review@v1 --claude\n  kernels skills add acme/skills -s review,release --claude --yes\n  kernels skills add https://example.com/review.skill --claude\n\nWhat comes from elsewhere (a repository through git, a URL through curl) is shown first: files, scripts,\nsize, tokens, the tools it asks for. Then it asks; without a terminal --yes is needed (else exit code 3).\nskills-lock.json at the git root notes commit and digest. What begins with `.`, `/` or a folder that is here\nis a path and never fetched (github:OWNER/REPO is none). KERNELS_FETCH_SECONDS limits the time (300).\n\nWithout an agent, a skill goes to where it is installed in this project already. Each skill is\ninstalled for all agents or for none. --agent '*' means .claude and .agents, of\nwhich most agents read one, and the folders of others that are on this machine or in this project.\n\nProject installs go to the git root, or to the current folder outside a repository. `.env` and other files\nfor secrets are left out. --force keeps the last five backups of a skill.\n\nExit code 3 where an edit, a later version or something of another tool is in the way."
    )]
    #[command(visible_alias = "install", aliases = ["a", "i"])]
    Add(Add),
    /// List the embedded skills and where they are installed
    #[command(visible_alias = "ls", after_help = "Example:\n  kernels skills list --json")]
    List,
    /// Find skills by their text: installed and embedded ones, or those of a source (from elsewhere: uses the network)
    #[command(
        aliases = ["search", "f"],
        after_help = "Examples:\n  kernels skills find rms norm\n  kernels skills find release --in ./skills\n\nFinds the skills whose name, description or SKILL.md has every word, in upper or lower case, and\nprints the first line of SKILL.md that has one where name and description do not. Exit 1 where\nthere is none. With an address after --in, as `add` takes it, the network is used."
    )]
    Find(Find),
    /// Write a new skill: a folder with a SKILL.md that is valid, to be edited
    #[command(
        after_help = "Examples:\n  kernels skills init review\n  kernels skills init skills/review\n\nWrites NAME/SKILL.md, which `kernels skills validate --strict` accepts. Exit code 3 where there is one."
    )]
    Init(InitSkill),
    /// Write a skill from traces of work that went well (the writer's command may use the network)
    #[command(
        after_help = "Examples:\n  kernels skills generate --digest --from session.jsonl\n  kernels skills generate \"kernels for norms\" --from session.jsonl --writer 'exec:claude -p' -o skills/norms\n  kernels skills generate \"add edge cases\" --from skills/mine --writer 'exec:claude -p' --tasks evals -o skills/mine-2\n\nTraces: Claude Code (~/.claude/projects/*/*.jsonl), Codex (~/.codex/sessions), OpenCode (`opencode export ID`),\nGemini CLI (~/.gemini/tmp/*/chats), Copilot CLI (~/.copilot/session-state/*/events.jsonl), ATIF, Markdown.\nKeys, e-mail addresses and home paths are replaced while a trace is read; --digest shows what is left.\n\nThe command of --writer runs with your rights, through sh. A draft is validated and searched for the tasks'\nsolutions; what speaks against it is told to the writer, who tries again. -o must be new.\n\n\
With --student, agents do the tasks with each draft and without it (beside the skill of --from, if there is one). What went wrong is told to\n\
the writer, but of the hold-out nothing: a draft is taken only if the hold-out does not fall. Writers and students that are models or coding\n\
agents are asked as `kernels skills eval` does, over the network.\n\n\
.kernels/generate/RUN keeps questions, answers, drafts, reasons; the same command again asks nothing twice.\nExit codes: 0 written, 1 no draft was accepted, 2 usage, 3 refused."
    )]
    Generate(Generate),
    /// List the agents: their names, where they look for skills, which are on this machine
    #[command(after_help = "Examples:\n  kernels skills agents\n  kernels skills agents --here --json")]
    Agents(ListAgents),
    /// Report whether each install is current, and as skills.toml says; exit 1 if one is not
    #[command(
        after_help = "Example:\n  kernels skills status cuda-kernels\n\nStates:\n  current        exactly this version\n  unchecked      as it was installed, but what it was installed from is gone or not recorded\n  stale          another version, untouched; `update` replaces it\n  newer          a later version than what it is compared with\n  modified       you edited it; `diff` shows how\n  forked         another skill by the name of an embedded one, which skills.toml does not declare\n  missing files  some files are gone; `update` puts them back\n  damaged        some files are empty, as after a power cut; `update` writes them again\n  link file      a link that git wrote as a file (core.symlinks=false); `update` makes the link\n  foreign        not installed by kernels, or by a later one, or its receipt is damaged\n\nLists what agents see from here, also through links that leave the project. Finishes what an interrupted\nrun left. Exit 1 as well where a folder of an agent cannot be looked into, where a skill differs between\nfolders of the project, and where something is not as skills.toml says (`kernels skills sync --help`)."
    )]
    Status(Select),
    /// Show your edits to an installed skill, as a unified diff
    #[command(
        after_help = "Examples:\n  kernels skills diff | less -R\n  kernels skills diff --exit-code\n\nExit code 0 also when there are edits; with --exit-code 1."
    )]
    Diff(Diff),
    /// Update unmodified installs to this version; with --merge edited ones as well (from elsewhere: uses the network)
    #[command(
        after_help = "Examples:\n  kernels skills update\n  kernels skills update review release --check\n  kernels skills update --merge\n\nAn install that you edited is left alone (exit 3); --force moves it to a backup first. --merge brings the\nnew version and your edits together, line by line, with the version that was installed as their base; the\ntree before the merge stays in a backup. The base is kept in .kernels/base, or found in git's history.\nConflicts are refused (exit 3); with --conflicts they are written as git writes them (exit 1). The last\nfive backups of a skill are kept. Exit 1 where what a skill was installed from cannot be read, or is\nnot recorded, and where a folder of an agent cannot be listed.\n\nA skill from elsewhere is fetched, from the branch or tag that it was added from. What is new is shown as a\ndiff, scripts marked, before it asks; without a terminal --yes is needed (else exit code 3)."
    )]
    #[command(visible_alias = "upgrade")]
    Update(Update),
    /// Install what skills.toml names: skills, sources, versions, agents (from elsewhere: uses the network)
    #[command(
        after_help = "Examples:\n  kernels skills sync --init         write skills.toml from what is installed\n  kernels skills sync --check        exit 1 unless all is as it says, for CI\n\nskills.toml lies at the git root:\n  agents = [\"claude\", \"codex\"]     # of the skills that name none\n\n  [skills.cuda-kernels]             # embedded\n  version = \"0.2.0\"                 # optional: no other version\n\n  [skills.review]\n  source = \"skills/review\"          # a folder or an archive of this repository\n  agents = [\"claude\"]\n\n  [skills.release]\n  source = \"github:acme/skills@v1\" # or a URL; skills-lock.json pins commit and digest\n\nA pinned skill is fetched where the project has no copy of it, and refused with another digest; one that is\nnot pinned is asked for, or takes --yes. Without skills.toml, what skills-lock.json pins is installed.\n--check fetches nothing.\nSkills that it does not name are left alone. Exit 1 where one that it names cannot be installed so,\nor lies in the folder of another agent; 3 where an edit or a later version is in the way."
    )]
    Sync(Sync),
    /// List the backups of edited installs: from where, when, which version, which files
    #[command(
        after_help = "Examples:\n  kernels skills backups\n  kernels skills backups cuda-kernels --claude --json\n\nBackups lie in .kernels/backups beside the skills folder; the last five of a skill are kept there.\nAn id ends with @FOLDER where several skills folders share that place (.opencode/skills and .opencode/skill)."
    )]
    Backups(Select),
    /// Put a backup back in its place; without one, install what skills-lock.json pins (from elsewhere: uses the network)
    #[command(
        after_help = "Examples:\n  kernels skills restore cuda-kernels-20261123T152331Z\n  kernels skills restore cuda-kernels-20261123T152331Z --codex --dry-run\n\nWhat lies in the place is moved to a backup first. Without an id it is `kernels skills sync`: what\nskills.toml names, or skills-lock.json pins, in the pinned state.\n\n`kernels skills backups` lists the ids. An id that is in several places needs the agent, or the backup's\npath instead."
    )]
    Restore(Restore),
    /// Remove an install
    #[command(
        after_help = "Examples:\n  kernels skills remove cuda-kernels\n  kernels skills remove cuda-kernels --codex --global\n  kernels skills remove review release\n\nWithout a target: every agent of this project (with --global, of the user). An install that\nyou edited is left alone (exit 3), also when the edit comes while it is being removed; --force moves it\nto a backup. The last five backups of a skill are kept. Nothing is removed where a folder of an agent that is\nmeant cannot be listed (exit 1)."
    )]
    #[command(visible_aliases = ["rm", "uninstall"], alias = "r")]
    Remove(Remove),
    /// Print a skill's SKILL.md
    #[command(alias = "preview", after_help = "Example:\n  kernels skills show --tokens")]
    Show(Show),
    /// Check skills against the specification and what real agents reject; exit 1 on errors
    #[command(
        after_help = "Examples:\n  kernels skills validate .claude/skills/* --strict\n  kernels skills validate --deep my-skill\n  kernels skills validate --deep --strict --python ~/venv/bin/python my-skill.skill\n\n--deep compiles cuda and cpp blocks for sm_75, 80 and 90 (nvcc, g++), parses Python and looks its imports\nup, holds `kernels` lines against this program and scripts' flags against their source. What a missing\ntool leaves unchecked is counted with the reason. Nothing of the skill is executed; a package of the\nnamed Python is imported where its source does not tell whether it has a name.\nExit codes: 0 valid, 1 findings, 2 wrong usage."
    )]
    Validate(Validate),
    /// Measure what a skill is worth: agents on tasks with and without it, judged by tests (models and coding agents use the network)
    #[command(after_help = super::eval::EVAL)]
    Eval(Box<super::eval::Eval>),
    /// List the runs of `eval` in this project, or draw them
    #[command(after_help = super::eval::RUNS)]
    Runs(super::eval::Runs),
    /// Pack a skill: a .skill archive, the same bytes on any machine, or with --as a plugin's folder
    #[command(
        after_help = "Examples:\n  kernels skills pack cuda-kernels -o dist/cuda-kernels.skill\n  kernels skills pack ./review --as claude-plugin,codex-plugin --owner \"Ada\" -o review-plugin\n\nWith --as, a folder to put into a repository: the skill in skills/NAME, and what a client reads beside it.\nSeveral layouts make one folder that is all of them. Exit code 3 where something else is there."
    )]
    Pack(Pack),
}

/// Which agents and folders.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Targets {
    /// The agents.
    #[command(flatten)]
    pub(crate) agents: Agents,
    /// A folder that holds skills: the skill goes to DIR/NAME
    #[arg(long, value_name = "DIR", help_heading = "Targets")]
    pub(crate) dest: Vec<PathBuf>,
    /// At the user level instead of in this project
    #[arg(short, long, help_heading = "Targets")]
    pub(crate) global: bool,
}

/// `skills add`.
#[derive(Args, Debug)]
pub(crate) struct Add {
    /// An embedded skill, a folder, or a .skill file [default: cuda-kernels]; with -s a folder of skills. From elsewhere:
    /// OWNER/REPO[/PATH][@REF] on GitHub, or the URL of a .git repository, a .skill file or a site with an index of skills
    #[arg(value_name = "NAME|PATH|SOURCE")]
    pub(crate) skill: Option<PathBuf>,
    /// These skills of the folder or the source, with commas between; '*' for all
    #[arg(short = 's', long = "skill", value_name = "NAMES", value_delimiter = ',')]
    pub(crate) chosen: Vec<String>,
    /// All skills there, for all agents unless some are named
    #[arg(long, conflicts_with = "chosen")]
    pub(crate) all: bool,
    /// List the skills there and install nothing
    #[arg(short, long)]
    pub(crate) list: bool,
    /// Where to.
    #[command(flatten)]
    pub(crate) targets: Targets,
    /// Replace what is protected, after moving it to a backup
    #[arg(long)]
    pub(crate) force: bool,
    /// Whether to change anything.
    #[command(flatten)]
    pub(crate) looking: Looking,
    /// Install what comes from elsewhere without asking
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// One real copy, and relative links to it for the other agents
    #[arg(long)]
    pub(crate) link: bool,
    /// What becomes of edits.
    #[command(flatten)]
    pub(crate) merge: Merge,
}

/// What becomes of edits when another version comes.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Merge {
    /// Merge edits into the new version; conflicts are refused
    #[arg(long, conflicts_with = "force")]
    pub(crate) merge: bool,
    /// With --merge, write conflicts between markers instead of refusing them
    #[arg(long, requires = "merge")]
    pub(crate) conflicts: bool,
}

/// `skills restore`.
#[derive(Args, Debug)]
pub(crate) struct Restore {
    /// The backup, as `kernels skills backups` lists it; without it, what skills-lock.json pins is installed
    #[arg(value_name = "ID|PATH")]
    pub(crate) id: Option<String>,
    /// Only from these places.
    #[command(flatten)]
    pub(crate) targets: Targets,
    /// Print what would be done and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Whether a command that changes installs only looks at what it would do.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Looking {
    /// Print the exact plan and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// The same, and exit 1 if anything would change
    #[arg(long)]
    pub(crate) check: bool,
}

impl Looking {
    /// Whether nothing may be changed.
    pub(crate) fn is_only(self) -> bool {
        self.dry_run || self.check
    }
}

/// Which installs; all of them when nothing is named.
#[derive(Args, Clone, Debug)]
pub(crate) struct Select {
    /// Only these skills
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<String>,
    /// Only these places.
    #[command(flatten)]
    pub(crate) targets: Targets,
}

/// `skills diff`.
#[derive(Args, Debug)]
pub(crate) struct Diff {
    /// Which.
    #[command(flatten)]
    pub(crate) select: Select,
    /// Exit 1 if there are edits
    #[arg(long)]
    pub(crate) exit_code: bool,
}

/// `skills sync`.
#[derive(Args, Debug)]
pub(crate) struct Sync {
    /// Write skills.toml from what is installed in this project
    #[arg(long, conflicts_with_all = ["force", "dry_run", "check"])]
    pub(crate) init: bool,
    /// Install what comes from elsewhere and is not in skills-lock.json without asking
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Replace what is protected, after moving it to a backup
    #[arg(long)]
    pub(crate) force: bool,
    /// Whether to change anything.
    #[command(flatten)]
    pub(crate) looking: Looking,
}

/// `skills update`.
#[derive(Args, Debug)]
pub(crate) struct Update {
    /// Which.
    #[command(flatten)]
    pub(crate) select: Select,
    /// Replace edited installs too, after moving them to a backup
    #[arg(long)]
    pub(crate) force: bool,
    /// Take what comes from elsewhere without asking
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Whether to change anything.
    #[command(flatten)]
    pub(crate) looking: Looking,
    /// What becomes of edits.
    #[command(flatten)]
    pub(crate) merge: Merge,
}

/// `skills remove`.
#[derive(Args, Debug)]
pub(crate) struct Remove {
    /// The skills
    #[arg(value_name = "NAME", required_unless_present = "all")]
    pub(crate) names: Vec<String>,
    /// All skills that kernels installed there
    #[arg(long, conflicts_with = "names")]
    pub(crate) all: bool,
    /// Nothing is asked; npm's `skills` has this option
    #[arg(short, long, hide = true)]
    pub(crate) yes: bool,
    /// From where.
    #[command(flatten)]
    pub(crate) targets: Targets,
    /// Remove edited or foreign trees too, after moving them to a backup
    #[arg(long)]
    pub(crate) force: bool,
    /// Whether to change anything.
    #[command(flatten)]
    pub(crate) looking: Looking,
}

/// `skills find`.
#[derive(Args, Debug)]
pub(crate) struct Find {
    /// What to find
    #[arg(value_name = "TEXT", required = true)]
    pub(crate) words: Vec<String>,
    /// In this folder of skills, skill or archive instead of what is installed and embedded; a source elsewhere is fetched
    #[arg(long = "in", value_name = "SOURCE")]
    pub(crate) source: Option<PathBuf>,
}

/// `skills init`.
#[derive(Args, Debug)]
pub(crate) struct InitSkill {
    /// The skill's name, or the path of its folder, which has this name
    #[arg(value_name = "NAME|PATH")]
    pub(crate) folder: PathBuf,
}

/// `skills generate`.
#[derive(Args, Debug)]
pub(crate) struct Generate {
    /// What the skill is to teach, or what is to become better in one that is there
    #[arg(value_name = "TASK", required_unless_present = "digest")]
    pub(crate) task: Option<String>,
    /// A trace of an agent's work, or one skill to improve
    #[arg(long, value_name = "TRACE|SKILL")]
    pub(crate) from: Vec<PathBuf>,
    /// Who writes: exec:COMMAND, which reads the question from stdin and prints the answer; `http:URL#MODEL`; or a coding agent
    #[arg(long, value_name = "AGENT", required_unless_present = "digest")]
    pub(crate) writer: Option<String>,
    /// Folders of tasks whose solutions and tests must not be in the skill
    #[arg(long, value_name = "PATH")]
    pub(crate) tasks: Vec<PathBuf>,
    /// Who does the tasks with each draft, and without it: an agent as `skills eval` takes it; repeatable
    #[arg(long = "student", value_name = "AGENT", requires = "tasks")]
    pub(crate) students: Vec<String>,
    /// The share of the tasks that drafts are not refined on: they decide whether one is taken
    #[arg(long, value_name = "SHARE", default_value_t = 0.4)]
    pub(crate) holdout: f64,
    /// How often each student does each task
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) runs: u32,
    /// How long a student or a writer may take
    #[arg(long, value_name = "TIME", default_value = "20m", value_parser = humantime::parse_duration)]
    pub(crate) timeout: std::time::Duration,
    /// How many turns a student may take, where it can be told
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) max_turns: u32,
    /// What the division of the tasks is drawn from
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
    /// How often the writer may try, all in all
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=20))]
    pub(crate) rounds: u32,
    /// The skill's new folder; its name is the skill's [default: the skill of --from, which moves into the run's folder]
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
    /// Check the code in the drafts as well, as `skills validate --deep` does
    #[arg(long)]
    pub(crate) deep: bool,
    /// Print what the writer would be told of the traces, and send nothing
    #[arg(long)]
    pub(crate) digest: bool,
}

/// `skills agents`.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct ListAgents {
    /// Only those on this machine
    #[arg(long)]
    pub(crate) here: bool,
}

/// `skills show`.
#[derive(Args, Debug)]
pub(crate) struct Show {
    /// An embedded skill, a folder, or a .skill file
    #[arg(value_name = "NAME|PATH", default_value = crate::skill::bundled::DEFAULT)]
    pub(crate) skill: OsString,
    /// Print what each file costs in tokens (`o200k_base`) instead
    #[arg(long)]
    pub(crate) tokens: bool,
}

/// `skills validate`.
#[derive(Args, Debug)]
pub(crate) struct Validate {
    /// Skill folders, SKILL.md files, .skill archives, or embedded skills; with --deep alone, the embedded one
    #[arg(value_name = "NAME|PATH", required_unless_present_any = ["rules", "deep"])]
    pub(crate) paths: Vec<PathBuf>,
    /// Fail on warnings as well, and with --deep on what could not be checked
    #[arg(long)]
    pub(crate) strict: bool,
    /// Check the code in it as well: compile cuda and cpp blocks, parse Python and look its imports up, read toml, json,
    /// yaml and command lines. Nothing of the skill is executed
    #[arg(long)]
    pub(crate) deep: bool,
    /// With --deep, the Python that has what the skill imports [default: `KERNELS_PYTHON`, the active environment's, python3]
    #[arg(long, value_name = "PATH", requires = "deep")]
    pub(crate) python: Option<PathBuf>,
    /// List the rules instead
    #[arg(long)]
    pub(crate) rules: bool,
}

/// `skills pack`.
#[derive(Args, Debug)]
pub(crate) struct Pack {
    /// An embedded skill or a folder
    #[arg(value_name = "NAME|PATH", default_value = crate::skill::bundled::DEFAULT)]
    pub(crate) skill: OsString,
    /// What to make instead of an archive; several with commas
    #[arg(long = "as", value_name = "LAYOUT", value_delimiter = ',', value_parser = layouts())]
    pub(crate) layouts: Vec<String>,
    /// With --as claude-plugin or codex-plugin, who publishes it [default: the skill's metadata.author]
    #[arg(long, value_name = "NAME", requires = "layouts")]
    pub(crate) owner: Option<String>,
    /// What to write [default: NAME.skill, or with --as the folder NAME-plugin, in the current folder; beside the skill where
    /// that is the skill's]
    #[arg(short, long, value_name = "PATH")]
    pub(crate) output: Option<PathBuf>,
    /// Replace a different archive that is already there
    #[arg(long, conflicts_with = "layouts")]
    pub(crate) force: bool,
}

fn layouts() -> PossibleValuesParser {
    PossibleValuesParser::new(LAYOUTS.map(|(name, help)| PossibleValue::new(name).help(help)))
}
