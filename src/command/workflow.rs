//! The GitHub workflow that `kernels ci --workflow` prints.

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::command::failure::Usage;
use crate::toolchain::Toolchain;

const TEMPLATE: &str = include_str!("workflow.yml");

/// The workflow for some projects, relative to the repository's top.
pub(super) fn render(dirs: &[PathBuf]) -> Result<String> {
    let dirs = dirs.iter().map(|dir| quoted(dir)).collect::<Result<Vec<_>>>()?.join(" ");
    Ok(TEMPLATE.replace("@DIRS@", &dirs).replace("@PINNED@", Toolchain::PINNED))
}

/// Quotes a path for the shell of a step, inside a YAML block, where GitHub expands `${{ }}` before the shell runs.
fn quoted(dir: &Path) -> Result<String> {
    let text =
        dir.to_str().filter(|text| dir.is_relative() && !text.contains("${{") && !text.chars().any(char::is_control));
    let Some(text) = text else {
        return Err(Usage(format!(
            "{} cannot stand in a workflow: name the project by its path from the repository's top",
            dir.display()
        ))
        .into());
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || "./_-".contains(c);
    if !text.is_empty() && !text.starts_with('-') && text.chars().all(plain) {
        return Ok(text.to_owned());
    }
    Ok(format!("'{}'", text.replace('\'', r"'\''")))
}
