//! A digest of what a model's times depend on: the script, the integration, the kernel's sources and binding, and the paths
//! that the script names. Comments and blank lines do not count.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use sha2::{Digest as _, Sha256};
use walkdir::{DirEntry, WalkDir};

use super::comments::{python, without_comments};
use crate::project::TorchProject;
use crate::project::source_digest::{self, ENDINGS, plain_bytes};

/// Folders of a project whose Python files are not part of a timed step.
const LEFT_OUT: [&str; 3] = ["tests", "build", "benchmarks"];

/// SHA-256, in hexadecimal, over names and texts.
pub(crate) fn digest(dir: &Path, more: &[String]) -> Result<String> {
    let mut files = BTreeMap::new();
    collect(dir, b"", &mut files)?;
    compiled(dir, &mut files)?;
    for name in more {
        ensure!(
            Path::new(name).is_relative(),
            "the script names {name} among its sources: give a path relative to {}",
            dir.display()
        );
        let path = dir.join(name);
        if path.is_dir() {
            collect(&path, format!("{name}/").as_bytes(), &mut files)?;
        } else if path.is_file() {
            files.insert(name.clone().into_bytes(), path);
        } else {
            bail!("the script names {name} among its sources, and {} does not exist", path.display());
        }
    }
    let mut hash = Sha256::new();
    hash.update("kernels end-to-end sources 1\0");
    for (name, path) in files {
        let bytes = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let text = if name.ends_with(b".py") {
            of_utf_8(bytes, python)
        } else if name.ends_with(b".toml") {
            of_utf_8(bytes, toml)
        } else {
            plain_bytes(bytes)
        };
        hash.update(format!("{}\0", name.len()));
        hash.update(&name);
        hash.update(format!("\0{}\0", text.len()));
        hash.update(&text);
    }
    Ok(crate::base::hex(&hash.finalize()))
}

/// What becomes of a text; of bytes that are none, nothing does.
fn of_utf_8(bytes: Vec<u8>, made: impl Fn(String) -> String) -> Vec<u8> {
    match String::from_utf8(bytes) {
        Ok(text) => made(text).into_bytes(),
        Err(error) => error.into_bytes(),
    }
}

/// The sources below a folder, by their relative paths.
fn collect(dir: &Path, before: &[u8], files: &mut BTreeMap<Vec<u8>, PathBuf>) -> Result<()> {
    let walk = WalkDir::new(dir).into_iter().filter_entry(|entry| {
        let name = entry.file_name().as_encoded_bytes();
        let other = name.starts_with(b".") || name == b"__pycache__" || entry.depth() == 1 && name == b"build";
        entry.depth() == 0 || !(entry.file_type().is_dir() && other)
    });
    for entry in walk {
        let entry = entry.with_context(|| format!("cannot read {}", dir.display()))?;
        let ending = entry.path().extension().unwrap_or_default();
        let counts = entry.file_name() == "build.toml"
            || ending == "py" && !is_left_out(dir, &entry)
            || ENDINGS.iter().any(|known| ending == *known);
        // A link to a file is read as a file.
        if counts && entry.path().is_file() {
            let inside = entry.path().strip_prefix(dir).unwrap_or(entry.path());
            files.insert([before, &name_of(inside)].concat(), entry.into_path());
        }
    }
    Ok(())
}

/// Whether a Python file lies in a folder of tests, benchmarks or builds: that of the project, or of a package in it.
fn is_left_out(dir: &Path, file: &DirEntry) -> bool {
    let mut folders = file.path().ancestors().skip(1).take(file.depth().saturating_sub(1));
    folders.any(|folder| {
        let above = folder.parent().unwrap_or(dir);
        let named = folder.file_name().is_some_and(|name| LEFT_OUT.iter().any(|other| name == *other));
        named && (above == dir || above.join("pyproject.toml").is_file())
    })
}

/// What compilers may read because build.toml names its folder, whatever that is called.
fn compiled(dir: &Path, files: &mut BTreeMap<Vec<u8>, PathBuf>) -> Result<()> {
    // What cannot be built has no kernel that is timed.
    let Ok(TorchProject { build, torch, .. }) = TorchProject::open(dir) else { return Ok(()) };
    let sources = [build.sources, torch.sources].concat();
    let includes = [build.includes, torch.includes].concat();
    for file in source_digest::files(dir, &sources, &includes)? {
        files.insert(name_of(&file), dir.join(&file));
    }
    Ok(())
}

/// A relative path with slashes.
fn name_of(path: &Path) -> Vec<u8> {
    let parts: Vec<&[u8]> = path.iter().map(OsStr::as_encoded_bytes).collect();
    parts.join(&b'/')
}

/// build.toml without comments on lines of their own.
fn toml(text: String) -> String {
    // A line of a string may look like a comment.
    if ["\"\"\"", "'''"].iter().any(|quotes| text.contains(quotes)) { text } else { without_comments(&text, &[]) }
}
