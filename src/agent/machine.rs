//! Where this process runs, and the folders that the table's rows mean there.

use std::env;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use anyhow::{Context, Result, bail};
use serde::Serialize;

use super::table::Agent;
use super::template::Template;
use crate::base::text::for_shell;

/// Whether an install belongs to a project or to the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Scope {
    /// In the project's folder.
    Project,
    /// In the user's home.
    User,
    /// In a folder named with `--dest`.
    Dest,
}

impl Scope {
    /// ` --dest FOLDER` if only that names the skills folder to a command; else nothing.
    pub(crate) fn option(self, folder: &Path) -> String {
        if self == Self::Dest { format!(" --dest {}", for_shell(folder)) } else { String::new() }
    }
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

/// What a command needs to know of where it runs.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    /// The current folder, absolute.
    pub(crate) cwd: PathBuf,
    /// The nearest folder at or above it that holds `.git`, as a folder or a file (a worktree).
    pub(crate) git_root: Option<PathBuf>,
    /// The user's home: `HOME`, else the account's entry.
    pub(crate) home: Option<PathBuf>,
    /// Whether it is a folder, which is looked at once for all agents.
    home_is_there: OnceLock<bool>,
}

impl Machine {
    /// Looks at this process's folder and environment.
    pub(crate) fn here() -> Result<Self> {
        let cwd = env::current_dir().context("the current folder is gone or cannot be read; change to another one")?;
        let git_root = super::project::git_root(&cwd);
        let home = dirs::home_dir();
        Ok(Self::at(cwd, git_root, home))
    }

    /// Another folder and home than this process's.
    pub(crate) fn at(cwd: PathBuf, git_root: Option<PathBuf>, home: Option<PathBuf>) -> Self {
        Self { cwd, git_root, home, home_is_there: OnceLock::new() }
    }

    /// Where project installs go: the git root, else the current folder.
    pub(crate) fn project(&self) -> &Path {
        self.git_root.as_deref().unwrap_or(&self.cwd)
    }

    /// The user's home, which user-level installs need.
    pub(crate) fn home(&self) -> Result<&Path> {
        let Some(home) = self.home.as_deref() else {
            bail!("HOME is not set and the account has no home; set HOME, or use --dest DIR");
        };
        if !home.is_absolute() {
            bail!("HOME is '{}', which is not absolute; set it to a full path", home.display());
        }
        if !self.home_is_there.get_or_init(|| home.is_dir()) {
            bail!("HOME is {}, which is not a folder; create it, set HOME, or use --dest DIR", home.display());
        }
        Ok(home)
    }

    /// A template's folder on this machine.
    pub(crate) fn resolve(&self, template: &Template) -> Option<PathBuf> {
        let path = template.resolve(self.home.as_deref(), &|name| env::var_os(name))?;
        // A variable may hold a relative folder; agents take it from where they run.
        Some(self.cwd.join(path))
    }

    /// The skills folder that `add` writes to for this agent.
    pub(crate) fn skills_folder(&self, agent: &Agent, scope: Scope) -> Result<PathBuf> {
        if scope == Scope::Project {
            let Some(folder) = &agent.project else {
                bail!("{} has no folder of a project that is only its own; use --global, or --dest DIR", agent.name);
            };
            return Ok(self.project().join(folder));
        }
        // Only a folder below the home needs the home: CODEX_HOME and the like are absolute.
        let home = self.home();
        let known = home.as_ref().ok().copied();
        match agent.user.as_ref().and_then(|user| user.resolve(known, &|name| env::var_os(name))) {
            Some(path) => Ok(self.cwd.join(path)),
            None => match home {
                Err(error) if agent.user.is_some() => Err(error),
                _ => bail!("{} has no user-level folder on this machine", agent.name),
            },
        }
    }

    /// All folders of one scope in which this agent finds skills.
    pub(crate) fn folders_read(&self, agent: &Agent, scope: Scope) -> Vec<PathBuf> {
        match scope {
            Scope::Project => agent.project_folders().map(|folder| self.project().join(folder)).collect(),
            Scope::User => agent.user_folders().filter_map(|t| self.resolve(t)).collect(),
            Scope::Dest => Vec::new(),
        }
    }

    /// A path for people: below the current folder relative, below the home with `~`.
    pub(crate) fn show(&self, path: &Path) -> String {
        if let Ok(inside) = path.strip_prefix(&self.cwd) {
            let text = inside.display().to_string();
            return if text.is_empty() { ".".to_owned() } else { text };
        }
        match self.home.as_deref().map(|home| path.strip_prefix(home)) {
            Some(Ok(inside)) => format!("~/{}", inside.display()),
            _ => path.display().to_string(),
        }
    }
}
