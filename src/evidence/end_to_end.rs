//! The record of a whole model on one card: `e2e-<name>-<gpu>.json`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::recorded::whole_numbers;
use super::rounds::DIGITS;
use super::{FORMAT, Freshness, Standing, form};
use crate::end_to_end::{EndToEnd, sources};
use crate::gpu::slug;
use crate::report::end_to_end::chart;
use crate::report::{figure, file};

/// The prefix of its file name.
pub(super) const PREFIX: &str = "e2e-";
/// Required contenders. torch.compile may fail on a model; the record says so.
const NEEDED: [&str; 2] = ["eager", "kernels"];

/// A model's times on a card.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct EndToEndEvidence {
    /// 1.
    pub(crate) format: u32,
    /// The project's folder, as seen from the one in which the folder of evidence lies.
    pub folder: String,
    /// `sources::digest`.
    pub(crate) source_digest: String,
    /// The version of the program that recorded it.
    pub(crate) harness: String,
    /// What the script wrote; figures have four significant digits.
    pub result: EndToEnd,
}

/// The argument that leaves out whole cases, and nothing else.
pub(crate) const SOME_CASES: &str = "--cases";

/// Writes the record of a result into `dir`, with its chart beside it, and returns the files.
///
/// A result of some cases completes an existing record of the same sources, card, versions, model and kernel: its
/// cases replace those of the same name, and are marked as of another run. All contenders of a case are of
/// one run.
///
/// Refuses, and writes nothing, when the result is of a small model or not whole, when ours or eager was wrong or
/// failed, and when a file is there that belongs to another project.
pub(crate) fn record(dir: &Path, project: &Path, result: &EndToEnd) -> Result<Vec<PathBuf>> {
    ensure!(!result.smoke, "nothing is recorded: --smoke times a small model, to see that everything works");
    let completes = result.partial.as_deref() == Some(SOME_CASES);
    if let (Some(left_out), false) = (&result.partial, completes) {
        bail!("nothing is recorded: a record has all that the script times; leave out {left_out}");
    }
    let card = result.card.as_ref().context("nothing is recorded: the script names no card")?;
    sound(result)?;
    let mut evidence = EndToEndEvidence {
        format: FORMAT,
        folder: seen_from(dir, project)?,
        source_digest: sources::digest(project, &result.sources)?,
        harness: crate::base::bundle::version().to_owned(),
        result: result.clone(),
    };
    let path = dir.join(format!("{PREFIX}{}-{}.json", result.name, slug(&card.name)));
    if fs::symlink_metadata(&path).is_ok() {
        let there = EndToEndEvidence::read(&path)?;
        ensure!(
            there.folder == evidence.folder,
            "{} is evidence of {}; give --evidence another folder, or rename the model",
            path.display(),
            there.folder
        );
        if completes {
            evidence = there.completed_by(evidence)?;
        }
    } else if completes {
        bail!("nothing is recorded: {SOME_CASES} completes a record, and there is no {}; leave it out", path.display());
    }
    fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    file::write(&path, evidence.to_json()?.as_bytes())?;
    // Drawn from what was written: the record and its chart always agree.
    let picture = path.with_extension("svg");
    let written = EndToEndEvidence::read(&path)?;
    file::write(&picture, chart(&written.result).as_bytes())?;
    Ok(vec![path, picture])
}

/// Whether a run of some cases can complete a record in `dir`, by what is known before the script runs for minutes: the sources, and
/// the card, if there is one.
pub(crate) fn can_be_completed(dir: &Path, project: &Path, card: Option<&str>) -> Result<()> {
    let folder = seen_from(dir, project)?;
    let whole = std::path::absolute(dir)?;
    let root = whole.parent().unwrap_or(&whole);
    let of_card = card.map(|name| format!("-{}.json", slug(name))).unwrap_or_default();
    let mut records = if dir.is_dir() { EndToEndEvidence::read_all(dir)? } else { Vec::new() };
    records.retain(|(path, record)| record.folder == folder && path.to_string_lossy().ends_with(&of_card));
    let Some((first, _)) = records.first() else {
        bail!(
            "nothing would be recorded: {SOME_CASES} completes a record, and there is none of {folder}{} in {}; leave it out",
            card.map(|name| format!(" on {name}")).unwrap_or_default(),
            dir.display()
        );
    };
    ensure!(
        records.iter().any(|(_, record)| record.freshness(root) == Freshness::Fresh),
        "nothing would be recorded: {SOME_CASES} completes {}, which is of other sources; leave it out",
        first.display()
    );
    Ok(())
}

/// Whether a result may become evidence: no errors, and both required contenders timed.
fn sound(result: &EndToEnd) -> Result<()> {
    let findings = result.findings();
    let of_compile = |line: &String| line.contains(", compile failed: ");
    if let Some(finding) = findings.iter().find(|line| !of_compile(line)) {
        bail!("nothing is recorded, because something is wrong ({} in all): {finding}", findings.len());
    }
    for needed in NEEDED {
        ensure!(
            result.cases.iter().any(|case| case.median(needed).is_some()),
            "nothing is recorded: {needed} was not timed"
        );
    }
    Ok(())
}

