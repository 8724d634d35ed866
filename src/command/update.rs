//! `kernels skills update`.

use std::process::ExitCode;

use anyhow::Result;
use serde_json::json;

use super::batch::Batch;
use super::{add, target};
use crate::agent::Machine;
use crate::cli::skills;
use crate::install::State;
use crate::install::apply;
use crate::install::step::Options;
use crate::report::{Output, style};

/// Updates installs to the version on offer. A protected install does not block the others; it is
/// refused at the end.
pub(crate) fn run(machine: &Machine, arguments: &skills::Update, output: Output) -> Result<ExitCode> {
    let places = target::places_to_search(machine, &arguments.select.targets)?;
    let recovered = if arguments.looking.is_only() { Vec::new() } else { apply::recover(&places)? };
    add::show_recovered(machine, &recovered, output);
    let mut installs = target::installs(machine, &arguments.select)?;
    installs.sort_by(|a, b| a.name.cmp(&b.name));
    if installs.is_empty() {
        output.line(style::faint("nothing is installed"));
    }
    let options = Options { force: arguments.force, link: false, merge: add::merge(arguments.merge) };
    let (mut batch, mut heading) = (Batch::default(), add::Heading::default());
    let mut left = Vec::new();
    for install in &installs {
        // The target of a link is an install of its own, or not ours to change.
        if install.link_is_ours && install.link_file.is_none() {
            continue;
        }
        let shown = machine.show(&install.path);
        let offer = match install.offer() {
            Ok(offer) => offer,
            Err(why) => {
                batch.failed.push(format!("{shown}: {why}; left as it is"));
                continue;
            }
        };
        let judged = install.judge(Some(&offer));
        if matches!(judged.state, State::Newer) && !arguments.force {
            let version = judged.version.unwrap_or_default();
            let offered = offer.version.unwrap_or_default();
            left.push(format!("{shown}: {version} is newer than {offered}; left as it is"));
            continue;
        }
        let places = vec![install.place()];
        batch.take(add::install(machine, &offer, places, options, arguments.looking.is_only(), &mut heading, output));
    }
    for line in &left {
        output.note(format!("{} {line}", style::warning("note:")));
    }
    left.extend(batch.failed.iter().cloned());
    Ok(batch.end(Some("updates"), json!({ "left": left, "recovered": recovered }), arguments.looking, output))
}
