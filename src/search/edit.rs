//! Reads the edits in a text that a model wrote: whole files and search/replace blocks.
//!
//! ```text
//! FILE: kernel_src/norm.cuh
//! <<<<<<< SEARCH
//! lines as they are
//! =======
//! lines as they are to be
//! >>>>>>> REPLACE
//!
//! FILE: kernel_src/tuning.h
//! ```cpp
//! the whole file
//! ```
//! ```

use std::collections::BTreeMap;

use super::event::Caught;
use super::sources::Sources;

/// The most bytes of an answer that are read as edits, the most edits, and the most findings. Each edit searches a whole file.
const TEXT: usize = 1 << 20;
const EDITS: u32 = 500;
const FINDINGS: usize = 16;
/// The most characters of a finding: paths and lines in it are the answer's.
const SHOWN: usize = 600;

/// Where the reader is.
enum At {
    Outside,
    /// A fenced file, with the fence that ends it.
    Whole(String),
    Search,
    Replace,
}

/// The sources after all edits of a text; or everything that is wrong with it.
pub(crate) fn apply(parent: &Sources, text: &str) -> Result<Sources, Vec<Caught>> {
    if text.len() > TEXT {
        let why = format!("the answer has {} bytes; edits may have {TEXT}", text.len());
        return Err(vec![Caught::public("too-large", why)]);
    }
    let (texts, caught) = (BTreeMap::new(), Vec::new());
    let mut reader =
        Reader { parent, texts, caught, file: None, awaited: false, opened: false, edits: 0, nested: false };
    reader.read(text);
    let Reader { texts, mut caught, edits, .. } = reader;
    if edits > EDITS {
        caught = vec![Caught::public("too-large", format!("the answer has more than {EDITS} edits"))];
    }
    if edits == 0 && caught.is_empty() {
        caught.push(Caught::public(
            "no-edit",
            "the answer has no edit: a line `FILE: path`, and after it a fenced whole file or SEARCH/REPLACE blocks",
        ));
    }
    let result = if caught.is_empty() { parent.with(texts) } else { Err(caught) };
    result.map_err(|mut caught| {
        caught.truncate(FINDINGS);
        for one in &mut caught {
            one.text = one.text.chars().take(SHOWN).collect();
        }
        caught
    })
}

/// What the text says outside of its edits, in one short line.
pub(crate) fn thought(text: &str) -> String {
    let first = text.lines().map(str::trim).find(|line| {
        !line.is_empty() && !line.starts_with("FILE:") && !line.starts_with('#') && !line.starts_with("```")
    });
    first.unwrap_or_default().chars().take(200).collect()
}

struct Reader<'a> {
    parent: &'a Sources,
    texts: BTreeMap<String, String>,
    caught: Vec<Caught>,
    file: Option<String>,
    /// Whether no edit stands between here and the line that names the file.
    awaited: bool,
    /// Whether the line before opened a fence that is no whole file.
    opened: bool,
    edits: u32,
    /// Whether it reads what stands within a fence.
    nested: bool,
}

