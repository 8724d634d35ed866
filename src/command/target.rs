//! Resolves flags to places.

use anyhow::{Result, bail};

use super::failure::Usage;
use crate::agent::{Agent, Machine, Scope, presence, table};
use crate::cli::skills::{Select, Targets};
use crate::install::discover::{self, Install};
use crate::install::place::{self, Place};
use crate::report::{Output, prompt};

/// The agents selected by the flags, in the order of the table.
pub(crate) fn agents(targets: &Targets) -> Vec<&'static Agent> {
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
    let mut chosen = agents(targets);
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
                "say where to: {}, --agent ID, --dest DIR, or --global for every agent on this machine",
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
    if !present.is_empty() {
        return present;
    }
    table::all().iter().filter(|agent| ["claude", "agents"].contains(&agent.id.as_str())).collect()
}

fn ask(machine: &Machine) -> Result<Vec<&'static Agent>> {
    let present = presence::present(machine);
    let agents = table::all();
    let rows: Vec<String> = agents.iter().map(|agent| format!("{:<14} {}", agent.name, agent.project)).collect();
    let mut selected: Vec<bool> = agents.iter().map(|agent| present.iter().any(|one| one.id == agent.id)).collect();
    let question = format!("Install into {} for", machine.show(machine.project()));
    let help = "space selects, → all, ← none, enter installs, esc cancels; agents found here are selected";
    let answered = prompt::select(&question, &rows, help, &mut selected)?;
    let chosen: Vec<_> =
        agents.iter().zip(selected).filter_map(|(agent, selected)| selected.then_some(agent)).collect();
    if !answered || chosen.is_empty() {
        bail!("nothing was chosen; nothing was changed");
    }
    Ok(chosen)
}

/// The places of a selection; without a selection, all of the project and the user.
pub(crate) fn places_to_search(machine: &Machine, targets: &Targets) -> Result<Vec<Place>> {
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
        bail!("{name} is not installed there; `kernels skills add {name}` installs it");
    }
    // All places must be known to decide whether a link is ours.
    let everywhere = discover::all_places(machine, &[Scope::Project, Scope::User]);
    let all = discover::installs(&everywhere, &select.names);
    for install in &mut found {
        install.link_is_ours |= all.iter().any(|i| i.path == install.path && i.link_is_ours);
    }
    Ok(found)
}
