//! Finds installed skills.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::bail;

use super::pins::{self, Pins};
use super::place::{self, Place, merge};
use super::receipt::{Receipt, ReceiptError};
use super::scan::{Change, Scan};
use super::state::{Judgement, State, judge};
use crate::agent::{Agent, Machine, Scope, sight, table};
use crate::base::dir::Dir;
use crate::skill::address::Address;
use crate::skill::lint::is_valid_name;
use crate::skill::source::{Skill, Source};
use crate::skill::{Tree, bundled, lineage};

/// What helps where a receipt is damaged.
pub(crate) const RENEW: &str = "take it from version control again, or `kernels skills add SOURCE --force` installs the skill \
                                anew, after a backup";

/// A skill at a place.
#[derive(Clone, Debug)]
pub(crate) struct Install {
    pub(crate) name: String,
    /// Its folder, or the link in its place.
    pub(crate) path: PathBuf,
    pub(crate) folder: PathBuf,
    pub(crate) scope: Scope,
    /// The agents that own this folder.
    pub(crate) agents: Vec<&'static str>,
    /// The target, if it is a link.
    pub(crate) link: Option<PathBuf>,
    /// The target, if it is a link that git wrote as a file.
    pub(crate) link_file: Option<PathBuf>,
    /// The link leads to an install in a folder of the table, so that removing it loses only the
    /// link.
    pub(crate) link_is_ours: bool,
}

impl Install {
    /// The folder with the files: the install's own, or what it links to.
    pub(crate) fn real(&self) -> PathBuf {
        match (&self.link, &self.link_file) {
            (Some(to), _) | (_, Some(to)) => self.folder.join(to).canonicalize().unwrap_or_else(|_| self.path.clone()),
            (None, None) => self.path.clone(),
        }
    }

    /// The skill to compare with: the embedded one, or the folder or archive it was installed from. An error says why
    /// there is none.
    pub(crate) fn offer(&self, machine: &Machine) -> Result<Skill, String> {
        let bundled = |otherwise: String| Skill::bundled(&self.name).map_err(|_| otherwise);
        let not_there = || "this version of kernels does not contain it".to_owned();
        let path = match Receipt::read(&self.real()).map(|receipt| self.source(&receipt)) {
            Ok(Source::Embedded) => return bundled(not_there()),
            Err(_) if !self.has_receipt() => return bundled(not_there()),
            Err(error @ ReceiptError::Later(_)) => return bundled(error.to_string()),
            Err(error) => return bundled(format!("{error}; {RENEW}")),
            Ok(Source::Folder { path } | Source::Archive { path }) => path,
            Ok(Source::Remote { .. }) => return self.itself(machine).map_err(|error| format!("{error:#}")),
        };
        let again = "`kernels skills add PATH` compares and updates it";
        let named = path.ok_or_else(|| {
            let why = "that lay outside the project, or its path is not UTF-8";
            format!("its receipt does not name what it was installed from: {why}; {again}")
        })?;
        let gone = |error: &dyn std::fmt::Display| format!("what it was installed from is gone: {error}");
        let path = named.canonicalize().map_err(|error| gone(&format!("{}: {error}", named.display())))?;
        if self.scope != Scope::User {
            // A project's receipt may come from anybody with the project; it must not make us read files
            // elsewhere on this machine.
            let project = self.place().project(machine).and_then(|project| project.canonicalize().ok());
            let inside = project.is_some_and(|project| path.starts_with(project));
            if !inside {
                return Err(format!("its receipt names {}, which is outside the project; {again}", path.display()));
            }
        }
        match Skill::read(&path) {
            Ok(skill) if skill.name == self.name => Ok(skill),
            Ok(skill) => Err(format!("{} is now called {}", path.display(), skill.name)),
            Err(error) => Err(format!("{error:#}")),
        }
    }

    /// Whether there is a receipt, usable or not: `kernels` installed it.
    pub(crate) fn has_receipt(&self) -> bool {
        Receipt::is_in(&self.real())
    }

