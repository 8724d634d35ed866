//! Writing so that a crash at any point leaves nothing half done: durable files, atomic swaps.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags, renameat_with};
use rustix::io::Errno;

/// Creates a file that must not be there yet, with these permission bits less the umask.
fn open_new(path: &Path, mode: u32) -> io::Result<File> {
    fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(path)
}

/// Writes `content` as `path` in one step, on the disk before it has that name: whoever reads,
/// after a power cut too, sees the old file or all of the new one.
pub(crate) fn write_atomic(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let staged = folder.join(format!(".{name}.{}.tmp", unique()));
    let written = open_new(&staged, mode)
        .and_then(|mut file| file.write_all(content).and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(&staged, path));
    written.inspect_err(|_| {
        let _ = fs::remove_file(&staged);
    })
}

/// Opens a file for reading; fails on a link in the last component and never waits on a pipe.
pub(crate) fn open_plain(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?.into())
}

/// Reads a regular file of at most `limit` bytes; never follows a link and never waits on a pipe.
pub(crate) fn read_plain(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    read_limited(open_plain(path)?, limit)
}

/// Reads a file that must be a regular one of at most `limit` bytes.
pub(super) fn read_limited(file: File, limit: u64) -> io::Result<Vec<u8>> {
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(io::Error::other(format!("more than {limit} bytes")));
    }
    Ok(bytes)
}

/// Whether a path leads out of a folder, through a link. What cannot be resolved leads nowhere.
pub(crate) fn leads_out(path: &Path, folder: &Path) -> bool {
    path.canonicalize().is_ok_and(|to| folder.canonicalize().is_ok_and(|folder| !to.starts_with(folder)))
}

/// Waits until a folder's entries are on the disk. Some file systems cannot; that is no failure.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    match File::open(folder)?.sync_all() {
        Err(error) if matches!(Errno::from_io_error(&error), Some(Errno::INVAL | Errno::NOTSUP)) => Ok(()),
        result => result,
    }
}

/// Moves `from` to `to`, where nothing may be.
pub(crate) fn move_new(from: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Err(error) if is_unsupported(error) => {
            // Without the flag a file or an empty folder at `to` would be replaced.
            if fs::symlink_metadata(to).is_ok() {
                return Err(Errno::EXIST.into());
            }
            fs::rename(from, to)
        }
        result => Ok(result?),
    }
}

pub(super) fn is_unsupported(error: Errno) -> bool {
    matches!(error, Errno::INVAL | Errno::NOSYS | Errno::NOTSUP)
}

/// Whether this process may create entries in `folder`.
pub(crate) fn is_writable(folder: &Path) -> bool {
    use rustix::fs::Access;
    rustix::fs::accessat(CWD, folder, Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS).is_ok()
}

/// Deletes a file, a link or a whole folder, or nothing; a link is never followed. Folders of ours
/// that may not be written to are made writable first.
pub(crate) fn delete(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_dir() => fs::remove_dir_all(path).or_else(|_| {
            make_writable(path);
            fs::remove_dir_all(path)
        }),
        Ok(_) => fs::remove_file(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

fn make_writable(folder: &Path) {
    let _ = fs::set_permissions(folder, fs::Permissions::from_mode(0o700));
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            make_writable(&entry.path());
        }
    }
}

/// An error that names the path it happened on.
pub(crate) fn naming(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// A name part that no other process picks: time, process, and a count within it.
pub(crate) fn unique() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let nanoseconds = since.unwrap_or_default().as_nanos();
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("{nanoseconds:x}-{:x}-{count:x}", std::process::id())
}
