//! The contents of an installed skill's folder, with the user's changes.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Stat};
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use crate::base::dir::{Dir, Entry};
use crate::base::lease::is_being_written;
use crate::base::text;
use crate::skill::digest::{Digest, FileDigests};
use crate::skill::path::{MAX_DEPTH, RelPath};
use crate::skill::tree::{MAX_BYTES, RECEIPT, is_executable};

/// The files found below a folder, by their path in it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scan {
    found: BTreeMap<Name, Found>,
    /// The texts whose lines all end with `\r\n`.
    crlf: Vec<Name>,
    /// Every file and link that was looked at, also those that do not count, as it was then.
    seen: BTreeMap<PathBuf, Stamp>,
}

/// What tells whether a file was written to since: any write moves its times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    inode: (u64, u64),
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    #[allow(
        clippy::unnecessary_cast,
        clippy::cast_sign_loss,
        clippy::cast_possible_wrap,
        reason = "the types differ by system"
    )]
    fn of(meta: &Stat) -> Self {
        Self {
            inode: (meta.st_dev as u64, meta.st_ino as u64),
            size: meta.st_size as u64,
            modified: (meta.st_mtime as i64, meta.st_mtime_nsec as i64),
            changed: (meta.st_ctime as i64, meta.st_ctime_nsec as i64),
        }
    }
}

/// A path in the folder. Names that no skill can have are kept byte for byte: printed, one could look
/// like a file of the skill.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Name {
    Plain(RelPath),
    Odd(PathBuf),
}

impl Name {
    fn of(path: &Path) -> Self {
        match path.to_str().and_then(|text| RelPath::parse(text).ok()) {
            Some(path) => Self::Plain(path),
            None => Self::Odd(path.to_path_buf()),
        }
    }

    fn path(&self) -> PathBuf {
        match self {
            Self::Plain(path) => PathBuf::from(path.as_str()),
            Self::Odd(path) => path.clone(),
        }
    }

    fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Plain(path) => [b"plain ", path.as_str().as_bytes()].concat(),
            Self::Odd(path) => [b"odd ", path.as_os_str().as_bytes()].concat(),
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain(path) => path.fmt(f),
            // Escaped, so that no name can control a terminal.
            Self::Odd(path) => write!(f, "{}", path.to_string_lossy().escape_debug()),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Found {
    File {
        digest: Digest,
        other_mode: Digest,
        /// It is empty or zeros: what a power cut leaves of a file that had not reached the disk.
        blank: bool,
    },
    /// A link or a pipe, described by the text.
    Odd(String),
}

/// One difference between a folder and its receipt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Change {
    /// The file, for display.
    pub(crate) path: String,
    /// The file, as the system names it.
    #[serde(skip)]
    pub(crate) file: PathBuf,
    pub(crate) kind: ChangeKind,
}

/// What happened to a file since it was installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ChangeKind {
    /// Its bytes differ.
    Edited,
    /// Its bytes are the same, its executable bit is not.
    Mode,
    /// It was not installed.
    Added,
    Missing,
    /// It is empty or holds only zeros, which is not what was installed.
    Emptied,
}

impl Change {
    /// Whether nothing of a user's is in it: what was installed is gone, and can be put back.
    pub(crate) fn is_loss(&self) -> bool {
        matches!(self.kind, ChangeKind::Missing | ChangeKind::Emptied)
    }
}

impl ChangeKind {
    /// One letter, as `git status` writes it.
    pub(crate) fn letter(self) -> char {
        match self {
            Self::Edited => 'M',
            Self::Mode => 'm',
            Self::Added => 'A',
            Self::Missing => 'D',
            Self::Emptied => '0',
        }
    }
}

impl Scan {
    /// Looks at everything below `folder` but the receipt and what Python and Finder write again by themselves.
    pub(crate) fn of(folder: &Dir) -> io::Result<Self> {
        let mut scan = Self::default();
        scan.look_into(folder, Path::new(""), None, 1)?;
        Ok(scan)
    }

