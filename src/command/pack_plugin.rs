//! `kernels skills pack --as`.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use serde_json::json;

use crate::cli::skills;
use crate::install::Refusal;
use crate::report::{Output, style};
use crate::skill::plugin;
use crate::skill::source::Skill;
use crate::skill::tree::Tree;

/// Writes the folder in one step if nothing is there. An equal folder is left as it is.
pub(super) fn run(skill: &Skill, path: &Path, arguments: &skills::Pack, output: Output) -> Result<ExitCode> {
    let tree = plugin::tree(skill, &arguments.layouts, arguments.owner.as_deref())?;
    if fs::symlink_metadata(path).is_ok() {
        if Tree::read(path).ok() != Some(tree.clone()) {
            let advice = "move it away, or choose another folder with -o";
            return Err(Refusal::of(path.to_owned(), "is there and differs", &[advice]).into());
        }
    } else {
        tree.place(path).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let what = format!("{}, {} files", arguments.layouts.join(", "), tree.len());
    output.line(format!("{} {}", path.display(), style::faint(what)));
    output.json(&json!({
        "path": path.to_string_lossy(),
        "name": skill.name,
        "version": skill.version,
        "layouts": arguments.layouts,
        "files": tree.iter().map(|(path, _)| path.as_str()).collect::<Vec<_>>(),
        "tree": skill.digest,
    }));
    Ok(ExitCode::SUCCESS)
}
