//! The skills folder that a skill is installed to, and its parents.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, bail};
use rustix::io::Errno;

use super::refusal::{Refusal, Refused};
use crate::agent::{Agent, Machine, Scope};
use crate::base::dir::Dir;
use crate::base::disk;
use crate::skill::tree::SKILL_MD;

/// A skills folder that an install goes to, and the agents it is for.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// The skills folder, absolute and without links; it may not exist yet.
    pub(crate) folder: PathBuf,
    pub(crate) scope: Scope,
    /// The agents that are to find the skill there; none for `--dest`.
    pub(crate) agents: Vec<&'static Agent>,
}

impl Place {
    pub(crate) fn of_agent(machine: &Machine, agent: &'static Agent, scope: Scope) -> Result<Self> {
        let named = machine.skills_folder(agent, scope)?;
        let folder = resolve(&named)?;
        if scope == Scope::Project {
            refuse_outside(machine.project(), &named, &folder)?;
        }
        Ok(Self { folder, scope, agents: vec![agent] })
    }

    pub(crate) fn of_dest(machine: &Machine, named: &Path) -> Result<Self> {
        if named.as_os_str().is_empty() {
            bail!("--dest is empty; name the folder that holds skills");
        }
        if named.starts_with("~") {
            bail!(
                "--dest {}: your shell did not expand the '~'; write $HOME{} instead",
                named.display(),
                named.display().to_string().trim_start_matches('~')
            );
        }
        let folder = resolve(&machine.cwd.join(named))?;
        if folder.join(SKILL_MD).exists() {
            bail!(
                "{} is itself a skill; --dest takes the folder that holds skills: {}",
                folder.display(),
                folder.parent().unwrap_or(&folder).display()
            );
        }
        Ok(Self { folder, scope: Scope::Dest, agents: Vec::new() })
    }

    pub(crate) fn dest(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The project that contains the folder, and so its receipts.
    pub(crate) fn project(&self, machine: &Machine) -> Option<PathBuf> {
        let here = || machine.project().canonicalize().ok().filter(|project| self.folder.starts_with(project));
        match self.scope {
            Scope::User => None,
            // A repository first: a clone in the current project is somebody else's, and reaches nothing beside it.
            Scope::Project | Scope::Dest => crate::agent::project::git_root(&self.folder)
                .or_else(here)
                .or_else(|| Some(self.folder.parent()?.parent()?.to_path_buf())),
        }
    }
}

/// Merges places with the same folder, keeping their order.
pub(crate) fn merge(places: Vec<Place>) -> Vec<Place> {
    let mut merged: Vec<Place> = Vec::new();
    for place in places {
        match merged.iter_mut().find(|known| known.folder == place.folder) {
            Some(known) => {
                let new = place.agents.iter().filter(|a| !known.agents.iter().any(|k| k.id == a.id));
                let new: Vec<_> = new.copied().collect();
                known.agents.extend(new);
            }
            None => merged.push(place),
        }
    }
    merged
}

/// The absolute path without links of a folder that may not exist yet: links are followed as far
/// as the path exists, and the rest is appended.
pub(crate) fn resolve(path: &Path) -> Result<PathBuf> {
    let mut rest: Vec<&std::ffi::OsStr> = Vec::new();
    let mut there = path;
    loop {
        // What is missing is seen by one call, and a path of which nothing is missing is resolved only once.
        let is_missing = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
        let resolved = fs::symlink_metadata(there).err().filter(is_missing).map_or_else(|| there.canonicalize(), Err);
        match resolved {
            Ok(mut real) => {
                match fs::metadata(&real) {
                    Ok(meta) if meta.is_dir() => {}
                    // Another process has just removed it.
                    Err(error) if is_missing(&error) => continue,
                    Ok(_) => bail!("{} is not a folder; move it away or choose another place", real.display()),
                    Err(error) => return Err(error).with_context(|| format!("cannot resolve {}", real.display())),
                }
                real.extend(rest.iter().rev());
                return Ok(real);
            }
            Err(error) if is_missing(&error) => {
                match fs::symlink_metadata(there) {
                    Ok(meta) if meta.is_symlink() => {
                        bail!("{} is a link to nothing; mend or remove it", there.display());
                    }
                    // Another process has just created it.
                    Ok(_) => continue,
                    Err(_) => {}
                }
                match there.components().next_back() {
                    Some(Component::Normal(name)) => rest.push(name),
                    _ => bail!("{} is not there", there.display()),
                }
                there = there.parent().with_context(|| format!("{} is not there", path.display()))?;
            }
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                let file = path.ancestors().find(|above| above.is_file()).unwrap_or(there);
                bail!("{} is not a folder; move it away or choose another place", file.display());
            }
            Err(error) => {
                return Err(error).with_context(|| format!("cannot resolve {}", there.display()));
            }
        }
    }
}

/// No target of a link of ours is longer.
pub(super) const LINK_FILE_LIMIT: u64 = 1024;

