//! A digest of what a model's times depend on: the script, the integration, the kernel's sources and binding, and the paths
//! that the script names. Comments and blank lines do not count.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use sha2::{Digest as _, Sha256};
use walkdir::WalkDir;

use crate::project::source_digest::plain;

/// Extensions of source files.
const COMPILED: [&str; 8] = ["cu", "cuh", "h", "hpp", "cc", "cpp", "inl", "c"];
/// Folders whose files are not part of a timed step.
const LEFT_OUT: [&str; 4] = ["tests", "build", "benchmarks", "__pycache__"];

/// SHA-256, in hexadecimal, over names and texts.
pub(crate) fn digest(dir: &Path, more: &[String]) -> Result<String> {
    let mut files = BTreeMap::new();
    collect(dir, "", &mut files)?;
    for name in more {
        ensure!(
            Path::new(name).is_relative(),
            "the script names {name} among its sources: give a path relative to {}",
            dir.display()
        );
        let path = dir.join(name);
        if path.is_dir() {
            collect(&path, &format!("{name}/"), &mut files)?;
        } else if path.is_file() {
            files.insert(name.clone(), path);
        } else {
            bail!("the script names {name} among its sources, and {} does not exist", path.display());
        }
    }
    let mut hash = Sha256::new();
    hash.update("kernels end-to-end sources 1\0");
    for (name, path) in files {
        let bytes = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let text = String::from_utf8_lossy(&bytes);
        let text =
            if name.ends_with(".py") || name.ends_with(".toml") { without_comment_lines(&text) } else { plain(&text) };
        hash.update(format!("{}\0{name}\0{}\0{text}", name.len(), text.len()));
    }
    Ok(crate::base::hex(&hash.finalize()))
}

/// The sources below a folder, by their relative paths.
fn collect(dir: &Path, before: &str, files: &mut BTreeMap<String, PathBuf>) -> Result<()> {
    let walk = WalkDir::new(dir).into_iter().filter_entry(|entry| {
        let name = entry.file_name().to_string_lossy();
        entry.depth() == 0 || !(entry.file_type().is_dir() && (name.starts_with('.') || LEFT_OUT.contains(&&*name)))
    });
    for entry in walk {
        let entry = entry.with_context(|| format!("cannot read {}", dir.display()))?;
        let name = entry.file_name().to_string_lossy();
        let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
        let counts = name == "build.toml" || ending == "py" || COMPILED.contains(&ending);
        if entry.file_type().is_file() && counts {
            let inside = entry.path().strip_prefix(dir).unwrap_or(entry.path());
            let name = format!("{before}{}", inside.to_string_lossy().replace('\\', "/"));
            files.insert(name, entry.into_path());
        }
    }
    Ok(())
}

/// The lines that are not empty and not a comment, without trailing white space. Indentation matters in Python.
fn without_comment_lines(text: &str) -> String {
    let lines = text.lines().map(str::trim_end);
    let lines = lines.filter(|line| !line.is_empty() && !line.trim_start().starts_with('#'));
    lines.collect::<Vec<_>>().join("\n")
}
