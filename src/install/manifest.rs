//! `skills.toml` at a project's top: the skills that it is to have, from where, in which version, for which agents. The
//! receipts say what was installed; this file says what somebody wants.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use super::discover::{self, Install};
use super::pins::{self, Pin, Pins};
use super::place::{Place, merge};
use super::plan::plan;
use super::receipt::{Receipt, ReceiptError, relative};
use super::refusal::{Refusal, Refused};
use super::step::Options;
use crate::agent::{Machine, Scope, table};
use crate::base::dir::Dir;
use crate::base::disk::unique;
use crate::skill::address::Address;
use crate::skill::source::{Skill, Source};

pub(crate) const FILE: &str = "skills.toml";

const LIMIT: u64 = 1024 * 1024;

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Manifest {
    /// The agents of the skills that name none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    agents: Vec<String>,
    #[serde(default)]
    skills: BTreeMap<String, Entry>,
    /// What skills-lock.json says of them.
    #[serde(skip)]
    pins: Rc<Pins>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    /// A folder or an archive, relative to the project, or an address; the embedded skill without one.
    source: Option<PathBuf>,
    /// The only version that may be installed.
    version: Option<String>,
    #[serde(default)]
    agents: Vec<String>,
}

/// A skill that the manifest names, and where it belongs.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) name: String,
    pub(crate) offer: Offer,
    pub(crate) places: Vec<Place>,
    entry: Entry,
}

/// The files of a skill, or where they are to be fetched.
#[derive(Clone, Debug)]
pub(crate) enum Offer {
    Here(Box<Skill>),
    Elsewhere { from: Address, pin: Option<Pin> },
}

/// Something that is not as the manifest says.
#[derive(Clone, Debug)]
pub(crate) struct Drift {
    pub(crate) path: PathBuf,
    pub(crate) what: String,
}

impl Manifest {
    /// The manifest of the project, if it has one.
    pub(crate) fn read(machine: &Machine) -> Result<Option<Self>> {
        let path = machine.project().join(FILE);
        let bytes = match Dir::open(machine.project()).and_then(|project| project.read_plain(FILE, LIMIT)) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => bail!("cannot read {}: {error}; it must be a regular file", path.display()),
        };
        let mut manifest: Self =
            toml::from_slice(&bytes).with_context(|| format!("{} is not valid", path.display()))?;
        if manifest.skills.is_empty() {
            bail!("{} names no skills; name some, or delete it", path.display());
        }
        manifest.pins = Rc::new(Pins::read(machine.project())?);
        Ok(Some(manifest))
    }

    /// Without skills.toml: what skills-lock.json pins, where it is installed, or where every agent of npm's `skills` looks.
    pub(crate) fn of_pins(machine: &Machine) -> Result<Option<Self>> {
        let pins = Rc::new(Pins::read(machine.project())?);
        let entry = |name: &String| {
            let pin = pins.get(name)?;
            let installs =
                discover::installs(&discover::all_places(machine, &[Scope::Project]), std::slice::from_ref(name));
            let mut agents: Vec<String> =
                installs.iter().filter_map(|install| Some((*install.agents.first()?).to_owned())).collect();
            if agents.is_empty() {
                agents.push("agents".to_owned());
            }
            Some((name.clone(), Entry { source: Some(pin.from.to_string().into()), version: None, agents }))
        };
        let skills: BTreeMap<_, _> = pins.names().filter_map(entry).collect();
        Ok((!skills.is_empty()).then(|| Self { agents: Vec::new(), skills, pins: pins.clone() }))
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &String> {
        self.skills.keys()
    }

    /// Whether it names a source of the project's own for this skill.
    pub(crate) fn has_source(&self, name: &str) -> bool {
        self.skills.get(name).is_some_and(|entry| entry.source.is_some())
    }

    /// The skill of this name as the manifest wants it.
    pub(crate) fn wanted(&self, machine: &Machine, name: &str) -> Result<Wanted> {
        self.look_up(machine, name).with_context(|| format!("{FILE}: {name}"))
    }

    fn look_up(&self, machine: &Machine, name: &str) -> Result<Wanted> {
        let entry = self.skills.get(name).context("is not there")?;
        let offer = match entry.source.as_deref().and_then(Address::written) {
            Some(from) => self.elsewhere(machine, name, from?),
            None => Offer::Here(Box::new(entry.skill(machine.project(), name)?)),
        };
        if let Offer::Here(skill) = &offer {
            entry.check_version(skill)?;
        }
        let agents = if entry.agents.is_empty() { &self.agents } else { &entry.agents };
        if agents.is_empty() {
            bail!("it is for no agent; write agents = [\"claude\"] there, or once at the top");
        }
        let mut places = Vec::new();
        for id in agents {
            let agent = table::find(id).with_context(|| {
                let close = table::nearest(id).map(|id| format!("; did you mean {id}?")).unwrap_or_default();
                format!("there is no agent '{id}'{close}")
            })?;
            places.push(Place::of_agent(machine, agent, Scope::Project)?);
        }
        Ok(Wanted { name: name.to_owned(), offer, places: merge(places), entry: entry.clone() })
    }

    /// A skill at an address: an intact copy in the project is what its pin says.
    fn elsewhere(&self, machine: &Machine, name: &str, from: Address) -> Offer {
        let installs = discover::installs(&discover::all_places(machine, &[Scope::Project]), &[name.to_owned()]);
        let mut copies = installs.iter().filter(|install| install.address().is_some_and(|there| from.covers(&there)));
        match copies.find_map(|install| install.offer(machine).ok()) {
            Some(skill) => Offer::Here(Box::new(skill)),
            None => Offer::Elsewhere { pin: self.pins.get(name).filter(|pin| from.covers(&pin.from)), from },
        }
    }

    /// What is not as the manifest says, of the skills with these names, or of all.
    pub(crate) fn drift(&self, machine: &Machine, names: &[String]) -> Vec<Drift> {
        let mut drift = Vec::new();
        for name in self.names().filter(|name| names.is_empty() || names.contains(name)) {
            match self.wanted(machine, name) {
                Ok(wanted) => drift.extend(wanted.drift(machine)),
                Err(error) => drift.push(Drift { path: machine.project().join(FILE), what: format!("{error:#}") }),
            }
        }
        drift
    }
}

