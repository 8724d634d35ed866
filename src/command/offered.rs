//! The skills that a source holds: what `find --in` looks at, `add --all` takes, and `add --list` prints.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use serde_json::{Value, json};

use super::elsewhere;
use super::failure::Usage;
use crate::base::plural;
use crate::base::text::one_line;
use crate::report::{Output, style};
use crate::skill::address::Address;
use crate::skill::bundled;
use crate::skill::source::{Skill, skills_in};
use crate::skill::tree::SKILL_MD;

/// A skill of a source, or why it cannot be installed.
pub(crate) struct Offered {
    name: String,
    pub(crate) skill: Result<Skill>,
}

/// All skills of a source (a folder of skills, a skill's folder or archive, an address), or the embedded skills without one.
pub(crate) fn by(source: Option<&Path>, output: Output) -> Result<Vec<Offered>> {
    if let Some(from) = source.and_then(Address::typed) {
        let from = from.map_err(|error| Usage(error.to_string()))?;
        let skills = elsewhere::fetch(&from, &["*".to_owned()], false, output)?;
        return Ok(skills.into_iter().map(|skill| Offered { name: skill.name.clone(), skill: Ok(skill) }).collect());
    }
    let Some(path) = source else {
        let embedded = bundled::names().into_iter();
        return Ok(embedded.map(|name| Offered { name: name.to_owned(), skill: Skill::bundled(name) }).collect());
    };
    let folder = path.is_dir() && !path.join(SKILL_MD).exists();
    let inside = if folder { skills_in(path)? } else { Vec::new() };
    if inside.is_empty() {
        let skill = Skill::open(path)?;
        return Ok(vec![Offered { name: skill.name.clone(), skill: Ok(skill) }]);
    }
    Ok(inside.into_iter().map(|name| Offered { skill: Skill::read(&path.join(&name)), name }).collect())
}

/// Lists the skills of a source, and installs nothing.
pub(super) fn list(source: Option<&Path>, output: Output) -> Result<ExitCode> {
    let offered = by(source, output)?;
    let place = source.map_or("this kernels".to_owned(), |path| path.display().to_string());
    output.line(style::strong(format!("{} in {place}", plural(offered.len(), "skill"))));
    let reports: Vec<Value> = offered.iter().map(|one| show(one, output)).collect();
    output.json(&json!({ "skills": reports }));
    Ok(ExitCode::SUCCESS)
}

fn show(Offered { name, skill }: &Offered, output: Output) -> Value {
    let skill = match skill {
        Ok(skill) => skill,
        Err(error) => {
            let why = format!("{error:#}");
            let (name, first) = (one_line(name), one_line(why.lines().next().unwrap_or_default()));
            output.line(format!("  {name}  {} {first}", style::bad("cannot be installed:")));
            return json!({ "name": name, "installable": false, "why": why });
        }
    };
    let (version, description) = (skill.version.as_deref().unwrap_or_default(), skill.description());
    let size = format!("{}, {} KB", plural(skill.tree.len(), "file"), skill.tree.bytes().div_ceil(1000));
    output.line(format!("  {} {version}  {}", style::strong(name), style::faint(size)));
    output.line(format!("      {description}"));
    json!({
        "name": name,
        "installable": true,
        "version": version,
        "description": description,
        "files": skill.tree.len(),
        "bytes": skill.tree.bytes(),
        "tree": skill.digest,
    })
}
