//! The changes that `kernels add` makes to a project. All are computed first, and written only if all of them fit.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use toml::{Table, Value};

use super::catalog::{Catalog, Choice};
use super::merge::merge;
use super::slice::{name as name_of, tables};
use super::{Name, compose, name, place, torch_side};
use crate::base::disk;
use crate::install::refusal::{Refusal, Refused};
use crate::project::{BUILD_TOML, KERNEL_TOML};

/// Larger files of a project are an error.
const LARGEST: u64 = 16 << 20;

/// A file that changes.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    /// Its path in the project.
    pub(crate) path: String,
    /// Its contents; `None` if it does not exist.
    pub(crate) was: Option<Vec<u8>>,
    /// Its new contents; `None` to remove it.
    pub(crate) is: Option<Vec<u8>>,
}

/// A project, and its changes.
pub(crate) struct Addition {
    /// Its folder.
    pub(crate) root: PathBuf,
    /// In the order in which they are made: new files, changed files, removed files, kernel.toml.
    pub(crate) changes: Vec<Change>,
    refused: Vec<Refused>,
    _lock: Option<fs::File>,
}

/// Finds the changes for operations of the catalogue, for operations of the project itself (whose torch side follows
/// kernel.toml), and for blank ones.
pub(crate) fn plan(dir: &Path, operations: &[String], blanks: &[String]) -> Result<Addition> {
    let root = fs::canonicalize(dir).with_context(|| format!("there is no project at {}", dir.display()))?;
    let lock = match place::lock(&root) {
        Ok(None) => bail!("another `kernels add` is at work in {}; run it again", root.display()),
        // A file system without locks.
        lock => lock.ok().flatten(),
    };
    let mut addition = Addition { root, changes: Vec::new(), refused: Vec::new(), _lock: lock };
    let build: Table = addition.text(BUILD_TOML)?.parse().with_context(|| format!("{BUILD_TOML} is not TOML"))?;
    let kernel_toml = addition.text(KERNEL_TOML)?;
    let kernels: Table = kernel_toml.parse().with_context(|| format!("{KERNEL_TOML} is not TOML"))?;
    let named = build.get("general").and_then(|general| general.get("name")).and_then(Value::as_str);
    let project = Name::parse(named.with_context(|| format!("{BUILD_TOML} names no project"))?)?;
    let there: BTreeSet<&str> = tables(&kernels, "operation").into_iter().map(name_of).collect();
    let is_own = |name: &str| {
        addition
            .read(&format!("torch-ext/{name}.cpp"))
            .ok()
            .flatten()
            .is_some_and(|bytes| torch_side::is_made(name, &bytes))
    };
    // In the order of the file, which is that in which they were added.
    let own = tables(&kernels, "operation").into_iter().map(name_of).filter(|name| is_own(name));
    let own: Vec<String> = own.map(str::to_owned).collect();

    let catalog = Catalog::embedded()?;
    let known = |name: &&&str| catalog.families.iter().any(|family| family.operations.contains_key(**name));
    let before: Vec<String> = there.iter().filter(known).map(|name| (*name).to_owned()).collect();
    let (followed, asked): (Vec<&String>, Vec<&String>) = operations.iter().partition(|name| own.contains(name));
    let after: Vec<String> = before.iter().chain(asked).cloned().collect();
    let (before, after) = (catalog.select(&before, &[])?, catalog.select(&after, &[])?);
    let fresh: Vec<String> = blanks.iter().filter(|name| !there.contains(name.as_str())).cloned().collect();
    for (at, name) in fresh.iter().enumerate() {
        name::check_operation(name, &catalog, &[&own[..], &fresh[..at]].concat())?;
    }
    let same =
        |one: &Choice, other: &Choice| one.family.name == other.family.name && one.operations == other.operations;
    let is_new = |choice: &Choice| !before.iter().any(|other| same(choice, other));
    if !fresh.is_empty() || after.iter().any(is_new) {
        ensure!(
            addition.read("torch-ext/binding.h")?.is_some(),
            "{} has no torch-ext/binding.h: it is no project of `kernels init`, whose files `kernels add` extends",
            addition.root.display()
        );
        let old = compose(&project, name::NOBODY, &before, &own)?.files;
        let new = compose(&project, name::NOBODY, &after, &[own, fresh].concat())?.files;
        addition.compare(&old, &new)?;
    }
    for name in followed {
        addition.follow(&project, &kernel_toml, name)?;
    }
    // kernel.toml comes last, because a later run takes what it lists as complete.
    let order = |change: &Change| (change.path == KERNEL_TOML, change.is.is_none(), change.was.is_some());
    addition.changes.sort_by_key(order);
    Ok(addition)
}

