//! `kernels skills status`.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, bail};
use serde_json::{Value, json};

use super::{add, target};
use crate::agent::{Machine, Scope, table};
use crate::cli::Select;
use crate::install::area::Area;
use crate::install::discover::{self, Install};
use crate::install::state::{Foreign, Judgement};
use crate::install::transaction::Recovered;
use crate::install::{Place, State, apply};
use crate::report::{Output, style};

/// One install and how it stands.
pub(crate) struct Row {
    pub(crate) install: Install,
    pub(crate) judged: Judgement,
    /// The skill it was compared with, by its version, or why there was none.
    offer: Result<Option<String>, String>,
}

pub(crate) fn rows(installs: Vec<Install>) -> Vec<Row> {
    installs
        .into_iter()
        .map(|install| {
            let offer = install.offer();
            let judged = install.judge(offer.as_ref().ok());
            Row { judged, offer: offer.map(|offer| offer.version), install }
        })
        .collect()
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
    let rows = rows(target::seen(machine, select)?);
    let scopes: &[Scope] = match target::is_named(&select.targets) {
        true => &[],
        false if select.targets.global => &[Scope::User],
        false => &[Scope::Project, Scope::User],
    };
    let problems = discover::blind_spots(machine, scopes);
    if rows.is_empty() {
        if let Some(name) = &select.name {
            bail!("{name} is not installed there; `kernels skills add {name}` installs it");
        }
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
    let current = rows.iter().all(|row| matches!(row.judged.state, State::Current { .. }));
    Ok(if current && interrupted.is_empty() && problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// How a repository keeps git from translating what is installed.
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
        let word = format!("{:<13}", row.judged.state.word());
        let word = match &row.judged.state {
            State::Current { .. } => style::good(word),
            State::Unreadable(_) | State::Foreign(_) => style::bad(word),
            _ => style::warning(word),
        };
        let mut more = row.detail();
        if row.install.scope == Scope::User {
            more.push_str(" (user)");
        }
        output.line(format!("  {word} {path:<width$}  {}", style::faint(more.trim())).trim_end());
        for change in row.judged.state.changes() {
            output.line(format!("      {} {}", change.kind.letter(), change.path));
        }
    }
}

impl Row {
    fn detail(&self) -> String {
        let link = match &self.install.link {
            Some(to) => format!("→ {} ", to.display()),
            None => String::new(),
        };
        let agents: Vec<_> =
            self.install.agents.iter().filter_map(|id| table::find(id)).map(|agent| agent.name.as_str()).collect();
        let available = self.offer.as_ref().ok().and_then(Option::as_ref);
        let version = match (&self.judged.version, available, &self.judged.state) {
            (Some(here), Some(there), State::Stale | State::Newer) => {
                format!("{here}, here is {there}; ")
            }
            (Some(here), _, _) => format!("{here}; "),
            (None, ..) => String::new(),
        };
        let why = match &self.judged.state {
            State::Unreadable(why) => format!("{why}; "),
            State::Foreign(Foreign::LaterReceipt) => "by a later kernels; ".to_owned(),
            State::Foreign(Foreign::LinkFile(to)) => {
                format!("git wrote the link to {} as a file (core.symlinks); `update` mends it; ", to.display())
            }
            State::Foreign(Foreign::NotAFolder) => "not a folder; ".to_owned(),
            State::Absent => "the link leads nowhere; ".to_owned(),
            State::Unchecked => self.why_unchecked().map(|why| format!("{why}; ")).unwrap_or_default(),
            State::Current { receipt: false } => "without a receipt; ".to_owned(),
            _ => String::new(),
        };
        format!("{link}{version}{why}{}", agents.join(", "))
    }

    /// Why it was compared with nothing.
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
            "state": self.judged.state.word(),
            "version": self.judged.version,
            "available": self.offer.as_ref().ok().and_then(Option::as_ref),
            "changes": self.judged.state.changes(),
            "line_ends_differ": self.judged.translated,
            "installed": receipt.map(|receipt| &receipt.installed),
            "by": receipt.map(|receipt| &receipt.by),
        })
    }
}
