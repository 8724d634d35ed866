//! The table of agents, read from `agents.toml`.

use std::fmt::Write as _;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use super::template::Template;
use crate::base::text;

const TOML: &str = include_str!("agents.toml");

/// One coding agent, as its row in `agents.toml` describes it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Agent {
    /// What `--agent` takes.
    pub(crate) id: String,
    /// Other names that `--agent` takes for it: npm's `skills` has some of its own.
    #[serde(default)]
    aka: Vec<String>,
    /// What people call it.
    pub(crate) name: String,
    /// Help text of the agent's own flag, `--ID`; without it only `--agent ID` selects the agent.
    flag: Option<String>,
    /// Its command.
    pub(crate) program: Option<String>,
    /// The folder of its settings.
    pub(crate) config: Option<Template>,
    /// Where `add` writes, relative to a project's root; none where that folder may be of something else.
    pub project: Option<String>,
    /// Where `add --global` writes, if there is such a folder.
    pub(crate) user: Option<Template>,
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
    /// Why tests/clients does not ask it.
    unasked: Option<String>,
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
    /// Not known; it is taken for one that walks.
    Unknown,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    agent: Vec<Agent>,
    npm: String,
}

/// An agent of npm's table, as its line says: id, name, config, project, user, why it is not asked.
fn listed(line: &str) -> Agent {
    let mut cells = line.split('|').map(|cell| Some(cell.trim()).filter(|cell| !cell.is_empty()).map(str::to_owned));
    let mut next = || cells.next().flatten();
    Agent {
        id: next().unwrap_or_default(),
        name: next().unwrap_or_default(),
        config: next().map(Template::new),
        project: next(),
        user: next().map(Template::new),
        unasked: next(),
        aka: Vec::new(),
        flag: None,
        program: None,
        reads: Vec::new(),
        copies: Copies::Any,
        project_roots: ProjectRoots::Unknown,
        source: "npm".to_owned(),
        seen: String::new(),
    }
}

static AGENTS: LazyLock<Vec<Agent>> = LazyLock::new(|| {
    // A constant of this crate: a test reads it, and a mistake in it is not a user's.
    #[expect(clippy::expect_used, reason = "embedded data, covered by a test")]
    let file: File = toml::from_str(TOML).expect("agents.toml is valid");
    file.agent.into_iter().chain(file.npm.lines().map(listed)).collect()
});

/// All agents, in the order of the table.
pub(crate) fn all() -> &'static [Agent] {
    &AGENTS
}

/// The agents with a flag of their own, and what the help says of it.
pub(crate) fn with_a_flag() -> impl Iterator<Item = (&'static Agent, &'static str)> {
    AGENTS.iter().filter_map(|agent| Some((agent, agent.flag.as_deref()?)))
}

/// The agent with this id, or this other name.
pub fn find(name: &str) -> Option<&'static Agent> {
    AGENTS.iter().find(|agent| agent.id == name || agent.aka.iter().any(|other| other == name))
}

/// The id that a mistyped one may stand for.
pub(crate) fn nearest(typed: &str) -> Option<&'static str> {
    let names = AGENTS.iter().flat_map(|agent| [&agent.id].into_iter().chain(&agent.aka));
    Some(&find(text::nearest(typed, names.map(String::as_str))?)?.id)
}

/// The names of agents, the first few of many.
pub(crate) fn names<'a>(agents: impl IntoIterator<Item = &'a Agent>) -> String {
    const SHOWN: usize = 4;
    let names: Vec<&str> = agents.into_iter().map(|agent| agent.name.as_str()).collect();
    match names.len().saturating_sub(SHOWN) {
        0 | 1 => names.join(", "),
        more => format!("{} and {more} more", names[..SHOWN].join(", ")),
    }
}

impl Agent {
    /// The project folders it reads, the one that `add` writes to first.
    pub(crate) fn project_folders(&self) -> impl Iterator<Item = &str> {
        let more = self.reads.iter().filter(|t| t.is_relative()).map(Template::as_str);
        self.project.as_deref().into_iter().chain(more)
    }

    /// The user-level folders it reads, the one that `add --global` writes to first.
    pub(crate) fn user_folders(&self) -> impl Iterator<Item = &Template> {
        self.user.iter().chain(self.reads.iter().filter(|t| !t.is_relative()))
    }
}

