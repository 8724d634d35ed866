//! `kernels skills status`.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use serde_json::{Value, json};

use super::{add, failure, target};
use crate::agent::{Machine, Scope, table};
use crate::cli::skills::{Select, Targets};
use crate::install::area::Area;
use crate::install::discover::{self, Install};
use crate::install::manifest::{self, Drift, Manifest};
use crate::install::scan::Change;
use crate::install::state::{Foreign, Judgement};
use crate::install::transaction::Recovered;
use crate::install::{Place, State, apply};
use crate::report::{Output, style};
use crate::skill::digest::Digest;
use crate::skill::source::{Skill, Source};

/// One install and its state.
pub(crate) struct Row {
    pub(crate) install: Install,
    pub(crate) judged: Judgement,
    /// The skill it was compared with, or why there was none.
    pub(crate) offer: Result<Skill, String>,
    /// How a fork that skills.toml does not declare differs from the embedded skill of its name.
    pub(crate) fork: Option<Vec<Change>>,
}

pub(crate) fn rows(machine: &Machine, installs: Vec<Install>) -> Vec<Row> {
    // A mistake in it is reported by `contradictions`.
    let manifest = Manifest::read(machine).ok().flatten().unwrap_or_default();
    installs
        .into_iter()
        .map(|install| {
            let offer = install.offer(machine);
            let judged = install.judge(offer.as_ref().ok());
            let declared = install.scope == Scope::Project && manifest.has_source(&install.name);
            let fork = if declared { None } else { install.fork(&judged) };
            Row { install, judged, offer, fork }
        })
        .collect()
}

/// Installs that contradict skills.toml, of the skills with these names or of all, and skills whose copies in the project's
/// folders differ.
pub(crate) fn contradictions(machine: &Machine, rows: &[Row], names: &[String]) -> Vec<String> {
    let mut found = match Manifest::read(machine) {
        Ok(manifest) => manifest.map(|manifest| manifest.drift(machine, names)).unwrap_or_default(),
        Err(error) => vec![Drift { path: machine.project().join(manifest::FILE), what: format!("{error:#}") }],
    };
    // A row says what is wrong with it already.
    found.retain(|drift| !rows.iter().any(|row| row.install.path == drift.path && !row.is_current()));
    let mut found: Vec<String> = found.into_iter().map(|drift| drift.what).collect();
    let mut first: BTreeMap<&str, &Row> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.install.scope != Scope::User && row.tree().is_some()) {
        let other = first.entry(&row.install.name).or_insert(row);
        if other.tree() != row.tree() {
            let [one, two] = [other, row].map(|row| {
                let version = row.judged.version.as_deref().unwrap_or("without a version");
                format!("{} ({version})", machine.show(&row.install.path))
            });
            found.push(format!("{} is not the same in {one} and {two}", row.install.name));
        }
    }
    found
}

/// The scopes of which the folders of all agents are meant, and not only those of named ones.
pub(crate) fn levels(targets: &Targets) -> Vec<Scope> {
    let some = !targets.agents.0.is_empty() && !targets.agents.all();
    match (some, targets.global) {
        (true, _) => Vec::new(),
        // Also beside `--dest`.
        (false, true) => vec![Scope::User],
        (false, false) if targets.agents.all() => vec![Scope::Project],
        (false, false) if !targets.dest.is_empty() => Vec::new(),
        (false, false) => vec![Scope::Project, Scope::User],
    }
}

/// Finishes what interrupted runs left. What cannot be finished is a note, since the caller was only asked to look.
pub(crate) fn recover(machine: &Machine, places: &[Place], output: Output) -> Vec<Recovered> {
    let mut recovered = Vec::new();
    for place in places {
        match apply::recover(std::slice::from_ref(place)) {
            Ok(more) => recovered.extend(more),
            Err(error) => output.note(format!("{} {error:#}", style::warning("note:"))),
        }
    }
    add::show_recovered(machine, &recovered, output);
    recovered
}

