//! `kernels skills sync`.

use std::process::ExitCode;

use anyhow::{Context, Result};
use serde_json::json;

use super::add;
use super::batch::Batch;
use super::elsewhere;
use crate::agent::Machine;
use crate::cli::skills;
use crate::install::manifest::{self, FILE, Manifest, Offer, Wanted};
use crate::install::pins::{self, Pin, Pins};
use crate::install::step::Options;
use crate::remote::Fetcher;
use crate::report::{Output, style};
use crate::skill::address::Address;
use crate::skill::source::Skill;

/// Brings the project's installs to what skills.toml says.
pub(crate) fn run(machine: &Machine, arguments: &skills::Sync, output: Output) -> Result<ExitCode> {
    let path = machine.project().join(FILE);
    if arguments.init {
        let skills = manifest::write(machine)?;
        output.line(format!("  {} {}", style::good("wrote"), machine.show(&path)));
        output.json(&json!({ "manifest": path.to_string_lossy(), "skills": skills }));
        return Ok(ExitCode::SUCCESS);
    }
    let manifest = match Manifest::read(machine)? {
        None => {
            for name in Pins::read(machine.project())?.unread() {
                let note =
                    format!("{}: the source of {name} is of no kind that kernels fetches; left alone", pins::FILE);
                output.note(format!("{} {note}", style::warning("note:")));
            }
            Manifest::of_pins(machine)?
        }
        there => there,
    };
    let manifest = manifest.with_context(|| {
        format!(
            "there is no {}, and no skills-lock.json beside it that pins a skill; `kernels skills sync --init` writes one from what \
             is installed",
            path.display()
        )
    })?;
    // A mistake in the file stops the command before anything is changed.
    let wanted = manifest.names().map(|name| manifest.wanted(machine, name)).collect::<Result<Vec<_>>>()?;
    let options = Options { force: arguments.force, ..Options::default() };
    let mut fetcher = Fetcher::default();
    let (mut batch, mut heading) = (Batch::default(), add::Heading::default());
    for wanted in wanted {
        batch.failed.extend(wanted.undeclared(machine).into_iter().map(|drift| drift.what));
        let dry_run = arguments.looking.is_only();
        let skill = match &wanted.offer {
            Offer::Here(skill) => Ok((**skill).clone()),
            Offer::Elsewhere { .. } if arguments.looking.check => {
                batch.failed.extend(wanted.drift(machine).into_iter().map(|drift| drift.what));
                continue;
            }
            Offer::Elsewhere { from, pin } => {
                output.note(style::faint(format!("fetching {from}")));
                let skill = fetch(&mut fetcher, &wanted, from, pin.as_ref());
                skill.and_then(|skill| match pin {
                    Some(_) => Ok(skill),
                    None => {
                        elsewhere::ask(machine, &[&skill], arguments.yes, arguments.looking, output).map(|()| skill)
                    }
                })
            }
        };
        batch
            .take(skill.and_then(|skill| {
                add::install(machine, &skill, wanted.places, options, dry_run, &mut heading, output)
            }));
    }
    Ok(batch.end(Some("skills"), json!({ "manifest": path.to_string_lossy() }), arguments.looking, output))
}

/// Fetches a skill, at the commit and with the digest that are pinned.
fn fetch(fetcher: &mut Fetcher, wanted: &Wanted, from: &Address, pin: Option<&Pin>) -> Result<Skill> {
    let (from, at) = pin.map_or((from, None), |pin| (&pin.from, pin.at.as_deref()));
    let mut skills = fetcher.open(from, std::slice::from_ref(&wanted.name), at)?;
    let skill = skills.pop().filter(|skill| skill.name == wanted.name);
    let skill = skill.with_context(|| format!("{from} has no skill {}", wanted.name))?;
    wanted.check(&skill)?;
    Ok(skill)
}
