//! `kernels skills sync`.

use std::process::ExitCode;

use anyhow::{Context, Result};
use serde_json::json;

use super::add;
use super::batch::Batch;
use crate::agent::Machine;
use crate::cli::skills;
use crate::install::manifest::{self, FILE, Manifest};
use crate::install::step::Options;
use crate::report::{Output, style};

/// Brings the project's installs to what skills.toml says.
pub(crate) fn run(machine: &Machine, arguments: &skills::Sync, output: Output) -> Result<ExitCode> {
    let path = machine.project().join(FILE);
    if arguments.init {
        let skills = manifest::write(machine)?;
        output.line(format!("  {} {}", style::good("wrote"), machine.show(&path)));
        output.json(&json!({ "manifest": path.to_string_lossy(), "skills": skills }));
        return Ok(ExitCode::SUCCESS);
    }
    let manifest = Manifest::read(machine)?.with_context(|| {
        format!("there is no {}; `kernels skills sync --init` writes one from what is installed", path.display())
    })?;
    // A mistake in the file stops the command before anything is changed.
    let wanted = manifest.names().map(|name| manifest.wanted(machine, name)).collect::<Result<Vec<_>>>()?;
    let options = Options { force: arguments.force, ..Options::default() };
    let (mut batch, mut heading) = (Batch::default(), add::Heading::default());
    for wanted in wanted {
        batch.failed.extend(wanted.undeclared(machine).into_iter().map(|drift| drift.what));
        let dry_run = arguments.looking.is_only();
        batch.take(add::install(machine, &wanted.skill, wanted.places, options, dry_run, &mut heading, output));
    }
    Ok(batch.end(Some("skills"), json!({ "manifest": path.to_string_lossy() }), arguments.looking, output))
}
