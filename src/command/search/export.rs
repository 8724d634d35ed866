//! `kernels search export`.

use std::fs;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use serde_json::json;

use super::state;
use crate::base::plural;
use crate::base::text::for_shell;
use crate::cli::search::Export;
use crate::install::Refusal;
use crate::report::{Output, file};
use crate::search::export;

pub(super) fn run(arguments: &Export, output: Output) -> Result<ExitCode> {
    let (run, out) = (&arguments.of.run, &arguments.out);
    let state = state(run)?;
    if state.candidates.is_empty() {
        bail!("{} has no candidate yet; `kernels search resume {}` goes on with it", run.display(), for_shell(run));
    }
    if fs::read_dir(out).is_ok_and(|mut entries| entries.next().is_some()) {
        let advice = "Name another folder, or empty this one.";
        return Err(Refusal::of(out, "has files already", &[advice]).into());
    }
    let files = export::files(&state, run)?;
    fs::create_dir_all(out).with_context(|| format!("cannot make {}", out.display()))?;
    for (name, content) in &files {
        file::write(&out.join(name), content)?;
    }
    output.line(format!("{} in {}", plural(state.candidates.len(), "row"), out.display()));
    let names = files.iter().map(|(name, content)| ((*name).to_owned(), json!(content.len())));
    let names: serde_json::Map<String, serde_json::Value> = names.collect();
    output.json(&json!({ "folder": out, "rows": state.candidates.len(), "bytes": names }));
    Ok(ExitCode::SUCCESS)
}
