//! The files of a skill, in memory: what is packed, hashed and installed.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::io::Read;
use std::ops::Bound;
use std::path::{Path, PathBuf};

use thiserror::Error;
use unicode_normalization::UnicodeNormalization;
use walkdir::WalkDir;

use super::path::{MAX_DEPTH, PathError, RelPath};
use crate::base::dir::{Dir, Written};
use crate::base::disk::{self, open_plain};

/// The most files in a skill.
pub(crate) const MAX_FILES: usize = 1_000;
/// The most files and folders below a skill's folder that are looked at, files of tools not counted.
pub(crate) const MAX_ENTRIES: usize = 10 * MAX_FILES;
/// The most bytes of a skill's files, unpacked.
pub(crate) const MAX_BYTES: u64 = 25_000_000;
/// The file that makes a folder a skill.
pub(crate) const SKILL_MD: &str = "SKILL.md";
/// The receipt that an install writes into the skill's folder; not part of the skill.
pub(crate) const RECEIPT: &str = ".kernels.json";

/// One file of a skill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Executable: mode 755 instead of 644.
    pub(crate) executable: bool,
    /// The bytes.
    pub(crate) content: Cow<'static, [u8]>,
}

impl Entry {
    /// The permission bits of this entry on every system: 0o755 or 0o644.
    pub(crate) fn mode(&self) -> u32 {
        mode(self.executable)
    }
}

/// The permission bits of a file: 0o755 or 0o644.
pub(crate) fn mode(executable: bool) -> u32 {
    if executable { 0o755 } else { 0o644 }
}

/// A skill's files by path. Paths differ on every file system, also on those that fold case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tree {
    entries: BTreeMap<RelPath, Entry>,
    bytes: u64,
    /// The first spelling of each case-folded path prefix; two spellings would collide on some disks.
    spellings: HashMap<String, String>,
    /// What was found and is no part of the tree, because it may be secret.
    left_out: Vec<String>,
}

/// Why files do not form a skill tree.
#[derive(Debug, Error)]
pub(crate) enum TreeError {
    /// A path that cannot be part of a skill.
    #[error("{}: {error}", .within.display())]
    Path {
        /// The folder or archive.
        within: PathBuf,
        /// What is wrong with the path.
        error: PathError,
    },
    /// A name that is not UTF-8.
    #[error("{} has a name that is not UTF-8; rename it", .0.display())]
    NotUtf8(PathBuf),
    /// A symbolic link: following it could copy a secret from elsewhere.
    #[error("{} is a symbolic link; links are never followed: put the file itself there", .0.display())]
    Symlink(PathBuf),
    /// A socket, a pipe or a device.
    #[error("{} is neither a file nor a folder", .0.display())]
    Special(PathBuf),
    /// The same path twice.
    #[error("'{0}' is there twice")]
    Duplicate(RelPath),
    /// Two paths that are equal on a file system that folds case or accents.
    #[error("'{0}' and '{1}' are the same name on macOS and Windows; rename one")]
    Collision(String, String),
    /// Too many files.
    #[error("more than {MAX_FILES} files; a skill is a folder of text, not a package")]
    TooManyFiles,
    /// Too many files and folders to look at.
    #[error("more than {MAX_ENTRIES} files and folders; a skill is a folder of text, not a package")]
    TooManyEntries,
    /// Too many bytes.
    #[error("more than {} MB; move large data out of the skill", MAX_BYTES / 1_000_000)]
    TooLarge,
    /// A read error.
    #[error("cannot read {}: {error}", .path.display())]
    Io {
        /// What was being read.
        path: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
}

impl Tree {
    /// Adds a file; refuses a second spelling of a path and anything over the limits.
    pub(crate) fn insert(&mut self, path: RelPath, entry: Entry) -> Result<(), TreeError> {
        if self.entries.contains_key(&path) {
            return Err(TreeError::Duplicate(path));
        }
        for prefix in path.parents().chain([path.as_str()]) {
            let folded: String = prefix.nfc().flat_map(char::to_lowercase).collect();
            let known = self.spellings.entry(folded).or_insert_with(|| prefix.to_owned());
            if known != prefix {
                return Err(TreeError::Collision(known.clone(), prefix.to_owned()));
            }
        }
        // A file where another path has a folder: the same spelling, but not both are possible.
        let below = format!("{path}/");
        let next = self.entries.range::<str, _>((Bound::Included(below.as_str()), Bound::Unbounded)).next();
        let folder_too = next.is_some_and(|(known, _)| known.as_str().starts_with(&below));
        let file_above = path.parents().any(|above| self.entries.contains_key(above));
        if folder_too || file_above {
            return Err(TreeError::Duplicate(path));
        }
        if self.entries.len() == MAX_FILES {
            return Err(TreeError::TooManyFiles);
        }
        self.bytes += entry.content.len() as u64;
        if self.bytes > MAX_BYTES {
            return Err(TreeError::TooLarge);
        }
        self.entries.insert(path, entry);
        Ok(())
    }

