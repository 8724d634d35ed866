//! Resolves flags to places.

use anyhow::{Result, bail};

use super::failure::Usage;
use crate::agent::presence::{self, Presence};
use crate::agent::{Agent, Machine, Scope, table};
use crate::base::text::nearest;
use crate::cli::skills::{Select, Targets};
use crate::install::discover::{self, Install};
use crate::install::place::{self, Place};
use crate::report::{Output, prompt};
use crate::skill::bundled;

/// The agents named by the flags, in the order of the table.
fn agents(targets: &Targets) -> Vec<&'static Agent> {
    let named = |agent: &&Agent| targets.agents.0.contains(&agent.id);
    table::all().iter().filter(named).collect()
}

fn scope(targets: &Targets) -> Scope {
    if targets.global { Scope::User } else { Scope::Project }
}

/// The places of this project in which a skill lies that `kernels` installed.
pub(crate) fn places_of(machine: &Machine, name: &str) -> Vec<Place> {
    let places = discover::all_places(machine, &[Scope::Project]);
    let ours =
        |install: &Install| (install.link.is_none() || install.link_is_ours) && install.judge(None).receipt.is_some();
    discover::installs(&places, &[name.to_owned()]).iter().filter(|install| ours(install)).map(Install::place).collect()
}

/// The places `add` installs to.
pub(crate) fn places_to_add(machine: &Machine, targets: &Targets, output: Output) -> Result<Vec<Place>> {
    let mut chosen = if targets.agents.all() { every_agent(machine, scope(targets)) } else { agents(targets) };
    if chosen.is_empty() && targets.global && !targets.dest.is_empty() {
        return Err(Usage("--global goes with agents; --dest names a place of its own".into()).into());
    }
    if chosen.is_empty() && targets.dest.is_empty() {
        chosen = if targets.global {
            agents_on(machine)
        } else if output.is_interactive() {
            ask(machine)?
        } else {
            let flags: Vec<String> = table::with_a_flag().map(|(agent, _)| format!("--{}", agent.id)).collect();
            return Err(Usage(format!(
                "say where to: {}, --agent ID, --agent '*' for every agent, --dest DIR, or --global; \
                 `kernels skills agents` lists the agents",
                flags.join(", ")
            ))
            .into());
        };
    }
    named_places(machine, &chosen, scope(targets), targets)
}

fn named_places(machine: &Machine, agents: &[&'static Agent], scope: Scope, targets: &Targets) -> Result<Vec<Place>> {
    let mut places = Vec::new();
    for agent in agents {
        places.push(Place::of_agent(machine, agent, scope)?);
    }
    for dest in &targets.dest {
        places.push(Place::of_dest(machine, dest)?);
    }
    Ok(place::merge(places))
}

/// The agents on the machine; if there are none, the two whose folders most agents read.
fn agents_on(machine: &Machine) -> Vec<&'static Agent> {
    let present = presence::present(machine);
    if present.is_empty() { widely_read().collect() } else { present }
}

fn widely_read() -> impl Iterator<Item = &'static Agent> {
    ["claude", "agents"].into_iter().filter_map(table::find)
}

/// What `--agent '*'` installs for: the two whose folders most agents read, and those that read neither of the two and
/// are on this machine or have a folder for skills in the project.
fn every_agent(machine: &Machine, scope: Scope) -> Vec<&'static Agent> {
    let folder = |agent: &Agent| machine.skills_folder(agent, scope).ok();
    let read: Vec<_> = widely_read().filter_map(folder).collect();
    let is_here = |agent: &Agent| {
        Presence::of(agent, machine).is_present() || folder(agent).is_some_and(|folder| folder.is_dir())
    };
    let needs_its_own = |agent: &&Agent| {
        folder(agent).is_some() && !machine.folders_read(agent, scope).iter().any(|one| read.contains(one))
    };
    let own = table::all().iter().filter(needs_its_own).filter(|agent| is_here(agent));
    widely_read().chain(own).collect()
}

