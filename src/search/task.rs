//! The task of a run: a project of which everything but the sources is frozen.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use walkdir::{DirEntry, WalkDir};

use super::sources::Sources;
use crate::base::{disk, scratch::Scratch};
use crate::compile::key::Key;
use crate::project::diagnostic::Document;
use crate::project::{BUILD_TOML, Project, manifest};

/// The frozen copy in a run's folder.
pub(crate) const FOLDER: &str = "task";
/// The most bytes and files of a project.
const BYTES: u64 = 64 << 20;
const FILES: usize = 5000;
/// Folders of build outputs and tools, and evidence, which names the sources that it is of.
const LEFT_OUT: [&str; 6] = ["build", "target", "result", "__pycache__", "node_modules", "evidence"];
/// What a proposal may change, of what build.toml lists.
const ENDINGS: [&str; 3] = ["cu", "cuh", "h"];

/// A frozen project.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub(crate) project: Project,
    /// The folder of the copy.
    pub(crate) root: PathBuf,
    /// The digest of all files but the sources.
    pub(crate) digest: String,
    pub(crate) editable: Vec<String>,
    /// The sources as they were.
    pub(crate) start: Sources,
}

impl Task {
    /// Copies a project into a run's folder.
    pub(crate) fn freeze(project: &Path, run: &Path) -> Result<Self> {
        // Before anything is copied, its errors name the user's own files.
        let opened = Project::open(project)?;
        let root = run.join(FOLDER);
        copy(&opened.root, &root, run)?;
        Self::open(run)
    }

    /// Opens the copy.
    pub(crate) fn open(run: &Path) -> Result<Self> {
        let root = run.join(FOLDER);
        let project = Project::open(&root)?;
        let editable = editable(&root)?;
        if editable.is_empty() {
            bail!("{} lists no .cu, .cuh or .h file that may change", root.join(BUILD_TOML).display());
        }
        let start = Sources::read(&root, &editable)?;
        let digest = digest(&root, &editable)?;
        Ok(Self { project, root, digest, editable, start })
    }

    /// The texts of the frozen files that describe the task, for a proposer.
    pub(crate) fn described(&self) -> BTreeMap<String, String> {
        let shown = |path: &Path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let ending = path.extension().unwrap_or_default().to_string_lossy();
            name == "kernel.toml" || name == "reference.py" || ["h", "cuh", "hpp", "inc"].contains(&&*ending)
        };
        let all = files(&self.root).unwrap_or_default();
        let shown = all.into_iter().filter(|path| shown(path));
        shown
            .filter_map(|path| {
                let name = path.to_string_lossy().into_owned();
                let text = fs::read_to_string(self.root.join(&path)).ok()?;
                (self.start.get(&name).is_none() && text.len() < 64 << 10).then_some((name, text))
            })
            .collect()
    }
}

/// A copy of a frozen project with these sources: what it is removed with, and its folder.
pub(crate) fn materialise(root: &Path, sources: &Sources) -> Result<(Scratch, PathBuf)> {
    let scratch = Scratch::new()?;
    let folder = scratch.path().join("project");
    copy(root, &folder, scratch.path())?;
    for (path, text) in sources.iter() {
        let full = folder.join(path);
        fs::write(&full, text).with_context(|| format!("cannot write {}", full.display()))?;
    }
    Ok((scratch, folder))
}

/// The sources of the `[kernel.X]` of build.toml.
fn editable(root: &Path) -> Result<Vec<String>> {
    let manifest = manifest(root)?;
    let cuda = |kernel: &&manifest::Kernel| kernel.backend.as_ref().is_some_and(|backend| backend.value == "cuda");
    let listed = manifest.kernels.iter().filter(cuda).flat_map(|kernel| kernel.src.iter().flat_map(|src| &src.items));
    let mut all: Vec<String> = listed
        .map(|word| word.value.clone())
        .filter(|path| Path::new(path).extension().is_some_and(|ending| ENDINGS.iter().any(|one| ending == *one)))
        .collect();
    all.sort();
    all.dedup();
    Ok(all)
}

fn manifest(root: &Path) -> Result<manifest::Manifest> {
    let path = root.join(BUILD_TOML);
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(manifest::read(&Document::new(path, text)).0)
}

/// The license that build.toml names.
pub(crate) fn license(root: &Path) -> Option<String> {
    manifest(root).ok()?.license.map(|word| word.value)
}

/// The files of a project, relative to it, sorted; links count as what they name, which lies in the project: a file is copied, and a
/// proposer may read it.
fn files(root: &Path) -> Result<Vec<PathBuf>> {
    let wanted = |entry: &DirEntry| {
        let name = entry.file_name().to_string_lossy();
        let folder = entry.file_type().is_dir();
        entry.depth() == 0 || !(name.starts_with('.') || folder && LEFT_OUT.contains(&&*name))
    };
    let mut all = Vec::new();
    for entry in WalkDir::new(root).sort_by_file_name().into_iter().filter_entry(wanted) {
        let entry = entry.with_context(|| format!("cannot read {}", root.display()))?;
        if entry.path().is_file() {
            if entry.path_is_symlink() && disk::leads_out(entry.path(), root) {
                bail!(
                    "{} is a link out of the project's folder; copy the file into the project",
                    entry.path().display()
                );
            }
            all.push(entry.path().strip_prefix(root)?.to_owned());
        }
    }
    all.sort();
    Ok(all)
}

/// Copies a project; `run` may lie in it.
fn copy(from: &Path, to: &Path, run: &Path) -> Result<()> {
    let run = run.canonicalize().unwrap_or_else(|_| run.to_owned());
    let mut bytes = 0;
    let all = files(from)?;
    for (count, path) in all.iter().filter(|path| !from.join(path).starts_with(&run)).enumerate() {
        let (source, target) = (from.join(path), to.join(path));
        bytes += source.metadata().map_or(0, |meta| meta.len());
        if bytes > BYTES || count >= FILES {
            bail!(
                "{} has more than {} MiB or {FILES} files besides build outputs; a search copies the project for each \
                 candidate: move what does not belong to it elsewhere",
                from.display(),
                BYTES >> 20
            );
        }
        if let Some(folder) = target.parent() {
            fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        }
        let content = disk::read_plain(&source.canonicalize()?, BYTES);
        let content = content.with_context(|| format!("cannot read {}", source.display()))?;
        fs::write(&target, content).with_context(|| format!("cannot write {}", target.display()))?;
    }
    Ok(())
}

/// SHA-256 over the paths and bytes of all files but the sources, and over the sources' paths.
pub(crate) fn digest(root: &Path, editable: &[String]) -> Result<String> {
    let mut key = Key::new("kernels search task 1");
    for path in editable {
        key.field(path);
    }
    for path in files(root)? {
        let name = path.to_string_lossy().into_owned();
        if !editable.contains(&name) {
            let full = root.join(&path);
            key.field(&name).field(fs::read(&full).with_context(|| format!("cannot read {}", full.display()))?);
        }
    }
    Ok(key.finish())
}
