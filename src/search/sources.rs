//! The sources of a candidate: the only files that a proposal may change.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Component, Path};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use walkdir::WalkDir;

use super::event::Caught;
use crate::base::disk;

/// The most bytes of one source.
const FILE: u64 = 1 << 20;
/// The most files and links that are looked at in a proposal's folder.
const ENTRIES: usize = 10_000;

/// Texts by path, relative to the project, with `/`.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct Sources(BTreeMap<String, String>);

impl FromIterator<(String, String)> for Sources {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(all: I) -> Self {
        Self(all.into_iter().collect())
    }
}

impl Sources {
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&String, &String)> {
        self.0.iter()
    }

    pub(crate) fn get(&self, path: &str) -> Option<&str> {
        self.0.get(path).map(String::as_str)
    }

    /// Reads these files of a folder.
    pub(crate) fn read(root: &Path, editable: &[String]) -> Result<Self> {
        let read = |path: &String| {
            let full = root.join(path);
            let bytes = disk::read_plain(&full, FILE).with_context(|| format!("cannot read {}", full.display()))?;
            let text = String::from_utf8(bytes).with_context(|| format!("{} is not UTF-8", full.display()))?;
            Ok((path.clone(), text))
        };
        editable.iter().map(read).collect()
    }

    /// The paths whose text differs from another's.
    pub(crate) fn changed(&self, from: &Self) -> Vec<String> {
        self.0.iter().filter(|(path, text)| from.0.get(*path) != Some(*text)).map(|(path, _)| path.clone()).collect()
    }

    /// These sources with new texts for some; or what is wrong with the paths and sizes.
    pub(crate) fn with(&self, texts: BTreeMap<String, String>) -> Result<Self, Vec<Caught>> {
        let mut all = self.clone();
        let mut caught = Vec::new();
        for (path, text) in texts {
            match self.refusal(&path) {
                Some(why) => caught.push(why),
                None if text.len() as u64 > FILE => caught.push(too_large(&path)),
                None => drop(all.0.insert(path, text)),
            }
        }
        if caught.is_empty() { Ok(all) } else { Err(caught) }
    }

    /// Why a proposal may not name this path; none where it is one of the sources.
    pub(crate) fn refusal(&self, path: &str) -> Option<Caught> {
        if self.0.contains_key(path) {
            return None;
        }
        let plain = |part: Component| matches!(part, Component::Normal(_));
        if path.is_empty() || !Path::new(path).components().all(plain) || path.contains('\\') {
            return Some(Caught::public(
                "path-refused",
                format!("`{path}` is not a path below the project: no absolute paths, no `.` and no `..`"),
            ));
        }
        Some(Caught::public(
            "frozen-file",
            format!(
                "{path} may not be changed: the task is frozen, and the sources that may change are {}",
                self.0.keys().cloned().collect::<Vec<_>>().join(", ")
            ),
        ))
    }

    /// These sources with those of a folder in their places. `strict`: every file of the folder is part of the proposal, and
    /// must be a source or equal the task's file of that path; else files that the task does not have are passed over.
    pub(crate) fn with_folder(&self, folder: &Path, task: &Path, strict: bool) -> Result<Self, Vec<Caught>> {
        let mut texts = BTreeMap::new();
        let mut caught = Vec::new();
        let hidden = |entry: &walkdir::DirEntry| {
            entry.depth() > 0 && !strict && entry.file_name().to_string_lossy().starts_with('.')
        };
        let entries = WalkDir::new(folder).follow_links(false).sort_by_file_name().into_iter();
        for (count, entry) in entries.filter_entry(|entry| !hidden(entry)).enumerate() {
            if count > ENTRIES {
                caught.push(Caught::public("too-large", format!("more than {ENTRIES} files")));
                break;
            }
            let Ok(entry) = entry else {
                caught.push(Caught::public("unreadable", "a folder of the proposal cannot be read"));
                continue;
            };
            if entry.file_type().is_dir() {
                continue;
            }
            let below = entry.path().strip_prefix(folder).unwrap_or(entry.path());
            let path = below.to_string_lossy().into_owned();
            let known = self.0.contains_key(&path);
            if !known && !strict && fs::symlink_metadata(task.join(below)).is_err() {
                continue;
            }
            match taken(entry.path(), &path, entry.file_type().is_file()) {
                Err(why) => caught.push(why),
                Ok(text) if known => drop(texts.insert(path, text)),
                // A copy of the whole project, with the rest as it was.
                Ok(text) if fs::read(task.join(below)).is_ok_and(|frozen| frozen == text.as_bytes()) => {}
                Ok(_) => caught.extend(self.refusal(&path)),
            }
        }
        if caught.is_empty() { self.with(texts) } else { Err(caught) }
    }
}

/// The text of a proposal's file, which must be a regular one.
fn taken(full: &Path, path: &str, regular: bool) -> Result<String, Caught> {
    if !regular {
        return Err(Caught::public(
            "not-a-file",
            format!("{path} is a link or a special file; sources are plain files"),
        ));
    }
    match disk::read_plain(full, FILE) {
        Ok(bytes) => String::from_utf8(bytes).map_err(|_| Caught::public("not-text", format!("{path} is not UTF-8"))),
        Err(error) if error.kind() == ErrorKind::Other => Err(too_large(path)),
        Err(error) => Err(Caught::public("unreadable", format!("{path}: {error}"))),
    }
}

fn too_large(path: &str) -> Caught {
    Caught::public("too-large", format!("{path} has more than {FILE} bytes"))
}
