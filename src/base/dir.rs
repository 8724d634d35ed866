//! A folder held open. What is done through it is done in that folder, whatever its path leads to by then: another
//! process may put a link in its place at any time. Names are single components and links are never followed.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, Stat};
use rustix::io::Errno;

use super::disk::{is_unsupported, naming, read_limited, unique};

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC).union(OFlags::NOFOLLOW);
/// For a folder on the way to another: it need not be readable.
#[cfg(target_os = "linux")]
const BETWEEN: OFlags = FOLDER.union(OFlags::PATH);
#[cfg(not(target_os = "linux"))]
const BETWEEN: OFlags = FOLDER;
/// How deep folders are deleted: each level needs a descriptor.
const DEEPEST: usize = 200;

/// A folder held open.
#[derive(Debug)]
pub(crate) struct Dir {
    fd: OwnedFd,
    /// Where it was opened, for messages.
    path: PathBuf,
}

/// An entry of a folder.
#[derive(Debug)]
pub(crate) struct Entry {
    /// Its name.
    pub(crate) name: OsString,
    /// What it is; a link is a link.
    pub(crate) kind: FileType,
}

impl Dir {
    /// Opens the folder at an absolute path in which no component may be a link.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let fd = match open_at_once(path) {
            // An old kernel, or a container that filters the call.
            Err(Errno::NOSYS | Errno::PERM | Errno::INVAL) => walk(path),
            other => other,
        };
        Ok(Self { fd: fd?, path: path.to_path_buf() })
    }

    /// The same for a folder that this process may change but perhaps not read; its entries cannot be listed.
    pub(crate) fn open_unread(path: &Path) -> io::Result<Self> {
        let (above, name) = (path.parent(), path.file_name());
        let (Some(above), Some(name)) = (above, name) else {
            return Self::open(path);
        };
        let above = walk_between(above)?;
        Ok(Self { fd: rustix::fs::openat(&above, name, BETWEEN, Mode::empty())?, path: path.to_path_buf() })
    }

    /// Opens the folder at a path whose last component may not be a link.
    pub(crate) fn open_last(path: &Path) -> io::Result<Self> {
        Ok(Self { fd: rustix::fs::openat(CWD, path, FOLDER, Mode::empty())?, path: path.to_path_buf() })
    }

    /// The folder of this name in it.
    pub(crate) fn dir(&self, name: impl AsRef<OsStr>) -> io::Result<Self> {
        let name = name.as_ref();
        let fd = rustix::fs::openat(&self.fd, name, FOLDER, Mode::empty())?;
        Ok(Self { fd, path: self.path.join(name) })
    }

    /// The folder of this name in it, created if it is not there.
    pub(crate) fn make_dir(&self, name: impl AsRef<OsStr>) -> io::Result<Self> {
        match self.create_dir(name.as_ref()) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            created => created?,
        }
        self.dir(name)
    }

    /// Creates a folder that may not be there yet.
    pub(crate) fn create_dir(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        Ok(rustix::fs::mkdirat(&self.fd, name.as_ref(), Mode::from_raw_mode(0o777))?)
    }

    /// The folder at a path below it, `a/b`; this folder for an empty path.
    pub(crate) fn below(&self, path: &str) -> io::Result<Self> {
        path.split('/').filter(|name| !name.is_empty()).try_fold(self.again()?, |at, name| at.dir(name))
    }

    /// The same folder once more.
    pub(crate) fn again(&self) -> io::Result<Self> {
        Ok(Self { fd: self.fd.try_clone()?, path: self.path.clone() })
    }

    /// Where it was opened. Only for messages, and to look.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Creates a file that may not be there yet, with these permission bits less the umask.
    pub(crate) fn write_new(&self, name: impl AsRef<OsStr>, content: &[u8], mode: u32) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let mut file: File = rustix::fs::openat(&self.fd, name.as_ref(), flags, Mode::from_raw_mode(mode as _))?.into();
        file.write_all(content)?;
        Ok(file)
    }

    /// Writes a file in one step, on the disk before it has its name.
    pub(crate) fn write_atomic(&self, name: &str, content: &[u8], mode: u32) -> io::Result<()> {
        let staged = format!(".{name}.{}.tmp", unique());
        let written = self
            .write_new(&staged, content, mode)
            .and_then(|file| file.sync_all())
            .and_then(|()| Ok(rustix::fs::renameat(&self.fd, &staged, &self.fd, name)?));
        written.inspect_err(|_| {
            let _ = self.remove_file(&staged);
        })
    }

    /// Opens a file for reading; never waits on a pipe.
    pub(crate) fn open_plain(&self, name: impl AsRef<OsStr>) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(&self.fd, name.as_ref(), flags, Mode::empty())?.into())
    }

    /// Reads a regular file of at most `limit` bytes.
    pub(crate) fn read_plain(&self, name: impl AsRef<OsStr>, limit: u64) -> io::Result<Vec<u8>> {
        read_limited(self.open_plain(name)?, limit)
    }

    /// What is known of an entry.
    pub(crate) fn stat(&self, name: impl AsRef<OsStr>) -> io::Result<Stat> {
        Ok(rustix::fs::statat(&self.fd, name.as_ref(), AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// Whether there is an entry of this name.
    pub(crate) fn has(&self, name: impl AsRef<OsStr>) -> bool {
        self.stat(name).is_ok()
    }

    /// Where a link leads.
    pub(crate) fn read_link(&self, name: impl AsRef<OsStr>) -> io::Result<PathBuf> {
        let to = rustix::fs::readlinkat(&self.fd, name.as_ref(), Vec::new())?;
        Ok(PathBuf::from(OsStr::from_bytes(to.as_bytes())))
    }

    /// Creates a link.
    pub(crate) fn symlink(&self, to: &Path, name: &str) -> io::Result<()> {
        Ok(rustix::fs::symlinkat(to, &self.fd, name)?)
    }

    /// Its entries, in the order of their names.
    pub(crate) fn entries(&self) -> io::Result<Vec<Entry>> {
        let mut all = Vec::new();
        for entry in rustix::fs::Dir::read_from(&self.fd)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes()).to_os_string();
            if name == "." || name == ".." {
                continue;
            }
            let kind = match entry.file_type() {
                // Not every file system says it.
                FileType::Unknown => FileType::from_raw_mode(self.stat(&name)?.st_mode),
                kind => kind,
            };
            all.push(Entry { name, kind });
        }
        all.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(all)
    }

    /// Deletes a file or a link.
    pub(crate) fn remove_file(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.fd, name.as_ref(), AtFlags::empty())?)
    }

    /// Deletes an empty folder.
    pub(crate) fn remove_dir(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.fd, name.as_ref(), AtFlags::REMOVEDIR)?)
    }

    /// Moves an entry to another folder, where nothing may have its new name.
    pub(crate) fn move_new(&self, name: &str, to: &Self, as_name: &str) -> io::Result<()> {
        match rustix::fs::renameat_with(&self.fd, name, &to.fd, as_name, RenameFlags::NOREPLACE) {
            Err(error) if is_unsupported(error) => {
                // Without the flag a file or an empty folder would be replaced.
                if to.has(as_name) {
                    return Err(Errno::EXIST.into());
                }
                Ok(rustix::fs::renameat(&self.fd, name, &to.fd, as_name)?)
            }
            result => Ok(result?),
        }
    }

    /// Moves a file to another folder, over one of the new name.
    pub(crate) fn move_over(&self, name: &str, to: &Self, as_name: &str) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.fd, name, &to.fd, as_name)?)
    }

    /// Swaps two entries in one step. `Ok(false)`: this file system cannot.
    pub(crate) fn exchange(&self, name: &str, other: &Self, other_name: &str) -> io::Result<bool> {
        match rustix::fs::renameat_with(&self.fd, name, &other.fd, other_name, RenameFlags::EXCHANGE) {
            Ok(()) => Ok(true),
            Err(error) if is_unsupported(error) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Deletes a file, a link or a whole folder, or nothing. Folders of ours that may not be written to are made
    /// writable first.
    pub(crate) fn delete(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        self.delete_below(name.as_ref(), DEEPEST)
    }

    fn delete_below(&self, name: &OsStr, depth: usize) -> io::Result<()> {
        let meta = match self.stat(name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            meta => meta?,
        };
        if FileType::from_raw_mode(meta.st_mode) != FileType::Directory {
            return self.remove_file(name);
        }
        if depth == 0 {
            return Err(io::Error::other(format!("folders are nested more than {DEEPEST} deep")));
        }
        let folder = self.dir(name).or_else(|_| {
            rustix::fs::chmodat(&self.fd, name, Mode::RWXU, AtFlags::empty())?;
            self.dir(name)
        })?;
        let delete = || folder.entries()?.iter().try_for_each(|entry| folder.delete_below(&entry.name, depth - 1));
        delete().or_else(|_| {
            let _ = rustix::fs::fchmod(&folder.fd, Mode::RWXU);
            delete()
        })?;
        self.remove_dir(name)
    }

    /// Waits until its entries are on the disk. Some file systems cannot; that is no failure.
    pub(crate) fn sync(&self) -> io::Result<()> {
        match rustix::fs::fsync(&self.fd) {
            Err(Errno::INVAL | Errno::NOTSUP) => Ok(()),
            result => Ok(result?),
        }
    }
}

/// Files that were written below a folder and are not known to be on the disk yet.
#[derive(Debug)]
pub(crate) struct Written {
    /// The folder.
    pub(crate) root: Dir,
    /// The files, by their paths below it.
    pub(crate) files: Vec<String>,
    /// The folders below it, outermost first.
    pub(crate) folders: Vec<String>,
    /// The file system has kept the executable bits.
    pub(crate) modes: bool,
}

/// How many files are waited for at once: a busy disk answers many of them together.
const AT_ONCE: usize = 8;

impl Written {
    /// Waits until everything is on the disk.
    pub(crate) fn sync(&self) -> io::Result<()> {
        let open = |path: &String| {
            let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
            self.root.below(folder)?.open_plain(name)
        };
        // Started together, the files' blocks are allocated in one transaction of a journalling
        // file system, and most of the waits below find it committed: half the time on ext4.
        #[cfg(target_os = "linux")]
        for path in &self.files {
            if let Ok(file) = open(path) {
                let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed);
            }
        }
        let sync = |path: &String| {
            let waited = open(path).and_then(|file| file.sync_all());
            waited.map_err(|error| naming(&self.root.path.join(path), &error))
        };
        let share = self.files.len().div_ceil(AT_ONCE).max(1);
        std::thread::scope(|scope| {
            let shares = self.files.chunks(share);
            let threads: Vec<_> = shares.map(|files| scope.spawn(move || files.iter().try_for_each(sync))).collect();
            threads
                .into_iter()
                .try_for_each(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        })?;
        self.folders.iter().rev().try_for_each(|folder| self.root.below(folder)?.sync())?;
        self.root.sync()
    }
}

impl AsFd for Dir {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(target_os = "linux")]
fn open_at_once(path: &Path) -> Result<OwnedFd, Errno> {
    use rustix::fs::ResolveFlags;
    let links = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    rustix::fs::openat2(CWD, path, FOLDER, Mode::empty(), links)
}

#[cfg(not(target_os = "linux"))]
fn open_at_once(_: &Path) -> Result<OwnedFd, Errno> {
    Err(Errno::NOSYS)
}

/// Opens one component after the other, none of which may be a link.
fn walk(path: &Path) -> Result<OwnedFd, Errno> {
    rustix::fs::openat(walk_between(path)?, ".", FOLDER, Mode::empty())
}

fn walk_between(path: &Path) -> Result<OwnedFd, Errno> {
    let mut at = rustix::fs::openat(CWD, "/", BETWEEN, Mode::empty())?;
    for component in path.components() {
        match component {
            Component::RootDir => {}
            Component::Normal(name) => at = rustix::fs::openat(&at, name, BETWEEN, Mode::empty())?,
            _ => return Err(Errno::INVAL),
        }
    }
    Ok(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_way_of_opening_follows_a_link() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("real/below")).unwrap();
        std::os::unix::fs::symlink("real", root.join("link")).unwrap();
        for path in ["real", "real/below"] {
            assert!(Dir::open(&root.join(path)).is_ok() && walk(&root.join(path)).is_ok(), "{path}");
        }
        for path in ["link", "link/below"] {
            assert!(Dir::open(&root.join(path)).is_err() && walk(&root.join(path)).is_err(), "{path}");
            assert!(Dir::open_unread(&root.join(path)).is_err(), "{path}");
        }
        assert!(Dir::open_last(&root.join("link")).is_err());
        let dir = Dir::open(&root).unwrap();
        assert!(dir.dir("link").is_err() && dir.make_dir("link").is_err());
        dir.delete("link").unwrap();
        assert!(root.join("real/below").is_dir());
    }
}
