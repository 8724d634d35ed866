//! `kernels skills pack`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use serde_json::json;

use super::failure::Usage;
use super::pack_plugin;
use crate::base::disk;
use crate::cli::skills;
use crate::install::Refusal;
use crate::report::{Output, style};
use crate::skill::archive;
use crate::skill::source::Skill;

/// What is written: in the current folder or, where that is the skill's, beside the skill. The next run would pack what lies in it.
fn output_path(arguments: &skills::Pack, name: &str) -> Result<PathBuf> {
    let source = Path::new(&arguments.skill).canonicalize().ok().filter(|source| source.is_dir());
    let is_inside = |path: &Path| {
        let above = path.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
        source.as_ref().is_some_and(|source| above.canonicalize().is_ok_and(|above| above.starts_with(source)))
    };
    let path = arguments.output.clone().unwrap_or_else(|| PathBuf::from(name));
    match (&arguments.output, &source) {
        (Some(_), _) if is_inside(&path) => {
            let why = format!("{} lies in the skill that it would hold; name one outside with -o", path.display());
            Err(Usage(why).into())
        }
        (None, Some(source)) if is_inside(&path) => Ok(source.with_file_name(name)),
        _ => Ok(path),
    }
}

pub(crate) fn run(arguments: &skills::Pack, output: Output) -> Result<ExitCode> {
    let skill = Skill::open(Path::new(&arguments.skill))?;
    super::add::show_findings(&skill, output);
    if !arguments.layouts.is_empty() {
        let path = output_path(arguments, &format!("{}-plugin", skill.name))?;
        return pack_plugin::run(&skill, &path, arguments, output);
    }
    let bytes = archive::pack(&skill.name, &skill.tree).with_context(|| format!("cannot pack {}", skill.name))?;
    let path = output_path(arguments, &format!("{}.{}", skill.name, archive::EXTENSION))?;
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
