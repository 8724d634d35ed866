//! `kernels skills show`.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use serde_json::json;

use crate::cli::skills;
use crate::report::{Output, style};
use crate::skill::source::Skill;
use crate::skill::tokens;
use crate::skill::tree::SKILL_MD;

/// Prints a skill's SKILL.md, or the tokens that each file costs an agent.
pub(crate) fn run(arguments: &skills::Show, output: Output) -> Result<ExitCode> {
    let skill = Skill::open(Path::new(&arguments.skill))?;
    let entry = skill.tree.get(SKILL_MD).context("the skill has no SKILL.md")?;
    if !arguments.tokens {
        if output.is_json() {
            output.json(&json!({
                "name": skill.name,
                "version": skill.version,
                "skill_md": String::from_utf8_lossy(&entry.content),
            }));
        } else {
            output.content(&entry.content);
        }
        return Ok(ExitCode::SUCCESS);
    }
    let counts: Vec<(String, usize)> = skill
        .tree
        .iter()
        .filter_map(|(path, entry)| {
            let text = std::str::from_utf8(&entry.content).ok()?;
            Some((path.to_string(), tokens::count(text)))
        })
        .collect();
    let width = counts.iter().map(|(path, _)| path.len()).max().unwrap_or(0);
    for (path, count) in &counts {
        let when = if path == SKILL_MD { "always read once the skill is chosen" } else { "" };
        output.line(format!("{path:<width$}  {count:>6}  {}", style::faint(when)).trim_end());
    }
    let files: serde_json::Map<_, _> = counts.iter().map(|(path, count)| (path.clone(), json!(count))).collect();
    output.json(&json!({ "name": skill.name, "encoding": "o200k_base", "files": files }));
    Ok(ExitCode::SUCCESS)
}
