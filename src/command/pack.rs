//! `kernels skills pack`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use serde_json::json;

use super::pack_plugin;
use crate::base::disk;
use crate::cli::skills;
use crate::install::Refusal;
use crate::report::{Output, style};
use crate::skill::archive;
use crate::skill::source::Skill;

pub(crate) fn run(arguments: &skills::Pack, output: Output) -> Result<ExitCode> {
    let skill = Skill::open(Path::new(&arguments.skill))?;
    super::add::show_findings(&skill, output);
    if !arguments.layouts.is_empty() {
        return pack_plugin::run(&skill, arguments, output);
    }
    let bytes = archive::pack(&skill.name, &skill.tree).with_context(|| format!("cannot pack {}", skill.name))?;
    let path =
        arguments.output.clone().unwrap_or_else(|| PathBuf::from(format!("{}.{}", skill.name, archive::EXTENSION)));
    match fs::symlink_metadata(&path) {
        Ok(meta) if meta.is_file() && fs::read(&path).is_ok_and(|there| there == bytes) => {}
        Ok(meta) if !arguments.force || !meta.is_file() => {
            let advice = if meta.is_file() { "--force replaces it" } else { "choose another name with -o" };
            return Err(Refusal::of(path, "is there and differs", &[advice]).into());
        }
        _ => {
            disk::write_atomic(&path, &bytes, 0o644).with_context(|| format!("cannot write {}", path.display()))?;
        }
    }
    output.line(format!(
        "{} {}",
        path.display(),
        style::faint(format!("{} files, {} bytes, tree {}", skill.tree.len(), bytes.len(), skill.digest))
    ));
    output.json(&json!({
        "path": path.to_string_lossy(),
        "name": skill.name,
        "version": skill.version,
        "files": skill.tree.len(),
        "bytes": bytes.len(),
        "tree": skill.digest,
    }));
    Ok(ExitCode::SUCCESS)
}