    /// Reads a folder, without files that tools generate ([`is_left_behind`]) and without a receipt.
    pub(crate) fn read(folder: &Path) -> Result<Self, TreeError> {
        let (tree, errors) = Self::read_what_is_readable(folder);
        errors.into_iter().next().map_or(Ok(tree), Err)
    }

    /// Like [`Tree::read`], but omits what cannot be part of a skill and returns the reasons.
    pub(crate) fn read_what_is_readable(folder: &Path) -> (Self, Vec<TreeError>) {
        let mut tree = Self::default();
        let mut errors = Vec::new();
        let mut secrets = Vec::new();
        let walk = WalkDir::new(folder).max_depth(MAX_DEPTH + 1).follow_links(false).follow_root_links(true);
        let wanted = |entry: &walkdir::DirEntry| {
            let name = entry.file_name().to_string_lossy();
            if entry.depth() > 0 && is_secret(&name) {
                let inside = entry.path().strip_prefix(folder).unwrap_or(entry.path());
                secrets.push(inside.to_string_lossy().into_owned());
                return false;
            }
            entry.depth() == 0 || !(name == RECEIPT || is_left_behind(&name))
        };
        for (count, found) in walk.into_iter().filter_entry(wanted).enumerate() {
            if count > MAX_ENTRIES {
                errors.push(TreeError::TooManyEntries);
                break;
            }
            let added = found
                .map_err(|error| TreeError::Io {
                    path: error.path().unwrap_or(folder).to_path_buf(),
                    error: error.into(),
                })
                .and_then(|found| tree.add_found(folder, &found));
            match added {
                Ok(()) => {}
                Err(error @ (TreeError::TooManyFiles | TreeError::TooLarge)) => {
                    errors.push(error);
                    break;
                }
                Err(error) => errors.push(error),
            }
        }
        tree.left_out = secrets;
        (tree, errors)
    }

    /// The paths that were found and are no part of the tree, because such files hold secrets.
    pub(crate) fn left_out(&self) -> &[String] {
        &self.left_out
    }

    /// Whether a path below the skill's folder is to be part of the tree; one that may be secret is noted.
    pub(crate) fn admits(&mut self, path: &str) -> bool {
        if path.split('/').any(|part| is_left_behind(part) || part == RECEIPT) {
            return false;
        }
        let secret = path.split('/').any(is_secret);
        if secret {
            self.left_out.push(path.to_owned());
        }
        !secret
    }

    fn add_found(&mut self, folder: &Path, found: &walkdir::DirEntry) -> Result<(), TreeError> {
        let at = found.path();
        let kind = found.file_type();
        if found.depth() == 0 {
            return Ok(());
        }
        let inside = at.strip_prefix(folder).unwrap_or(at);
        let text = inside.to_str().ok_or_else(|| TreeError::NotUtf8(at.to_path_buf()))?;
        if kind.is_symlink() {
            return Err(TreeError::Symlink(at.to_path_buf()));
        }
        if kind.is_dir() && found.depth() <= MAX_DEPTH {
            return Ok(());
        }
        if !kind.is_file() && !kind.is_dir() {
            return Err(TreeError::Special(at.to_path_buf()));
        }
        let path = RelPath::parse(text).map_err(|error| TreeError::Path { within: folder.to_path_buf(), error })?;
        self.insert(path, read_entry(at, MAX_BYTES - self.bytes)?)
    }

    /// The files in path order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&RelPath, &Entry)> {
        self.entries.iter()
    }

