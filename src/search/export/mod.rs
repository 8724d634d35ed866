//! A run as a table, one row a candidate, failures included: the columns of the AI CUDA Engineer's archive, then this program's.
//! As JSON lines and as Parquet, with the same values.

mod parquet;

use std::path::Path;

use anyhow::{Context as _, Result};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::event::{Outcome, Stage};
use super::sources::Sources;
use super::state::{Candidate, Standing, State, blob};
use super::task;
use crate::bench::{BenchReport, CaseBench, Residency};
use crate::report::statistics::mean;
use crate::verify::VerifyReport;

/// The most characters of what was caught.
const ERROR: usize = 8000;

/// A value of a column, or none.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Cell {
    Text(Option<String>),
    Number(Option<f64>),
    Whole(Option<i64>),
    Flag(Option<bool>),
    List(Vec<String>),
}

/// The files of an export, by name.
pub(crate) fn files(state: &State, run: &Path) -> Result<Vec<(&'static str, Vec<u8>)>> {
    let task = Task::read(run);
    let rows = state.candidates.iter().map(|one| row(state, run, &task, one)).collect::<Result<Vec<_>>>()?;
    let names: Vec<&str> = rows.first().map(|row| row.iter().map(|(name, _)| *name).collect()).unwrap_or_default();
    let rows: Vec<Vec<Cell>> = rows.into_iter().map(|row| row.into_iter().map(|(_, cell)| cell).collect()).collect();
    let mut lines = Vec::new();
    for row in &rows {
        let object: Map<String, Value> =
            names.iter().zip(row).map(|(name, cell)| ((*name).to_owned(), json!(cell))).collect();
        serde_json::to_writer(&mut lines, &object)?;
        lines.push(b'\n');
    }
    Ok(vec![
        ("candidates.jsonl", lines),
        ("candidates.parquet", parquet::file(&names, &rows)),
        ("README.md", card(task.license.as_deref()).into()),
    ])
}

/// The card of the data set: without it, loaders would take both files for parts of it.
fn card(license: Option<&str>) -> String {
    // A word of the user's build.toml stands in YAML.
    let fits = |name: &&str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-+".contains(&byte));
    let license = license.filter(fits).map(|name| format!("license: {}\n", name.to_lowercase())).unwrap_or_default();
    format!(
        "---\n{license}configs:\n- config_name: default\n  data_files: candidates.parquet\n---\n\n\
         Candidates of `kernels search`, one a row, failures included; `candidates.jsonl` has the same rows. The columns up to\n\
         `__index_level_0__` are those of the AI CUDA Engineer's archive; times are milliseconds. Only rows with `Confirmed` have\n\
         speed-ups, measured in one process and in turns. `Correct` is null where nobody judged. `Max_Diff` is the largest error\n\
         in units of its budget. `CUDA_Code` was written by the proposer of its row.\n"
    )
}

/// What all rows share.
struct Task {
    reference: Option<String>,
    license: Option<String>,
}

impl Task {
    /// Of the frozen copy, as far as it is there.
    fn read(run: &Path) -> Self {
        let root = run.join(task::FOLDER);
        let reference = std::fs::read_to_string(root.join("reference.py")).ok();
        Self { reference, license: task::license(&root) }
    }
}

/// What a candidate's reports say.
#[derive(Default)]
struct Reports {
    verified: Option<VerifyReport>,
    timed: Option<BenchReport>,
    confirmed: Vec<BenchReport>,
}

impl Reports {
    fn read(run: &Path, candidate: &Candidate) -> Result<Self> {
        let judged = candidate.judged.as_ref();
        let confirmed = candidate.confirmed.iter().flat_map(|confirmed| &confirmed.timed);
        Ok(Self {
            verified: blob(run, judged.and_then(|judged| judged.verified.as_deref()))?,
            timed: blob(run, judged.and_then(|judged| judged.timed.as_deref()))?,
            confirmed: confirmed.filter_map(|report| blob(run, Some(report)).transpose()).collect::<Result<_>>()?,
        })
    }

    /// Of one peer, in milliseconds, and how much faster than it the kernel is: geometric means over the cold cases, of the run
    /// with the least gain. None where it was wrong or missing in a case.
    fn beside(&self, peer: &str) -> Option<(f64, f64)> {
        let of = |case: &CaseBench| {
            let against = case.against.as_ref()?;
            let right = |one: &&crate::bench::Beside| one.name == peer && one.wrong.is_none() && one.other.is_none();
            let time = against.peers.iter().find(right)?.time?.median;
            Some((time.ln(), (time / against.kernel?.median).ln()))
        };
        let all = self.confirmed.iter().map(|report| {
            let cold = report.cases.iter().filter(|case| case.residency == Residency::Cold);
            let (times, gains): (Vec<f64>, Vec<f64>) = cold.map(of).collect::<Option<Vec<_>>>()?.into_iter().unzip();
            Some((mean(&times)?.exp() / 1e3, mean(&gains)?.exp()))
        });
        let all: Option<Vec<(f64, f64)>> = all.collect();
        all?.into_iter().min_by(|(_, one), (_, other)| one.total_cmp(other))
    }
}

/// Whether a candidate is right, where somebody judged that.
fn correct(candidate: &Candidate) -> Option<bool> {
    match candidate.standing() {
        Standing::Caught => Some(false),
        Standing::Timed | Standing::Confirmed => Some(true),
        Standing::Open | Standing::Same | Standing::NotJudged => None,
    }
}

/// What was caught, in words.
fn error(candidate: &Candidate) -> Option<String> {
    let failed = candidate.failure()?;
    let said =
        failed.findings.iter().map(|caught| format!("{}: {}: {}", failed.stage.name(), caught.kind, caught.text));
    Some(said.collect::<Vec<_>>().join("\n").chars().take(ERROR).collect())
}

