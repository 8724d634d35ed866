//! The table of agents, read from `agents.toml`.

use std::fmt::Write as _;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use super::template::Template;

const TOML: &str = include_str!("agents.toml");

/// One coding agent, as its row in `agents.toml` describes it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Agent {
    /// What `--agent` takes.
    pub(crate) id: String,
    /// What people call it.
    pub(crate) name: String,
    /// Help text of the agent's own flag, `--ID`; without it only `--agent ID` selects the agent.
    flag: Option<String>,
    /// Its command.
    pub(crate) program: Option<String>,
    /// The folder of its settings.
    pub(crate) config: Option<Template>,
    /// Where `add` writes, relative to a project's root.
    pub project: String,
    /// Where `add --global` writes.
    pub(crate) user: Template,
    /// Further folders it reads: a project's are relative, a user's start with `~` or `${`.
    pub(crate) reads: Vec<Template>,
    /// How it treats a skill that lies in two of its folders.
    pub(crate) copies: Copies,
    /// From which folders it reads a project's skills.
    pub project_roots: ProjectRoots,
    /// The source of the claim.
    pub source: String,
    /// The date or version of the observation.
    pub seen: String,
}

/// How an agent treats a skill that lies in two of its folders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Copies {
    /// It lists each real copy; a link to a copy it has seen is not one.
    Each,
    /// It lists the user's.
    User,
    /// It lists the project's.
    Project,
    /// It lists one of them, and reports every other as a conflict, a link too.
    Warn,
    /// It lists one of them; which one is not known, or is left to chance.
    Any,
}

/// From which folders an agent reads a project's skills.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ProjectRoots {
    /// The current folder and all above it up to the git root.
    Walk,
    /// The current folder alone.
    Cwd,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    agent: Vec<Agent>,
}

static AGENTS: LazyLock<Vec<Agent>> = LazyLock::new(|| {
    // A constant of this crate: a test reads it, and a mistake in it is not a user's.
    #[expect(clippy::expect_used, reason = "embedded data, covered by a test")]
    let file: File = toml::from_str(TOML).expect("agents.toml is valid");
    file.agent
});

/// All agents, in the order of the table.
pub(crate) fn all() -> &'static [Agent] {
    &AGENTS
}

/// The agents with a flag of their own, and what the help says of it.
pub(crate) fn with_a_flag() -> impl Iterator<Item = (&'static Agent, &'static str)> {
    AGENTS.iter().filter_map(|agent| Some((agent, agent.flag.as_deref()?)))
}

/// The agent with this id.
pub fn find(id: &str) -> Option<&'static Agent> {
    AGENTS.iter().find(|agent| agent.id == id)
}

impl Agent {
    /// The project folders it reads, the one that `add` writes to first.
    pub(crate) fn project_folders(&self) -> impl Iterator<Item = &str> {
        let more = self.reads.iter().filter(|t| t.is_relative()).map(Template::as_str);
        std::iter::once(self.project.as_str()).chain(more)
    }

    /// The user-level folders it reads, the one that `add --global` writes to first.
    pub(crate) fn user_folders(&self) -> impl Iterator<Item = &Template> {
        std::iter::once(&self.user).chain(self.reads.iter().filter(|t| !t.is_relative()))
    }
}

/// The table as the page docs/agents.md.
pub fn to_markdown() -> String {
    let mut page = String::from(
        "# Where agents look for skills\n\n\
         Generated from `src/agent/agents.toml`; a test fails when the two differ. *Project* and \
         *user* are where `kernels skills add` and `add --global` write; *also reads* is where the \
         agent finds skills besides. `${NAME:-default}` is an environment variable that moves the \
         folder. *Seen* is the version that was run with a skill in each folder, or the month in \
         which the documentation was read.\n\n\
         | `--agent` | agent | project | user | also reads | seen |\n|---|---|---|---|---|---|\n",
    );
    for agent in all() {
        let reads: Vec<_> = agent.reads.iter().map(|t| format!("`{}`", t.as_str())).collect();
        let seen = if agent.source == "run" {
            format!("run, {}", agent.seen)
        } else {
            format!("[documentation]({}), {}", agent.source, agent.seen)
        };
        let _ = writeln!(
            page,
            "| `{}` | {} | `{}` | `{}` | {} | {seen} |",
            agent.id,
            agent.name,
            agent.project,
            agent.user.as_str(),
            reads.join(" "),
        );
    }
    let named = |chosen: &dyn Fn(&Agent) -> bool| {
        let names: Vec<_> = all().iter().filter(|a| chosen(a)).map(|a| a.name.as_str()).collect();
        names.join(", ")
    };
    let _ = write!(
        page,
        "\nAll but {} walk from the current folder up to the git root, so `add` writes at the git \
         root; outside a repository it writes to the current folder, the only one Codex looks in \
         there.\n\n\
         Where a skill lies in two of an agent's folders: {} lists every real copy, so the second \
         folder gets a relative link to the first. {} uses the user's copy, {} the project's. {} \
         reports every further copy as a conflict, so its own folder is left out where it finds the skill in another. \
         The others list one; OpenCode was seen to choose differently from run to run. `kernels \
         doctor` tells when that matters.\n",
        named(&|a| a.project_roots == ProjectRoots::Cwd),
        named(&|a| a.copies == Copies::Each),
        named(&|a| a.copies == Copies::User),
        named(&|a| a.copies == Copies::Project),
        named(&|a| a.copies == Copies::Warn),
    );
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_table_is_sound() {
        let ids: BTreeSet<_> = all().iter().map(|agent| agent.id.as_str()).collect();
        assert_eq!(ids.len(), all().len(), "an id is there twice");
        for agent in all() {
            assert!(!agent.project.starts_with(['/', '~', '$']), "{}", agent.id);
            assert!(!agent.user.is_relative(), "{}", agent.id);
        }
    }

    #[test]
    fn claude_codex_and_opencode_keep_the_folders_of_the_upstream_installer() {
        for (id, project, user) in [
            ("claude", ".claude/skills", "/home/u/.claude/skills"),
            ("codex", ".codex/skills", "/home/u/.codex/skills"),
            ("opencode", ".opencode/skills", "/home/u/.config/opencode/skills"),
        ] {
            let agent = find(id).unwrap();
            assert_eq!(agent.project, project);
            let home = std::path::Path::new("/home/u");
            let resolved = agent.user.resolve(Some(home), &|_| None).unwrap();
            assert_eq!(resolved, std::path::Path::new(user));
        }
    }
}