    /// One file.
    pub(crate) fn get(&self, path: &str) -> Option<&Entry> {
        RelPath::parse(path).ok().and_then(|path| self.entries.get(&path))
    }

    /// How many files there are.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no file at all.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The size of all files together, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Writes all files below `root`, which exists.
    pub(crate) fn write(&self, root: &Dir) -> std::io::Result<Written> {
        let mut written = Written { root: root.again()?, files: Vec::new(), folders: Vec::new(), modes: true };
        // The folders of the file before, outermost first. Files are in the order of their paths: a folder is made and opened once.
        let mut open: Vec<(&str, Dir)> = Vec::new();
        let mut seen = [false; 2];
        for (path, entry) in self.iter() {
            let above = path.parents().collect::<Vec<_>>();
            let common = open.iter().zip(&above).take_while(|((made, _), wanted)| made == *wanted).count();
            open.truncate(common);
            for &new in &above[common..] {
                let (at, name) = (open.last().map_or(root, |(_, at)| at), new.rsplit('/').next().unwrap_or(new));
                at.create_dir(name).map_err(|error| disk::naming(&at.path().join(name), &error))?;
                written.folders.push(new.to_owned());
                let folder = at.dir(name)?;
                open.push((new, folder));
            }
            let file = open
                .last()
                .map_or(root, |(_, at)| at)
                .write_new(path.file_name(), &entry.content, entry.mode())
                .map_err(|error| disk::naming(&path.under(root.path()), &error))?;
            // One file of each kind tells what the file system does with permission bits.
            if !std::mem::replace(&mut seen[usize::from(entry.executable)], true) {
                written.modes &= is_executable(&file.metadata()?) == entry.executable;
            }
            written.files.push(path.to_string());
        }
        Ok(written)
    }

    /// Writes it beside its place and moves it there whole, over nothing: a run that is stopped leaves no half of it there.
    pub(crate) fn place(&self, target: &Path) -> std::io::Result<()> {
        let above = target.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let staged = tempfile::TempDir::with_prefix_in(".kernels-new-", above)?;
        let folder = staged.path().join("folder");
        std::fs::create_dir(&folder)?;
        self.write(&Dir::open(&folder)?)?.sync()?;
        disk::move_new(&folder, target)
    }
}

/// Whether a name is one that tools generate in a skill's folder: not part of the skill, so it is
/// neither installed nor packed.
pub(crate) fn is_left_behind(name: &str) -> bool {
    // Where case does not count, and on NTFS, these are git's folder as well, whose settings name programs.
    let git = name.eq_ignore_ascii_case(".git") || name.eq_ignore_ascii_case("git~1");
    git || matches!(name, "__pycache__" | "node_modules" | ".DS_Store") || name.ends_with(".pyc")
}

/// Whether a name is one of files with secrets: `.env`, `.env.local`, `.envrc`, but not `.env.example`.
pub(crate) fn is_secret(name: &str) -> bool {
    let template = |kind: &str| matches!(kind, "example" | "sample" | "template" | "dist" | "defaults" | "schema");
    matches!(name, ".env" | ".envrc") || name.strip_prefix(".env.").is_some_and(|kind| !template(kind))
}

/// Whether a file starts with a shebang. The rule for trees without permission bits: files
/// embedded in the binary, and folders on systems without such bits.
pub(crate) fn has_shebang(content: &[u8]) -> bool {
    content.starts_with(b"#!")
}

fn read_entry(path: &Path, at_most: u64) -> Result<Entry, TreeError> {
    let io = |error| TreeError::Io { path: path.to_path_buf(), error };
    let file = open_plain(path).map_err(|error| match error.raw_os_error() {
        // The walk saw a file, but the open found a link: it was swapped in between.
        Some(code) if code == rustix::io::Errno::LOOP.raw_os_error() => TreeError::Symlink(path.to_path_buf()),
        _ => io(error),
    })?;
    let meta = file.metadata().map_err(io)?;
    if !meta.is_file() {
        return Err(TreeError::Special(path.to_path_buf()));
    }
    let mut content = Vec::new();
    file.take(at_most + 1).read_to_end(&mut content).map_err(io)?;
    Ok(Entry { executable: is_executable(&meta), content: content.into() })
}

/// Whether the owner may run the file.
pub(crate) fn is_executable(meta: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt;
    meta.permissions().mode() & 0o100 != 0
}
