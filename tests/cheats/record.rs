//! The results of the suite on a GPU, and whether a record is still valid.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use kernels::gpu::Card;
use serde::{Deserialize, Serialize};

use super::suite::{self, Suite};

/// A whole run.
#[derive(Debug, Deserialize, Serialize)]
pub struct Record {
    pub format: u32,
    /// The digest of the suite's files.
    pub suite: String,
    /// The digest of the harness that ran it.
    pub harness: String,
    pub card: Option<Card>,
    pub cheats: Vec<Entry>,
    /// The honest: legal candidates and twins.
    pub honest: Vec<Honest>,
    /// Of the whole run, including builds.
    pub seconds: f64,
}

/// The result of one cheat.
#[derive(Debug, Deserialize, Serialize)]
pub struct Entry {
    pub name: String,
    pub rows: Vec<u32>,
    pub command: String,
    /// The kind of the finding, `harmless`, or `None` if it was not caught.
    pub caught: Option<String>,
    /// The text of the finding, or what was observed instead.
    pub message: String,
    /// Its twin's name among the honest.
    pub twin: String,
    pub seconds: f64,
}

/// The result of one honest candidate.
#[derive(Debug, Deserialize, Serialize)]
pub struct Honest {
    pub name: String,
    pub command: String,
    pub passed: bool,
    /// Its findings.
    pub message: String,
    pub seconds: f64,
}

/// The records of a folder.
pub fn all(evidence: &Path) -> Vec<(PathBuf, Record)> {
    let Ok(entries) = fs::read_dir(evidence) else {
        return Vec::new();
    };
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            let name = path.file_name().unwrap().to_string_lossy();
            name.starts_with("harness-") && name.ends_with(".json")
        })
        .collect();
    paths.sort();
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).unwrap();
        let record = serde_json::from_str(&text);
        let record = record.unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        (path, record)
    };
    paths.into_iter().map(read).collect()
}

impl Record {
    /// The unexpected results, one per line.
    pub fn wrong(&self) -> Vec<String> {
        let cheats = self.cheats.iter().filter(|entry| entry.caught.is_none());
        let honest = self.honest.iter().filter(|entry| !entry.passed);
        cheats
            .map(|entry| format!("not caught: {}: {}", entry.name, entry.message))
            .chain(honest.map(|entry| format!("refused: {}: {}", entry.name, entry.message)))
            .collect()
    }

    pub fn to_json(&self) -> String {
        kernels::evidence::form::text(self).unwrap()
    }

    /// A summary as text.
    pub fn to_table(&self) -> String {
        let mut table = String::new();
        for entry in &self.cheats {
            let caught = entry.caught.as_deref().unwrap_or("NOT CAUGHT");
            let (name, message) = (&entry.name, short(&entry.message));
            writeln!(table, "{caught:<18} {:>5.1} s  {name}: {message}", entry.seconds).unwrap();
        }
        for entry in &self.honest {
            let passed = if entry.passed { "passed" } else { "REFUSED" };
            let (name, message) = (&entry.name, short(&entry.message));
            writeln!(table, "{passed:<18} {:>5.1} s  {name} {message}", entry.seconds).unwrap();
        }
        let caught = self.cheats.iter().filter(|e| e.caught.is_some()).count();
        let passed = self.honest.iter().filter(|e| e.passed).count();
        write!(
            table,
            "{caught} of {} cheats caught, {passed} of {} honest passed, {:.0} s",
            self.cheats.len(),
            self.honest.len(),
            self.seconds
        )
        .unwrap();
        table
    }

    /// Fails unless this is a record of the current suite in which all results are as expected; where it is to be made anew, of any.
    pub fn check(&self, suite: &Suite, path: &Path, is_pending: bool) {
        let path = path.display();
        assert_eq!(self.format, 1, "{path}");
        assert!(self.card.is_some(), "{path} names no card");
        assert_eq!(self.wrong(), Vec::<String>::new(), "{path}");
        if is_pending {
            return;
        }
        assert_eq!(
            self.suite,
            suite::digest(),
            "{path} is of another suite: tests/cheats changed since it was recorded"
        );
        let recorded: BTreeSet<&str> = self.cheats.iter().map(|e| e.name.as_str()).collect();
        let honest: BTreeSet<&str> = self.honest.iter().map(|e| e.name.as_str()).collect();
        for cheat in &suite.cheat {
            assert!(recorded.contains(cheat.name.as_str()), "{path}: {}", cheat.name);
        }
        for entry in &self.cheats {
            assert!(honest.contains(entry.twin.as_str()), "{path}: {}", entry.twin);
            let cheat = suite.cheat.iter().find(|cheat| cheat.name == entry.name);
            let cheat = cheat.unwrap_or_else(|| panic!("{path}: unknown {}", entry.name));
            let known = entry.caught.as_ref().is_some_and(|caught| {
                (cheat.harmless && caught == "harmless")
                    || cheat.caught.iter().any(|kind| suite::kind_name(*kind) == *caught)
            });
            assert!(known, "{path}: {} by {:?}", entry.name, entry.caught);
        }
        for legal in &suite.legal {
            assert!(honest.contains(legal.name.as_str()), "{path}: {}", legal.name);
        }
    }
}

fn short(message: &str) -> String {
    let line = message.lines().next().unwrap_or_default();
    line.chars().take(110).collect()
}