/// The path of a project relative to the folder that contains `evidence`, or why nothing can be recorded there.
pub(crate) fn seen_from(evidence: &Path, project: &Path) -> Result<String> {
    let evidence = std::path::absolute(evidence)?;
    let base = evidence.parent().unwrap_or(&evidence);
    let base = base.canonicalize().unwrap_or_else(|_| base.to_path_buf());
    let project = project.canonicalize().with_context(|| format!("there is no {}", project.display()))?;
    let inside = project.strip_prefix(&base).map_err(|_| {
        anyhow::anyhow!(
            "nothing is recorded: {} does not lie in {}, so its sources cannot be found from there",
            project.display(),
            base.display()
        )
    })?;
    let text = inside.to_string_lossy().replace('\\', "/");
    Ok(if text.is_empty() { ".".to_owned() } else { text })
}

impl EndToEndEvidence {
    /// This record with the cases of a later run of the same configuration.
    fn completed_by(mut self, later: Self) -> Result<Self> {
        let (old, new) = (&self.result, &later.result);
        let card = |of: &EndToEnd| of.card.as_ref().map(|card| (card.name.clone(), card.driver.clone()));
        let differs = [
            ("sources", self.source_digest != later.source_digest),
            ("card or driver", card(old) != card(new)),
            ("versions", old.versions != new.versions),
            ("model", old.model != new.model),
            ("kernel", old.kernel.get("id") != new.kernel.get("id")),
            ("torch.compile mode", old.compile_mode != new.compile_mode),
        ];
        if let Some((what, _)) = differs.iter().find(|(_, differs)| *differs) {
            bail!("nothing is recorded: the record that {SOME_CASES} would complete has another {what}; leave it out");
        }
        let in_later = |name: &str| {
            later.result.cases.iter().any(|case| case.name == name)
                || later.result.skipped.iter().any(|one| one.case == name)
        };
        self.result.cases.retain(|case| !in_later(&case.name));
        self.result.skipped.retain(|one| !in_later(&one.case));
        for mut case in later.result.cases {
            let apart = "timed in a later run than the other cases";
            case.note = Some(match case.note {
                Some(note) => format!("{note}; {apart}"),
                None => apart.to_owned(),
            });
            self.result.cases.push(case);
        }
        self.result.skipped.extend(later.result.skipped);
        Ok(self)
    }

    /// The file's text.
    pub fn to_json(&self) -> Result<String> {
        let mut value = serde_json::to_value(self)?;
        if let Some(cases) = value.pointer_mut("/result/cases") {
            rounded(cases);
        }
        whole_numbers(&mut value);
        form::text(&value)
    }

    /// Reads a file; errors name it.
    pub fn read(path: &Path) -> Result<Self> {
        super::read(path)
    }

    /// All of a folder, by file name.
    pub fn read_all(dir: &Path) -> Result<Vec<(PathBuf, Self)>> {
        super::files(dir, |name| name.starts_with(PREFIX))?
            .into_iter()
            .map(|path| Self::read(&path).map(|evidence| (path, evidence)))
            .collect()
    }

    /// Compares it with the sources now in its project's folder; `root` contains the folder of evidence.
    pub fn freshness(&self, root: &Path) -> Freshness {
        let dir = root.join(&self.folder);
        match sources::digest(&dir, &self.result.sources) {
            Ok(digest) if digest == self.source_digest => Freshness::Fresh,
            Ok(_) => Freshness::Stale { what: "the sources are not the recorded ones, comments apart".to_owned() },
            Err(error) => Freshness::Stale { what: format!("{error:#}") },
        }
    }
}

/// The freshness of the records in `dir` of the models of a project. A missing record is no failure: most
/// projects have no model.
pub(crate) fn check(dir: &Path, project: &Path) -> Result<Vec<Standing>> {
    let root = std::path::absolute(dir)?;
    let root = root.parent().unwrap_or(&root).to_path_buf();
    let project = project.canonicalize().ok();
    let mut standings = Vec::new();
    for (path, evidence) in EndToEndEvidence::read_all(dir)? {
        let of_this = root.join(&evidence.folder).canonicalize().ok();
        if of_this.is_none() || of_this != project {
            continue;
        }
        standings.push(Standing {
            operation: format!("{PREFIX}{}", evidence.result.name),
            file: Some(path),
            card: evidence.result.card.as_ref().map(|card| card.name.clone()),
            freshness: evidence.freshness(&root),
        });
    }
    Ok(standings)
}

fn rounded(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            if let Some(float) = number.as_f64() {
                *value = Value::from(figure::significant(float, DIGITS));
            }
        }
        Value::Array(values) => values.iter_mut().for_each(rounded),
        Value::Object(fields) => fields.values_mut().for_each(rounded),
        _ => {}
    }
}