    fn look_into(&mut self, folder: &Dir, inside: &Path, above: Option<&Dir>, depth: usize) -> io::Result<()> {
        if depth > MAX_DEPTH {
            return Err(io::Error::other(format!("folders are nested more than {MAX_DEPTH} deep")));
        }
        for entry in folder.entries()? {
            let path = inside.join(&entry.name);
            if entry.kind == FileType::Directory {
                self.look_into(&folder.dir(&entry.name)?, &path, Some(folder), depth + 1)?;
                continue;
            }
            // Before the content: a write that comes between the two shows in the stamp.
            self.seen.insert(path.clone(), Stamp::of(&folder.stat(&entry.name)?));
            if path == Path::new(RECEIPT) || is_worthless(folder, &entry, above) {
                continue;
            }
            let (key, what) = self.look(folder, &entry, &path)?;
            self.found.insert(key, what);
        }
        Ok(())
    }

    fn look(&mut self, folder: &Dir, entry: &Entry, inside: &Path) -> io::Result<(Name, Found)> {
        let name = Name::of(inside);
        if entry.kind == FileType::Symlink {
            let to = folder.read_link(&entry.name)?;
            return Ok((name, Found::Odd(format!("link to {}", to.display()))));
        }
        if entry.kind != FileType::RegularFile {
            return Ok((name, Found::Odd("neither a file nor a folder".to_owned())));
        }
        // A name that no skill can have has no digest by the rules; hash its bytes.
        let path = match &name {
            Name::Plain(path) => path.clone(),
            Name::Odd(_) => RelPath::parse("odd").map_err(io::Error::other)?,
        };
        let mut file = folder.open_plain(&entry.name)?;
        let meta = file.metadata()?;
        let executable = is_executable(&meta);
        let mut content = Content::new(&path, executable, meta.len());
        io::copy(&mut file, &mut content)?;
        if content.returns
            && let Ok(text) = folder.read_plain(&entry.name, MAX_BYTES)
            && let Some(lf) = text::with_lf(&text)
        {
            content = Content::new(&path, executable, lf.len() as u64);
            io::copy(&mut lf.as_slice(), &mut content)?;
            self.crlf.push(name.clone());
        }
        Ok((name, content.finish()))
    }

    /// Deletes the files below `folder`, the scanned folder under another name, that are still as they were seen.
    /// `Ok(false)`: something else is in it, which was written since and is left.
    pub(crate) fn delete_seen(&self, folder: &Dir) -> io::Result<bool> {
        let all = self.delete_below(folder, Path::new(""), 1)?;
        // Last: with it, a later run can tell what else is left.
        if all {
            let _ = folder.remove_file(RECEIPT);
        }
        Ok(all)
    }

    fn delete_below(&self, folder: &Dir, inside: &Path, depth: usize) -> io::Result<bool> {
        let mut all = true;
        for entry in folder.entries()? {
            let path = inside.join(&entry.name);
            if entry.kind == FileType::Directory {
                all &= depth < MAX_DEPTH && self.delete_below(&folder.dir(&entry.name)?, &path, depth + 1)?;
                continue;
            }
            // Open until it is gone: an editor that opened it before it was moved here would write into a file without a name.
            let file = folder.open_plain(&entry.name);
            let is_edited = file.as_ref().is_ok_and(is_being_written)
                || folder.stat(&entry.name).is_ok_and(|meta| self.seen.get(&path) != Some(&Stamp::of(&meta)));
            if is_edited {
                all = false;
            } else if path != Path::new(RECEIPT) {
                // What the system does not delete now is left to the caller.
                let _ = folder.remove_file(&entry.name);
            }
        }
        Ok(all)
    }

    /// The digest of a skill tree of exactly these files, if they can be one.
    pub(crate) fn tree_digest(&self) -> Option<Digest> {
        let mut files = FileDigests::new();
        for (name, found) in &self.found {
            let (Name::Plain(path), Found::File { digest, .. }) = (name, found) else {
                return None;
            };
            files.insert(path.clone(), *digest);
        }
        Some(Digest::of_files(&files))
    }

