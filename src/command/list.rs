//! `kernels skills list`.

use std::process::ExitCode;

use anyhow::Result;
use serde_json::json;

use super::status;
use crate::agent::{Machine, Scope};
use crate::install::discover;
use crate::report::{Output, style};
use crate::skill::bundled;
use crate::skill::source::Skill;

pub(crate) fn run(machine: &Machine, output: Output) -> Result<ExitCode> {
    let scopes = [Scope::Project, Scope::User];
    let recovered = status::recover(machine, &discover::all_places(machine, &scopes), output);
    let rows = status::rows(machine, discover::installs(&discover::all_seen(machine), &[]));
    let mut problems = discover::blind_spots(machine, &scopes);
    problems.extend(status::contradictions(machine, &rows, &[]));
    let mut embedded = Vec::new();
    output.line(style::strong("embedded"));
    for name in bundled::names() {
        let skill = Skill::bundled(name)?;
        output.line(format!(
            "  {name} {}  {}",
            skill.version.as_deref().unwrap_or_default(),
            style::faint(format!("{} files, {} KB", skill.tree.len(), skill.tree.bytes().div_ceil(1000))),
        ));
        embedded.push(json!({
            "name": name,
            "version": skill.version,
            "tree": skill.digest,
            "files": skill.tree.len(),
            "bytes": skill.tree.bytes(),
        }));
    }
    output.line(style::strong("installed"));
    if rows.is_empty() {
        output.line(style::faint("  nothing here and nothing at the user level; `kernels skills add` installs"));
    }
    status::show(machine, &rows, output);
    for problem in &problems {
        output.line(format!("{} {problem}", style::warning("problem")));
    }
    output.json(&json!({
        "embedded": embedded,
        "installed": rows.iter().map(status::Row::to_json).collect::<Vec<_>>(),
        "recovered": recovered,
        "problems": problems,
    }));
    Ok(ExitCode::SUCCESS)
}
