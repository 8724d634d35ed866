//! A digest of what determines a project's code and its expected results: the text of every file that a compiler may read,
//! in which comments and white space do not count, the flags, capabilities with a suffix, and the oracles in Python.
//!
//! Compilers are let read no other file of the project (`compile/unit.rs`), so the digest covers what they read.
//!
//! The compiled device code cannot tell which of its kernels a launcher starts: a row of a tuning table is host code.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};
use walkdir::{DirEntry, WalkDir};

use super::build_toml::BuildToml;
use super::capabilities::Capabilities;
pub(crate) use super::path::ENDINGS;
use super::spec::{OracleRef, Spec};

/// Folders of build outputs and tools.
const NOT_SOURCES: [&str; 4] = ["build", "target", "__pycache__", "node_modules"];

/// SHA-256, in hexadecimal, over the flags, the lists of sources and include folders, the names and the text of
/// [`files`], and the Python files of the oracles' folders.
pub(super) fn of(root: &Path, build: &BuildToml, spec: &Spec) -> Result<String> {
    let mut hash = Sha256::new();
    let mut field = |bytes: &[u8]| {
        hash.update(format!("{}\0", bytes.len()));
        hash.update(bytes);
        hash.update([0]);
    };
    field(b"kernels sources 3");
    field(build.cuda_flags.len().to_string().as_bytes());
    for flag in &build.cuda_flags {
        field(flag.as_bytes());
    }
    // A project without such code has the digest that it had before there was this field.
    for (source, capability) in Capabilities::of(&build.kernels).with_suffix() {
        field(name(source));
        field(capability.bare().as_bytes());
    }
    for list in [&build.sources, &build.includes] {
        field(list.len().to_string().as_bytes());
        for path in list {
            field(name(path));
        }
    }
    for file in files(root, &build.sources, &build.includes)? {
        field(name(&file));
        field(&plain_bytes(read(&root.join(file))?));
    }
    let mut oracles = BTreeSet::new();
    for operation in &spec.operations {
        if let OracleRef::Python { file, .. } = &operation.oracle {
            oracles.extend(beside(root, file)?);
        }
    }
    for file in oracles {
        field(name(&file));
        field(&read(&root.join(file))?);
    }
    Ok(crate::base::hex(&hash.finalize()))
}

/// The Python files of an oracle's folder: it can import those beside it, and no others of the project.
pub(crate) fn beside(root: &Path, oracle: &Path) -> Result<BTreeSet<PathBuf>> {
    below(root, &BTreeSet::from([folder(oracle)]), &["py"])
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

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

fn name(path: &Path) -> &[u8] {
    path.as_os_str().as_encoded_bytes()
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

/// The [`plain`] text of a file; of one that is not UTF-8 its bytes, each of which may count. No text has these.
pub(crate) fn plain_bytes(bytes: Vec<u8>) -> Vec<u8> {
    match String::from_utf8(bytes) {
        Ok(text) => plain(&text).into_bytes(),
        Err(error) => error.into_bytes(),
    }
}

/// The text with comments and runs of white space as one space each, and line ends only where a directive ends or begins. What
/// stands in quotes, a number, and the name of an included file, is left as it is.
///
/// The text itself, where another reading of it is possible than a compiler's, or its lines count.
pub(crate) fn plain(text: &str) -> String {
    // The number of a line may be computed with; its macro's name may be put together of parts.
    let counts_lines =
        |plain: &String| ["LINE", "source_location", "##", "%:%:"].iter().any(|name| plain.contains(name));
    bare(text).filter(|plain| !counts_lines(plain)).unwrap_or_else(|| text.to_owned())
}

/// The same where its lines do not count; none where another reading of it is possible.
pub(crate) fn bare(text: &str) -> Option<String> {
    // With trigraphs, which depend on the flags, a comment may end where none does here.
    if text.contains("??") {
        return None;
    }
    let spliced = spliced(text)?;
    let mut plain =
        Plain { out: String::with_capacity(spliced.len()), is_new_line: true, directive: None, is_certain: true };
    let mut rest = &*spliced;
    while let Some(next) = rest.chars().next() {
        rest = &rest[plain.take(rest, next)..];
    }
    plain.out.truncate(plain.out.trim_end().len());
    plain.is_certain.then_some(plain.out)
}

/// The text with the lines joined that end with a backslash, as compilers do it first of all. None where it is uncertain: blanks
/// behind the backslash, or raw strings, in which lines are not joined.
fn spliced(text: &str) -> Option<Cow<'_, str>> {
    let at_end = |rest: &str| rest.starts_with('\n') || rest.starts_with("\r\n");
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        let behind = &rest[at + 1..];
        let blanks = behind.trim_start_matches([' ', '\t', '\r', '\x0b', '\x0c']);
        if at_end(behind) {
            out.push_str(&rest[..at]);
            rest = behind.split_once('\n')?.1;
        } else if blanks.starts_with('\n') {
            return None;
        } else {
            out.push_str(&rest[..=at]);
            rest = behind;
        }
    }
    if out.len() + rest.len() == text.len() {
        return Some(text.into());
    }
    out.push_str(rest);
    (!out.contains("R\"")).then(|| out.into())
}

