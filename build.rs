//! Tells the program its git revision, and packs the skills and what `kernels init` writes.

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::Command;

use flate2::Compression;
use flate2::write::DeflateEncoder;

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=skills");
    let mut skills = Vec::new();
    walk("skills", &mut skills)?;
    deflate(skills, "skills.deflate")?;
    println!("cargo::rerun-if-env-changed=KERNELS_REVISION");
    pack()?;
    let package = std::env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let version = match revision() {
        Some(revision) => format!("{package} ({revision})"),
        None => package,
    };
    println!("cargo::rustc-env=KERNELS_VERSION={version}");
    Ok(())
}

/// What a project is made of: of the projects in `kernels/` that a family names, what is compiled and what says how to
/// call it; all of `scaffold/`, and the licence. `src/scaffold/embedded.rs` reads it.
fn pack() -> io::Result<()> {
    let mut files = vec!["LICENSE".to_owned()];
    for folder in ["kernels", "scaffold"] {
        println!("cargo::rerun-if-changed={folder}");
        walk(folder, &mut files)?;
    }
    println!("cargo::rerun-if-changed=LICENSE");
    let catalog = fs::read_to_string("scaffold/scaffold.toml")?;
    let offered = |project: &str| {
        let quoted = format!("\"{project}\"");
        let mut lines = catalog.lines();
        lines.any(|line| line.starts_with("projects = ") && line.contains(&quoted))
    };
    let is_packed = |path: &String| match path.split('/').collect::<Vec<_>>().as_slice() {
        ["kernels", project, "build.toml" | "kernel.toml"]
        | ["kernels", project, "kernel_src", ..] => offered(project),
        ["kernels", ..] => false,
        _ => true,
    };
    files.retain(is_packed);
    deflate(files, "scaffold.deflate")
}

/// Files in one: deflated as a whole, they are a sixth to a third of their size. Entries: length of the path, path,
/// length, bytes; lengths are 4 bytes, the least significant first. `src/skill/packed.rs` reads it.
fn deflate(mut files: Vec<String>, name: &str) -> io::Result<()> {
    files.sort();
    let mut packed = DeflateEncoder::new(Vec::new(), Compression::best());
    for path in files {
        let bytes = without_marks(&fs::read(&path)?);
        for part in [path.as_bytes(), &bytes] {
            let length = u32::try_from(part.len()).map_err(io::Error::other)?;
            packed.write_all(&length.to_le_bytes())?;
            packed.write_all(part)?;
        }
    }
    let out = std::env::var_os("OUT_DIR").ok_or_else(|| io::Error::other("OUT_DIR is not set"))?;
    fs::write(Path::new(&out).join(name), packed.finish()?)
}

/// A file without the comments that mark what the skill quotes: they are this repository's business.
fn without_marks(file: &[u8]) -> Vec<u8> {
    let is_mark = |line: &&[u8]| {
        let text = line.trim_ascii();
        text.starts_with(b"// [quote ") || text == b"// [end quote]"
    };
    let lines = file.split_inclusive(|byte| *byte == b'\n');
    lines
        .filter(|line| !is_mark(line))
        .flatten()
        .copied()
        .collect()
}

/// The files below a folder, without what tools leave there.
fn walk(folder: &str, files: &mut Vec<String>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name
            .to_str()
            .ok_or_else(|| io::Error::other(format!("a name in {folder} is not UTF-8")))?;
        let left_behind = matches!(
            name,
            ".git" | "__pycache__" | ".pytest_cache" | ".ruff_cache" | ".DS_Store" | "build"
        );
        let ending = Path::new(name)
            .extension()
            .and_then(|ending| ending.to_str());
        if left_behind
            || matches!(ending, Some("pyc" | "orig" | "rej" | "swp"))
            || name.ends_with('~')
        {
            continue;
        }
        let path = format!("{folder}/{name}");
        if entry.file_type()?.is_dir() {
            walk(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}

/// The commit: as a packager says it, or as git does, or none in an unpacked source archive.
fn revision() -> Option<String> {
    if let Ok(revision) = std::env::var("KERNELS_REVISION") {
        return Some(revision);
    }
    // Without this check, sources unpacked inside somebody's repository would show its revision.
    let root = std::env::var("CARGO_MANIFEST_DIR").ok()?;
    if !Path::new(&root).join(".git").exists() {
        return None;
    }
    let git = |arguments: &[&str]| {
        let output = Command::new("git")
            .current_dir(&root)
            .args(arguments)
            .output()
            .ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output
            .status
            .success()
            .then(|| text.trim().to_owned())
            .filter(|text| !text.is_empty())
    };
    for file in ["HEAD", "logs/HEAD"] {
        if let Some(path) = git(&["rev-parse", "--git-path", file]) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    git(&["rev-parse", "--short=10", "HEAD"])
}
