//! The contents of an installed skill's folder, with the user's changes.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde::Serialize;
use sha2::{Digest as _, Sha256};
use walkdir::WalkDir;

use crate::base::disk::open_plain;
use crate::skill::digest::{Digest, FileDigests};
use crate::skill::path::RelPath;
use crate::skill::tree::{RECEIPT, is_executable};

/// The files found below a folder, by their path in it.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct Scan(BTreeMap<Name, Found>);

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
}

impl ChangeKind {
    /// One letter, as `git status` writes it.
    pub(crate) fn letter(self) -> char {
        match self {
            Self::Edited => 'M',
            Self::Mode => 'm',
            Self::Added => 'A',
            Self::Missing => 'D',
        }
    }
}

impl Scan {
    /// Looks at everything below `folder` but the receipt and what Python and Finder leave behind.
    pub(crate) fn of(folder: &Path) -> io::Result<Self> {
        let mut found = BTreeMap::new();
        for entry in WalkDir::new(folder).follow_links(false).follow_root_links(false) {
            let entry = entry.map_err(io::Error::from)?;
            let at = entry.path();
            let inside = at.strip_prefix(folder).unwrap_or(at);
            if entry.depth() == 0 || entry.file_type().is_dir() {
                continue;
            }
            let name = entry.file_name().to_string_lossy();
            if (entry.depth() == 1 && name == RECEIPT) || is_worthless(&name) {
                continue;
            }
            let (key, what) = look(at, inside, entry.file_type())?;
            found.insert(key, what);
        }
        Ok(Self(found))
    }

    /// The digest of a skill tree of exactly these files, if they can be one.
    pub(crate) fn tree_digest(&self) -> Option<Digest> {
        let mut files = FileDigests::new();
        for (name, found) in &self.0 {
            let (Name::Plain(path), Found::File { digest, .. }) = (name, found) else {
                return None;
            };
            files.insert(path.clone(), *digest);
        }
        Some(Digest::of_files(&files))
    }

    /// A fingerprint of everything found, special files included: equal when nothing changed.
    pub(crate) fn fingerprint(&self) -> String {
        let mut hash = Sha256::new();
        for (name, found) in &self.0 {
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

    /// The differences from `files`. Modes are not compared where the file system keeps none.
    pub(crate) fn changes(&self, files: &FileDigests, modes: bool) -> Vec<Change> {
        let mut changes = Vec::new();
        for (name, found) in &self.0 {
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
                (Some(_), _) => ChangeKind::Edited,
            };
            changes.push(Change { path: name.to_string(), file: name.path(), kind });
        }
        for path in files.keys().filter(|path| !self.0.contains_key(&Name::Plain((*path).clone()))) {
            let file = PathBuf::from(path.as_str());
            changes.push(Change { path: path.to_string(), file, kind: ChangeKind::Missing });
        }
        changes.sort_by(|a, b| a.path.cmp(&b.path));
        changes
    }
}

/// Files that running a script or opening a folder creates; nothing else is deleted unasked.
fn is_worthless(name: &str) -> bool {
    name == ".DS_Store" || name.ends_with(".pyc")
}

fn look(at: &Path, inside: &Path, kind: fs::FileType) -> io::Result<(Name, Found)> {
    let name = Name::of(inside);
    if kind.is_symlink() {
        let to = fs::read_link(at)?;
        return Ok((name, Found::Odd(format!("link to {}", to.display()))));
    }
    if !kind.is_file() {
        return Ok((name, Found::Odd("neither a file nor a folder".to_owned())));
    }
    // A name that no skill can have has no digest by the rules; hash its bytes.
    let path = match &name {
        Name::Plain(path) => path.clone(),
        Name::Odd(_) => RelPath::parse("odd").map_err(io::Error::other)?,
    };
    let mut file = open_plain(at)?;
    let meta = file.metadata()?;
    let executable = is_executable(&meta);
    let mut content = Sha256Both::new(&path, executable, meta.len());
    io::copy(&mut file, &mut content)?;
    let (digest, other_mode) = content.finish();
    Ok((name, Found::File { digest, other_mode }))
}

/// A file's digest and its digest with the other mode, in one pass.
struct Sha256Both(Sha256, Sha256);

impl Sha256Both {
    fn new(path: &RelPath, executable: bool, length: u64) -> Self {
        Self(Digest::start_file(path, executable, length), Digest::start_file(path, !executable, length))
    }

    fn finish(self) -> (Digest, Digest) {
        (Digest::finish(self.0), Digest::finish(self.1))
    }
}

impl io::Write for Sha256Both {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        self.1.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
