//! `kernels skills find`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use serde_json::{Value, json};

use super::offered;
use crate::agent::{Machine, sight, table};
use crate::base::disk::read_plain;
use crate::base::plural;
use crate::base::text::one_line;
use crate::cli::skills;
use crate::report::{Output, style};
use crate::skill::frontmatter::Document;
use crate::skill::tree::SKILL_MD;

/// A longer SKILL.md is not read.
const MOST: u64 = 1 << 20;

/// A skill's text, and all places where it lies.
struct Candidate {
    name: String,
    text: String,
    places: Vec<String>,
}

struct Hit {
    /// 0 if its name has all words, 1 if name and description have them, 2 if they are found with the text.
    rank: usize,
    candidate: Candidate,
    description: String,
    version: Option<String>,
    /// The first line of SKILL.md with one of the words, if name and description do not have them all.
    line: Option<(usize, String)>,
}

/// Prints the skills that have every word; exit 1 if there is none.
pub(crate) fn run(machine: &Machine, arguments: &skills::Find, output: Output) -> Result<ExitCode> {
    let candidates = match &arguments.source {
        Some(path) => of_source(Some(path), output)?,
        None => installed(machine).into_iter().chain(of_source(None, output)?).collect(),
    };
    let words: Vec<String> = arguments.words.iter().map(|word| word.to_lowercase()).collect();
    let looked = candidates.len();
    let mut hits: Vec<Hit> = candidates.into_iter().filter_map(|candidate| look(candidate, &words)).collect();
    hits.sort_by(|a, b| (a.rank, &a.candidate.name).cmp(&(b.rank, &b.candidate.name)));
    for hit in &hits {
        let (candidate, version) = (&hit.candidate, hit.version.as_deref().unwrap_or_default());
        let places = style::faint(candidate.places.join(", "));
        output.line(format!("{} {version}  {places}", style::strong(&candidate.name)));
        output.line(format!("    {}", hit.description));
        if let Some((number, line)) = &hit.line {
            output.line(format!("    {} {line}", style::place(format!("{SKILL_MD}:{number}:"))));
        }
    }
    if hits.is_empty() {
        output.line(style::faint(format!("nothing found in {}", plural(looked, "skill"))));
    }
    output.json(&json!({ "looked_at": looked, "skills": hits.iter().map(Hit::to_json).collect::<Vec<_>>() }));
    Ok(if hits.is_empty() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The skills of a source. One that cannot be installed cannot be found.
fn of_source(source: Option<&Path>, output: Output) -> Result<Vec<Candidate>> {
    let place = source.map_or("embedded".to_owned(), |path| path.display().to_string());
    let skills = offered::by(source, output)?.into_iter().filter_map(|one| one.skill.ok());
    let candidate = |text: &str, name| Candidate { name, text: text.to_owned(), places: vec![place.clone()] };
    Ok(skills.map(|skill| candidate(skill.text(), skill.name.clone())).collect())
}

/// What agents find from here, also what another tool installed; each text once.
fn installed(machine: &Machine) -> Vec<Candidate> {
    let mut found: BTreeMap<(String, String), Vec<PathBuf>> = BTreeMap::new();
    for seen in table::all().iter().flat_map(|agent| sight::of(agent, machine)) {
        let Some(bytes) = seen.real.and_then(|real| read_plain(&real.join(SKILL_MD), MOST).ok()) else {
            continue;
        };
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let places = found.entry((seen.name, text)).or_default();
        if !places.contains(&seen.path) {
            places.push(seen.path);
        }
    }
    let candidate = |((name, text), places): ((String, String), Vec<PathBuf>)| Candidate {
        name: one_line(&name),
        text,
        places: places.iter().map(|path| one_line(&machine.show(path))).collect(),
    };
    found.into_iter().map(candidate).collect()
}

fn look(candidate: Candidate, words: &[String]) -> Option<Hit> {
    let header = Document::parse(&candidate.text).ok();
    let of_header = |key| one_line(header.as_ref().and_then(|header| header.text(key)).unwrap_or_default());
    let description = of_header("description");
    let name = candidate.name.to_lowercase();
    let known = format!("{name}\n{}", description.to_lowercase());
    let text = format!("{known}\n{}", candidate.text.to_lowercase());
    let has_all = |text: &&String| words.iter().all(|word| text.contains(word));
    let rank = [&name, &known, &text].iter().position(has_all)?;
    let missing = |line: &str| words.iter().any(|word| !known.contains(word) && line.to_lowercase().contains(word));
    let mut lines = candidate.text.lines().zip(1..).filter(|(line, _)| rank == 2 && missing(line));
    let line = lines.next().map(|(line, number)| (number, one_line(line)));
    let version = header.as_ref().and_then(Document::version).map(one_line);
    Some(Hit { rank, candidate, description, version, line })
}

impl Hit {
    fn to_json(&self) -> Value {
        json!({
            "name": self.candidate.name,
            "version": self.version,
            "description": self.description,
            "places": self.candidate.places,
            "line": self.line.as_ref().map(|(number, text)| json!({ "number": number, "text": text })),
        })
    }
}