fn code(sources: &Sources) -> String {
    let several = sources.iter().count() > 1;
    let shown =
        |(path, text): (&String, &String)| if several { format!("// FILE: {path}\n{text}\n") } else { text.clone() };
    sources.iter().map(shown).collect()
}

#[rustfmt::skip]
fn row(state: &State, run: &Path, task: &Task, candidate: &Candidate) -> Result<Vec<(&'static str, Cell)>> {
    let text = |text: Option<&str>| Cell::Text(text.map(str::to_owned));
    let number = |number: Option<f64>| Cell::Number(number.filter(|number| number.is_finite()));
    let whole = |number: u64| Cell::Whole(i64::try_from(number).ok());
    let reports = Reports::read(run, candidate).with_context(|| format!("the reports of candidate {}", candidate.id()))?;
    let sources = candidate.sources(run)?;
    let summary = candidate.summary();
    let confirmed = candidate.standing() == Standing::Confirmed;
    let peer = |name: &str| confirmed.then(|| reports.beside(name)).flatten();
    let (native, compiled) = (peer("torch"), peer("compile"));
    let timed = reports.confirmed.first().or(reports.timed.as_ref());
    let cases = |of: fn(&CaseBench) -> String| {
        let all = timed.iter().flat_map(|report| &report.cases).map(of).collect::<std::collections::BTreeSet<_>>();
        Cell::List(all.into_iter().collect())
    };
    let best = candidate.confirmed.as_ref().filter(|_| confirmed).and_then(|one| one.best.iter().max_by_key(|(_, count)| **count));
    let verified = candidate.attempts().any(|one| one.stage == Stage::Verify && one.outcome == Outcome::Passed);
    let paths = reports.verified.as_ref().map(|report| report.paths.as_slice()).unwrap_or_default();
    let cost = candidate.proposed.as_ref().map(|proposed| &proposed.cost);
    let profile = candidate.confirmed.as_ref().and_then(|one| one.profile.as_ref()?.as_ref().ok());
    let failure = candidate.failure();
    let card = state.run.card.as_ref().ok();
    Ok(vec![
        ("Op_Name", text(Some(&state.run.project))),
        ("Level_ID", Cell::Whole(None)),
        ("Task_ID", Cell::Whole(None)),
        ("Kernel_Name", Cell::Text(Some(format!("{}_{}", state.run.project, candidate.id())))),
        ("CUDA_Runtime", number(summary.map(|summary| summary.us / 1e3))),
        ("PyTorch_Native_Runtime", number(native.map(|(ms, _)| ms))),
        ("PyTorch_Compile_Runtime", number(compiled.map(|(ms, _)| ms))),
        ("CUDA_Speedup_Native", number(native.map(|(_, gain)| gain))),
        ("CUDA_Speedup_Compile", number(compiled.map(|(_, gain)| gain))),
        ("CUDA_Code", Cell::Text(sources.as_ref().map(code))),
        ("PyTorch_Code_Module", text(task.reference.as_deref())),
        ("PyTorch_Code_Functional", text(None)),
        ("Correct", Cell::Flag(correct(candidate))),
        ("Max_Diff", number(paths.iter().map(|path| path.worst).max_by(f64::total_cmp))),
        ("Error", Cell::Text(error(candidate))),
        ("NCU_Profile", Cell::Text(profile.map(|metrics| json!(metrics).to_string()))),
        ("Torch_Profile", text(None)),
        ("Clang_Tidy", text(None)),
        ("__index_level_0__", whole(candidate.id().into())),
        ("Dtype", cases(|case| case.dtype.name().to_owned())),
        ("Shapes", cases(|case| case.case.clone())),
        ("Card", text(card.map(|card| card.name.as_str()))),
        ("Driver", text(card.and_then(|card| card.driver.as_deref()))),
        ("Roof_Fraction", number(summary.map(|summary| summary.roof))),
        ("Speedup", number(candidate.speedup().filter(|_| confirmed))),
        ("Best_Baseline", text(best.map(|(name, _)| name.as_str()))),
        ("Verified_Cases", if verified { whole(paths.iter().map(|path| path.cases).sum()) } else { Cell::Whole(None) }),
        ("Stage", text(failure.map(|failed| failed.stage.name()))),
        ("Findings", Cell::List(candidate.kinds().into_iter().map(str::to_owned).collect())),
        ("Standing", Cell::Text(json!(candidate.standing()).as_str().map(str::to_owned))),
        ("Parent_IDs", Cell::List(candidate.plan.parents.iter().map(u32::to_string).collect())),
        ("Generation", whole(candidate.generation.into())),
        ("Island", whole(candidate.plan.island.into())),
        ("Operator", text(Some(&candidate.plan.operator))),
        ("Proposer", text(Some(&candidate.plan.proposer))),
        ("Thought", text(candidate.proposed.as_ref().map(|proposed| proposed.thought.as_str()))),
        ("Model", text(cost.map(|cost| cost.model.as_str()).filter(|model| !model.is_empty()))),
        ("Tokens_In", Cell::Whole(cost.and_then(|cost| i64::try_from(cost.tokens_in).ok()))),
        ("Tokens_Out", Cell::Whole(cost.and_then(|cost| i64::try_from(cost.tokens_out).ok()))),
        ("USD", number(cost.and_then(|cost| cost.usd))),
        ("Cubin_SHA256", text(candidate.compiled.as_ref().and_then(|compiled| compiled.device.as_deref()))),
        ("Harness_Version", text(Some(&state.run.version))),
        ("Confirmed", Cell::Flag(Some(confirmed))),
        ("License", text(task.license.as_deref())),
    ])
}