impl Addition {
    /// A file; `None` if it does not exist. Links are not followed.
    fn read(&self, path: &str) -> Result<Option<Vec<u8>>> {
        let mut at = self.root.clone();
        for part in path.split('/') {
            at.push(part);
            match fs::symlink_metadata(&at) {
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(error).with_context(|| format!("cannot look at {}", at.display())),
                Ok(meta) if meta.is_symlink() => bail!("{} is a link, and `kernels add` follows none", at.display()),
                Ok(_) => {}
            }
        }
        disk::read_plain(&at, LARGEST).map(Some).with_context(|| format!("cannot read {}", at.display()))
    }

    fn text(&self, path: &str) -> Result<String> {
        let bytes = self.read(path)?;
        let bytes = bytes.with_context(|| {
            format!(
                "{} has no {path}: `kernels add` extends a project of `kernels init`; name its folder with --dir",
                self.root.display()
            )
        })?;
        String::from_utf8(bytes).with_context(|| format!("{path} is not UTF-8"))
    }

    fn change(&mut self, path: &str, was: Option<Vec<u8>>, is: Option<Vec<u8>>) {
        if was != is {
            self.changes.push(Change { path: path.to_owned(), was, is });
        }
    }

    fn refuse(&mut self, path: &str, reason: &str, advice: Vec<String>) {
        self.refused.push(Refused {
            path: self.root.join(path),
            reason: reason.to_owned(),
            changes: Vec::new(),
            advice,
        });
    }

