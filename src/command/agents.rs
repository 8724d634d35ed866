//! `kernels skills agents`.

use std::process::ExitCode;

use serde_json::{Value, json};

use crate::agent::presence::{self, Presence};
use crate::agent::template::Template;
use crate::agent::{Agent, Machine, table};
use crate::cli::skills::ListAgents;
use crate::report::{Output, style};

/// Lists the agents that `--agent` takes, or those on this machine.
pub(crate) fn run(machine: &Machine, arguments: ListAgents, output: Output) -> ExitCode {
    let here = presence::present(machine);
    let is_here = |agent: &Agent| here.iter().any(|one| one.id == agent.id);
    let listed: Vec<&Agent> = table::all().iter().filter(|agent| !arguments.here || is_here(agent)).collect();
    let width = |text: &dyn Fn(&Agent) -> usize| listed.iter().map(|agent| text(agent)).max().unwrap_or(0);
    let (ids, names) = (width(&|agent| agent.id.len()), width(&|agent| agent.name.chars().count()));
    for agent in &listed {
        let here = if is_here(agent) { "here" } else { "" };
        let folders: Vec<&str> = agent.project.as_deref().into_iter().chain(user(agent)).collect();
        let (here, folders) = (style::good(format!("{here:<4}")), style::faint(folders.join("  ")));
        output.line(format!("{:<ids$}  {:<names$}  {here}  {folders}", agent.id, agent.name));
    }
    output.line(style::faint(format!("{} of {} are on this machine", here.len(), table::all().len())));
    output.json(&json!({ "agents": listed.iter().map(|agent| to_json(agent, machine)).collect::<Vec<_>>() }));
    ExitCode::SUCCESS
}

fn user(agent: &Agent) -> Option<&str> {
    agent.user.as_ref().map(Template::as_str)
}

fn to_json(agent: &Agent, machine: &Machine) -> Value {
    let presence = Presence::of(agent, machine);
    json!({
        "id": agent.id,
        "name": agent.name,
        "project": agent.project,
        "user": user(agent),
        "reads": agent.reads.iter().map(Template::as_str).collect::<Vec<_>>(),
        "source": agent.source,
        "seen": agent.seen,
        "here": presence.is_present(),
    })
}