    /// The skill itself, where it came from elsewhere, is as it was installed, and as the project pins it: nothing is fetched
    /// to look at it.
    fn itself(&self, machine: &Machine) -> anyhow::Result<Skill> {
        let receipt = Receipt::read(&self.real())?;
        let tree = Tree::read(&self.real())?;
        if self.scope == Scope::Project {
            let project = self.place().project(machine).unwrap_or_default();
            match Pins::read(&project)?.get(&self.name) {
                Some(pin) if pin.is(receipt.tree, &tree) => {}
                Some(_) => bail!("{} pins another state; `kernels skills sync` installs that", pins::FILE),
                None => bail!("{} does not pin it; `kernels skills update` does", pins::FILE),
            }
        }
        let skill = Skill::from_tree(&self.name, receipt.source, tree, Vec::new())?;
        if skill.digest != receipt.tree {
            bail!("it is not as it was installed; `kernels skills update` compares it with where it came from");
        }
        Ok(skill)
    }

    /// Where it came from, if that is not on this machine.
    pub(crate) fn address(&self) -> Option<Address> {
        Receipt::read(&self.real()).ok()?.source.address().cloned()
    }

    /// What it was installed from, with its whole path.
    pub(crate) fn source(&self, receipt: &Receipt) -> Source {
        let real = self.real();
        let whole = |path: &PathBuf| {
            let named = real.parent().unwrap_or(&real).join(path);
            named.canonicalize().unwrap_or(named)
        };
        match &receipt.source {
            Source::Embedded | Source::Remote { .. } => receipt.source.clone(),
            Source::Folder { path } => Source::Folder { path: path.as_ref().map(whole) },
            Source::Archive { path } => Source::Archive { path: path.as_ref().map(whole) },
        }
    }

    /// How it differs from the embedded skill of its name, where it is another one, installed from elsewhere.
    pub(crate) fn fork(&self, judged: &Judgement) -> Option<Vec<Change>> {
        let receipt = judged.receipt.as_ref().filter(|receipt| receipt.source != Source::Embedded)?;
        let as_installed = matches!(judged.state, State::Current { .. } | State::Unchecked);
        if !as_installed || lineage::find(&self.name, receipt.tree).is_some() {
            return None;
        }
        let embedded = Skill::bundled(&self.name).ok()?;
        let scan = Dir::open_last(&self.real()).and_then(|folder| Scan::of(&folder)).ok()?;
        Some(scan.changes(&embedded.files, receipt.modes))
    }

    pub(crate) fn judge(&self, offer: Option<&Skill>) -> Judgement {
        let path = if self.link_file.is_some() { self.path.clone() } else { self.real() };
        judge(&path, &self.name, offer)
    }

    pub(crate) fn place(&self) -> Place {
        let agents = self.agents.iter().filter_map(|id| table::find(id)).collect();
        Place { folder: self.folder.clone(), scope: self.scope, agents }
    }
}

/// The skills folders of all agents in these scopes, each folder once, as far as the folder above is there.
pub(crate) fn all_places(machine: &Machine, scopes: &[Scope]) -> Vec<Place> {
    let mut places = Vec::new();
    for scope in scopes {
        // Of most agents there is nothing, which is quickly seen.
        let is_there = |agent: &&Agent| {
            let folder = machine.skills_folder(agent, *scope);
            folder.is_ok_and(|folder| folder.parent().is_some_and(|above| above.symlink_metadata().is_ok()))
        };
        for agent in table::all().iter().filter(is_there) {
            // A folder that does not resolve (a broken link, say) holds no install; `doctor` reports it.
            places.extend(Place::of_agent(machine, agent, *scope).ok());
        }
    }
    merge(places)
}

/// The places of [`all_places`], and all others in which agents find skills from here, which `add` does not write to by
/// itself: folders that are reached by a link out of the project, or that lie between here and the git root.
pub(crate) fn all_seen(machine: &Machine) -> Vec<Place> {
    let mut places = all_places(machine, &[Scope::Project, Scope::User]);
    for agent in table::all() {
        for (folder, scope) in sight::folders(agent, machine) {
            let Ok(folder) = folder.canonicalize() else {
                continue;
            };
            if !places.iter().any(|place| place.folder == folder) {
                let scope = if scope == Scope::User { Scope::User } else { Scope::Dest };
                places.push(Place { folder, scope, agents: vec![agent] });
            }
        }
    }
    places
}

/// What keeps agents, or this program, from the folders of the table: links to nothing or out of the project, files in
/// the place of folders, folders that may not be read.
pub(crate) fn blind_spots(machine: &Machine, scopes: &[Scope]) -> Vec<String> {
    let mut found = Vec::new();
    for scope in scopes {
        let folders: BTreeSet<PathBuf> =
            table::all().iter().flat_map(|agent| machine.folders_read(agent, *scope)).collect();
        found.extend(folders.iter().filter_map(|folder| blind_spot(machine, folder, *scope)));
    }
    found.sort();
    found.dedup();
    found
}

