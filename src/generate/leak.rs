//! Whether a skill holds the answers of the tasks by which it is to be measured: the text of their solutions and tests. What the tasks show to everybody, and what the skill held before, is no answer.
//!
//! It finds copying, with other case, punctuation and line ends too; it does not find a paraphrase.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use walkdir::WalkDir;

use crate::skill::Tree;

/// As many words in a row are no accident.
const ROW: usize = 12;
/// A line of so many letters is compared whole.
const LINE: usize = 32;
/// Larger files are data.
const MOST_BYTES: u64 = 1 << 20;

/// A task's folder in Harbor's layout: `task.toml`, `instruction.md`, `environment/`, `solution/`, `tests/`.
pub(crate) struct Task {
    id: String,
    folder: PathBuf,
    prompt: String,
}

/// The tasks at and below these folders.
pub(crate) fn tasks(paths: &[PathBuf]) -> Result<Vec<Task>> {
    let mut tasks = Vec::new();
    for path in paths {
        let before = tasks.len();
        for entry in WalkDir::new(path).max_depth(3).sort_by_file_name() {
            let entry = entry.with_context(|| format!("cannot read tasks from {}", path.display()))?;
            let Some(folder) = entry.path().parent().filter(|_| entry.file_name() == "task.toml") else { continue };
            let prompt = folder.join("instruction.md");
            tasks.push(Task {
                id: folder.file_name().unwrap_or_default().to_string_lossy().into_owned(),
                prompt: fs::read_to_string(&prompt).with_context(|| format!("cannot read {}", prompt.display()))?,
                folder: folder.to_owned(),
            });
        }
        if tasks.len() == before {
            bail!("{} has no tasks: neither it nor a folder in it has a task.toml", path.display());
        }
    }
    Ok(tasks)
}

/// What must not be in a skill, each with the place that it comes from.
pub(super) struct Answers {
    rows: HashMap<String, String>,
    whole: BTreeMap<String, String>,
}

impl Answers {
    pub(super) fn of(tasks: &[Task], base: Option<&Tree>) -> Self {
        let mut public = HashSet::new();
        let mut shown: Vec<String> = Vec::new();
        let mut show = |text: &str| {
            let words = words(text);
            public.extend(words.windows(ROW).map(|row| row.join(" ")));
            shown.push(joined(&words));
        };
        base.into_iter().flat_map(Tree::iter).for_each(|(_, entry)| show(&String::from_utf8_lossy(&entry.content)));
        for task in tasks {
            show(&task.prompt);
            for (_, text) in texts(&task.folder.join("environment")) {
                show(&text);
            }
        }
        let known = |text: &str| shown.iter().any(|shown| shown.contains(text));
        let mut answers = Self { rows: HashMap::new(), whole: BTreeMap::new() };
        for task in tasks {
            for part in ["solution", "tests"] {
                for (name, text) in texts(&task.folder.join(part)) {
                    let place = format!("task {}, {part}/{name}", task.id);
                    let all = words(&text);
                    let rows = all.windows(ROW).map(|row| row.join(" ")).filter(|row| !public.contains(row));
                    rows.for_each(|row| drop(answers.rows.insert(row, place.clone())));
                    // Declarations and comments are common property.
                    let own = text.lines().map(str::trim).filter(|line| !line.starts_with(['#', '/', '*', '@']));
                    let own =
                        own.filter(|line| !["import ", "from ", "using "].iter().any(|word| line.starts_with(word)));
                    let lines = own.map(words).filter(|words| words.len() >= 4).map(|words| joined(&words));
                    for line in lines.filter(|line| line.len() >= LINE && !known(line)) {
                        answers.whole.insert(line, place.clone());
                    }
                }
            }
        }
        answers
    }

    /// Where a skill has an answer: one line for each place that it comes from.
    pub(super) fn found_in(&self, tree: &Tree, name: &str) -> Vec<String> {
        let mut found: BTreeMap<&str, String> = BTreeMap::new();
        let mut all: Vec<(String, &str)> = Vec::new();
        // One text, so that an answer in parts is found as well.
        for (path, entry) in tree.iter() {
            let text = String::from_utf8_lossy(&entry.content).into_owned();
            all.extend(words(&text).into_iter().map(|word| (word, path.as_str())));
        }
        for row in all.windows(ROW) {
            let text: Vec<&str> = row.iter().map(|(word, _)| word.as_str()).collect();
            if let Some(place) = self.rows.get(&text.join(" ")) {
                found.entry(place).or_insert_with(|| row[0].1.to_owned());
            }
        }
        let (only, mut starts): (Vec<String>, Vec<(usize, &str)>) =
            (all.iter().map(|(w, _)| w.clone()).collect(), Vec::new());
        let mut at = 0;
        for (word, path) in &all {
            starts.push((at, path));
            at += word.len() + 1;
        }
        let text = joined(&only);
        for (answer, place) in &self.whole {
            if let Some(at) = text.find(answer.as_str()) {
                let file = starts.iter().rev().find(|(start, _)| *start <= at).map_or("", |(_, path)| path);
                found.entry(place).or_insert_with(|| file.to_owned());
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

/// Words with a space around each, so that a part of one is not taken for the whole.
fn joined(words: &[String]) -> String {
    format!(" {} ", words.join(" "))
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
