//! `kernels skills update`.

use std::process::ExitCode;

use anyhow::{Result, bail};
use serde_json::json;

use super::{add, target};
use crate::agent::Machine;
use crate::cli;
use crate::install::apply;
use crate::install::refusal::Refused;
use crate::install::step::Options;
use crate::install::{Refusal, State};
use crate::report::{Output, style};

/// Updates installs to the version on offer. A protected install does not block the others; it is
/// refused at the end.
pub(crate) fn run(machine: &Machine, arguments: &cli::Update, output: Output) -> Result<ExitCode> {
    let places = target::places_to_search(machine, &arguments.select.targets)?;
    let recovered = if arguments.dry_run { Vec::new() } else { apply::recover(&places)? };
    add::show_recovered(machine, &recovered, output);
    let mut installs = target::installs(machine, &arguments.select)?;
    installs.sort_by(|a, b| a.name.cmp(&b.name));
    if installs.is_empty() {
        match &arguments.select.name {
            Some(name) => {
                bail!("{name} is not installed there; `kernels skills add {name}` installs it")
            }
            None => output.line(style::faint("nothing is installed")),
        }
    }
    let options = Options { force: arguments.force, link: false, merge: add::merge(arguments.merge) };
    let mut heading = add::Heading::default();
    let mut reports = Vec::new();
    let mut left = Vec::new();
    let mut refused: Vec<Refused> = Vec::new();
    for install in &installs {
        // The target of a link is an install of its own, or not ours to change.
        if install.link_is_ours && install.link_file.is_none() {
            continue;
        }
        let shown = machine.show(&install.path);
        let offer = match install.offer() {
            Ok(offer) => offer,
            Err(why) => {
                left.push(format!("{shown}: {why}; left as it is"));
                continue;
            }
        };
        let judged = install.judge(Some(&offer));
        if matches!(judged.state, State::Newer) && !arguments.force {
            let version = judged.version.unwrap_or_default();
            left.push(format!("{shown}: {version} is newer than what this kernels carries; left as it is"));
            continue;
        }
        let places = vec![install.place()];
        match add::install(machine, &offer, places, options, arguments.dry_run, &mut heading, output) {
            Ok(report) => reports.push(report),
            Err(error) => match error.downcast::<Refusal>() {
                Ok(refusal) => refused.extend(refusal.0),
                Err(error) => return Err(error),
            },
        }
    }
    for line in &left {
        output.note(format!("{} {line}", style::warning("note:")));
    }
    if refused.is_empty() {
        let code = add::code(&reports);
        output.json(&json!({ "updates": reports, "left": left, "recovered": recovered }));
        Ok(code)
    } else {
        Err(Refusal(refused).into())
    }
}
