//! `kernels hub variants`.

use std::process::ExitCode;

use anyhow::Result;
use serde_json::{Value, json};

use crate::cli::hub::Variants;
use crate::hub::Hub;
use crate::hub::name::{Name, System};
use crate::hub::read::Revision;
use crate::hub::variants::Kernel;
use crate::report::{Output, style};

pub(super) fn run(hub: &Hub, arguments: &Variants, output: Output) -> Result<ExitCode> {
    let system = System::here(arguments.python.as_deref());
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
        rows.extend(list(kernel, &system, arguments.only_compatible, output));
    }
    output.json(&json!({"repo_id": repo.to_string(), "variants": rows}));
    Ok(ExitCode::SUCCESS)
}

/// The variants of one commit, in the order in which the library prefers them.
fn list(kernel: &Kernel, system: &System, only_compatible: bool, output: Output) -> Vec<Value> {
    let mut names: Vec<(&Name, Option<String>)> =
        kernel.variants.iter().map(|one| (&one.name, one.name.unsuitable(system))).collect();
    names.sort_by_key(|(name, why)| (why.is_some(), std::cmp::Reverse(name.preference())));
    if only_compatible {
        names.retain(|(_, why)| why.is_none());
    }
    let mut preferred = true;
    names
        .into_iter()
        .map(|(name, why)| {
            let first = std::mem::take(&mut preferred) && why.is_none();
            let shown = match &why {
                Some(why) => style::faint(why),
                None if first => style::good("compatible, preferred"),
                None => style::good("compatible"),
            };
            output.line(format!("  {}  {shown}", name.text));
            json!({"revision": kernel.revision.name, "variant": name.text, "compatible": why.is_none(),
                "preferred": first, "reason": why})
        })
        .collect()
}
