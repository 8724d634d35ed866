//! Writes a project where nothing exists yet: it is staged beside its place, and moved there by one rename.

use std::borrow::Cow;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use rustix::fs::{FlockOperation, flock};

use super::compose::Composition;
use super::git::{self, Repository};
use crate::agent::project::git_root;
use crate::base::dir::Dir;
use crate::base::disk;
use crate::install::Refusal;
use crate::install::place::hint;
use crate::skill::path::RelPath;
use crate::skill::tree::{Entry, Tree, has_shebang};

/// The prefix of a staging folder's name.
const STAGE: &str = ".kernels-init-";

/// The place of a project, where nothing exists, or an empty folder.
#[derive(Clone, Debug)]
pub(crate) struct Destination {
    /// The parent folder, with links resolved.
    parent: PathBuf,
    /// The project's folder.
    pub(crate) path: PathBuf,
    /// The permission bits of the empty folder, if there is one.
    empty: Option<fs::Permissions>,
}

/// What was written.
#[derive(Clone, Debug)]
pub(crate) struct Placed {
    /// The result of starting the repository.
    pub(crate) git: Repository,
    /// Folders of killed runs that were removed.
    pub(crate) removed: Vec<PathBuf>,
}

impl Destination {
    /// Checks a place. It is an error if something other than an empty folder is there.
    pub(crate) fn find(dest: &Path) -> Result<Self> {
        // `.` and `a/..` have no name; the folder that they resolve to has.
        let dest = if dest.file_name().is_none() {
            Cow::Owned(fs::canonicalize(dest).with_context(|| format!("cannot find {}", dest.display()))?)
        } else {
            Cow::Borrowed(dest)
        };
        let (Some(above), Some(name)) = (dest.parent(), dest.file_name()) else {
            return Err(refused(&dest, "is there", &["name a folder that is not there yet"]));
        };
        let above = if above.as_os_str().is_empty() { Path::new(".") } else { above };
        let parent = match fs::canonicalize(above) {
            Ok(parent) if parent.is_dir() => parent,
            Ok(_) => bail!("{} is not a folder, so nothing can be put into it", above.display()),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                bail!("the folder {} is not there; make it first: mkdir -p {}", above.display(), above.display())
            }
            Err(error) => {
                return Err(error).with_context(|| format!("cannot find {}", above.display()));
            }
        };
        let path = parent.join(name);
        let elsewhere = "name another folder with --dest";
        let empty = match fs::symlink_metadata(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => {
                return Err(error).with_context(|| format!("cannot look at {}", path.display()));
            }
            Ok(meta) if meta.is_symlink() => {
                let to = fs::read_link(&path).unwrap_or_default();
                let reason = format!("is a link to {}, and links are not followed", to.display());
                return Err(refused(&path, &reason, &["name the folder itself with --dest"]));
            }
            Ok(meta) if !meta.is_dir() => {
                return Err(refused(&path, "is there, and no folder", &[elsewhere]));
            }
            Ok(meta) => {
                let mut entries =
                    fs::read_dir(&path).with_context(|| format!("cannot look into {}", path.display()))?;
                if entries.next().is_some() {
                    return Err(refused(&path, "is there, and not empty", &[elsewhere]));
                }
                if std::env::current_dir().is_ok_and(|here| here == path) {
                    return Err(refused(
                        &path,
                        "is the folder that you are in; the project takes the place of an empty folder in one step, and you \
                         would be left in one that is gone",
                        &["go to the folder above and name it from there with --dest"],
                    ));
                }
                Some(meta.permissions())
            }
        };
        Ok(Self { parent, path, empty })
    }

    /// Writes all of a project or nothing, and starts its repository unless it is inside another.
    pub(crate) fn write(&self, project: &Composition, git: bool, message: &str) -> Result<Placed> {
        let tree = tree(project)?;
        let (stage, removed) = Stage::begin(&self.parent).map_err(|error| {
            let what = format!("cannot write {}{}", self.path.display(), hint(&error));
            anyhow::Error::new(error).context(what)
        })?;
        let inside = stage.path.join("project");
        let staged = fs::create_dir(&inside)
            .and_then(|()| tree.write(&Dir::open_last(&inside)?))
            .and_then(|written| written.sync());
        if let Err(error) = staged {
            let hint = hint(&error);
            return Err(error).with_context(|| format!("cannot write {}{hint}", self.path.display()));
        }
        let repository = match git_root(&self.parent) {
            _ if !git => Repository::NotWanted,
            Some(root) => Repository::Inside { root },
            None => git::start(&inside, message),
        };
        self.put(&inside)?;
        drop(stage);
        Ok(Placed { git: repository, removed })
    }

    fn put(&self, staged: &Path) -> Result<()> {
        let moved = match &self.empty {
            None => disk::move_new(staged, &self.path),
            // A folder can only be renamed over an empty folder.
            Some(permissions) => {
                fs::set_permissions(staged, permissions.clone()).and_then(|()| fs::rename(staged, &self.path))
            }
        };
        match moved {
            Ok(()) => {
                // The project is in place, even if this fails.
                let _ = disk::sync_folder(&self.parent);
                Ok(())
            }
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::AlreadyExists | ErrorKind::DirectoryNotEmpty | ErrorKind::NotADirectory
                ) =>
            {
                Err(refused(&self.path, "appeared while the project was written", &["name another folder with --dest"]))
            }
            Err(error) => Err(error).with_context(|| format!("cannot put {} in place", self.path.display())),
        }
    }
}

