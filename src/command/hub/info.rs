//! `kernels hub info`.

use std::collections::BTreeSet;
use std::process::ExitCode;

use anyhow::Result;
use serde_json::json;

use crate::base::repo::Pinned;
use crate::hub::Hub;
use crate::hub::variants::Kernel;
use crate::report::Output;
use crate::variant::provenance::Provenance;

pub(super) fn run(hub: &Hub, pinned: &Pinned, output: Output) -> Result<ExitCode> {
    let kernel = Kernel::find(hub, pinned)?;
    // What describes the kernel is the same in every variant.
    let metadata = kernel.metadata(hub, &kernel.variants[0])?;
    let backends: BTreeSet<&str> = kernel.variants.iter().map(|one| one.name.backend()).collect();
    let backends: Vec<&str> = backends.into_iter().collect();
    let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
    let list = |values: &[String]| if values.is_empty() { "-".to_owned() } else { values.join(", ") };
    let depends: Vec<String> = metadata.kernel_depends.iter().map(|one| one.repo_id.clone()).collect();
    for (name, value) in [
        ("Repository", kernel.repo.to_string()),
        ("Revision", format!("{}, commit {}", kernel.revision.name, kernel.revision.commit)),
        ("Name", metadata.name.clone()),
        ("Version", metadata.version.to_string()),
        ("Minimum kernels version", text(&metadata.kernels_minver)),
        ("License", text(&metadata.license)),
        ("Upstream", text(&metadata.upstream)),
        ("Source", text(&metadata.source)),
        ("Built", text(&metadata.provenance.as_ref().map(Provenance::shown))),
        ("Python dependencies", list(&metadata.python_depends)),
        ("Kernel dependencies", list(&depends)),
        ("Backends", backends.join(", ")),
        ("Variants", kernel.variants.len().to_string()),
    ] {
        output.line(format!("{name}: {value}"));
    }
    output.json(&json!({
        "repo_id": kernel.repo.to_string(),
        "revision": kernel.revision.name,
        "commit": kernel.revision.commit,
        "name": metadata.name,
        "version": metadata.version,
        "kernels_minver": metadata.kernels_minver,
        "license": metadata.license,
        "upstream": metadata.upstream,
        "source": metadata.source,
        "provenance": metadata.provenance,
        "python_depends": metadata.python_depends,
        "kernel_depends": metadata.kernel_depends,
        "backends": backends,
        "variants": kernel.variants.iter().map(|one| &one.name.text).collect::<Vec<_>>(),
    }));
    Ok(ExitCode::SUCCESS)
}
