//! From the table's templates to folders on this machine.

use std::env;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use super::table::Agent;

/// Whether an install belongs to a project or to the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// In the project's folder.
    Project,
    /// In the user's home.
    User,
    /// In a folder that was named outright.
    Dest,
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Project => "project",
            Self::User => "user",
            Self::Dest => "dest",
        })
    }
}

/// A folder with `~` and `${NAME:-default}` in front, as `agents.toml` writes it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Template(String);

impl Template {
    /// As written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is a project's folder.
    pub fn is_relative(&self) -> bool {
        !self.0.starts_with(['~', '$', '/'])
    }

    /// The folder, or nothing where it hangs on a variable that is unset or on a home that is not
    /// known. An `XDG_` variable that is not absolute counts as unset, as its specification says.
    pub fn resolve(
        &self,
        home: Option<&Path>,
        variable: &dyn Fn(&str) -> Option<OsString>,
    ) -> Option<PathBuf> {
        let Some((head, tail)) = self
            .0
            .strip_prefix("${")
            .and_then(|rest| rest.split_once('}'))
        else {
            return expand_home(&self.0, home);
        };
        let (name, default) = match head.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (head, None),
        };
        let set = variable(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
            .filter(|path| !name.starts_with("XDG_") || path.is_absolute());
        let base = match (set, default) {
            (Some(base), _) => base,
            (None, Some(default)) => expand_home(default, home)?,
            (None, None) => return None,
        };
        Some(match tail.strip_prefix('/') {
            Some(tail) => base.join(tail),
            None => base,
        })
    }
}

fn expand_home(text: &str, home: Option<&Path>) -> Option<PathBuf> {
    match text.strip_prefix('~') {
        Some(rest) => Some(home?.join(rest.trim_start_matches('/'))),
        None => Some(PathBuf::from(text)),
    }
}

/// What a command needs to know of where it runs.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The current folder, absolute.
    pub cwd: PathBuf,
    /// The nearest folder at or above it that holds `.git`, as a folder or a file (a worktree).
    pub git_root: Option<PathBuf>,
    /// The user's home: `HOME`, else the account's entry.
    pub home: Option<PathBuf>,
}

impl Machine {
    /// Looks at this process's folder and environment.
    pub fn here() -> Result<Self> {
        let cwd = env::current_dir()
            .context("the current folder is gone or cannot be read; change to another one")?;
        let git_root = super::project::git_root(&cwd);
        let home = env::home_dir().filter(|home| !home.as_os_str().is_empty());
        Ok(Self {
            cwd,
            git_root,
            home,
        })
    }

    /// Where project installs go: the git root, else the current folder.
    pub fn project(&self) -> &Path {
        self.git_root.as_deref().unwrap_or(&self.cwd)
    }

    /// The user's home, which user-level installs need.
    pub fn home(&self) -> Result<&Path> {
        let Some(home) = self.home.as_deref() else {
            bail!("HOME is not set and the account has no home; set HOME, or use --dest DIR");
        };
        if !home.is_absolute() {
            bail!(
                "HOME is '{}', which is not absolute; set it to a full path",
                home.display()
            );
        }
        if !home.is_dir() {
            bail!(
                "HOME is {}, which is not a folder; create it, set HOME, or use --dest DIR",
                home.display()
            );
        }
        Ok(home)
    }

    /// A template's folder on this machine.
    pub fn resolve(&self, template: &Template) -> Option<PathBuf> {
        let path = template.resolve(self.home.as_deref(), &|name| env::var_os(name))?;
        // A variable may hold a relative folder; agents take it from where they run.
        Some(self.cwd.join(path))
    }

    /// The skills folder that `add` writes to for this agent.
    pub fn skills_folder(&self, agent: &Agent, scope: Scope) -> Result<PathBuf> {
        if scope == Scope::Project {
            return Ok(self.project().join(&agent.project));
        }
        // Only a folder below the home needs one: CODEX_HOME and its like stand on their own.
        let home = self.home();
        let known = home.as_ref().ok().copied();
        match agent.user.resolve(known, &|name| env::var_os(name)) {
            Some(path) => Ok(self.cwd.join(path)),
            None => match home {
                Err(error) => Err(error),
                Ok(_) => bail!("{} has no user-level folder on this machine", agent.name),
            },
        }
    }

    /// All folders of one scope in which this agent finds skills.
    pub fn folders_read(&self, agent: &Agent, scope: Scope) -> Vec<PathBuf> {
        match scope {
            Scope::Project => agent
                .project_folders()
                .map(|folder| self.project().join(folder))
                .collect(),
            Scope::User => agent
                .user_folders()
                .filter_map(|t| self.resolve(t))
                .collect(),
            Scope::Dest => Vec::new(),
        }
    }

    /// A path for people: below the current folder relative, below the home with `~`.
    pub fn show(&self, path: &Path) -> String {
        if let Ok(inside) = path.strip_prefix(&self.cwd) {
            let text = inside.display().to_string();
            return if text.is_empty() {
                ".".to_owned()
            } else {
                text
            };
        }
        match self.home.as_deref().map(|home| path.strip_prefix(home)) {
            Some(Ok(inside)) => format!("~/{}", inside.display()),
            _ => path.display().to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn resolve(text: &str, variables: &[(&str, &str)]) -> Option<String> {
        let find = |name: &str| {
            variables
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, value)| value.into())
        };
        let path = Template(text.to_owned()).resolve(Some(Path::new("/home/u")), &find)?;
        Some(path.display().to_string())
    }

    #[test]
    fn variables_replace_their_default() {
        let codex = "${CODEX_HOME:-~/.codex}/skills";
        assert_eq!(resolve(codex, &[]).unwrap(), "/home/u/.codex/skills");
        assert_eq!(
            resolve(codex, &[("CODEX_HOME", "")]).unwrap(),
            "/home/u/.codex/skills"
        );
        assert_eq!(
            resolve(codex, &[("CODEX_HOME", "/c d")]).unwrap(),
            "/c d/skills"
        );
        let xdg = "${XDG_CONFIG_HOME:-~/.config}/opencode/skills";
        assert_eq!(
            resolve(xdg, &[("XDG_CONFIG_HOME", "/x")]).unwrap(),
            "/x/opencode/skills"
        );
        let relative = resolve(xdg, &[("XDG_CONFIG_HOME", "x")]).unwrap();
        assert_eq!(relative, "/home/u/.config/opencode/skills");
        assert_eq!(
            resolve("${GEMINI_CLI_HOME:-~}/.gemini", &[]).unwrap(),
            "/home/u/.gemini"
        );
        assert_eq!(resolve("${OPENCODE_CONFIG_DIR}/skills", &[]), None);
    }

    #[test]
    fn without_a_home_only_what_needs_none_resolves() {
        let find = |name: &str| (name == "CODEX_HOME").then(|| "/c".into());
        let codex = Template("${CODEX_HOME:-~/.codex}/skills".to_owned());
        assert_eq!(codex.resolve(None, &find), Some("/c/skills".into()));
        assert_eq!(codex.resolve(None, &|_| None), None);
        assert_eq!(Template("~/.x".to_owned()).resolve(None, &|_| None), None);
    }

    proptest! {
        #[test]
        fn no_value_of_a_variable_makes_it_panic(value in "\\PC{0,40}") {
            let template = Template("${X:-~/.x}/skills".to_owned());
            let path = template.resolve(Some(Path::new("/h")), &|_| Some((&value).into())).unwrap();
            prop_assert!(path.ends_with("skills"));
        }
    }
}
