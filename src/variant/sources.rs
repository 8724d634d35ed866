//! The files of a variant: sources, headers and the Python package.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use walkdir::{DirEntry, WalkDir};

use crate::project::TorchProject;

/// File contents by path.
pub(super) struct Sources {
    /// C++ and CUDA with headers, by path in the project.
    pub(super) code: BTreeMap<PathBuf, Vec<u8>>,
    /// The Python package, by path in the package.
    pub(super) package: BTreeMap<PathBuf, Vec<u8>>,
}

/// Extensions of C++ and CUDA. A .cu or .cpp can be included like a header.
const CODE: [&str; 12] = ["c", "cc", "cpp", "cu", "cuh", "cxx", "h", "hh", "hpp", "hxx", "inc", "inl"];
/// Folders of build outputs and tools, which hold no sources.
const NOT_SOURCES: [&str; 4] = ["build", "target", "__pycache__", "node_modules"];

impl Sources {
    pub(super) fn read(project: &TorchProject) -> Result<Self> {
        let root = &project.root;
        let build = &project.build;
        let listed = build.kernels.iter().flat_map(|kernel| &kernel.sources).chain(&project.torch.sources);
        let mut code = BTreeMap::new();
        let mut folders: Vec<PathBuf> = Vec::new();
        for path in listed {
            code.insert(path.clone(), read(&root.join(path))?);
            folders.extend(path.parent().map(Path::to_owned));
        }
        folders.extend(includes(project));
        folders.sort();
        folders.dedup();
        for folder in folders {
            let top = root.join(&folder);
            for entry in WalkDir::new(&top).into_iter().filter_entry(may_hold) {
                let entry = entry.with_context(|| format!("cannot read the folder {}", top.display()))?;
                // What a link names must be code as well: it may lie outside the project.
                let real = entry.path().canonicalize().unwrap_or_else(|_| entry.path().to_owned());
                if entry.file_type().is_dir() || !is_code(entry.path()) || !is_code(&real) {
                    continue;
                }
                let path = entry.path().strip_prefix(root).unwrap_or(entry.path());
                if !code.contains_key(path) && entry.path().is_file() {
                    code.insert(path.to_owned(), read(entry.path())?);
                }
            }
        }
        Ok(Self { code, package: package(project)? })
    }
}

fn is_code(path: &Path) -> bool {
    path.extension().and_then(|ending| ending.to_str()).is_some_and(|ending| CODE.contains(&ending))
}

/// Every include folder of the project. kernel-builder always adds `csrc`.
pub(super) fn includes(project: &TorchProject) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = project.torch.includes.clone();
    for kernel in &project.build.kernels {
        all.extend(kernel.includes.iter().cloned());
    }
    all.extend(csrc(project));
    all
}

pub(super) fn csrc(project: &TorchProject) -> Option<PathBuf> {
    let folder = PathBuf::from("csrc");
    project.root.join(&folder).is_dir().then_some(folder)
}

fn may_hold(entry: &DirEntry) -> bool {
    if entry.depth() == 0 || !entry.file_type().is_dir() {
        return true;
    }
    let name = entry.file_name().to_string_lossy();
    !(name.starts_with('.') || NOT_SOURCES.contains(&name.as_ref()) || entry.path().join("pyvenv.cfg").exists())
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

/// The package's folder in the project: `torch-ext/my_kernel`.
pub(super) fn package_folder(project: &TorchProject) -> PathBuf {
    Path::new("torch-ext").join(project.build.python_name())
}

/// The Python files, and files with an extension from `pyext`.
fn package(project: &TorchProject) -> Result<BTreeMap<PathBuf, Vec<u8>>> {
    let folder = package_folder(project);
    let top = project.root.join(&folder);
    ensure!(
        top.join("__init__.py").is_file(),
        "there is no {}, the Python package that is published; write one that imports its operators with `from ._ops import ops`",
        top.join("__init__.py").display()
    );
    let mut files = BTreeMap::new();
    for entry in WalkDir::new(&top).into_iter().filter_entry(may_hold) {
        let entry = entry.with_context(|| format!("cannot read the folder {}", top.display()))?;
        if entry.file_type().is_dir() {
            continue;
        }
        let ending = entry.path().extension().and_then(|ending| ending.to_str());
        let wanted = ending.is_some_and(|ending| ending == "py" || project.torch.endings.iter().any(|e| e == ending));
        if !wanted {
            continue;
        }
        let path = entry.path().strip_prefix(&top).unwrap_or(entry.path());
        let real = entry.path().canonicalize().with_context(|| format!("cannot read {}", entry.path().display()))?;
        if !real.starts_with(&project.root) {
            bail!(
                "{} is a link out of the project's folder, to {}; copy the file into the project",
                entry.path().display(),
                real.display()
            );
        }
        // Generated by kernel-builder for another build.
        if path != Path::new("_ops.py") {
            files.insert(path.to_owned(), read(&real)?);
        }
    }
    Ok(files)
}