/// A text that becomes plain.
struct Plain {
    out: String,
    /// Whether nothing but space and comments stands on the line so far.
    is_new_line: bool,
    /// Where a directive began, until its line ends.
    directive: Option<usize>,
    /// Whether compilers agree about what was read.
    is_certain: bool,
}

impl Plain {
    /// Takes what the rest begins with, the character `next`; returns its length.
    fn take(&mut self, rest: &str, next: char) -> usize {
        if rest.starts_with("//") {
            self.space();
            return rest.find('\n').unwrap_or(rest.len());
        }
        if let Some(inside) = rest.strip_prefix("/*") {
            self.space();
            return inside.find("*/").map_or(rest.len(), |end| end + 4);
        }
        if next == '\n' {
            self.is_new_line = true;
            match self.directive.take() {
                Some(_) => self.line(),
                None => self.space(),
            }
            return 1;
        }
        if next.is_whitespace() {
            self.space();
            return next.len_utf8();
        }
        let is_first = std::mem::take(&mut self.is_new_line);
        if let Some(end) = self.verbatim(rest, next) {
            self.out.push_str(&rest[..end]);
            return end;
        }
        if is_first && (next == '#' || rest.starts_with("%:")) {
            self.line();
            self.directive = Some(self.out.len());
        }
        self.out.push(next);
        next.len_utf8()
    }

    /// The length of what is left as it is: a word, a number, a string, a character, the name of an included file.
    fn verbatim(&mut self, rest: &str, next: char) -> Option<usize> {
        let is_number = rest.trim_start_matches('.').starts_with(|c: char| c.is_ascii_digit());
        match next {
            '0'..='9' | '.' if is_number => Some(number(rest)),
            _ if is_of_word(next) => {
                let end = rest.find(|c| !is_of_word(c)).unwrap_or(rest.len());
                let (word, behind) = rest.split_at(end);
                if !behind.starts_with('"') || !["R", "LR", "uR", "UR", "u8R"].contains(&word) {
                    return Some(end);
                }
                // A suffix of the string in front of it, or the beginning of a raw one.
                self.is_certain &= !self.out.ends_with(['"', '\'']);
                Some(end + raw(behind).unwrap_or_else(|| quoted(behind, '"')))
            }
            '"' | '\'' => Some(quoted(rest, next)),
            '<' => {
                let directive = &self.out[self.directive?..];
                let line = rest.split('\n').next().unwrap_or_default();
                let names = ["include", "import", "embed"].iter().any(|word| directive.contains(word));
                line.find('>').filter(|_| names).map(|end| end + 1)
            }
            _ => None,
        }
    }

    fn space(&mut self) {
        if !self.out.is_empty() && !self.out.ends_with([' ', '\n']) {
            self.out.push(' ');
        }
    }

    fn line(&mut self) {
        self.out.truncate(self.out.trim_end().len());
        if !self.out.is_empty() {
            self.out.push('\n');
        }
    }
}

/// Whether a name may contain it; compilers take `$` and letters beyond ASCII.
fn is_of_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_$".contains(c) || !(c.is_ascii() || c.is_whitespace())
}

/// The length of a number as the preprocessor reads it, in which quotes separate digits: `1'000`, `.5e-3f`, `1e+a'0`.
fn number(text: &str) -> usize {
    let mut before = ' ';
    for (at, c) in text.char_indices() {
        let sign = "+-".contains(c) && "eEpP".contains(before);
        let quote = c == '\'' && text[at + 1..].starts_with(is_of_word);
        if !(is_of_word(c) || c == '.' || sign || quote) {
            return at;
        }
        before = c;
    }
    text.len()
}

