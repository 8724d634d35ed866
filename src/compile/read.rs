//! What a compilation read besides its source, and the key that follows from it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::file_names::Says;
use super::key::Key;

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(crate) struct Read {
    /// The project's files.
    pub(crate) headers: Vec<PathBuf>,
    /// The names of all files, the system's included. Another file of the project by such a name may be found first.
    names: BTreeSet<String>,
    /// Whether the project's code asks which files there are, so that every file's name counts.
    asks: bool,
    /// Whether the names in the code were looked at; entries of older programs have no such field.
    #[serde(default)]
    climbed: bool,
}

impl Read {
    /// Of headers alone, where other files cannot be found in their place.
    pub(crate) fn only(headers: Vec<PathBuf>) -> Self {
        Self { headers, ..Self::default() }
    }

    /// `headers` are those of the project among `files`; `says` is what their texts, the source's and the options say.
    pub(crate) fn new<'s>(
        headers: BTreeSet<PathBuf>,
        files: &[PathBuf],
        says: impl IntoIterator<Item = &'s Says>,
    ) -> Self {
        let names = files.iter().filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
        Self {
            headers: headers.into_iter().collect(),
            names: names.collect(),
            asks: says.into_iter().any(|one| one.asks),
            climbed: true,
        }
    }

    /// Whether this is what a compilation of these texts would say that it read.
    pub(crate) fn fits<'s>(&self, says: impl IntoIterator<Item = &'s Says>) -> bool {
        let fits =
            |one: &Says| (self.asks || !one.asks) && (self.climbed || !(one.climbs || one.asks)) && one.wrong.is_none();
        says.into_iter().all(fits)
    }

    /// The key of an entry: what was known before the compiler ran, the contents of the headers that it read, and those of
    /// the project's `files` that it may find in their place. None if a header is gone.
    pub(crate) fn key<'f>(
        &self,
        base: &str,
        files: impl IntoIterator<Item = &'f PathBuf>,
        digest: impl Fn(&Path) -> Option<String>,
    ) -> Option<String> {
        let mut key = Key::new("kernels compilation 2");
        key.field(base);
        for header in &self.headers {
            key.field(header.as_os_str().as_encoded_bytes()).field(digest(header)?);
        }
        let named = |file: &Path| file.file_name().is_some_and(|name| self.names.contains(&*name.to_string_lossy()));
        for file in files.into_iter().filter(|file| self.asks || named(file)) {
            key.field(file.as_os_str().as_encoded_bytes());
        }
        Some(key.finish())
    }
}

/// Whether a text has a word.
pub(crate) fn contains(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|window| window == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn says(text: &str) -> Says {
        Says::of(text.as_bytes())
    }

    #[test]
    fn an_entry_fits_texts_that_ask_and_climb_no_more_than_its_own() {
        let [plain, asks, climbs, wrong] =
            ["", "#ifdef __has_include\n#endif\n", "#include A\n", "#if __has_include(A)\n#endif\n"].map(says);
        let read = |one: &Says| Read::new(BTreeSet::new(), &[], [one]);
        for (entry, text, fits) in [
            (read(&plain), &plain, true),
            (read(&plain), &climbs, true),
            (read(&plain), &asks, false),
            (read(&asks), &asks, true),
            (read(&asks), &plain, true),
            (read(&asks), &wrong, false),
            // Of an older program, which did not look at names.
            (Read::only(Vec::new()), &plain, true),
            (Read::only(Vec::new()), &climbs, false),
            (Read { asks: true, ..Read::only(Vec::new()) }, &asks, false),
        ] {
            assert_eq!(entry.fits([text]), fits, "{entry:?} {text:?}");
            assert_eq!(entry.fits([&plain, text]), fits, "{entry:?} {text:?}");
        }
    }

    #[test]
    fn the_key_is_of_headers_and_of_files_that_could_stand_in_for_them() {
        let paths = |names: &[&str]| names.iter().map(PathBuf::from).collect::<Vec<_>>();
        let digest = |path: &Path| (path != Path::new("gone.h")).then(|| format!("of {}", path.display()));
        let key = |says: &Says, headers: &[&str], files: &[&str], base: &str| {
            let read =
                Read::new(paths(headers).into_iter().collect(), &paths(&["a.h", "/usr/include/stdio.h"]), [says]);
            read.key(base, &paths(files), digest)
        };
        let (plain, asks) = (says(""), says("#ifdef __has_include\n#endif\n"));
        let first = key(&plain, &["a.h"], &[], "base");
        assert!(first.is_some());
        assert_eq!(first, key(&plain, &["a.h"], &["sub/other.h"], "base"), "no header has its name");
        for other in [
            key(&plain, &["a.h"], &[], "other"),
            key(&plain, &["a.h", "b.h"], &[], "base"),
            key(&plain, &["a.h"], &["sub/a.h"], "base"),
            key(&plain, &["a.h"], &["sub/stdio.h"], "base"),
            key(&asks, &["a.h"], &["sub/other.h"], "base"),
        ] {
            assert!(other.is_some() && other != first);
        }
        assert_eq!(key(&plain, &["gone.h"], &[], "base"), None);
        let only = Read::only(paths(&["a.h"]));
        assert_ne!(only.key("base", &[], digest), Read::only(Vec::new()).key("base", &[], digest));
        assert!(contains(b"a word", b"word") && !contains(b"a wor", b"word"));
    }
}
