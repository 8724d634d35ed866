//! Whether a skill holds the answers of the tasks by which it is to be measured: the text of their solutions and tests. What the tasks show to everybody, and what the skill held before, is no answer.
//!
//! It finds copying, with other case, punctuation and line ends too; it does not find a paraphrase.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use walkdir::WalkDir;

use crate::skill::Tree;

/// As many words in a row are no accident.
const ROW: usize = 12;
/// A line of so many letters is compared whole.
const LINE: usize = 30;
/// Larger files are data.
const MOST_BYTES: u64 = 1 << 20;

/// What must not be in a skill, by its number of words, each with the place that it comes from.
pub(super) struct Answers(BTreeMap<usize, HashMap<Vec<String>, String>>);

impl Answers {
    /// Of tasks' folders in Harbor's layout: `instruction.md`, `environment/`, `solution/`, `tests/`.
    pub(super) fn of(tasks: &[PathBuf], base: Option<&Tree>) -> Result<Self> {
        let base = base.into_iter().flat_map(Tree::iter);
        let mut shown: Vec<_> = base.map(|(_, entry)| words(&String::from_utf8_lossy(&entry.content))).collect();
        let mut answers = Self(BTreeMap::new());
        for folder in tasks {
            let prompt = folder.join("instruction.md");
            let text = fs::read_to_string(&prompt).with_context(|| format!("cannot read {}", prompt.display()))?;
            shown.push(words(&text));
            shown.extend(texts(&folder.join("environment")).iter().map(|(_, text)| words(text)));
            let task = folder.file_name().unwrap_or_default().to_string_lossy();
            for part in ["solution", "tests"] {
                for (name, text) in texts(&folder.join(part)) {
                    answers.add(&text, &format!("task {task}, {part}/{name}"));
                }
            }
        }
        for (length, known) in &mut answers.0 {
            shown.iter().flat_map(|words| words.windows(*length)).for_each(|row| drop(known.remove(row)));
        }
        Ok(answers)
    }

    /// Adds each row of words, and each line that is not short.
    fn add(&mut self, text: &str, place: &str) {
        let all = words(text);
        // Declarations and comments are common property.
        let own = text.lines().map(str::trim).filter(|line| !line.starts_with(['#', '/', '*', '@']));
        let own = own.filter(|line| !["import ", "from ", "using "].iter().any(|word| line.starts_with(word)));
        let lines = own.map(words).filter(|words| words.len() >= 4 && words.join(" ").len() >= LINE);
        for answer in all.windows(ROW).map(<[String]>::to_vec).chain(lines) {
            self.0.entry(answer.len()).or_default().insert(answer, place.to_owned());
        }
    }

    /// Where a skill has an answer: one line for each place that it comes from.
    pub(super) fn found_in(&self, tree: &Tree, name: &str) -> Vec<String> {
        // One text, so that an answer in parts is found as well.
        let (mut all, mut files) = (Vec::new(), Vec::new());
        for (path, entry) in tree.iter() {
            all.extend(words(&String::from_utf8_lossy(&entry.content)));
            files.resize(all.len(), path);
        }
        let mut found = BTreeMap::new();
        for (length, answers) in &self.0 {
            for (row, file) in all.windows(*length).zip(&files) {
                if let Some(place) = answers.get(row) {
                    found.entry(place).or_insert(file);
                }
            }
        }
        found.iter().map(|(place, file)| format!("{name}/{file}: holds text of {place} [leak]")).collect()
    }
}

/// The words of a text, in small letters.
fn words(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect()
}

/// The texts below a folder, by name.
fn texts(folder: &Path) -> Vec<(String, String)> {
    let files = WalkDir::new(folder).max_depth(8).sort_by_file_name().into_iter().flatten();
    let files = files
        .filter(|entry| entry.file_type().is_file() && entry.metadata().is_ok_and(|meta| meta.len() <= MOST_BYTES));
    let read = |entry: walkdir::DirEntry| {
        let name = entry.path().strip_prefix(folder).ok()?.to_string_lossy().into_owned();
        Some((name, fs::read_to_string(entry.path()).ok()?))
    };
    files.filter_map(read).collect()
}
