//! Finding what is installed.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::place::{Place, merge};
use super::receipt::Receipt;
use super::state::{Judgement, judge};
use crate::agent::{Machine, Scope, table};
use crate::skill::bundled;
use crate::skill::lint::is_valid_name;
use crate::skill::source::{Skill, Source};

/// A skill at a place.
#[derive(Clone, Debug)]
pub struct Install {
    /// The skill's name.
    pub name: String,
    /// Its folder, or the link in its place.
    pub path: PathBuf,
    /// The skills folder.
    pub folder: PathBuf,
    /// Whose it is.
    pub scope: Scope,
    /// The agents whose own folder this is.
    pub agents: Vec<&'static str>,
    /// Where it points, if it is a link.
    pub link: Option<PathBuf>,
    /// Whether the link leads to an install in a folder of the table, so that nothing but the link
    /// itself would be lost with it.
    pub link_is_ours: bool,
}

impl Install {
    /// The folder with the files: the install's own, or what it links to.
    pub fn real(&self) -> PathBuf {
        match self.link {
            Some(_) => self
                .path
                .canonicalize()
                .unwrap_or_else(|_| self.path.clone()),
            None => self.path.clone(),
        }
    }

    /// The skill that this install is measured against: the embedded one, or the folder or archive
    /// it was made from, where that is still there.
    pub fn offer(&self) -> Option<Skill> {
        let real = self.real();
        let source = Receipt::read(&real).map(|receipt| receipt.source);
        let path = match source {
            Err(_) | Ok(Source::Embedded) => return Skill::bundled(&self.name).ok(),
            Ok(Source::Folder { path } | Source::Archive { path }) => path?,
        };
        let mut path = real.parent()?.join(path);
        if self.scope != Scope::User {
            // A project's receipt comes with the project, from anybody; it must not fetch from
            // elsewhere on this machine.
            let project = self.place().project()?.canonicalize().ok()?;
            path = path
                .canonicalize()
                .ok()
                .filter(|path| path.starts_with(&project))?;
        }
        let skill = Skill::read(&path).ok()?;
        (skill.name == self.name).then_some(skill)
    }

    /// Its state.
    pub fn judge(&self, offer: Option<&Skill>) -> Judgement {
        judge(&self.real(), &self.name, offer)
    }

    /// It as a place to install to.
    pub fn place(&self) -> Place {
        let agents = self
            .agents
            .iter()
            .filter_map(|id| table::find(id))
            .collect();
        Place {
            folder: self.folder.clone(),
            scope: self.scope,
            agents,
        }
    }
}

/// The skills folders of all agents in these scopes, each folder once.
pub fn all_places(machine: &Machine, scopes: &[Scope]) -> Vec<Place> {
    let mut places = Vec::new();
    for scope in scopes {
        for agent in table::all() {
            // A folder that does not resolve (a broken link, say) holds no install; `doctor` tells.
            places.extend(Place::of_agent(machine, agent, *scope).ok());
        }
    }
    merge(places)
}

/// Every install at `places` that `kernels` made, and everything that has an embedded skill's name.
pub fn installs(places: &[Place], name: Option<&str>) -> Result<Vec<Install>> {
    let mut found = Vec::new();
    for place in places {
        let Ok(entries) = fs::read_dir(&place.folder) else {
            continue;
        };
        let mut names: Vec<String> = entries
            .flatten()
            .filter_map(|entry| entry.file_name().into_string().ok())
            .filter(|entry| is_valid_name(entry))
            .filter(|entry| name.is_none_or(|name| name == entry))
            .filter(|entry| {
                name.is_some()
                    || bundled::names().contains(&entry.as_str())
                    || Receipt::read(&place.folder.join(entry)).is_ok()
            })
            .collect();
        names.sort();
        found.extend(names.into_iter().map(|name| install(place, name)));
    }
    let real: Vec<PathBuf> = found
        .iter()
        .filter(|i| i.link.is_none())
        .map(|i| i.path.clone())
        .collect();
    for install in found.iter_mut().filter(|install| install.link.is_some()) {
        let to = install.path.canonicalize().unwrap_or_default();
        install.link_is_ours = real.iter().any(|path| is_same(path, &to));
    }
    Ok(found)
}

fn is_same(path: &Path, real: &Path) -> bool {
    path.canonicalize().is_ok_and(|path| path == real)
}

fn install(place: &Place, name: String) -> Install {
    let path = place.folder.join(&name);
    Install {
        link: fs::read_link(&path).ok(),
        link_is_ours: false,
        folder: place.folder.clone(),
        scope: place.scope,
        agents: place.agents.iter().map(|agent| agent.id.as_str()).collect(),
        name,
        path,
    }
}
