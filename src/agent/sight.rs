//! What an agent would find from a folder: every skill in every folder it reads.

use std::fs;
use std::path::{Path, PathBuf};

use super::machine::{Machine, Scope};
use super::project::up_to;
use super::table::{Agent, ProjectRoots};

/// A folder entry that may be a skill.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// The entry's name.
    pub(crate) name: String,
    /// Where it lies.
    pub(crate) path: PathBuf,
    /// The path without links; none for a broken link.
    pub(crate) real: Option<PathBuf>,
    /// The level it was found at.
    pub(crate) scope: Scope,
}

/// Every entry an agent looks at when it starts in the machine's current folder: the project's,
/// nearest first, then the user's.
pub(crate) fn of(agent: &Agent, machine: &Machine) -> Vec<Seen> {
    folders(agent, machine).iter().flat_map(|(folder, scope)| entries(folder, *scope)).collect()
}

/// The folders that an agent looks into, without links, as far as they are there.
pub(crate) fn folders(agent: &Agent, machine: &Machine) -> Vec<(PathBuf, Scope)> {
    let mut folders: Vec<(PathBuf, Scope)> = Vec::new();
    let bases: Vec<&Path> = match agent.project_roots {
        ProjectRoots::Cwd => vec![machine.cwd.as_path()],
        ProjectRoots::Walk | ProjectRoots::Unknown => up_to(&machine.cwd, machine.project()).collect(),
    };
    for base in bases {
        folders.extend(agent.project_folders().map(|folder| (base.join(folder), Scope::Project)));
    }
    let user = agent.user_folders().filter_map(|template| machine.resolve(template));
    folders.extend(user.map(|folder| (folder, Scope::User)));
    // A folder that is reached twice (a home that is a repository, a linked skills folder) is one.
    let mut known: Vec<PathBuf> = Vec::new();
    folders.retain(|(folder, _)| match folder.symlink_metadata().and_then(|_| folder.canonicalize()) {
        Ok(real) if !known.contains(&real) => {
            known.push(real);
            true
        }
        _ => false,
    });
    folders
}

fn entries(folder: &Path, scope: Scope) -> Vec<Seen> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut seen: Vec<Seen> = entries
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir() || kind.is_symlink()))
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let path = entry.path();
            let real = path.canonicalize().ok();
            // Hidden folders are the agents' own; a link to a file is no skill.
            let candidate = !name.starts_with('.') && real.as_ref().is_none_or(|real| real.is_dir());
            candidate.then_some(Seen { name, path, real, scope })
        })
        .collect();
    seen.sort_by(|a, b| a.name.cmp(&b.name));
    seen
}
