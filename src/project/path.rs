//! Paths that a project's files name: inside its folder, and there.

use std::fs;
use std::path::{Component, Path, PathBuf};

/// What a path must lead to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Wanted {
    File,
    Folder,
}

/// What is taken for source text.
pub(crate) const ENDINGS: [&str; 15] =
    ["cu", "cuh", "h", "hh", "hpp", "hxx", "c", "cc", "cpp", "cxx", "inl", "inc", "ipp", "tpp", "def"];

/// Whether it is source text.
pub(crate) fn is_source(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ENDINGS.iter().any(|known| ending == *known))
}

/// Whether it is source text that is only included.
pub(super) fn is_header(path: &Path) -> bool {
    is_source(path) && !is_cu(path) && !is_cxx(path) && path.extension().is_none_or(|ending| ending != "c")
}

/// Whether it is C++ to compile.
pub(crate) fn is_cxx(path: &Path) -> bool {
    path.extension().and_then(|ending| ending.to_str()).is_some_and(|ending| matches!(ending, "cpp" | "cc" | "cxx"))
}

/// Whether it is CUDA to compile.
pub(crate) fn is_cu(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "cu")
}

/// Why a compiler would not take the path for one, if a part of it begins as an option does.
pub(crate) fn taken_for_an_option(path: &str) -> Option<String> {
    let is_option = path.split('/').any(|part| part.starts_with(['-', '@']));
    is_option.then(|| format!("`{path}`: compilers take a name that begins with - or @ for an option; rename it"))
}

/// The path without `.` parts, relative to `root` (which is canonical). The error says what is wrong with it.
pub(super) fn inside(root: &Path, text: &str, wanted: Wanted) -> Result<PathBuf, String> {
    if let Some(why) = taken_for_an_option(text) {
        return Err(why);
    }
    let mut relative = PathBuf::new();
    for component in Path::new(text).components() {
        match component {
            Component::Normal(part) => relative.push(part),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                return Err(format!("`{text}` leaves the project's folder; paths are relative to it and stay inside"));
            }
        }
    }
    if wanted == Wanted::Folder && text.contains(',') {
        return Err(format!("`{text}`: nvcc takes a comma for the end of a folder's name; rename it"));
    }
    if relative.as_os_str().is_empty() {
        if wanted == Wanted::Folder && !text.is_empty() {
            return Ok(PathBuf::from("."));
        }
        return Err("an empty path".to_owned());
    }
    let full = root.join(&relative);
    let real =
        fs::canonicalize(&full).map_err(|error| format!("`{text}` cannot be found: {}: {error}", full.display()))?;
    if !real.starts_with(root) {
        return Err(format!(
            "`{text}` is a link out of the project's folder, to {}; copy the file into the project",
            real.display()
        ));
    }
    match wanted {
        Wanted::File if !real.is_file() => Err(format!("`{text}` is not a file")),
        Wanted::Folder if !real.is_dir() => Err(format!("`{text}` is not a folder")),
        _ => Ok(relative),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_a_compiler_reads_otherwise_is_refused() {
        let root = fs::canonicalize(env!("CARGO_MANIFEST_DIR")).unwrap_or_default();
        for (text, wanted, why) in [
            ("-optf=x.cu", Wanted::File, "an option"),
            ("src/@x.cpp", Wanted::File, "an option"),
            ("-include", Wanted::Folder, "an option"),
            ("src,docs", Wanted::Folder, "a comma"),
        ] {
            assert!(inside(&root, text, wanted).is_err_and(|error| error.contains(why)), "{text}");
        }
        assert_eq!(inside(&root, "./src/lib.rs", Wanted::File), Ok(PathBuf::from("src/lib.rs")));
    }
}
