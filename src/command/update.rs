//! `kernels skills update`.

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::{Result, bail};
use serde_json::json;

use super::batch::Batch;
use super::{add, elsewhere, failure, status, target};
use crate::agent::Machine;
use crate::cli::skills;
use crate::install::State;
use crate::install::apply;
use crate::install::discover::{self, Install};
use crate::install::state::Judgement;
use crate::install::step::Options;
use crate::remote::Fetcher;
use crate::report::{Output, style};
use crate::skill::Digest;
use crate::skill::address::Address;
use crate::skill::source::Skill;

/// What was fetched and agreed to, once for all places of a skill.
#[derive(Default)]
struct Elsewhere {
    fetcher: Fetcher,
    fetched: BTreeMap<(Address, String), Result<Skill, String>>,
    agreed: BTreeMap<Digest, bool>,
}

impl Elsewhere {
    fn offer(&mut self, install: &Install, from: &Address, output: Output) -> Result<Skill, String> {
        let name = &install.name;
        let fetch = || {
            output.note(style::faint(format!("fetching {from}")));
            let skills = self.fetcher.open(from, std::slice::from_ref(name), None);
            let skill = skills.map_err(|error| failure::message(&error))?.pop();
            skill.filter(|skill| skill.name == *name).ok_or_else(|| format!("{from} has another skill now"))
        };
        self.fetched.entry((from.clone(), name.clone())).or_insert_with(fetch).clone()
    }

    /// If there is a difference, shows it and asks.
    fn agree(&mut self, at: &Install, judged: &Judgement, offer: &Skill, yes: bool, output: Output) -> Result<()> {
        let same = judged.receipt.as_ref().is_none_or(|receipt| receipt.tree == offer.digest);
        match self.agreed.get(&offer.digest) {
            _ if same || offer.source.address().is_none() => Ok(()),
            Some(true) => Ok(()),
            Some(false) => bail!("{}: you declined", at.path.display()),
            None => {
                let agreed = elsewhere::ask_to_update(at, offer, yes, output);
                self.agreed.insert(offer.digest, agreed.is_ok());
                agreed
            }
        }
    }
}

/// Updates installs to the version on offer. A protected install does not block the others; it is
/// refused at the end.
pub(crate) fn run(machine: &Machine, arguments: &skills::Update, output: Output) -> Result<ExitCode> {
    let places = target::places_to_search(machine, &arguments.select.targets)?;
    let recovered = if arguments.looking.is_only() { Vec::new() } else { apply::recover(&places)? };
    add::show_recovered(machine, &recovered, output);
    let mut installs = target::installs(machine, &arguments.select)?;
    installs.sort_by(|a, b| a.name.cmp(&b.name));
    let unlisted = discover::unlisted(machine, &status::levels(&arguments.select.targets), &places);
    if installs.is_empty() && unlisted.is_empty() {
        output.line(style::faint("nothing is installed"));
    }
    let options = Options { force: arguments.force, link: false, merge: add::merge(arguments.merge) };
    let (mut batch, mut heading) = (Batch::default(), add::Heading::default());
    batch.failed.extend(unlisted);
    let mut elsewhere = Elsewhere::default();
    let mut left = Vec::new();
    for install in &installs {
        // The target of a link is an install of its own, or not ours to change.
        if install.link_is_ours && install.link_file.is_none() {
            continue;
        }
        let shown = machine.show(&install.path);
        let offer = match install.address() {
            Some(from) => elsewhere.offer(install, &from, output),
            None => install.offer(machine),
        };
        let offer = match offer {
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
        let dry_run = arguments.looking.is_only();
        let agreed = elsewhere.agree(install, &judged, &offer, arguments.yes || dry_run, output);
        batch.take(agreed.and_then(|()| add::install(machine, &offer, places, options, dry_run, &mut heading, output)));
    }
    for line in &left {
        output.note(format!("{} {line}", style::warning("note:")));
    }
    left.extend(batch.failed.iter().cloned());
    Ok(batch.end(Some("updates"), json!({ "left": left, "recovered": recovered }), arguments.looking, output))
}