/// The length of a raw string's part from its quote on: `"x(…)x"`.
fn raw(text: &str) -> Option<usize> {
    let (delimiter, _) = text[1..].split_once('(')?;
    let end = format!("){delimiter}\"");
    let is_delimiter = delimiter.len() <= 16 && !delimiter.contains([' ', ')', '\\', '\n', '\t', '"']);
    text.find(&end).filter(|_| is_delimiter).map(|at| at + end.len())
}

/// The length of what is quoted at the beginning, both quotes included; without an end, to the end of the line.
fn quoted(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        if escaped {
            escaped = false;
        } else if c == '\\' {
            escaped = true;
        } else if c == '\n' {
            return at;
        } else if c == quote {
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

    #[test]
    fn no_code_passes_for_a_comment() {
        for (one, other) in [
            ("s = R\"x(\"//)x\"; slow();", "s = R\"x(\"//)x\"; fast();"),
            ("s = R\"(\" /*)\"; slow(); t = R\"( */)\";", "s = R\"(\" /*)\"; fast(); t = R\"( */)\";"),
            ("s = u8R\"(\\)\"; t = \"//\"; slow();", "s = u8R\"(\\)\"; t = \"//\"; fast();"),
            ("c = L'\"'; s = \"//\"; slow();", "c = L'\"'; s = \"//\"; fast();"),
            ("#include <a//slow.h>\n", "#include <a//fast.h>\n"),
            ("#define SLOW\nfast();", "#define SLOW fast();"),
            ("#define A 1 \\\n + 1\nint b;", "#define A 1\n + 1\nint b;"),
            ("slow(); // x\n#if 0\n", "slow(); #if 0\n"),
            ("#error it's\n\"//\" slow();", "#error it's\n\"//\" fast();"),
            ("#if __has_include(<a//slow.h>)\n", "#if __has_include(<a//fast.h>)\n"),
            ("%:define SLOW\nfast();", "%:define SLOW fast();"),
            ("// ??/\nslow();", "// ??/\nfast();"),
            ("sl\\\now();", "sl ow();"),
            // Comments that end, or go on, in lines that are joined.
            ("/* x *\\\n/ slow(); /* */", "/* x *\\\n/ fast(); /* */"),
            ("// x \\ \nslow();", "// x\nslow();"),
            ("/\\\n/ slow();\nfast();", "/\\\n/ slow(); fast();"),
            ("s = R\"(\\\n)\"; // slow();", "s = R\"(\n)\"; // slow();"),
            // Numbers with quotes, words that end like a raw string's prefix, suffixes.
            (".1'0; s = \"'/*\"; slow(); t = \"*/\";", ".1'0; s = \"'/*\"; fast(); t = \"*/\";"),
            ("TEXT(1e+a'0); s = \"'/*\"; slow(); t = \"*/\";", "TEXT(1e+a'0); s = \"'/*\"; fast(); t = \"*/\";"),
            ("s = \u{e9}R\"(\"; slow(\"/*\", \")\"); \"*/\"", "s = \u{e9}R\"(\"; fast(\"/*\", \")\"); \"*/\""),
            ("s = \"\"R\"(\" /*)\"; slow(); \"*/\"", "s = \"\"R\"(\" /*)\"; fast(); \"*/\""),
            // Lines that are counted.
            ("f(__LINE__);", "\nf(__LINE__);"),
            ("#define N(A, B) A##B\nf(N(__LI, NE__));", "#define N(A, B) A##B\n\nf(N(__LI, NE__));"),
            ("f(std::source_location::current());", "// x\nf(std::source_location::current());"),
        ] {
            assert_ne!(plain(one), plain(other), "{one}");
        }
    }

    #[test]
    fn directives_end_with_their_line() {
        assert_eq!(
            plain("int a;\n\n  #  include <a b.h> // c\n\nint  b;\n#if  1 /* x\n y */ && 2\n#endif\n"),
            "int a;\n# include <a b.h>\nint b;\n#if 1 && 2\n#endif"
        );
        assert_eq!(plain("#define A(x) \\\n  x \\\r\n  + 1\nB"), "#define A(x) x + 1\nB");
        assert_eq!(
            plain("#define A don't\nint a = 0xFF'00; /* ' */ int b;"),
            "#define A don't\nint a = 0xFF'00; int b;"
        );
        assert_eq!(plain("a = b # c"), "a = b # c");
    }
}