    /// Applies the difference between two states of the scaffold to the project.
    fn compare(&mut self, old: &BTreeMap<String, Vec<u8>>, new: &BTreeMap<String, Vec<u8>>) -> Result<()> {
        let paths: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
        for path in paths.into_iter().filter(|path| old.get(*path) != new.get(*path)) {
            let mine = self.read(path)?;
            match (old.get(path), new.get(path), &mine) {
                (_, Some(new), Some(mine)) if mine == new => {}
                (None, Some(new), None) => self.change(path, None, Some(new.clone())),
                (None, Some(_), Some(_)) => {
                    self.refuse(
                        path,
                        "is there, and not as it would be written",
                        vec!["move it away, or name the operation otherwise".to_owned()],
                    );
                }
                (Some(old), None, Some(there)) if there == old => self.change(path, mine, None),
                (Some(_), None, Some(_)) => {
                    let advice =
                        "several parts share it now, in kernel_src: bring your edit there, and delete this one"
                            .to_owned();
                    self.refuse(path, "was edited", vec![advice]);
                }
                // A file that somebody deleted stays deleted.
                (_, _, None) | (None, None, _) => {}
                (Some(_), Some(_), Some(there)) if std::str::from_utf8(there).is_err() => {
                    self.refuse(path, "is not UTF-8", vec!["write it in UTF-8, and run it again".to_owned()]);
                }
                (Some(old), Some(new), Some(there)) => {
                    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                    match merge(&text(old), &text(new), &text(there)) {
                        Ok(merged) => self.change(path, mine, Some(merged.into_bytes())),
                        Err(conflicts) => {
                            let lines = conflicts.iter().flat_map(|conflict| {
                                let gone = conflict.gone.iter().map(|line| format!("- {line}"));
                                gone.chain(conflict.added.iter().map(|line| format!("+ {line}"))).collect::<Vec<_>>()
                            });
                            let lines = std::iter::once("change these lines by hand, and run it again:".to_owned())
                                .chain(lines);
                            self.refuse(path, "was edited where lines belong", lines.collect());
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Renders the torch side of an operation again, in files that nobody edited.
    fn follow(&mut self, project: &Name, kernel_toml: &str, name: &str) -> Result<()> {
        for (path, made) in torch_side::render(kernel_toml, name)? {
            let path = path.replace("package/", &format!("torch-ext/{}/", project.package()));
            let mine = self.read(&path)?;
            let first = |bytes: &[u8]| bytes.split(|byte| *byte == b'\n').next().map(<[u8]>::to_vec);
            if mine.as_ref().is_none_or(|mine| torch_side::is_unedited(name, mine)) {
                self.change(&path, mine, Some(made));
            } else if mine.is_some_and(|mine| first(&mine) != first(&made)) {
                let advice = "move it away, run it again, and bring your edit over".to_owned();
                self.refuse(&path, "was edited, and would be written anew", vec![advice]);
            }
        }
        Ok(())
    }

    /// An error unless all changes fit.
    pub(crate) fn check(&self) -> Result<()> {
        if !self.refused.is_empty() {
            return Err(Refusal(self.refused.clone()).into());
        }
        for change in self.changes.iter().filter(|change| change.path.ends_with(".toml")) {
            let text = String::from_utf8_lossy(change.is.as_deref().unwrap_or_default());
            text.parse::<Table>().with_context(|| format!("{} would be no TOML; nothing was written", change.path))?;
        }
        Ok(())
    }

    /// Makes all changes or none. The same command completes a killed run, because kernel.toml comes last.
    pub(crate) fn apply(&self) -> Result<()> {
        self.check()?;
        for (done, change) in self.changes.iter().enumerate() {
            if let Err(error) = self.write(&change.path, change.was.as_deref(), change.is.as_deref()) {
                for change in self.changes[..done].iter().rev() {
                    let _ = self.write(&change.path, change.is.as_deref(), change.was.as_deref());
                }
                return Err(error);
            }
        }
        Ok(())
    }

    fn write(&self, path: &str, was: Option<&[u8]>, is: Option<&[u8]>) -> Result<()> {
        let at = self.root.join(path);
        if self.read(path)?.as_deref() != was {
            let advice = vec!["run it again".to_owned()];
            let reason = "was edited meanwhile".to_owned();
            return Err(Refusal(vec![Refused { path: at, reason, changes: Vec::new(), advice }]).into());
        }
        let folder = at.parent().unwrap_or(&self.root);
        let written = match is {
            Some(bytes) => fs::create_dir_all(folder).and_then(|()| {
                tidy(&at);
                let mode = fs::metadata(&at).map_or(0o666, |meta| meta.permissions().mode() & 0o777);
                disk::write_atomic(&at, bytes, mode)
            }),
            None => fs::remove_file(&at).map(|()| {
                // Removes the folder if its last file was removed.
                let _ = fs::remove_dir(folder);
            }),
        };
        written.with_context(|| format!("cannot write {}", at.display()))
    }
}

/// Removes what a killed run left beside a file that it was writing.
fn tidy(file: &Path) {
    let Some((folder, name)) = file.parent().zip(file.file_name()) else { return };
    let begin = format!(".{}.", name.to_string_lossy());
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let left = entry.file_name();
        let middle = left.to_str().and_then(|left| left.strip_prefix(&begin)?.strip_suffix(".tmp"));
        if middle.is_some_and(place::is_unique) {
            let _ = fs::remove_file(entry.path());
        }
    }
}
