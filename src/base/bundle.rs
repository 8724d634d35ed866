//! What the program carries beside its code: skills, kernels, the scaffold of projects, and the commit it is of.
//!
//! The program and the Python module embed the files and hand them over with [`set`] when they start. The library itself
//! depends on none of them, and is not compiled anew when one changes.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{LazyLock, OnceLock};

use include_dir::{Dir, DirEntry};

/// Embedded folders of the repository, and the commit they were taken from.
#[derive(Debug)]
pub struct Bundle {
    /// `skills/`.
    pub skills: Dir<'static>,
    /// `kernels/`.
    pub kernels: Dir<'static>,
    /// `scaffold/`.
    pub scaffold: Dir<'static>,
    /// The git commit, or what a packager set as `KERNELS_REVISION`.
    pub revision: Option<&'static str>,
}

/// Files by their path in the repository.
pub(crate) type Files = BTreeMap<String, &'static [u8]>;

static BUNDLE: OnceLock<&'static Bundle> = OnceLock::new();

static VERSION: LazyLock<String> = LazyLock::new(|| {
    let package = env!("CARGO_PKG_VERSION");
    match BUNDLE.get().and_then(|bundle| bundle.revision) {
        Some(revision) => format!("{package} ({revision})"),
        None => package.to_owned(),
    }
});

/// Says what this process carries; the first call counts.
pub fn set(bundle: &'static Bundle) {
    let _ = BUNDLE.set(bundle);
}

/// The version, and the git commit it was built from.
pub fn version() -> &'static str {
    &VERSION
}

/// The files below `skills`, `kernels` or `scaffold`; the library's own tests read them from the repository.
pub(crate) fn files(top: &str) -> Files {
    #[cfg(test)]
    return tests::of_repository(top);
    #[cfg(not(test))]
    BUNDLE.get().map_or_else(Files::new, |bundle| bundle.files(top))
}

impl Bundle {
    /// The files below `skills`, `kernels` or `scaffold`.
    pub fn files(&self, top: &str) -> Files {
        let mut files = Files::new();
        match top {
            "skills" => collect(&self.skills, top, &mut files),
            "kernels" => collect(&self.kernels, top, &mut files),
            "scaffold" => collect(&self.scaffold, top, &mut files),
            _ => {}
        }
        files
    }
}

fn collect(folder: &Dir<'static>, top: &str, files: &mut Files) {
    for entry in folder.entries() {
        let Some(name) = entry.path().file_name().and_then(|name| name.to_str()) else {
            continue;
        };
        if is_tool_output(name) {
            continue;
        }
        match entry {
            DirEntry::Dir(folder) => collect(folder, top, files),
            DirEntry::File(file) => {
                files.insert(format!("{top}/{}", file.path().display()), file.contents());
            }
        }
    }
}

/// Whether a file or folder of this name was left by a tool: what is compiled in a working tree embeds it with the rest.
fn is_tool_output(name: &str) -> bool {
    let ending = Path::new(name).extension().and_then(|ending| ending.to_str());
    matches!(name, ".git" | "__pycache__" | ".pytest_cache" | ".ruff_cache" | ".DS_Store" | "build")
        || matches!(ending, Some("pyc" | "orig" | "rej" | "swp"))
        || name.ends_with('~')
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    pub(super) fn of_repository(top: &str) -> Files {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut files = Files::new();
        let kept = walkdir::WalkDir::new(root.join(top))
            .into_iter()
            .filter_entry(|entry| !entry.file_name().to_str().is_some_and(is_tool_output));
        for entry in kept.map(Result::unwrap) {
            if entry.file_type().is_file() {
                let path = entry.path().strip_prefix(root).unwrap();
                let bytes = fs::read(entry.path()).unwrap();
                files.insert(path.to_str().unwrap().to_owned(), bytes.leak());
            }
        }
        files
    }

    #[test]
    fn what_tools_leave_behind_is_left_out() {
        for name in ["build", "__pycache__", "a.pyc", "a.orig", "launch.cu~"] {
            assert!(is_tool_output(name), "{name}");
        }
        for name in ["build.toml", "kernel.toml", ".gitignore", "package"] {
            assert!(!is_tool_output(name), "{name}");
        }
    }
}
