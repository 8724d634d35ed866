//! A digest of what a model's times depend on: the script, the integration, the kernel's sources and binding, and the paths
//! that the script names. Comments and blank lines do not count.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use sha2::{Digest as _, Sha256};
use walkdir::{DirEntry, WalkDir};

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
    if ["\"\"\"", "'''"].iter().any(|quotes| text.contains(quotes)) { text } else { lines(&text, &[]) }
}

/// A Python file without comments on lines of their own. The text itself where Python may see other lines, characters or
/// strings in it.
fn python(text: String) -> String {
    let returns = text.replace("\r\n", "").contains('\r');
    let recoded = text.lines().take(2).any(|line| line.trim_start().starts_with('#') && line.contains("coding"));
    match strings(&text) {
        Some(strings) if !returns && !recoded => lines(&text, &strings),
        _ => text,
    }
}

/// The lines that are not empty and not a comment, without trailing white space; those that begin in one of the strings, as
/// they are. Indentation matters in Python.
fn lines(text: &str, strings: &[Long]) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut start = 0;
    for whole in text.split_inclusive('\n') {
        let end = start + whole.trim_end_matches(['\n', '\r']).len();
        let holding = |at: usize| strings.iter().find(|string| string.at.start < at && at < string.at.end);
        let (first, last) = (holding(start), holding(end));
        let line =
            if last.is_some_and(|string| !string.alone) { &text[start..end] } else { text[start..end].trim_end() };
        let counts = match first {
            Some(string) => !string.alone || !line.is_empty(),
            None => !line.is_empty() && !line.trim_start().starts_with('#'),
        };
        kept.extend(counts.then_some(line));
        start += whole.len();
    }
    kept.join("\n")
}

/// A string of several lines.
struct Long {
    at: Range<usize>,
    /// Whether it is a statement of its own: a docstring, in which blanks at the ends of lines do not count.
    alone: bool,
}

/// The strings of several lines in Python; `None` where it is uncertain what is a string.
fn strings(text: &str) -> Option<Vec<Long>> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let (mut at, mut depth, mut line) = (0, 0_usize, 0);
    while let Some(&next) = bytes.get(at) {
        match next {
            b'#' => at += text[at..].find('\n').unwrap_or(text.len() - at),
            b'"' | b'\'' => {
                let end = at + string(&text[at..])?;
                let word = text[line..at].trim_end_matches(|c: char| c.is_alphanumeric() || c == '_').len() + line;
                let prefix = &text[word..at];
                if prefix.contains(['f', 'F', 't', 'T']) && prefix.len() <= 2 && !is_balanced(&text[at..end]) {
                    return None;
                }
                if text[at..end].contains('\n') {
                    let first = text[line..word].trim().is_empty() && !text[..line].trim_end().ends_with('\\');
                    found.push(Long { at: at..end, alone: depth == 0 && first });
                    line = at + text[at..end].rfind('\n').unwrap_or_default() + 1;
                }
                at = end;
            }
            _ => {
                match next {
                    b'(' | b'[' | b'{' => depth += 1,
                    b')' | b']' | b'}' => depth = depth.saturating_sub(1),
                    b'\n' => line = at + 1,
                    _ => {}
                }
                at += 1;
            }
        }
    }
    Some(found)
}

/// The length of the string literal that a text begins with, from its first quote.
fn string(text: &str) -> Option<usize> {
    let quote = &text[..1];
    let triple = quote.repeat(3);
    let end = if text.starts_with(&triple) { &*triple } else { quote };
    let mut at = end.len();
    loop {
        let rest = text.get(at..)?;
        if rest.starts_with(end) {
            return Some(at + end.len());
        }
        match rest.chars().next()? {
            // A line end behind it as well.
            '\\' => at += 1 + rest[1..].chars().next()?.len_utf8(),
            '\n' if end == quote => return None,
            other => at += other.len_utf8(),
        }
    }
}

/// Whether what an f-string computes ends in it: quotes of the same kind may stand in it, which look like its end.
fn is_balanced(text: &str) -> bool {
    let mut depth = 0_usize;
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        let twice = rest.starts_with("{{") || rest.starts_with("}}");
        rest = &rest[next.len_utf8()..];
        match next {
            '{' | '}' if depth == 0 && twice => rest = &rest[1..],
            '{' => depth += 1,
            '}' if depth == 0 => return false,
            '}' => depth -= 1,
            _ => {}
        }
    }
    depth == 0
}