    /// Whether nothing was found that counts.
    pub(crate) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// A fingerprint of everything found, special files included: equal when nothing changed.
    pub(crate) fn fingerprint(&self) -> String {
        let mut hash = Sha256::new();
        for (name, found) in &self.found {
            let what = match found {
                Found::File { digest, .. } => digest.to_string(),
                Found::Odd(text) => format!("odd {text}"),
            };
            for part in [name.bytes().as_slice(), what.as_bytes()] {
                hash.update((part.len() as u64).to_be_bytes());
                hash.update(part);
            }
        }
        Digest::finish(hash).to_string()
    }

    /// Whether files are as in `files` but for line ends of `\r\n`.
    pub(crate) fn has_crlf(&self, files: &FileDigests) -> bool {
        self.crlf.iter().any(|name| match (name, self.found.get(name)) {
            (Name::Plain(path), Some(Found::File { digest, .. })) => files.get(path) == Some(digest),
            _ => false,
        })
    }

    /// The differences from `files`. Modes are not compared where the file system keeps none.
    pub(crate) fn changes(&self, files: &FileDigests, modes: bool) -> Vec<Change> {
        let mut changes = Vec::new();
        for (name, found) in &self.found {
            let expected = match name {
                Name::Plain(path) => files.get(path),
                Name::Odd(_) => None,
            };
            let kind = match (expected, found) {
                (None, _) => ChangeKind::Added,
                (Some(expected), Found::File { digest, .. }) if digest == expected => continue,
                (Some(expected), Found::File { other_mode, .. }) if other_mode == expected => {
                    if !modes {
                        continue;
                    }
                    ChangeKind::Mode
                }
                (Some(_), Found::File { blank: true, .. }) => ChangeKind::Emptied,
                (Some(_), _) => ChangeKind::Edited,
            };
            changes.push(Change { path: name.to_string(), file: name.path(), kind });
        }
        for path in files.keys().filter(|path| !self.found.contains_key(&Name::Plain((*path).clone()))) {
            let file = PathBuf::from(path.as_str());
            changes.push(Change { path: path.to_string(), file, kind: ChangeKind::Missing });
        }
        changes.sort_by(|a, b| a.path.cmp(&b.path));
        changes
    }
}

/// Whether a file is one that Python or Finder writes again by itself; nothing else is deleted unasked. The name alone
/// does not say it: a module may be shipped as bytecode only.
fn is_worthless(folder: &Dir, entry: &Entry, above: Option<&Dir>) -> bool {
    let starts = |skip: usize, magic: &[u8]| {
        let mut start = Vec::new();
        let read = folder.open_plain(&entry.name).and_then(|file| file.take(16).read_to_end(&mut start));
        read.is_ok() && start.get(skip..skip + magic.len()) == Some(magic)
    };
    let name = entry.name.to_string_lossy();
    if entry.kind != FileType::RegularFile {
        return false;
    }
    if name == ".DS_Store" {
        return starts(0, b"\0\0\0\x01Bud1");
    }
    // `__pycache__/run.cpython-312.pyc` is made from `run.py` beside the folder.
    let Some((module, _)) = name.strip_suffix(".pyc").and_then(|name| name.split_once('.')) else {
        return false;
    };
    let source = above.filter(|_| folder.path().ends_with("__pycache__"));
    source.is_some_and(|above| above.has(format!("{module}.py"))) && starts(2, b"\r\n")
}

/// A file's digest and its digest with the other mode, in one pass, and whether it holds anything.
struct Content {
    digest: Sha256,
    other_mode: Sha256,
    blank: bool,
    /// Whether a `\r` is in it.
    returns: bool,
}

impl Content {
    fn new(path: &RelPath, executable: bool, length: u64) -> Self {
        Self {
            digest: Digest::start_file(path, executable, length),
            other_mode: Digest::start_file(path, !executable, length),
            blank: true,
            returns: false,
        }
    }