fn refused(path: &Path, reason: &str, advice: &[&str]) -> anyhow::Error {
    Refusal::of(path, reason, advice).into()
}

fn tree(project: &Composition) -> Result<Tree> {
    let mut tree = Tree::default();
    for (path, bytes) in &project.files {
        let entry = Entry { executable: has_shebang(bytes), content: Cow::Owned(bytes.clone()) };
        tree.insert(RelPath::parse(path)?, entry)?;
    }
    Ok(tree)
}

/// A staging folder, locked while it is in use and removed at the end. A staging folder without a lock was left by a killed
/// run.
struct Stage {
    path: PathBuf,
    _lock: Option<File>,
}

/// The most attempts to make a stage: another run may remove it before it is locked.
const TRIES: usize = 20;

impl Stage {
    /// Removes what killed runs left in a folder, and makes a stage there.
    fn begin(parent: &Path) -> io::Result<(Self, Vec<PathBuf>)> {
        let removed = tidy(parent);
        for _ in 0..TRIES {
            let path = parent.join(format!("{STAGE}{}", disk::unique()));
            fs::create_dir(&path).map_err(|error| disk::naming(parent, &error))?;
            match lock(&path) {
                Ok(Some(lock)) if is_still(&lock, &path) => {
                    let stage = Self { path, _lock: Some(lock) };
                    return Ok((stage, removed));
                }
                // On a file system without locks, no run removes another's stage.
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Ok((Self { path, _lock: None }, removed));
                }
                Ok(_) | Err(_) => {}
            }
        }
        Err(io::Error::other(format!("{}: other runs remove what this one stages", parent.display())))
    }
}

/// Whether an open folder is still the one at this path.
fn is_still(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::symlink_metadata(path)) {
        (Ok(held), Ok(there)) => (held.dev(), held.ino()) == (there.dev(), there.ino()),
        _ => false,
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = disk::delete(&self.path);
    }
}

/// Locks a folder; `None` if another process has locked it.
pub(super) fn lock(folder: &Path) -> io::Result<Option<File>> {
    let file = File::open(folder)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Removes this user's stages in a folder that are not in use.
fn tidy(parent: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(parent) else {
        return Vec::new();
    };
    let me = rustix::process::geteuid().as_raw();
    let mut removed = Vec::new();
    for entry in entries.flatten() {
        let name = entry.file_name();
        let path = entry.path();
        let is_stage = is_stage_name(&name.to_string_lossy())
            && fs::symlink_metadata(&path).is_ok_and(|meta| meta.is_dir() && meta.uid() == me);
        if !is_stage {
            continue;
        }
        // Without locks it may be in use, so it stays. The lock is held until the stage is removed.
        if let Ok(Some(held)) = lock(&path)
            && is_still(&held, &path)
            && disk::delete(&path).is_ok()
        {
            removed.push(path);
        }
    }
    removed
}

fn is_stage_name(name: &str) -> bool {
    name.strip_prefix(STAGE).is_some_and(is_unique)
}

/// Three hexadecimal numbers, as [`disk::unique`] gives them.
pub(super) fn is_unique(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let is_number = |part: &&str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    parts.len() == 3 && parts.iter().all(is_number)
}