/// The target of a link that git wrote as a file, as it does with `core.symlinks=false`. Only what could be a link of ours
/// counts: relative, and to a skill of the same name.
pub(crate) fn link_file(path: &Path) -> Option<PathBuf> {
    fs::symlink_metadata(path).ok().filter(|meta| meta.is_file() && meta.len() <= LINK_FILE_LIMIT)?;
    let text = String::from_utf8(disk::read_plain(path, LINK_FILE_LIMIT).ok()?).ok()?;
    let to = PathBuf::from(&text);
    let fits = to.is_relative() && to.file_name() == path.file_name() && !text.contains('\n');
    let skill = path.parent()?.join(&to).join(SKILL_MD);
    (fits && skill.is_file()).then_some(to)
}

/// A repository can contain a link in place of a skills folder; refuse to write through it to a
/// folder outside the project.
fn refuse_outside(project: &Path, named: &Path, folder: &Path) -> Result<()> {
    let project = project.canonicalize().with_context(|| format!("cannot resolve {}", project.display()))?;
    if folder.starts_with(&project) {
        return Ok(());
    }
    Err(Refusal(vec![Refused {
        path: named.to_path_buf(),
        reason: format!("is a link that leaves the project, to {}", folder.display()),
        changes: Vec::new(),
        advice: vec![format!("if that is meant: --dest {}", folder.display())],
    }])
    .into())
}

/// How often to retry when another process removes a folder just created.
const TRIES: usize = 5;

/// Creates a folder and its parents; returns how many were created. On failure, removes them again.
pub(crate) fn create_folders(folder: &Path) -> Result<usize> {
    let mut tried = 1;
    loop {
        match try_create_folders(folder) {
            Ok(created) => return Ok(created),
            Err((_, error)) if error.kind() == io::ErrorKind::NotFound && tried < TRIES => {
                tried += 1;
            }
            Err((at, error)) => {
                let hint = hint(&error);
                return Err(error).with_context(|| format!("cannot create {}{hint}", at.display()));
            }
        }
    }
}

fn try_create_folders(folder: &Path) -> Result<usize, (PathBuf, io::Error)> {
    let missing: Vec<&Path> = folder.ancestors().take_while(|above| fs::symlink_metadata(above).is_err()).collect();
    let there = folder.ancestors().nth(missing.len()).unwrap_or(folder);
    let mut at = Dir::open_unread(there).map_err(|error| (there.to_path_buf(), error))?;
    let mut created = 0;
    for folder in missing.into_iter().rev() {
        let name = folder.file_name().unwrap_or_default();
        let made = match at.create_dir(name) {
            Ok(()) => {
                created += 1;
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(error),
        };
        // With an odd umask, a folder that was just created cannot be opened; it goes as well.
        let there = if made.is_ok() { Some(folder) } else { folder.parent() };
        match made.and_then(|()| at.dir(name)) {
            Ok(dir) => at = dir,
            Err(error) => {
                if let Some(there) = there {
                    remove_empty(there, created);
                }
                return Err((folder.to_path_buf(), error));
            }
        }
    }
    Ok(created)
}

/// Advice for the errors that a user can fix.
pub(crate) fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => " (check who owns the folder and its permissions)",
        io::ErrorKind::ReadOnlyFilesystem => " (the file system is mounted read-only)",
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            " (the disk is full; nothing was changed, free some space and run it again)"
        }
        io::ErrorKind::CrossesDevices => {
            " (the folder cannot be moved: it is a mount point, or lies in a layer of a container \
             image; make a fresh copy of it first: cp -a X X.new && rm -r X && mv X.new X)"
        }
        io::ErrorKind::NotADirectory => " (a folder has become a link or a file)",
        _ if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => " (a folder has become a link)",
        _ => "",
    }
}

/// Removes up to `count` empty folders from `folder` upwards.
pub(crate) fn remove_empty(folder: &Path, count: usize) {
    for folder in folder.ancestors().take(count) {
        let (Some(above), Some(name)) = (folder.parent(), folder.file_name()) else {
            break;
        };
        // Only an empty folder can be removed so, and nothing can be lost.
        if Dir::open_unread(above).and_then(|above| above.remove_dir(name)).is_err() {
            break;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_is_given_for_the_errors_that_a_user_can_fix() {
        for (errno, advice) in [
            (Errno::ACCESS, "permissions"),
            (Errno::ROFS, "read-only"),
            (Errno::NOSPC, "disk is full"),
            (Errno::DQUOT, "disk is full"),
            (Errno::XDEV, "mount point"),
            (Errno::NOTDIR, "a link or a file"),
            (Errno::LOOP, "become a link"),
        ] {
            let hint = hint(&errno.into());
            assert!(hint.contains(advice), "{errno}: {hint}");
        }
        assert_eq!(hint(&Errno::IO.into()), "");
    }

    #[test]
    fn folders_are_counted_as_they_are_made_and_only_these_are_removed() -> Result<()> {
        let scratch = tempfile::tempdir()?;
        let folder = scratch.path().join("a/b/c");
        assert_eq!((create_folders(&folder)?, create_folders(&folder)?), (3, 0));
        remove_empty(&folder, 2);
        assert!(scratch.path().join("a").is_dir() && !scratch.path().join("a/b").exists());
        // Behind a link to nothing there is none to make.
        let link = scratch.path().join("link");
        std::os::unix::fs::symlink("nowhere", &link)?;
        let error = create_folders(&link.join("d")).map_err(|error| format!("{error:#}"));
        assert!(error.is_err_and(|why| why.contains(&format!("cannot create {}", link.display()))));
        Ok(())
    }
}