    fn finish(self) -> Found {
        let (digest, other_mode) = (Digest::finish(self.digest), Digest::finish(self.other_mode));
        Found::File { digest, other_mode, blank: self.blank }
    }
}

impl io::Write for Content {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.digest.update(bytes);
        self.other_mode.update(bytes);
        self.blank &= bytes.iter().all(|byte| *byte == 0);
        self.returns |= bytes.contains(&b'\r');
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with a file at the end of so many others.
    fn nested(depth: usize) -> io::Result<(tempfile::TempDir, Dir)> {
        let scratch = tempfile::tempdir()?;
        let folder = scratch.path().join("x/".repeat(depth));
        std::fs::create_dir_all(&folder)?;
        std::fs::write(folder.join("file"), "text")?;
        let dir = Dir::open(scratch.path())?;
        Ok((scratch, dir))
    }

    #[test]
    fn folders_are_looked_into_as_deep_as_a_skill_may_have_them() -> io::Result<()> {
        let (scratch, dir) = nested(MAX_DEPTH - 1)?;
        let scan = Scan::of(&dir)?;
        assert!(!scan.is_empty() && scan.delete_seen(&dir)?);
        assert!(Scan::of(&dir)?.is_empty(), "{}", scratch.path().display());
        let (_scratch, dir) = nested(MAX_DEPTH)?;
        assert!(Scan::of(&dir).is_err_and(|error| error.to_string().contains("nested")));
        assert!(!Scan::default().delete_seen(&dir)?);
        Ok(())
    }

    #[test]
    fn only_what_is_as_it_was_seen_is_deleted() -> io::Result<()> {
        let scratch = tempfile::tempdir()?;
        let at = |name: &str| scratch.path().join(name);
        std::fs::create_dir(at("folder"))?;
        for name in ["folder/kept", "folder/gone", "gone", RECEIPT] {
            std::fs::write(at(name), name)?;
        }
        let dir = Dir::open(scratch.path())?;
        let scan = Scan::of(&dir)?;
        std::fs::write(at("folder/kept"), "edited since")?;
        assert!(!scan.delete_seen(&dir)?);
        assert!(at("folder/kept").exists() && at(RECEIPT).exists());
        assert!(!at("folder/gone").exists() && !at("gone").exists());
        assert!(Scan::of(&dir)?.delete_seen(&dir)? && !at(RECEIPT).exists());
        Ok(())
    }

    #[test]
    fn blank_content_is_of_zeros_alone_and_a_text_of_windows_counts_as_it_was_installed() -> io::Result<()> {
        let scratch = tempfile::tempdir()?;
        std::fs::write(scratch.path().join("text"), "one\ntwo\n")?;
        let dir = Dir::open(scratch.path())?;
        let was = Scan::of(&dir)?;
        let mut files = FileDigests::new();
        for (name, found) in &was.found {
            if let (Name::Plain(path), Found::File { digest, .. }) = (name, found) {
                files.insert(path.clone(), *digest);
            }
        }
        for (content, kinds, crlf) in [
            ("one\ntwo\n", &[][..], false),
            ("one\r\ntwo\r\n", &[][..], true),
            ("\0\0", &[ChangeKind::Emptied][..], false),
            ("\0x", &[ChangeKind::Edited][..], false),
            ("x\0", &[ChangeKind::Edited][..], false),
            ("", &[ChangeKind::Emptied][..], false),
        ] {
            std::fs::write(scratch.path().join("text"), content)?;
            let now = Scan::of(&dir)?;
            let found: Vec<ChangeKind> = now.changes(&files, true).iter().map(|change| change.kind).collect();
            assert_eq!(found, kinds, "{content:?}");
            assert_eq!(now.has_crlf(&files), crlf, "{content:?}");
            assert_eq!(now.fingerprint() == was.fingerprint(), kinds.is_empty(), "{content:?}");
        }
        Ok(())
    }
}