impl Entry {
    fn check_version(&self, skill: &Skill) -> Result<()> {
        if let Some(version) = self.version.as_ref().filter(|version| Some(*version) != skill.version.as_ref()) {
            let there = skill.version.as_deref().unwrap_or("without a version");
            bail!(match &self.source {
                Some(source) =>
                    format!("{version} is wanted, but {} is {there}; change one of the two", source.display()),
                None => format!(
                    "{version} is wanted, but this kernels carries {there}; use another kernels, or change the file"
                ),
            });
        }
        Ok(())
    }

    fn skill(&self, project: &Path, name: &str) -> Result<Skill> {
        let Some(source) = &self.source else {
            return Skill::bundled(name);
        };
        let path = project.join(source);
        let real = path.canonicalize().with_context(|| format!("cannot read the source {}", path.display()))?;
        // A cloned repository must not make us copy files from elsewhere on this machine.
        if !project.canonicalize().is_ok_and(|project| real.starts_with(project)) {
            bail!("the source {} lies outside the project; copy it in, as a folder or an archive", source.display());
        }
        let skill = Skill::read(&real)?;
        if skill.name != name {
            bail!("the skill in {} is called {}", source.display(), skill.name);
        }
        Ok(skill)
    }
}

impl Wanted {
    /// Refuses what was fetched if it is not what the two files say.
    pub(crate) fn check(&self, skill: &Skill) -> Result<()> {
        if let Offer::Elsewhere { pin: Some(pin), .. } = &self.offer {
            pin.check(skill)?;
        }
        self.entry.check_version(skill).with_context(|| format!("{FILE}: {}", self.name))
    }

    pub(crate) fn drift(&self, machine: &Machine) -> Vec<Drift> {
        let name = &self.name;
        let Offer::Here(skill) = &self.offer else {
            let path = self.places[0].dest(name);
            let shown = machine.show(&path);
            let what =
                format!("{shown} is missing, or not as {FILE} and {} say; run `kernels skills sync`", pins::FILE);
            return vec![Drift { path, what }];
        };
        let plan = plan(machine, skill, self.places.clone(), Options::default());
        let mut drift = Vec::new();
        for step in plan.steps.iter().filter(|step| step.action.changes_anything()) {
            let path = step.place.dest(name);
            let (shown, there) = (machine.show(&path), path.symlink_metadata().is_ok());
            let what = if there { format!("not as {FILE} says") } else { format!("missing, and {FILE} names it") };
            drift.push(Drift { what: format!("{shown} is {what}; run `kernels skills sync`"), path });
        }
        for refused in plan.refused {
            let shown = machine.show(&refused.path);
            drift.push(Drift { what: format!("{shown} {}", refused.reason.trim_end_matches(':')), path: refused.path });
        }
        drift.extend(self.undeclared(machine));
        drift
    }

