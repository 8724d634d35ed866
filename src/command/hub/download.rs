//! `kernels hub download`.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use serde_json::{Value, json};

use super::wanted;
use crate::base::plural;
use crate::base::repo::Pinned;
use crate::cli::hub::Download;
use crate::command::failure::Usage;
use crate::hub::variants::Kernel;
use crate::hub::{Hub, cache, lock};
use crate::report::{Output, style};

pub(super) fn run(hub: &Hub, arguments: &Download, output: Output) -> Result<ExitCode> {
    let what = &arguments.what;
    // A repository has a slash inside. A folder is recognized by its first character, whether or not it exists.
    let kernels = if what.starts_with(['.', '/', '~']) || !what.contains('/') {
        lock::read(Path::new(what))?.iter().map(|one| one.kernel(hub)).collect::<Result<Vec<_>>>()?
    } else {
        let pinned: Pinned = what.parse().map_err(Usage)?;
        vec![Kernel::find(hub, &pinned)?]
    };
    let mut rows: Vec<Value> = Vec::new();
    for kernel in &kernels {
        let variants = kernel.wanted(wanted(&arguments.which))?;
        let path = cache::keep(hub, kernel, &variants)?;
        let names: Vec<&String> = variants.iter().map(|one| &one.name.text).collect();
        output.line(format!("{} {} at {}", style::good("downloaded"), kernel.repo, kernel.revision.name));
        output.line(format!("  {} in {}", plural(names.len(), "variant"), path.display()));
        rows.push(json!({"repo_id": kernel.repo.to_string(), "revision": kernel.revision.name,
            "commit": kernel.revision.commit, "path": path.to_string_lossy(), "variants": names}));
    }
    output.json(&json!({"kernels": rows}));
    Ok(ExitCode::SUCCESS)
}
