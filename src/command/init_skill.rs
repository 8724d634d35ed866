//! `kernels skills init`.

use std::ffi::OsStr;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use serde_json::json;

use super::failure::Usage;
use crate::agent::Machine;
use crate::base::dir::Dir;
use crate::base::disk::unique;
use crate::base::text::for_shell;
use crate::cli::skills;
use crate::install::{Refusal, place};
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
    let real = place::resolve(&folder)?;
    let path = folder.join(SKILL_MD);
    let created = place::create_folders(&real)?;
    if let Err(error) = Dir::open(&real).and_then(|folder| write(&folder, &TEMPLATE.replace("NAME", name))) {
        place::remove_empty(&real, created);
        if error.kind() == ErrorKind::AlreadyExists {
            return Err(Refusal::of(path, "is there already", &["choose another name"]).into());
        }
        let hint = place::hint(&error);
        return Err(error).with_context(|| format!("cannot write {}{hint}", path.display()));
    }
    let shown = folder.strip_prefix(&machine.cwd).unwrap_or(&folder);
    let named = if shown.is_relative() { Path::new(".").join(shown) } else { shown.to_path_buf() };
    let (shown, named) = (for_shell(shown), for_shell(&named));
    output.line(format!("  {} {}", style::good("wrote"), machine.show(&path)));
    output.line(style::faint(format!(
        "edit it; `kernels skills validate {shown}` checks, `kernels skills add {named}` installs"
    )));
    output.json(&json!({ "name": name, "path": path.to_string_lossy() }));
    Ok(ExitCode::SUCCESS)
}

/// Writes the file in one step, over nothing: half of it would be in the way of the next try. What a killed run left goes.
fn write(folder: &Dir, text: &str) -> io::Result<()> {
    if folder.has(SKILL_MD) {
        return Err(ErrorKind::AlreadyExists.into());
    }
    let (before, behind) = (format!(".{SKILL_MD}."), ".tmp");
    for entry in folder.entries()? {
        let name = entry.name.to_string_lossy();
        if name.starts_with(&before) && name.ends_with(behind) {
            folder.remove_file(&entry.name)?;
        }
    }
    let staged = format!("{before}{}{behind}", unique());
    let written = folder.write_new(&staged, text.as_bytes(), 0o666).and_then(|file| file.sync_all());
    written.and_then(|()| folder.move_new(&staged, folder, SKILL_MD)).inspect_err(|_| {
        let _ = folder.remove_file(&staged);
    })
}
