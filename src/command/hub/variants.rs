//! `kernels hub variants`.

use std::cmp::Reverse;
use std::process::ExitCode;

use anyhow::Result;
use serde_json::{Value, json};

use crate::cli::hub::Variants;
use crate::compile::parallel;
use crate::hub::Hub;
use crate::hub::loader::Loader;
use crate::hub::name::System;
use crate::hub::read::Revision;
use crate::hub::variants::{Kernel, Remote};
use crate::report::{Output, style};

/// A variant as the library judges it.
struct Judged<'a> {
    variant: &'a Remote,
    /// Whether its name fits this system.
    fits: bool,
    /// Why it would not be loaded.
    why: Option<String>,
    /// Whether the library would warn that it was built from changes that no commit holds.
    dirty: bool,
}

pub(super) fn run(hub: &Hub, arguments: &Variants, output: Output) -> Result<ExitCode> {
    let system = System::here(arguments.python.as_deref());
    let loader = Loader::of(&system);
    let repo = &arguments.kernel.repo;
    let kernels = if arguments.all_versions {
        let refs = hub.refs(repo)?;
        let revisions = refs.versions().into_iter();
        revisions
            .map(|(version, commit)| Revision { name: format!("v{version}"), commit: commit.to_owned() })
            .map(|revision| Kernel::at(hub, repo, revision))
            .collect::<Result<Vec<_>>>()?
    } else {
        vec![Kernel::find(hub, &arguments.kernel)?]
    };
    let mut rows: Vec<Value> = Vec::new();
    for kernel in &kernels {
        output.line(format!("{} {}", style::strong(&kernel.revision.name), style::faint(&kernel.revision.commit)));
        let judged = judge(hub, kernel, (&system, &loader))?;
        rows.extend(list(kernel, &judged, arguments.only_compatible, output));
    }
    output.line(style::faint(match (&loader.library, loader.card) {
        (Some(library), Some(card)) => format!("for library {library} and a card of {}.{}", card / 10, card % 10),
        (Some(library), None) => format!("for library {library}; there is no card to compare architectures with"),
        (None, _) => "no library `kernels` lies beside torch: versions were not compared".to_owned(),
    }));
    let arch = loader.card.map(|card| format!("{}.{}", card / 10, card % 10));
    output.json(&json!({"repo_id": repo.to_string(), "library": loader.library, "card": arch, "variants": rows}));
    Ok(ExitCode::SUCCESS)
}

/// The variants of one commit, in the order in which the library prefers them.
fn judge<'a>(hub: &Hub, kernel: &'a Kernel, (system, loader): (&System, &Loader)) -> Result<Vec<Judged<'a>>> {
    let why = |variant: &Remote| match variant.name.unsuitable(system) {
        Some(why) => Ok((false, Some(why), false)),
        None => match kernel.metadata(hub, variant) {
            Ok(metadata) => Ok((true, loader.refuses(&metadata), metadata.is_dirty())),
            Err(error) => Ok((true, Some(format!("{error:#}")), false)),
        },
    };
    let all = parallel::map(&kernel.variants, why)?.into_iter().zip(&kernel.variants);
    let mut all: Vec<Judged> = all.map(|((fits, why, dirty), variant)| Judged { variant, fits, why, dirty }).collect();
    all.sort_by_key(|one| (!one.fits, Reverse(one.variant.name.preference())));
    Ok(all)
}

fn list(kernel: &Kernel, judged: &[Judged], only_compatible: bool, output: Output) -> Vec<Value> {
    let mut rows = Vec::new();
    for (at, one) in judged.iter().enumerate().filter(|(_, one)| !only_compatible || one.why.is_none()) {
        let Judged { variant, fits, why, dirty } = one;
        let (name, preferred) = (&variant.name.text, at == 0 && *fits);
        let shown = match why {
            Some(why) if preferred => style::bad(format!("chosen by the library, which then refuses it: {why}")),
            Some(why) => style::faint(why),
            None if preferred => style::good("compatible, preferred"),
            None => style::good("compatible"),
        };
        let warns = if *dirty { ", with a warning: it was built from changes that no commit holds" } else { "" };
        output.line(format!("  {name}  {shown}{warns}"));
        rows.push(json!({"revision": kernel.revision.name, "variant": name, "compatible": why.is_none(),
            "preferred": preferred, "reason": why, "dirty": dirty}));
    }
    rows
}
