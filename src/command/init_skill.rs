//! `kernels skills init`.

use std::ffi::OsStr;
use std::fs;
use std::io::{ErrorKind, Write as _};
use std::process::ExitCode;

use anyhow::{Context, Result};
use serde_json::json;

use super::failure::Usage;
use crate::agent::Machine;
use crate::cli::skills;
use crate::install::Refusal;
use crate::report::{Output, style};
use crate::skill::lint::is_valid_name;
use crate::skill::tree::SKILL_MD;

/// What a new skill starts with.
const TEMPLATE: &str = include_str!("../skill/new.md");

/// Writes the SKILL.md of a new skill, and overwrites nothing.
pub(crate) fn run(machine: &Machine, arguments: &skills::InitSkill, output: Output) -> Result<ExitCode> {
    let folder = machine.cwd.join(&arguments.folder);
    let name = folder.file_name().and_then(OsStr::to_str).unwrap_or_default();
    if !is_valid_name(name) {
        let valid: String =
            name.to_lowercase().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        let valid = valid.split('-').filter(|part| !part.is_empty()).collect::<Vec<_>>().join("-");
        let close = if is_valid_name(&valid) { format!("; did you mean {valid}?") } else { String::new() };
        let shown = arguments.folder.display();
        return Err(Usage(format!("{shown}: a skill's name is 1 to 64 of a-z, 0-9 and single hyphens{close}")).into());
    }
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let path = folder.join(SKILL_MD);
    let text = TEMPLATE.replace("NAME", name);
    let new = fs::OpenOptions::new().write(true).create_new(true).open(&path);
    match new.and_then(|mut file| file.write_all(text.as_bytes())) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            return Err(Refusal::of(path, "is there already", &["choose another name"]).into());
        }
        Err(error) => return Err(error).with_context(|| format!("cannot write {}", path.display())),
    }
    let shown = machine.show(&folder);
    output.line(format!("  {} {}", style::good("wrote"), machine.show(&path)));
    output.line(style::faint(format!(
        "edit it; `kernels skills validate {shown}` checks, `kernels skills add ./{shown}` installs"
    )));
    output.json(&json!({ "name": name, "path": path.to_string_lossy() }));
    Ok(ExitCode::SUCCESS)
}
