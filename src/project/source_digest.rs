//! A digest of the sources' text, in which comments and white space do not count.
//!
//! The compiled device code cannot tell which of its kernels a launcher starts: a row of a tuning table is host code.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

/// What is taken for source text.
const ENDINGS: [&str; 7] = ["cu", "cuh", "h", "hpp", "cc", "cpp", "inl"];

/// SHA-256, in hexadecimal, over the names and the text of all source files in the folders of a project's sources and
/// includes. Runs of white space are one space, comments as well.
pub(super) fn of(root: &Path, sources: &[PathBuf], includes: &[PathBuf]) -> Result<String> {
    let folders: BTreeSet<PathBuf> = sources
        .iter()
        .map(|source| source.parent().unwrap_or(Path::new("")).to_path_buf())
        .chain(includes.iter().cloned())
        .collect();
    let mut files = BTreeSet::new();
    for folder in folders {
        let path = root.join(&folder);
        let entries = fs::read_dir(&path).with_context(|| format!("cannot read {}", path.display()))?;
        for entry in entries {
            let name = entry.with_context(|| format!("cannot read {}", path.display()))?.file_name();
            let file = folder.join(&name);
            let is_source = file.extension().is_some_and(|ending| ENDINGS.iter().any(|known| ending == *known));
            if is_source && root.join(&file).is_file() {
                files.insert(file);
            }
        }
    }
    let mut hash = Sha256::new();
    for file in files {
        let path = root.join(&file);
        let bytes = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let text = plain(&String::from_utf8_lossy(&bytes));
        let name = file.to_string_lossy().replace('\\', "/");
        hash.update(format!("{}\0{name}\0{}\0{text}", name.len(), text.len()));
    }
    Ok(crate::base::hex(&hash.finalize()))
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
