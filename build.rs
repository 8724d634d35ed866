//! Tells the program its git revision, and cargo when the embedded skills changed.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=skills");
    println!("cargo::rerun-if-env-changed=KERNELS_REVISION");
    let package = std::env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let version = match revision() {
        Some(revision) => format!("{package} ({revision})"),
        None => package,
    };
    println!("cargo::rustc-env=KERNELS_VERSION={version}");
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
