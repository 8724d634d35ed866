//! `kernels hub versions`.

use std::process::ExitCode;

use anyhow::Result;
use serde_json::{Value, json};

use crate::base::plural;
use crate::base::repo::Repo;
use crate::hub::Hub;
use crate::hub::read::Revision;
use crate::hub::variants::Kernel;
use crate::report::{Output, style};

pub(super) fn run(hub: &Hub, repo: &Repo, output: Output) -> Result<ExitCode> {
    let refs = hub.refs(repo)?;
    let mut versions: Vec<Value> = Vec::new();
    for (version, commit) in refs.versions() {
        let revision = Revision { name: format!("v{version}"), commit: commit.to_owned() };
        let kernel = Kernel::at(hub, repo, revision);
        let names: Vec<String> =
            kernel.iter().flat_map(|kernel| kernel.variants.iter().map(|one| one.name.text.clone())).collect();
        output.line(format!("{} {commit}, {}", style::strong(version), plural(names.len(), "variant")));
        for name in &names {
            output.line(format!("  {name}"));
        }
        versions
            .push(json!({"version": version, "branch": format!("v{version}"), "commit": commit, "variants": names}));
    }
    if versions.is_empty() {
        output.line(format!("{repo} has no versions: none of its branches is v and a number"));
    }
    output.json(&json!({"repo_id": repo.to_string(), "versions": versions, "tags": refs.tags}));
    Ok(ExitCode::SUCCESS)
}
