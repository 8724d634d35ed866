//! What the texts of a project say about the files that a compiler looks for.
//!
//! The key of the cache covers files, and so does the project's digest; neither knows which folders there are. `folder/../file`
//! is a file where the folder is there, and none where it is not: so nothing that is compiled may depend on such a name.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use crate::project::source_digest;

/// What a text says about the files that compilers look for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Says {
    /// Whether it may ask which files there are.
    pub(super) asks: bool,
    /// Whether it may name a file by a path with `folder/..`.
    pub(super) climbs: bool,
    /// What it asks in a way that folders could answer.
    pub(super) wrong: Option<String>,
    /// Names that it may ask for.
    names: Vec<String>,
}

/// How code asks whether a file is there. Libraries have names like these for it.
const ASKS: [&str; 2] = ["has_include", "has_embed"];
/// What puts such a name together.
const PASTES: [&str; 3] = ["##", "%:%:", "??="];

/// How to ask.
const WRITTEN_OUT: &str = "a name that is asked for by __has_include or __has_embed is written out behind it, in quotes or <>, and \
     neither there nor elsewhere in #if or #define stands `..` behind a folder: the project's digest does not cover which \
     folders there are";
/// How to name a file.
pub(crate) const CLIMBED: &str = ": which file that is depends on the folders that are there, which the project's digest does not \
     cover; write the name without a folder in front of `..`";

/// Where to ask.
pub(crate) const MISLED: &str = ", which is there through a link to a folder, or is no source file: the project's digest does not \
     cover it; name the file where it lies, and give it the ending of a source file";

impl Says {
    /// Of a source or a header.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes);
        let bare = source_digest::bare(&text);
        let certain = bare.is_some();
        let text = bare.unwrap_or_else(|| joined(&text));
        let lower = text.to_ascii_lowercase();
        let has = |words: &[&str]| words.iter().any(|word| lower.contains(word));
        let mut says =
            Self { asks: has(&ASKS) || has(&PASTES), climbs: has(&["incbin", ".include"]), ..Self::default() };
        for line in text.lines() {
            says.line(line.trim(), certain);
        }
        says
    }

    /// Of options, which may define macros.
    pub(crate) fn of_flags(flags: &[String]) -> Self {
        let mut says = Self::default();
        for flag in flags.iter().filter(|flag| !flag.starts_with("-I")) {
            says.asks |= ASKS.iter().any(|word| flag.contains(word)) || PASTES.iter().any(|word| flag.contains(word));
            says.question(flag);
        }
        says
    }

    /// What the project's text at `path` asks that is not to be asked.
    pub(crate) fn check(&self, path: &Path) -> anyhow::Result<()> {
        match &self.wrong {
            Some(wrong) => anyhow::bail!("{}: {wrong}: {WRITTEN_OUT}", path.display()),
            None => Ok(()),
        }
    }

    /// A line; where it is uncertain what is a comment or a string, any may be a directive.
    fn line(&mut self, line: &str, certain: bool) {
        let directive = line.strip_prefix('#').or_else(|| line.strip_prefix("%:")).map(str::trim_start);
        let (word, rest) = directive.map_or(("", ""), |text| text.split_at(word(text)));
        match word {
            "include" | "include_next" | "import" | "embed" => {
                let name = rest.trim_start();
                self.climbs |= !name.starts_with(['"', '<']) || climbs(name).is_some();
            }
            "if" | "elif" | "define" => self.question(line),
            _ if !certain => self.question(line),
            _ => {}
        }
    }

    fn question(&mut self, line: &str) {
        let wrong = climbs(line).or_else(|| unwritten(line));
        self.wrong = self.wrong.take().or(wrong.map(|text| format!("`{text}`")));
        if self.asks {
            self.names.extend(written(line));
        }
    }
}

/// The length of the word that a text begins with.
fn word(text: &str) -> usize {
    text.find(|c: char| !(c.is_ascii_alphanumeric() || "_$".contains(c) || !c.is_ascii())).unwrap_or(text.len())
}

