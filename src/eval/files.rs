//! The files of a workspace in memory: what a subject found, what it left, and the difference.
//!
//! Nothing of a subject's repository is run or believed: `.git` is not read, and links are text.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};
use walkdir::WalkDir;

use crate::base::{disk, hex};
use crate::report::unified;

const MOST_FILES: usize = 20_000;
const MOST_BYTES: u64 = 256 << 20;
/// What is kept of a difference.
const MOST_DIFF: usize = 1 << 20;

/// What builds and tools leave behind: made anew by whoever needs it, and nobody's work.
const PRODUCTS: [&str; 12] = [
    ".cache",
    ".kernels",
    ".mypy_cache",
    ".pytest_cache",
    ".ruff_cache",
    ".venv",
    "__pycache__",
    "build",
    "dist",
    "node_modules",
    "target",
    "venv",
];

/// A file, or a link with its target as text.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum File {
    Plain { executable: bool, bytes: Vec<u8> },
    Link(PathBuf),
}

/// Files by their path.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Files(BTreeMap<String, File>);

impl Files {
    /// All files below a folder, but `.git`.
    pub(crate) fn read(folder: &Path) -> Result<Self> {
        Self::read_unless(folder, &|_| false)
    }

    /// What a subject left: without products, unless `before` had files there.
    pub(crate) fn left(folder: &Path, before: &Self) -> Result<Self> {
        // `a` and `a/b` are kept for `a/b/c`.
        let above = before.paths().flat_map(|path| path.match_indices('/').map(move |(at, _)| &path[..at]));
        let kept: BTreeSet<&str> = above.collect();
        Self::read_unless(folder, &|path| {
            let name = path.rsplit('/').next().unwrap_or(path);
            PRODUCTS.contains(&name) && !kept.contains(path)
        })
    }

    fn read_unless(folder: &Path, skip: &dyn Fn(&str) -> bool) -> Result<Self> {
        let (mut files, mut bytes) = (BTreeMap::new(), 0);
        let inside = |path: &Path| path.strip_prefix(folder).ok().and_then(Path::to_str).map(str::to_owned);
        let walk = WalkDir::new(folder).follow_links(false).into_iter().filter_entry(|entry| {
            let path = inside(entry.path()).unwrap_or_default();
            entry.depth() == 0 || !(entry.file_name() == ".git" || entry.file_type().is_dir() && skip(&path))
        });
        for entry in walk {
            let entry = entry.with_context(|| format!("cannot read {}", folder.display()))?;
            if entry.file_type().is_dir() {
                continue;
            }
            let path = inside(entry.path()).with_context(|| format!("{} is not UTF-8", entry.path().display()))?;
            let file = if entry.file_type().is_symlink() {
                File::Link(fs::read_link(entry.path())?)
            } else if entry.file_type().is_file() {
                let content = disk::read_plain(entry.path(), MOST_BYTES - bytes)
                    .with_context(|| format!("{path} cannot be read, or there are more than {MOST_BYTES} bytes"))?;
                bytes += content.len() as u64;
                File::Plain { executable: entry.metadata()?.permissions().mode() & 0o100 != 0, bytes: content }
            } else {
                bail!("{path} is neither a file nor a folder");
            };
            files.insert(path, file);
            if files.len() > MOST_FILES {
                bail!("more than {MOST_FILES} files in {}", folder.display());
            }
        }
        Ok(Self(files))
    }

    /// Adds a file.
    pub(crate) fn insert(&mut self, path: &str, bytes: Vec<u8>) {
        self.0.insert(path.to_owned(), File::Plain { executable: false, bytes });
    }

    pub(crate) fn remove(&mut self, path: &str) {
        self.0.remove(path);
    }

    pub(crate) fn get(&self, path: &str) -> Option<&File> {
        self.0.get(path)
    }

    pub(crate) fn paths(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Writes all files into a folder, over what is there. Links that leave it are left out.
    pub(crate) fn write(&self, folder: &Path) -> Result<()> {
        for (path, file) in &self.0 {
            let to = folder.join(path);
            if let Some(above) = to.parent() {
                fs::create_dir_all(above).with_context(|| format!("cannot create {}", above.display()))?;
            }
            if fs::symlink_metadata(&to).is_ok() {
                fs::remove_file(&to).with_context(|| format!("cannot replace {}", to.display()))?;
            }
            match file {
                File::Plain { executable, bytes } => {
                    fs::write(&to, bytes).with_context(|| format!("cannot write {}", to.display()))?;
                    let mode = if *executable { 0o755 } else { 0o644 };
                    fs::set_permissions(&to, fs::Permissions::from_mode(mode))?;
                }
                File::Link(target) if stays(target) => symlink(target, &to)?,
                File::Link(_) => {}
            }
        }
        Ok(())
    }

    /// The paths that were added, changed or removed.
    pub(crate) fn changed<'a>(&'a self, after: &'a Self) -> Vec<&'a str> {
        let paths: BTreeSet<&str> = self.paths().chain(after.paths()).collect();
        paths.into_iter().filter(|path| self.get(path) != after.get(path)).collect()
    }

    /// The difference as text, and how many lines were added or removed.
    pub(crate) fn diff(&self, after: &Self) -> (String, usize) {
        let mut text = String::new();
        let mut lines = 0;
        for path in self.changed(after) {
            let one = unified::of_file(&format!("diff {path}"), path, bytes(self.get(path)), bytes(after.get(path)));
            let body = one.lines().skip_while(|line| !line.starts_with("@@"));
            lines += body.filter(|line| line.starts_with(['+', '-'])).count();
            if text.len() + one.len() <= MOST_DIFF {
                text += &one;
            } else {
                text.extend(["diff ", path, "\n(not kept: there are too many differences)\n"]);
            }
        }
        (text, lines)
    }

    /// SHA-256 over paths, modes and contents.
    pub(crate) fn digest(&self) -> String {
        let mut hash = Sha256::new();
        for (path, file) in &self.0 {
            let (kind, content) = match file {
                File::Plain { executable, bytes } => (u8::from(*executable), bytes.clone()),
                File::Link(target) => (2, target.to_string_lossy().into_owned().into_bytes()),
            };
            for part in [path.as_bytes(), &[kind], &content] {
                hash.update((part.len() as u64).to_le_bytes());
                hash.update(part);
            }
        }
        hex(&hash.finalize())
    }
}

/// The names in a folder, in order.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn stays(target: &Path) -> bool {
    target.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
}

fn bytes(file: Option<&File>) -> Option<Vec<u8>> {
    Some(match file? {
        File::Plain { bytes, .. } => bytes.clone(),
        File::Link(target) => format!("link to {}\n", target.display()).into_bytes(),
    })
}