    /// Copies of the skill in the project for agents that the manifest does not name.
    pub(crate) fn undeclared(&self, machine: &Machine) -> Vec<Drift> {
        let name = &self.name;
        let declared = |install: &Install| {
            self.places.iter().any(|place| place.folder == install.folder) || Receipt::read(&install.real()).is_err()
        };
        discover::installs(&discover::all_places(machine, &[Scope::Project]), std::slice::from_ref(name))
            .into_iter()
            .filter(|install| !declared(install))
            .map(|install| {
                let (shown, agent) = (machine.show(&install.path), install.agents.first().copied().unwrap_or_default());
                let what = format!(
                    "{shown} is there, and {FILE} does not name {agent} for {name}: add it to the file, or run \
                     `kernels skills remove {name} --agent {agent}`"
                );
                Drift { path: install.path, what }
            })
            .collect()
    }
}

/// Writes a manifest of what is installed in the project, and returns how many skills that is. Refuses where there is one.
pub(crate) fn write(machine: &Machine) -> Result<usize> {
    let skills = installed(machine)?;
    let count = skills.len();
    let text = toml::to_string(&Manifest { skills, ..Manifest::default() }).context("cannot write TOML")?;
    let text = format!("# The agent skills of this repository. `kernels skills sync` installs them.\n\n{text}");
    let path = machine.project().join(FILE);
    match Dir::open(machine.project()).and_then(|project| write_once(&project, &text)) {
        Ok(()) => Ok(count),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(Refusal(vec![Refused {
            path,
            reason: "is there already".to_owned(),
            changes: Vec::new(),
            advice: vec!["edit it, or move it away and run this again".to_owned()],
        }])
        .into()),
        Err(error) => Err(error).with_context(|| format!("cannot write {}", path.display())),
    }
}

/// Writes the file in one step: half of a manifest would be obeyed.
fn write_once(project: &Dir, text: &str) -> io::Result<()> {
    let staged = format!(".{FILE}.{}.tmp", unique());
    let written = project.write_new(&staged, text.as_bytes(), 0o666).and_then(|file| file.sync_all());
    written.and_then(|()| project.move_new(&staged, project, FILE)).inspect_err(|_| {
        let _ = project.remove_file(&staged);
    })
}

/// What is installed in the project, as a manifest would name it.
fn installed(machine: &Machine) -> Result<BTreeMap<String, Entry>> {
    let project = machine.project().canonicalize()?;
    let installs = discover::installs(&discover::all_places(machine, &[Scope::Project]), &[]);
    let mut found: BTreeMap<String, Entry> = BTreeMap::new();
    for install in &installs {
        let shown = machine.show(&install.path);
        let receipt = match Receipt::read(&install.real()) {
            Ok(receipt) => receipt,
            // What is not ours has no source to install it from.
            Err(_) if !install.has_receipt() => continue,
            Err(error @ ReceiptError::Later(_)) => bail!("{shown}: {error}"),
            Err(error) => bail!("{shown}: {error}; {}", discover::RENEW),
        };
        let source = match install.source(&receipt) {
            Source::Embedded => None,
            Source::Remote { from, .. } => Some(from.to_string().into()),
            Source::Folder { path } | Source::Archive { path } => {
                let inside = path.filter(|path| path.starts_with(&project)).with_context(|| {
                    format!(
                        "{shown} was installed from outside the project, or from a path that is not UTF-8; copy its source into \
                         the project, under a name in UTF-8, and `add` that"
                    )
                })?;
                Some(relative(&project, &inside))
            }
        };
        // The version of a source that lies beside the file is known from there.
        let version = receipt.version.filter(|_| source.is_none());
        let agent = install.agents.first().map(|id| (*id).to_owned());
        let entry = found.entry(install.name.clone()).or_insert(Entry { source, version, agents: Vec::new() });
        entry.agents.extend(agent);
    }
    if found.is_empty() {
        bail!("nothing is installed in this project; `kernels skills add` installs, then run this again");
    }
    Ok(found)
}