/// A path in a line that has `..` behind the name of a folder.
fn climbs(line: &str) -> Option<String> {
    let paths = line.split(|c: char| c.is_whitespace() || "\"'<>(),".contains(c));
    let climbs = |path: &&str| {
        let mut parts = path.split('/').filter(|part| !part.is_empty() && *part != ".");
        parts.by_ref().any(|part| part != "..") && parts.any(|part| part == "..")
    };
    paths.filter(|path| path.contains("..")).find(climbs).map(str::to_owned)
}

/// What stands in quotes or <>.
fn written(line: &str) -> impl Iterator<Item = String> + '_ {
    line.match_indices(['"', '<']).filter_map(|(at, open)| {
        let close = if open == "<" { '>' } else { '"' };
        line[at + 1..].split_once(close).map(|(name, _)| name.to_owned())
    })
}

/// A question whose name is not written out behind it.
fn unwritten(line: &str) -> Option<String> {
    const NAMED: [&str; 6] = ["define", "ifdef", "ifndef", "elifdef", "elifndef", "undef"];
    let mut at = 0;
    while let Some(next) = line[at..].chars().next() {
        let length = word(&line[at..]);
        if length == 0 {
            at += next.len_utf8();
            continue;
        }
        let name = &line[at..at + length];
        let (before, behind) = (line[..at].trim_end(), line[at + length..].trim_start());
        at += length;
        if !["__has_include", "__has_embed"].iter().any(|known| name.starts_with(known)) {
            continue;
        }
        let argument = behind.strip_prefix('(').map(str::trim_start).unwrap_or_default();
        let written = ['"', '<'].iter().zip(['"', '>']).any(|(open, close)| {
            argument.strip_prefix(*open).is_some_and(|name| {
                name.split(['"', '<', '>']).next().is_some_and(|inside| {
                    name[inside.len()..].starts_with(close)
                        && name[inside.len() + 1..].trim_start().starts_with([')', ','])
                })
            })
        });
        let directive = before.strip_prefix('#').or_else(|| before.strip_prefix("%:")).map(str::trim_start);
        let before = before.strip_suffix('(').unwrap_or(before).trim_end();
        let last = &before[before.rfind(|c: char| word(c.encode_utf8(&mut [0; 4])) == 0).map_or(0, |end| end + 1)..];
        let is_named = last == "defined" || directive.is_some_and(|text| NAMED.contains(&text));
        if !written && !is_named {
            return Some(line.to_owned());
        }
    }
    None
}

/// The text with its lines joined wherever a compiler may do so.
fn joined(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let end = line.trim_end();
        match end.strip_suffix('\\').or_else(|| end.strip_suffix("??/")) {
            Some(begun) => out.push_str(begun),
            None => out.push_str(line),
        }
    }
    out
}

/// A path with `..` resolved lexically.
pub(crate) fn plainly(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        if part == Component::ParentDir {
            plain.pop();
        } else {
            plain.push(part);
        }
    }
    plain
}

/// Whether `..` in a path leads to the file to which it leads without links: those of folders are in no digest.
pub(crate) fn leads_there(path: &Path) -> bool {
    !has_parent(path)
        || matches!((path.canonicalize(), plainly(path).canonicalize()), (Ok(one), Ok(other)) if one == other)
}

pub(crate) fn has_parent(path: &Path) -> bool {
    path.components().any(|part| part == Component::ParentDir)
}

/// Which files a compiler may take for each other, as folders are there or not.
pub(crate) struct Search<'a, C> {
    /// The project's folder.
    pub(crate) root: &'a Path,
    /// The folders of the sources and headers that were read, and those in which headers are searched; relative.
    pub(crate) folders: BTreeSet<PathBuf>,
    /// Whether a path of the project is a file of its digest.
    pub(crate) covers: C,
}