/// The folders that `add` writes to, of all agents in these scopes and of these places, that are there and cannot be listed: an
/// install in one of them would not be seen.
pub(crate) fn unlisted(machine: &Machine, scopes: &[Scope], places: &[Place]) -> Vec<String> {
    let of_agents = |scope: &Scope| {
        let scope = *scope;
        table::all().iter().filter_map(move |agent| machine.skills_folder(agent, scope).ok())
    };
    let folders: BTreeSet<PathBuf> =
        scopes.iter().flat_map(of_agents).chain(places.iter().map(|place| place.folder.clone())).collect();
    let mut found: Vec<String> = folders.iter().filter_map(|folder| why_unlisted(machine, folder)).collect();
    found.sort();
    found.dedup();
    found
}

/// In what is not there, or is no folder, nothing can lie.
fn why_unlisted(machine: &Machine, folder: &Path) -> Option<String> {
    let error = fs::read_dir(folder).err()?;
    let empty = matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory);
    (!empty).then(|| format!("{} cannot be listed: {error}{}", machine.show(folder), place::hint(&error)))
}

fn blind_spot(machine: &Machine, folder: &Path, scope: Scope) -> Option<String> {
    let real = match place::resolve(folder) {
        Ok(real) => real,
        Err(error) => return Some(format!("{error:#}")),
    };
    if let Some(why) = why_unlisted(machine, &real) {
        return Some(why);
    }
    let project = machine.project().canonicalize().ok()?;
    (scope == Scope::Project && !real.starts_with(project)).then(|| {
        let (named, real) = (machine.show(folder), real.display());
        format!("{named} is a link that leaves the project, to {real}; only --dest {real} writes there")
    })
}

/// Every install at `places` made by `kernels`, also with a receipt that cannot be used, and every entry with an embedded
/// skill's name; with names, every entry that has one of them.
pub(crate) fn installs(places: &[Place], names: &[String]) -> Vec<Install> {
    let mut found = Vec::new();
    for place in places {
        let Ok(entries) = fs::read_dir(&place.folder) else {
            continue;
        };
        let mut found_here: Vec<String> = entries
            .flatten()
            .filter_map(|entry| entry.file_name().into_string().ok())
            .filter(|entry| is_valid_name(entry))
            .filter(|entry| names.is_empty() || names.contains(entry))
            .filter(|entry| {
                !names.is_empty()
                    || bundled::names().contains(&entry.as_str())
                    || has_receipt(&place.folder.join(entry))
                    || place::link_file(&place.folder.join(entry)).is_some()
            })
            .collect();
        found_here.sort();
        found.extend(found_here.into_iter().map(|name| install(place, name)));
    }
    let is_link = |install: &Install| install.link.is_some() || install.link_file.is_some();
    let real: Vec<PathBuf> = found.iter().filter(|install| !is_link(install)).map(|i| i.path.clone()).collect();
    for install in found.iter_mut().filter(|install| is_link(install)) {
        let to = install.real();
        install.link_is_ours = real.iter().any(|path| is_same(path, &to));
    }
    found
}

/// Whether a folder, or the one where a relative link leads, has a receipt.
fn has_receipt(path: &Path) -> bool {
    let folder = installed_at(path);
    folder.symlink_metadata().is_ok_and(|meta| meta.is_dir()) && Receipt::is_in(&folder)
}

/// The folder of a skill: where a relative link leads, as `add` makes them, else the path itself.
fn installed_at(path: &Path) -> PathBuf {
    let link = fs::read_link(path).is_ok_and(|to| to.is_relative());
    path.canonicalize().ok().filter(|_| link).unwrap_or_else(|| path.to_path_buf())
}

fn is_same(path: &Path, real: &Path) -> bool {
    path.canonicalize().is_ok_and(|path| path == real)
}

fn install(place: &Place, name: String) -> Install {
    let path = place.folder.join(&name);
    Install {
        link: fs::read_link(&path).ok(),
        link_file: place::link_file(&path),
        link_is_ours: false,
        folder: place.folder.clone(),
        scope: place.scope,
        agents: place.agents.iter().map(|agent| agent.id.as_str()).collect(),
        name,
        path,
    }
}