impl Reader<'_> {
    fn read(&mut self, text: &str) {
        let mut at = At::Outside;
        let (mut search, mut replace) = (String::new(), String::new());
        for line in text.lines() {
            if self.edits > EDITS {
                return;
            }
            let bare = line.trim_end();
            at = match at {
                At::Outside => self.outside(bare),
                At::Whole(fence) if bare == fence => {
                    self.whole(std::mem::take(&mut replace));
                    At::Outside
                }
                At::Search if bare == "=======" => At::Replace,
                At::Replace if bare.starts_with(">>>>>>>") => {
                    self.replace(&std::mem::take(&mut search), &std::mem::take(&mut replace));
                    At::Outside
                }
                At::Search => {
                    search.push_str(line);
                    search.push('\n');
                    At::Search
                }
                inside @ (At::Replace | At::Whole(_)) => {
                    replace.push_str(line);
                    replace.push('\n');
                    inside
                }
            };
        }
        if !matches!(at, At::Outside) {
            self.caught.push(Caught::public("cut-off", "the answer ends within an edit"));
        }
    }

    fn outside(&mut self, line: &str) -> At {
        if std::mem::take(&mut self.opened) && self.begins_the_file(line) {
            self.whole_after_edits();
        }
        if let Some(path) = line.trim_start_matches(['*', '#', ' ']).strip_prefix("FILE:") {
            let path = path.trim_matches([' ', '`', '*', '"']).to_owned();
            self.caught.extend(self.parent.refusal(&path));
            (self.file, self.awaited) = (Some(path), true);
            return At::Outside;
        }
        if line.starts_with("<<<<<<<") {
            return At::Search;
        }
        // A fence around search/replace blocks is passed over; one with a file before it is that file.
        let ticks = line.chars().take_while(|c| *c == '`').count();
        self.opened = ticks >= 3 && line.len() > ticks && !self.awaited;
        if ticks >= 3 && line.len() > ticks && self.awaited { At::Whole("`".repeat(ticks)) } else { At::Outside }
    }

    /// The file as it is after the edits so far.
    fn now(&self) -> Option<&str> {
        let file = self.file.as_ref()?;
        self.texts.get(file).map(String::as_str).or_else(|| self.parent.get(file))
    }

    /// Whether a line is the first one of the file, so that a fence that begins with it has the whole file and no excerpt.
    fn begins_the_file(&self, line: &str) -> bool {
        let first = self.now().and_then(|text| text.lines().next());
        !line.is_empty() && first.is_some_and(|first| first.trim_end() == line)
    }

    fn whole_after_edits(&mut self) {
        let file = self.file.as_deref().unwrap_or_default();
        let why =
            format!("{file} is there as a whole behind other edits of it: write SEARCH blocks, or the whole file once");
        self.caught.push(Caught::public("edited-twice", why));
    }

    fn whole(&mut self, text: String) {
        // Blocks within a fence belong to the file all the same.
        if text.starts_with("<<<<<<<") && !self.nested {
            self.nested = true;
            self.read(&text);
            self.nested = false;
            return;
        }
        self.edits += 1;
        self.awaited = false;
        match &self.file {
            Some(file) if self.texts.contains_key(file) => self.whole_after_edits(),
            Some(file) => drop(self.texts.insert(file.clone(), text)),
            None => {}
        }
    }

    fn replace(&mut self, search: &str, replace: &str) {
        self.edits += 1;
        self.awaited = false;
        let Some(file) = &self.file else {
            self.caught.push(Caught::public("no-file", "a SEARCH block has no line `FILE: path` before it"));
            return;
        };
        let Some(text) = self.now() else { return };
        // Lines are searched, each behind the end of one. The last line of a file may lack its end.
        let lines = format!("\n{text}{}", if text.ends_with('\n') { "" } else { "\n" });
        let wanted = format!("\n{search}");
        let first = search.lines().next().unwrap_or_default();
        let found = lines.find(&wanted);
        // Two of them may overlap.
        let again = found.filter(|at| lines[at + 1..].contains(&wanted));
        match (found, again) {
            (Some(at), None) => {
                let new = format!("{}{replace}{}", &lines[1..=at], &lines[at + wanted.len()..]);
                self.texts.insert(file.clone(), new);
            }
            _ if search.trim().is_empty() => {
                self.caught.push(Caught::public("search-empty", format!("{file}: a SEARCH block is empty")));
            }
            (None, _) => self.caught.push(Caught::public(
                "search-not-found",
                format!("{file} does not have the lines of the SEARCH block that begins with `{first}`"),
            )),
            (Some(_), Some(_)) => self.caught.push(Caught::public(
                "search-ambiguous",
                format!("{file} has the lines of the SEARCH block that begins with `{first}` more than once"),
            )),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    fn parent() -> Sources {
        Sources::from_iter([
            ("a.cu".to_owned(), "one\ntwo\ntwo\nthree\n".to_owned()),
            ("b.h".to_owned(), "x".to_owned()),
        ])
    }

    fn kinds(text: &str) -> Vec<String> {
        apply(&parent(), text).unwrap_err().into_iter().map(|caught| caught.kind).collect()
    }

    #[test]
    fn blocks_and_whole_files_are_applied() {
        let block = "I widen it.\nFILE: a.cu\n<<<<<<< SEARCH\none\n=======\n1\n>>>>>>> REPLACE\n\
                     <<<<<<< SEARCH\n1\ntwo\n=======\nTWO\n>>>>>>> REPLACE\n**FILE: `b.h`**\n```cpp\ny\n```\n";
        let edited = apply(&parent(), block).unwrap();
        assert_eq!(edited.get("a.cu").unwrap(), "TWO\ntwo\nthree\n");
        assert_eq!(edited.get("b.h").unwrap(), "y\n");
        assert_eq!(thought(block), "I widen it.");
        let fenced = "FILE: a.cu\n```diff\n<<<<<<< SEARCH\none\n=======\n1\n>>>>>>> REPLACE\n```\n";
        assert!(apply(&parent(), fenced).unwrap().get("a.cu").unwrap().starts_with("1\ntwo\n"));
        assert_eq!(
            apply(&parent(), "FILE: b.h\n<<<<<<< SEARCH\nx\n=======\nz\n>>>>>>> REPLACE\n").unwrap().get("b.h"),
            Some("z\n")
        );
    }

    #[test]
    fn lines_are_searched_and_not_parts_of_lines() {
        let of = |file: &str, search: &str| {
            let parent = Sources::from_iter([("a.cu".to_owned(), file.to_owned())]);
            let text = format!("FILE: a.cu\n<<<<<<< SEARCH\n{search}\n=======\nNEW\n>>>>>>> REPLACE\n");
            let edited = apply(&parent, &text);
            edited.map(|new| new.get("a.cu").unwrap().to_owned()).map_err(|caught| caught[0].kind.clone())
        };
        assert_eq!(of("none\n", "one").unwrap_err(), "search-not-found");
        assert_eq!(of("a;\nba;\n", "a;").unwrap(), "NEW\nba;\n");
        assert_eq!(of("ba;\na;", "a;").unwrap(), "ba;\nNEW\n");
        assert_eq!(of("  a;\n", "a;").unwrap_err(), "search-not-found");
        assert_eq!(of("x\na\nb\ny\n", "a\nb").unwrap(), "x\nNEW\ny\n");
        assert_eq!(of("a\n\nb\n", "").unwrap(), "a\nNEW\nb\n");
        // The second place begins within the first.
        assert_eq!(of("a\na\na\n", "a\na").unwrap_err(), "search-ambiguous");
        assert_eq!(of("", "a").unwrap_err(), "search-not-found");
    }

    #[test]
    fn a_whole_file_behind_other_edits_of_it_is_no_silent_loss() {
        let block = "FILE: a.cu\n<<<<<<< SEARCH\none\n=======\n1\n>>>>>>> REPLACE\n";
        let whole = "```cpp\n1\ntwo\n```\n";
        for text in [format!("{block}FILE: a.cu\n{whole}"), format!("{block}The whole file:\n{whole}")] {
            assert_eq!(kinds(&text), ["edited-twice"], "{text}");
        }
        assert_eq!(kinds(&format!("FILE: a.cu\n{whole}FILE: a.cu\n{whole}")), ["edited-twice"]);
        // Neither are blocks in a fence, another file, and a fence that has no file.
        let fenced = "FILE: a.cu\n```diff\n<<<<<<< SEARCH\nthree\n=======\n3\n>>>>>>> REPLACE\n```\n";
        let other = "FILE: b.h\n```cpp\ny\n```\n";
        let text = format!("{block}{fenced}{other}Run this:\n```sh\nnvcc a.cu\n```\n");
        let edited = apply(&parent(), &text).unwrap();
        assert_eq!((edited.get("a.cu").unwrap(), edited.get("b.h").unwrap()), ("1\ntwo\ntwo\n3\n", "y\n"));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let block =
            |file: &str, search: &str| format!("FILE: {file}\n<<<<<<< SEARCH\n{search}\n=======\n1\n>>>>>>> REPLACE\n");
        assert_eq!(kinds(&block("a.cu", "two")), ["search-ambiguous"]);
        assert_eq!(kinds(&block("a.cu", "four")), ["search-not-found"]);
        assert_eq!(kinds(&block("kernel.toml", "x")), ["frozen-file"]);
        for path in ["/etc/passwd", "../a.cu", "b/../../a.cu", "./a.cu"] {
            assert_eq!(kinds(&block(path, "x")), ["path-refused"], "{path}");
        }
        assert_eq!(kinds("nothing"), ["no-edit"]);
        assert_eq!(kinds("FILE: a.cu\n```cpp\nhalf"), ["cut-off"]);
        assert_eq!(kinds("<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n"), ["no-file"]);
        assert_eq!(kinds(&block("a.cu", "")), ["search-empty"]);
    }
}