fn ask(machine: &Machine) -> Result<Vec<&'static Agent>> {
    let present = presence::present(machine);
    // The others are rare, and --agent takes them.
    let common = |agent: &&Agent| {
        let found = present.iter().any(|one| one.id == agent.id);
        agent.project.is_some() && (found || table::with_a_flag().any(|(one, _)| one.id == agent.id))
    };
    let agents: Vec<&Agent> = table::all().iter().filter(common).collect();
    let row = |agent: &&Agent| format!("{:<14} {}", agent.name, agent.project.as_deref().unwrap_or_default());
    let rows: Vec<String> = agents.iter().map(row).collect();
    let mut selected: Vec<bool> = agents.iter().map(|agent| present.iter().any(|one| one.id == agent.id)).collect();
    let question = format!("Install into {} for", machine.show(machine.project()));
    let help = "space selects, → all, ← none, enter installs, esc cancels; agents found here are selected";
    let answered = prompt::select(&question, &rows, help, &mut selected)?;
    let chosen: Vec<_> =
        agents.into_iter().zip(selected).filter_map(|(agent, selected)| selected.then_some(agent)).collect();
    if !answered || chosen.is_empty() {
        bail!("nothing was chosen; nothing was changed");
    }
    Ok(chosen)
}

/// The places of a selection; without a selection, all of the project and the user.
pub(crate) fn places_to_search(machine: &Machine, targets: &Targets) -> Result<Vec<Place>> {
    if targets.agents.all() {
        let mut places = discover::all_places(machine, &[scope(targets)]);
        places.extend(named_places(machine, &[], scope(targets), targets)?);
        return Ok(place::merge(places));
    }
    let chosen = agents(targets);
    if !chosen.is_empty() || !targets.dest.is_empty() {
        let mut places = named_places(machine, &chosen, scope(targets), targets)?;
        if chosen.is_empty() && targets.global {
            places.extend(discover::all_places(machine, &[Scope::User]));
        }
        return Ok(place::merge(places));
    }
    let scopes: &[Scope] = if targets.global { &[Scope::User] } else { &[Scope::Project, Scope::User] };
    Ok(discover::all_places(machine, scopes))
}

/// Whether agents or folders were named.
pub(crate) fn is_named(targets: &Targets) -> bool {
    !targets.agents.0.is_empty() || !targets.dest.is_empty()
}

/// The installs of a selection.
pub(crate) fn installs(machine: &Machine, select: &Select) -> Result<Vec<Install>> {
    let places = places_to_search(machine, &select.targets)?;
    installs_at(machine, select, &places)
}

/// The installs of a selection; without one, all that agents find from here.
pub(crate) fn seen(machine: &Machine, select: &Select) -> Result<Vec<Install>> {
    if is_named(&select.targets) || select.targets.global {
        return installs(machine, select);
    }
    installs_at(machine, select, &discover::all_seen(machine))
}

fn installs_at(machine: &Machine, select: &Select, places: &[Place]) -> Result<Vec<Install>> {
    let mut found = discover::installs(places, &select.names);
    if let Some(name) = select.names.iter().find(|name| !found.iter().any(|install| install.name == **name)) {
        let embedded = bundled::names().contains(&name.as_str());
        let add = embedded.then(|| format!("`kernels skills add {name}` installs it"));
        bail!("{name} is not installed there; {}", add.unwrap_or_else(|| did_you_mean(name, places)));
    }
    // All places must be known to decide whether a link is ours.
    let everywhere = discover::all_places(machine, &[Scope::Project, Scope::User]);
    let all = discover::installs(&everywhere, &select.names);
    for install in &mut found {
        install.link_is_ours |= all.iter().any(|i| i.path == install.path && i.link_is_ours);
    }
    Ok(found)
}

/// The installed skill that a mistyped name may stand for, else where to look.
pub(crate) fn did_you_mean(name: &str, places: &[Place]) -> String {
    let installs = discover::installs(places, &[]);
    let close = nearest(name, installs.iter().map(|install| install.name.as_str()));
    close.map_or("`kernels skills list` shows what is".to_owned(), |close| format!("did you mean {close}?"))
}
