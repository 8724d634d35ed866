//! The skill's quotes of kernels/: fences with `quote=PATH` or `quote=PATH#REGION`, and the quoted regions, which are
//! between `// [quote NAME]` and `// [end quote]` (in TOML after `#`).

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::support::root;

/// A fence of a page: its info string, and the lines inside.
pub(crate) struct Fence {
    pub(crate) info: String,
    /// Lines of the page, without the fences.
    pub(crate) lines: std::ops::Range<usize>,
}

impl Fence {
    pub(crate) fn quote(&self) -> Option<&str> {
        self.info.split_whitespace().find_map(|word| word.strip_prefix("quote="))
    }
}

/// The skill's pages.
pub(crate) fn pages() -> Vec<PathBuf> {
    let skill = root().join("skills/cuda-kernels");
    let mut pages: Vec<PathBuf> = fs::read_dir(skill.join("references"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "md"))
        .collect();
    pages.push(skill.join("SKILL.md"));
    pages.sort();
    pages
}

/// The fences of a page, which open and close in the first column.
pub(crate) fn fences(page: &Path, text: &str) -> Vec<Fence> {
    let mut found = Vec::new();
    let mut open: Option<(usize, String)> = None;
    for (at, line) in text.lines().enumerate() {
        let Some(rest) = line.strip_prefix("```") else {
            continue;
        };
        match open.take() {
            None => open = Some((at + 1, rest.to_owned())),
            Some((first, info)) => {
                assert!(rest.is_empty(), "{}:{}: a fence in a fence", page.display(), at + 1);
                found.push(Fence { info, lines: first..at });
            }
        }
    }
    assert!(open.is_none(), "{}: a fence is not closed", page.display());
    found
}

enum Mark<'a> {
    Open(&'a str),
    Close,
}

fn mark(line: &str) -> Option<Mark<'_>> {
    let line = line.trim();
    let text = line.strip_prefix("// ").or_else(|| line.strip_prefix("# "))?;
    if text == "[end quote]" {
        return Some(Mark::Close);
    }
    let name = text.strip_prefix("[quote ")?.strip_suffix(']')?;
    Some(Mark::Open(name))
}

/// A source without its marks, and its regions.
pub(crate) struct Source {
    pub(crate) whole: String,
    pub(crate) regions: BTreeMap<String, String>,
}

pub(crate) fn source(shown: &str, text: &str) -> Source {
    let mut source = Source { whole: String::new(), regions: BTreeMap::new() };
    let mut open: Option<String> = None;
    for (at, line) in text.split_inclusive('\n').enumerate() {
        let at = at + 1;
        match mark(line) {
            Some(Mark::Open(name)) => {
                assert!(open.is_none(), "{shown}:{at}: a region in a region");
                let new = source.regions.insert(name.to_owned(), String::new());
                assert!(new.is_none(), "{shown}:{at}: a second region {name}");
                open = Some(name.to_owned());
            }
            Some(Mark::Close) => assert!(open.take().is_some(), "{shown}:{at}: ends no region"),
            None => {
                source.whole.push_str(line);
                if let Some(name) = &open {
                    source.regions.get_mut(name).unwrap().push_str(line);
                }
            }
        }
    }
    assert!(open.is_none(), "{shown}: the region {open:?} does not end");
    source
}

/// Every source of kernels/ by its path in the repository, and the header that `kernels build --torch` provides.
pub(crate) fn sources() -> BTreeMap<String, Source> {
    let registration = "src/variant/registration.h";
    let text = fs::read_to_string(root().join(registration)).unwrap();
    let mut found = BTreeMap::from([(registration.to_owned(), source(registration, &text))]);
    let mut folders = vec![root().join("kernels")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| ["cu", "cuh", "h", "toml"].iter().any(|known| end == *known)) {
                let shown = path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
                let text = fs::read_to_string(&path).unwrap();
                found.insert(shown.clone(), source(&shown, &text));
            }
        }
    }
    found
}

/// The page with every quote updated from the sources.
pub(crate) fn render(page: &Path, text: &str, sources: &BTreeMap<String, Source>) -> String {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let mut rendered = String::with_capacity(text.len());
    let mut next = 0;
    for fence in fences(page, text) {
        let Some(quote) = fence.quote() else {
            continue;
        };
        rendered.extend(lines[next..fence.lines.start].iter().copied());
        // The first line, which names the file to extract, is not part of the quote.
        let file =
            lines.get(fence.lines.start).filter(|line| line.starts_with("// file: ") || line.starts_with("# file: "));
        rendered.extend(file.copied());
        rendered.push_str(&quoted(page, quote, sources));
        next = fence.lines.end;
    }
    rendered.extend(lines[next..].iter().copied());
    rendered
}

pub(crate) fn quoted(page: &Path, quote: &str, sources: &BTreeMap<String, Source>) -> String {
    let (path, region) = quote.split_once('#').map_or((quote, None), |(p, r)| (p, Some(r)));
    let source = sources.get(path).unwrap_or_else(|| panic!("{}: quote={quote}: there is no {path}", page.display()));
    match region {
        None => source.whole.clone(),
        Some(name) => source.regions.get(name).cloned().unwrap_or_else(|| {
            let known: Vec<&String> = source.regions.keys().collect();
            panic!("{}: quote={quote}: {path} has {known:?}", page.display())
        }),
    }
}