/// Shows the state of each install; exit 1 when one is not current, or when there may be one that cannot be seen.
pub(crate) fn run(machine: &Machine, select: &Select, output: Output) -> Result<ExitCode> {
    let places = target::places_to_search(machine, &select.targets)?;
    let recovered = recover(machine, &places, output);
    let rows = rows(machine, target::seen(machine, select)?);
    let mut problems = discover::blind_spots(machine, &levels(&select.targets));
    problems.extend(discover::unlisted(machine, &[], &places));
    problems.sort();
    problems.dedup();
    if !target::is_named(&select.targets) && !select.targets.global {
        problems.extend(contradictions(machine, &rows, &select.names));
    }
    if rows.is_empty() && problems.is_empty() {
        output.line(style::faint("nothing is installed; `kernels skills add` installs"));
    }
    show(machine, &rows, output);
    note_translated(machine, &rows, output);
    let interrupted = interrupted(&places);
    for path in &interrupted {
        output.note(format!("{} an interrupted change waits in {path}", style::warning("note:")));
    }
    for problem in &problems {
        output.line(format!("{} {problem}", style::warning("problem")));
    }
    output.json(&json!({
        "installs": rows.iter().map(Row::to_json).collect::<Vec<_>>(),
        "recovered": recovered,
        "interrupted": interrupted,
        "problems": problems,
    }));
    let not_current = rows.iter().filter(|row| !row.is_current());
    let mut wrong: Vec<String> =
        not_current.map(|row| format!("{} is {}", machine.show(&row.install.path), row.word())).collect();
    wrong.extend(interrupted.iter().map(|path| format!("an interrupted change waits in {path}")));
    wrong.extend(problems);
    failure::quietly(&wrong, output);
    Ok(if wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Prints how a repository keeps git from changing the line ends of installed files.
fn note_translated(machine: &Machine, rows: &[Row], output: Output) {
    let mut folders: Vec<&Path> =
        rows.iter().filter(|row| row.judged.translated).map(|row| row.install.folder.as_path()).collect();
    folders.dedup();
    for folder in folders {
        let root = machine.project().canonicalize().unwrap_or_default();
        if let Ok(inside) = folder.strip_prefix(&root) {
            output.note(format!(
                "{} line ends in {} are not as installed, which is no edit; where git changed them (core.autocrlf), \
                 the line `{}/** -text` in .gitattributes keeps them",
                style::warning("note:"),
                machine.show(folder),
                inside.display(),
            ));
        }
    }
}

fn interrupted(places: &[Place]) -> Vec<String> {
    let mut found: Vec<String> = places
        .iter()
        .filter(|place| place.folder.is_dir())
        .map(|place| Area::of(&place.folder))
        .flat_map(|area| area.interrupted())
        .map(|path| path.display().to_string())
        .collect();
    found.sort();
    found.dedup();
    found
}

pub(crate) fn show(machine: &Machine, rows: &[Row], output: Output) {
    let paths: Vec<String> = rows.iter().map(|row| machine.show(&row.install.path)).collect();
    let width = paths.iter().map(|path| path.chars().count()).max().unwrap_or(0);
    for (row, path) in rows.iter().zip(&paths) {
        let word = format!("{:<13}", row.word());
        let word = match &row.judged.state {
            _ if row.fork.is_some() => style::warning(word),
            State::Current { .. } => style::good(word),
            State::Unreadable(_) | State::Foreign(_) => style::bad(word),
            _ => style::warning(word),
        };
        let mut more = row.detail(machine);
        if row.install.scope == Scope::User {
            more.push_str(" (user)");
        }
        output.line(format!("  {word} {path:<width$}  {}", style::faint(more.trim())).trim_end());
        for change in row.changes() {
            output.line(format!("      {} {}", change.kind.letter(), change.path));
        }
    }
}

impl Row {
    /// Its state in a word.
    pub(crate) fn word(&self) -> &'static str {
        if self.fork.is_some() { "forked" } else { self.judged.state.word() }
    }

    pub(crate) fn is_current(&self) -> bool {
        self.fork.is_none() && matches!(self.judged.state, State::Current { .. })
    }

    /// The user's changes; of a fork, its differences from the embedded skill.
    pub(crate) fn changes(&self) -> &[Change] {
        self.fork.as_deref().unwrap_or_else(|| self.judged.state.changes())
    }

    /// What was installed, if that is known.
    fn tree(&self) -> Option<Digest> {
        let alike = || self.offer.as_ref().ok().filter(|_| self.is_current()).map(|offer| offer.digest);
        self.judged.receipt.as_ref().map(|receipt| receipt.tree).or_else(alike)
    }

    fn source(&self) -> Option<Source> {
        self.judged.receipt.as_ref().map(|receipt| self.install.source(receipt))
    }

    fn detail(&self, machine: &Machine) -> String {
        let link = match &self.install.link {
            Some(to) => format!("→ {} ", to.display()),
            None => String::new(),
        };
        let agents = table::names(self.install.agents.iter().filter_map(|id| table::find(id)));
        let available = self.offer.as_ref().ok().and_then(|offer| offer.version.as_ref());
        let source = match self.source() {
            Some(Source::Embedded) => "embedded; ".to_owned(),
            Some(Source::Folder { path: Some(path) } | Source::Archive { path: Some(path) }) => {
                format!("from {}; ", machine.show(&path))
            }
            Some(Source::Remote { from, .. }) if self.install.scope == Scope::Project => {
                format!("from {from}, as of the lock; ")
            }
            Some(Source::Remote { from, .. }) => format!("from {from}, as it was installed; "),
            _ => String::new(),
        };
        let version = match (&self.judged.version, available, &self.judged.state) {
            (Some(here), Some(there), State::Stale | State::Newer) => {
                format!("{here}, here is {there}; ")
            }
            (Some(here), _, _) => format!("{here}; "),
            (None, ..) => String::new(),
        };
        let why = match &self.judged.state {
            State::Unreadable(why) | State::Foreign(Foreign::DamagedReceipt(why)) => format!("{why}; "),
            State::Foreign(Foreign::LaterReceipt) => "by a later kernels; ".to_owned(),
            State::Foreign(Foreign::LinkFile(to)) => {
                format!("git wrote the link to {} as a file (core.symlinks); `update` repairs it; ", to.display())
            }
            State::Foreign(Foreign::NotAFolder) => "not a folder; ".to_owned(),
            State::Absent => "the link leads nowhere; ".to_owned(),
            State::Unchecked => self.why_unchecked().map(|why| format!("{why}; ")).unwrap_or_default(),
            State::Current { receipt: false } => "without a receipt; ".to_owned(),
            _ => String::new(),
        };
        format!("{link}{version}{source}{why}{agents}")
    }

    /// Why it was not compared.
    pub(crate) fn why_unchecked(&self) -> Option<&str> {
        self.offer.as_ref().err().map(String::as_str)
    }

    pub(crate) fn to_json(&self) -> Value {
        let receipt = self.judged.receipt.as_ref();
        json!({
            "name": self.install.name,
            "path": self.install.path.to_string_lossy(),
            "scope": self.install.scope,
            "agents": self.install.agents,
            "link": self.install.link.as_ref().map(|to| to.to_string_lossy()),
            "state": self.word(),
            "version": self.judged.version,
            "source": self.source().as_ref().map(add::source_json),
            "available": self.offer.as_ref().ok().and_then(|offer| offer.version.as_ref()),
            "changes": self.changes(),
            "line_ends_differ": self.judged.translated,
            "installed": receipt.map(|receipt| &receipt.installed),
            "by": receipt.map(|receipt| &receipt.by),
        })
    }
}