impl<C: Fn(&Path) -> bool> Search<'_, C> {
    /// Whether, of a file that was read, another may be read by the same name if a folder is made or removed. `says` is what
    /// the texts that were read say.
    pub(crate) fn may_find_another<'s>(&self, path: &Path, says: impl IntoIterator<Item = &'s Says>) -> bool {
        if !says.into_iter().any(|one| one.climbs) {
            return false;
        }
        let inside = path.strip_prefix(self.root).unwrap_or(path);
        // The project's files have relative names, unless a compiler shortened one or it was written so.
        if path.is_absolute() && inside != path {
            return true;
        }
        let parts: Vec<Component<'_>> = inside.components().collect();
        let there = plainly(inside);
        (0..parts.len()).any(|at| {
            let name: PathBuf = parts[at..].iter().collect();
            if !matches!(parts[at], Component::Normal(_)) || !has_parent(&name) {
                return false;
            }
            let folder = plainly(&parts[..at].iter().collect::<PathBuf>());
            self.folders.iter().filter(|other| **other != folder).any(|other| {
                let found = plainly(&other.join(&name));
                found != there && (self.covers)(&found)
            })
        })
    }

    /// A name that is asked for, where the answer is not what the project's files say: through a link to a folder.
    pub(crate) fn misled<'s>(
        &self,
        says: impl IntoIterator<Item = &'s Says>,
        is_system: impl Fn(&Path) -> bool,
    ) -> Option<String> {
        let decided = |name: &str| {
            self.folders.iter().all(|folder| {
                let path = self.root.join(folder).join(name);
                let plain = plainly(&path);
                let covered = plain.strip_prefix(self.root).is_ok_and(&self.covers);
                // What is no file is no header, and what is neither the system's nor covered is not to be read.
                if path.is_file() { leads_there(&path) && (covered || is_system(&plain)) } else { !covered }
            })
        };
        let names = says.into_iter().flat_map(|one| &one.names);
        names.filter(|name| !name.is_empty()).find(|name| !decided(name)).cloned()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_a_text_says_about_files() {
        // The text; whether it may ask, and climb; what it asks wrongly; the names that it asks for.
        type Case = (&'static str, bool, bool, bool, &'static [&'static str]);
        let cases: [Case; 28] = [
            ("#include \"a.h\"\n", false, false, false, &[]),
            ("#include \"../a.h\"\n", false, false, false, &[]),
            ("#include \"./../a.h\"\n", false, false, false, &[]),
            ("#include \"b/../a.h\"\n", false, true, false, &[]),
            ("#include <b/.././a.h>\n", false, true, false, &[]),
            ("%:include \"b/../a.h\"\n", false, true, false, &[]),
            ("# include_next \"b/../a.h\"\n", false, true, false, &[]),
            ("#in\\\nclude \"b/../a.h\"\n", false, true, false, &[]),
            ("#include \"b/../../c.h\"\n", false, true, false, &[]),
            ("#include \"b//a..h\"\n", false, false, false, &[]),
            ("#include A\n", false, true, false, &[]),
            // A question mark twice may be a trigraph: what is joined, and what is a comment, depends on the options.
            ("??\n#in\\\nclude \"b/../a.h\"\n", false, true, false, &[]),
            ("??\n// __has_\\\ninclude(A)\n", true, false, true, &[]),
            ("// #include \"b/../a.h\"\n", false, false, false, &[]),
            ("#pragma x \"b/../a.h\"\n", false, false, false, &[]),
            ("asm(\".INCBIN \\\"a\\\"\");\n", false, true, false, &[]),
            ("#define A \"b/../a.h\"\n", false, false, true, &[]),
            ("#if __has_include(\"a.h\") || __has_include(<b.h>)\n#endif\n", true, false, false, &["a.h", "b.h"]),
            ("#if __has_include_next( \"a.h\" )\n#endif\n", true, false, false, &["a.h"]),
            ("#if __has_embed(\"a.bin\", limit(1))\n#endif\n", true, false, false, &["a.bin"]),
            ("#if __has_include(A)\n#endif\n", true, false, true, &[]),
            ("#if __has_include(\"a.h\" B)\n#endif\n", true, false, true, &["a.h"]),
            ("#if __has_include(\"a.h>)\n#endif\n", true, false, true, &[]),
            ("#if 1\n#elif __has_include\n#endif\n", true, false, true, &[]),
            ("#if defined(__has_include) && defined __has_embed\n#endif\n", true, false, false, &[]),
            ("#ifdef __has_include\n#endif\n", true, false, false, &[]),
            ("#define __has_include(x) 0\n", true, false, false, &[]),
            ("#define J(a, b) a##b\n", true, false, false, &[]),
        ];
        for (text, asks, climbs, wrong, names) in cases {
            let says = Says::of(text.as_bytes());
            assert_eq!((says.asks, says.climbs, says.wrong.is_some()), (asks, climbs, wrong), "{text}{says:?}");
            assert_eq!(says.names, names, "{text}");
            assert_eq!(says.check(Path::new("k.cu")).is_err(), wrong, "{text}");
        }
        let wrong = Says::of(b"#if __has_include(A)\n#endif\n").check(Path::new("src/k.cu")).unwrap_err().to_string();
        assert!(wrong.starts_with("src/k.cu: `#if __has_include(A)`: a name that is asked for"), "{wrong}");
    }

    #[test]
    fn options_ask_too_and_folders_for_headers_do_not() {
        let says = |flags: &[&str]| Says::of_flags(&flags.iter().map(|&flag| flag.to_owned()).collect::<Vec<_>>());
        for (flags, asks, wrong) in [
            (&["-O3", "-DA=1"][..], false, false),
            (&["-Ia/../b", "-I__has_include"], false, false),
            (&["-DA=a/../b"], false, true),
            (&["-DA=__has_include(B)"], true, true),
            (&["-DA=b##c"], true, false),
            (&["-DA=a/../b", "-O3"], false, true),
        ] {
            let says = says(flags);
            assert_eq!((says.asks, says.wrong.is_some()), (asks, wrong), "{flags:?}");
        }
    }

    #[test]
    fn a_path_behind_a_link_leads_elsewhere() {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path);
        fs::create_dir_all(at("plain")).unwrap();
        fs::create_dir_all(at("other/deep")).unwrap();
        for file in ["h", "other/h"] {
            fs::write(at(file), "").unwrap();
        }
        std::os::unix::fs::symlink("other/deep", at("link")).unwrap();
        assert_eq!(plainly(Path::new("/a/./b/../c/../../d")), Path::new("/d"));
        for (path, there) in [
            ("h", true),
            ("missing", true),
            ("plain/../h", true),
            ("link/../h", false),
            ("missing/../h", false),
            ("plain/../missing", false),
        ] {
            assert_eq!(leads_there(&at(path)), there, "{path}");
        }
    }

    #[test]
    fn another_file_may_be_found_where_a_folder_may_come_or_go() {
        let says = [Says::default(), Says { climbs: true, ..Says::default() }];
        let search = Search {
            root: Path::new("/p"),
            folders: ["", "sub", "sub/x"].map(PathBuf::from).into(),
            covers: |path: &Path| path == Path::new("sub/a.h"),
        };
        for (path, another) in [
            ("b/../a.h", true),      // in sub, sub/b/../a.h
            ("b/../c.h", false),     // nothing is covered that it could be
            ("a.h", false),          // without ..
            ("../a.h", false),       // without a folder before it
            ("sub/b/../a.h", false), // the file itself
            ("/p/a.h", true),        // written out: what was asked for is not known
            ("/usr/include/a.h", false),
        ] {
            assert_eq!(search.may_find_another(Path::new(path), &says), another, "{path}");
            assert!(!search.may_find_another(Path::new(path), &says[..1]), "{path}: no text climbs");
        }
    }

    #[test]
    fn what_is_asked_for_must_be_decided_by_covered_files() {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path);
        fs::create_dir_all(at("other/deep")).unwrap();
        for file in ["h", "loose", "other/h", "other/deep/h", "system"] {
            fs::write(at(file), "").unwrap();
        }
        std::os::unix::fs::symlink("other/deep", at("link")).unwrap();
        let search = Search {
            root: folder.path(),
            folders: [PathBuf::new()].into(),
            covers: |path: &Path| ["h", "gone", "other/h"].iter().any(|known| path == Path::new(known)),
        };
        for (name, misled) in [
            ("h", false),
            ("missing", false),
            ("other/h", false),
            ("system", false),
            ("", false),
            ("loose", true),     // neither covered nor the system's
            ("gone", true),      // covered, and not there
            ("link/h", true),    // there, by a name that is not covered
            ("link/../h", true), // not the file that the name says
        ] {
            let says = [Says { names: vec![name.to_owned()], ..Says::default() }];
            let found = search.misled(&says, |path| path == at("system"));
            assert_eq!(found.is_some(), misled, "{name}: {found:?}");
        }
    }
}