/// The table as the page docs/agents.md.
pub fn to_markdown() -> String {
    let mut page = String::from(PAGE);
    let code = |text: &str| if text.is_empty() { String::new() } else { format!("`{text}`") };
    for agent in all() {
        let reads: Vec<_> = agent.reads.iter().map(|t| code(t.as_str())).collect();
        let known = match (agent.source.as_str(), &agent.unasked) {
            ("run", None) => format!("asked, {}", agent.seen),
            ("run", Some(why)) => format!("asked once, {}; not in CI: {why}", agent.seen),
            ("npm", None) => "npm's table".to_owned(),
            ("npm", Some(why)) => format!("npm's table; not asked: {why}"),
            (page, _) => format!("[documentation]({page}), {}", agent.seen),
        };
        let ids: Vec<_> = [&agent.id].into_iter().chain(&agent.aka).map(|id| code(id)).collect();
        let project = code(agent.project.as_deref().unwrap_or_default());
        let user = code(agent.user.as_ref().map_or("", Template::as_str));
        let (ids, name, reads) = (ids.join(" "), &agent.name, reads.join(" "));
        let _ = writeln!(page, "| {ids} | {name} | {project} | {user} | {reads} | {known} |");
    }
    let named = |chosen: &dyn Fn(&Agent) -> bool| {
        let names: Vec<_> = all().iter().filter(|a| chosen(a)).map(|a| a.name.as_str()).collect();
        names.join(", ")
    };
    let _ = write!(
        page,
        "\nOf the agents that were asked or whose documentation says it, all but {} walk from the current folder up to the \
         git root, so `add` writes at the git root; outside a repository it writes to the current folder, the only one Codex \
         looks in there.\n\n\
         Where a skill lies in two of an agent's folders: every real copy is listed by {}, so the second folder gets a \
         relative link to the first. The user's copy is used by {}, the project's by {}. Every further copy is reported as a \
         conflict by {}, so its own folder is left out where it finds the skill in another. Of the others, those that are known \
         list one; OpenCode was seen to choose differently from run to run. `kernels doctor` tells when that matters.\n",
        named(&|a| a.project_roots == ProjectRoots::Cwd),
        named(&|a| a.copies == Copies::Each),
        named(&|a| a.copies == Copies::User),
        named(&|a| a.copies == Copies::Project),
        named(&|a| a.copies == Copies::Warn),
    );
    page
}

const PAGE: &str = "# Where agents look for skills\n\n\
    Generated from `src/agent/agents.toml`; a test fails when the two differ. *Project* and *user* are where `kernels skills \
    add` and `add --global` write; *also reads* is where the agent finds skills besides. `${NAME:-default}` is an environment \
    variable that moves the folder. `kernels skills agents` prints the table, and which agents are on this machine.\n\n\
    *Known* is how: *asked*, with the version that was run with a skill in each folder, in CI unless the reason is given; from \
    its *documentation*, with the month; or from *npm's table*: where npm's `skills` writes for it. Those were not asked: the \
    agent is an editor, is not in npm's or PyPI's registry, or was not tried.\n\n\
    | `--agent` | agent | project | user | also reads | known |\n|---|---|---|---|---|---|\n";

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_table_is_sound() {
        let ids: BTreeSet<_> = all().iter().map(|agent| agent.id.as_str()).collect();
        assert_eq!(ids.len(), all().len(), "an id is there twice");
        for agent in all() {
            // A visible folder of a project may be anything: `skills` is where the sources of skills lie.
            assert!(agent.project.as_ref().is_none_or(|folder| folder.starts_with('.')), "{}", agent.id);
            assert!(agent.user.as_ref().is_none_or(|folder| !folder.is_relative()), "{}", agent.id);
            assert!(agent.project.is_some() || agent.user.is_some(), "{}", agent.id);
            for name in &agent.aka {
                assert!(!ids.contains(name.as_str()), "{name}");
            }
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
            assert_eq!(agent.project.as_deref(), Some(project));
            let home = std::path::Path::new("/home/u");
            let resolved = agent.user.as_ref().unwrap().resolve(Some(home), &|_| None).unwrap();
            assert_eq!(resolved, std::path::Path::new(user));
        }
    }
}
