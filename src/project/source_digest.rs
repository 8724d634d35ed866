//! A digest of what determines a project's code and its expected results: the text of every file that a compiler may read,
//! in which comments and white space do not count, the flags, and the oracles in Python.
//!
//! Compilers are let read no other file of the project (`compile/unit.rs`), so the digest covers what they read.
//!
//! The compiled device code cannot tell which of its kernels a launcher starts: a row of a tuning table is host code.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};
use walkdir::{DirEntry, WalkDir};

use super::build_toml::BuildToml;
use super::spec::{OracleRef, Spec};

/// What is taken for source text.
const ENDINGS: [&str; 15] =
    ["cu", "cuh", "h", "hh", "hpp", "hxx", "c", "cc", "cpp", "cxx", "inl", "inc", "ipp", "tpp", "def"];
/// Folders of build outputs and tools.
const NOT_SOURCES: [&str; 4] = ["build", "target", "__pycache__", "node_modules"];

/// SHA-256, in hexadecimal, over the flags, the lists of sources and include folders, the names and the text of
/// [`files`], and the Python files of the oracles' folders.
pub(super) fn of(root: &Path, build: &BuildToml, spec: &Spec) -> Result<String> {
    let mut hash = Sha256::new();
    let mut field = |text: &str| hash.update(format!("{}\0{text}\0", text.len()));
    field("kernels sources 2");
    let paths = |paths: &[PathBuf]| paths.iter().map(|path| path.to_string_lossy().into_owned()).collect();
    for list in [build.cuda_flags.clone(), paths(&build.sources), paths(&build.includes)] {
        field(&list.len().to_string());
        for one in &list {
            field(one);
        }
    }
    for file in files(root, &build.sources, &build.includes)? {
        field(&file.to_string_lossy());
        field(&plain(&read(&root.join(file))?));
    }
    let oracles = spec.operations.iter().filter_map(|operation| match &operation.oracle {
        OracleRef::Python { file, .. } => Some(folder(file)),
        OracleRef::Bundled(_) => None,
    });
    // An oracle can import the files beside it.
    for file in below(root, &oracles.collect(), &["py"])? {
        field(&file.to_string_lossy());
        field(&read(&root.join(file))?);
    }
    Ok(crate::base::hex(&hash.finalize()))
}

/// The project's files that a compiler may read: all source files below the folders of the sources and includes.
pub(crate) fn files(root: &Path, sources: &[PathBuf], includes: &[PathBuf]) -> Result<BTreeSet<PathBuf>> {
    let folders = sources.iter().map(|source| folder(source)).chain(includes.iter().cloned()).collect();
    let mut files = below(root, &folders, &ENDINGS)?;
    files.extend(sources.iter().cloned());
    Ok(files)
}

fn folder(file: &Path) -> PathBuf {
    file.parent().unwrap_or(Path::new("")).to_path_buf()
}

fn read(path: &Path) -> Result<String> {
    let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The files below folders of the project with one of these endings, and links to such files.
fn below(root: &Path, folders: &BTreeSet<PathBuf>, endings: &[&str]) -> Result<BTreeSet<PathBuf>> {
    let ends = |path: &Path| path.extension().is_some_and(|ending| endings.iter().any(|known| ending == *known));
    let holds = |entry: &DirEntry| {
        let name = entry.file_name().to_string_lossy();
        let other = name.starts_with('.') || NOT_SOURCES.contains(&&*name) || entry.path().join("pyvenv.cfg").exists();
        entry.depth() == 0 || !entry.file_type().is_dir() || !other
    };
    let mut files = BTreeSet::new();
    for folder in folders {
        let top = root.join(folder);
        for entry in WalkDir::new(&top).into_iter().filter_entry(holds) {
            let entry = entry.with_context(|| format!("cannot read {}", top.display()))?;
            let path = entry.path();
            // What a link names must be source text as well: it may lie outside the project.
            let real = if entry.path_is_symlink() { path.canonicalize().ok() } else { Some(path.to_owned()) };
            if ends(path) && real.is_some_and(|real| ends(&real) && real.is_file()) {
                files.insert(path.strip_prefix(root).unwrap_or(path).to_owned());
            }
        }
    }
    Ok(files)
}

/// The text with comments and runs of white space as one space each. What stands in quotes is left as it is.
pub(crate) fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let space = |out: &mut String| {
        if !out.is_empty() && !out.ends_with(' ') {
            out.push(' ');
        }
    };
    while let Some(next) = rest.chars().next() {
        if rest.starts_with("//") {
            // To the end of the line, and on where that is spliced to the next.
            let mut end = 0;
            for line in rest.split_inclusive('\n') {
                end += line.len();
                if !line.trim_end_matches(['\n', '\r']).ends_with('\\') {
                    break;
                }
            }
            rest = &rest[end..];
            space(&mut out);
        } else if let Some(inside) = rest.strip_prefix("/*") {
            rest = inside.find("*/").map_or("", |end| &inside[end + 2..]);
            space(&mut out);
        } else if next.is_whitespace() {
            rest = &rest[next.len_utf8()..];
            space(&mut out);
        } else if next == '"' || next == '\'' && !digit_before(&out) {
            let end = quoted(rest, next);
            out.push_str(&rest[..end]);
            rest = &rest[end..];
        } else {
            out.push(next);
            rest = &rest[next.len_utf8()..];
        }
    }
    out.truncate(out.trim_end().len());
    out
}

/// Whether a quote here separates digits, as in 1'000.
fn digit_before(out: &str) -> bool {
    out.ends_with(|c: char| c.is_ascii_alphanumeric())
}

/// The length of what is quoted at the beginning, both quotes included; without an end, to the end of the line.
fn quoted(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        if escaped {
            escaped = false;
        } else if c == '\\' {
            escaped = true;
        } else if c == quote || c == '\n' {
            return at + c.len_utf8();
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn comments_and_white_space_do_not_count_and_what_is_quoted_does() {
        assert_eq!(plain("int  a;\n\n\tint b; // c\n"), "int a; int b;");
        assert_eq!(plain("int a; /* x\n y */ int b;"), "int a; int b;");
        assert_eq!(plain("// one \\\n two\nint a;"), "int a;");
        assert_eq!(plain("s = \"// no  comment\"; t"), "s = \"// no  comment\"; t");
        assert_eq!(plain(r#"s = "a\"  // b"; t"#), r#"s = "a\"  // b"; t"#);
        assert_eq!(plain("c = '\"'; // x"), "c = '\"';");
        assert_eq!(plain("n = 1'000; // x\nm = 2'000;"), "n = 1'000; m = 2'000;");
        assert_ne!(plain("{1, 2}"), plain("{1, 3}"));
    }
}
