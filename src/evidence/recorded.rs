//! The record of one operation on one card, and how it is written.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::rounds::{self, FORMAT, rounded};
use super::{Texts, form};
use crate::bench::{BenchReport, CaseBench};
use crate::gpu::Card;
use crate::report::file;
use crate::report::markdown::cell;
use crate::toolchain::Toolchain;
use crate::verify::finding::first_set;
use crate::verify::{OperationReport, PathReport, VerifyReport};

/// The measurements of one operation on one card.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Evidence {
    /// 2.
    pub format: u32,
    /// The project's name.
    pub(crate) project: String,
    /// The operation.
    pub(crate) operation: String,
    /// `Build::device_digest` of the build for `archs` with `toolchain`.
    pub(crate) device_digest: String,
    /// `Project::spec_digest`: of what kernel.toml means.
    pub(crate) spec_digest: String,
    /// `Project::source_digest`: of every file that the compiler or an oracle reads, and the flags.
    pub(crate) source_digest: String,
    /// The compiler's version, the pinned one.
    pub(crate) toolchain: String,
    /// The architectures that the digested build was for, in rising order.
    pub(crate) archs: Vec<u32>,
    /// The card and its driver.
    pub(crate) card: Card,
    /// The seed of the benchmark's inputs.
    pub(crate) seed: u64,
    /// Remarks about the whole run.
    pub(crate) remarks: Vec<String>,
    /// The timed cases, each beside a copy of the same bytes. Figures have four significant digits.
    pub(crate) cases: Vec<CaseBench>,
    /// The checks before the timing, of the whole project.
    pub(crate) verification: Verification,
}

/// The checks on the card before the timing.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Verification {
    /// This program's version.
    pub(crate) harness: String,
    /// The seed of its inputs and of the cases drawn afresh.
    pub(crate) seed: u64,
    /// Output elements compared, on all paths.
    pub(crate) elements: u64,
    /// Launches checked, on all paths.
    pub(crate) launches: u64,
    /// The largest error in units of its budget, under 1.
    pub(crate) worst: f64,
    /// `verify::SET` of that version.
    #[serde(default = "first_set")]
    pub(crate) set: u32,
    /// What was verified of this operation, and by what; absent in records of the first set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) operation: Option<OperationReport>,
    /// What held the child in which the launcher ran.
    pub(crate) confinement: Vec<String>,
    /// The code paths.
    pub(crate) paths: Vec<PathReport>,
}

/// Writes `OPERATION-GPU.json` into `dir`, created if missing, for each operation of a benchmark,
/// and returns the files. `device_digest` is of the build for the architectures of the verified paths.
///
/// Refuses, and writes nothing, when anything was found wrong, when the compiler is not the pinned one, when the
/// two reports are not of the same project and card, when a figure is not a finite positive number, and when a
/// file is there that belongs to another project.
pub fn record(
    dir: &Path,
    bench: &BenchReport,
    verify: &VerifyReport,
    device_digest: &str,
    texts: Texts,
) -> Result<Vec<PathBuf>> {
    sound(bench, verify)?;
    let mut planned: Vec<(PathBuf, Evidence)> = Vec::new();
    let operations: BTreeSet<&str> = bench.cases.iter().map(|case| case.operation.as_str()).collect();
    for operation in operations {
        ensure!(
            operation.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-') && of_an_operation(operation),
            "the operation's name {operation:?} cannot be part of a file's name: use letters, digits, _ and -"
        );
        let evidence = Evidence::of(operation, bench, verify, device_digest, texts);
        let path = dir.join(evidence.file_name());
        if fs::symlink_metadata(&path).is_ok() {
            let there = Evidence::read(&path)?;
            ensure!(
                there.project == evidence.project,
                "{} is evidence of the project {}; give --evidence another folder, or rename the operation",
                path.display(),
                there.project
            );
        }
        planned.push((path, evidence));
    }
    fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    for (path, evidence) in &planned {
        file::write(path, evidence.to_json()?.as_bytes())?;
    }
    Ok(planned.into_iter().map(|(path, _)| path).collect())
}

/// Whether two reports may become evidence.
fn sound(bench: &BenchReport, verify: &VerifyReport) -> Result<()> {
    if let Some(finding) = verify.findings.first().or(bench.findings.first()) {
        bail!(
            "nothing is recorded, because something is wrong ({} in all): {}: {}",
            verify.findings.len() + bench.findings.len(),
            finding.operation,
            finding.message
        );
    }
    for compiler in [&bench.compiler, &verify.compiler] {
        ensure!(
            compiler == Toolchain::PINNED,
            "nothing is recorded: compiled with nvcc {compiler}, and evidence is tied to {}; \
             `kernels toolchain install` installs that",
            Toolchain::PINNED
        );
    }
    ensure!(
        bench.project == verify.project && bench.card == verify.card,
        "nothing is recorded: the benchmark was of {} on {}, the verification of {} on {}",
        bench.project,
        bench.card.name,
        verify.project,
        verify.card.name
    );
    ensure!(
        !bench.card.name.starts_with("stand-in"),
        "nothing is recorded: {} runs kernels on the processor",
        bench.card.name
    );
    ensure!(!bench.cases.is_empty(), "nothing is recorded: no case was timed");
    ensure!(verify.paths.iter().any(|path| path.elements > 0), "nothing is recorded: verification compared no element");
    for case in &bench.cases {
        let figures = [case.kernel, case.copy].map(|spread| [spread.median, spread.p10, spread.p90, spread.min]);
        ensure!(
            figures.iter().flatten().all(|figure| figure.is_finite() && *figure > 0.0),
            "nothing is recorded: {} {} has a time that is not a positive number",
            case.operation,
            case.case
        );
        ensure!(
            case.checked > 0,
            "nothing is recorded: no timed output of {} {} was compared with the oracle",
            case.operation,
            case.case
        );
        ensure!(
            case.rounds.is_some(),
            "nothing is recorded: the rounds of {} {} were not kept",
            case.operation,
            case.case
        );
    }
    Ok(())
}

impl Evidence {
    fn of(operation: &str, bench: &BenchReport, verify: &VerifyReport, device_digest: &str, texts: Texts) -> Self {
        let archs: BTreeSet<u32> = verify.paths.iter().map(|path| path.arch).collect();
        let mut card = bench.card.clone();
        card.peak_gbs = card.peak_gbs.map(rounded);
        card.peak_l2_gbs = card.peak_l2_gbs.map(rounded);
        let paths: Vec<PathReport> = verify
            .paths
            .iter()
            .map(|path| PathReport { worst: rounded(path.worst), seconds: rounded(path.seconds), ..path.clone() })
            .collect();
        Self {
            format: FORMAT,
            project: bench.project.clone(),
            operation: operation.to_owned(),
            device_digest: device_digest.to_owned(),
            spec_digest: texts.spec_digest.to_owned(),
            source_digest: texts.source_digest.to_owned(),
            toolchain: bench.compiler.clone(),
            archs: archs.into_iter().collect(),
            card,
            seed: bench.seed,
            remarks: bench.remarks.clone(),
            cases: bench.cases.iter().filter(|case| case.operation == operation).map(rounds::kept).collect(),
            verification: Verification {
                harness: crate::base::bundle::version().to_owned(),
                seed: verify.seed,
                elements: paths.iter().map(|path| path.elements).sum(),
                launches: paths.iter().map(|path| path.launches).sum(),
                set: verify.set,
                operation: verify.operations.iter().find(|report| report.operation == operation).cloned(),
                worst: paths.iter().map(|path| path.worst).fold(0.0, f64::max),
                confinement: verify.confinement.clone(),
                paths,
            },
        }
    }

    /// Card, driver and compiler, as text in Markdown.
    pub(super) fn made_on(&self) -> String {
        format!(
            "{}, driver {}, nvcc {}",
            cell(&self.card.name),
            cell(self.card.driver.as_deref().unwrap_or("unknown")),
            cell(&self.toolchain)
        )
    }

    /// `rms_norm-h100.json`
    pub(crate) fn file_name(&self) -> String {
        format!("{}-{}.json", self.operation, self.card.slug())
    }

    /// The file's text.
    pub fn to_json(&self) -> Result<String> {
        let mut value = serde_json::to_value(self)?;
        whole_numbers(&mut value);
        form::text(&value)
    }

    /// Reads a file. Errors name it: one that is no evidence, of a later format, or under another's name.
    pub fn read(path: &Path) -> Result<Self> {
        let evidence: Self = super::read_of(path, &[FORMAT])?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        ensure!(
            name == evidence.file_name(),
            "{} holds the evidence that belongs in {}",
            path.display(),
            evidence.file_name()
        );
        evidence.cases.iter().try_for_each(rounds::check).with_context(|| {
            format!("{} was changed by hand; `kernels bench --record` on a card records it anew", path.display())
        })?;
        Ok(evidence)
    }

    /// All evidence of a folder, by file name, with its paths; nothing where there is no such folder.
    pub fn read_all(dir: &Path) -> Result<Vec<(PathBuf, Self)>> {
        super::files(dir, of_an_operation)?
            .into_iter()
            .map(|path| Self::read(&path).map(|evidence| (path, evidence)))
            .collect()
    }
}

/// Whether a file of this name is the record of an operation: others have formats of their own; harness-<gpu>.json
/// belongs to tests/cheats.
fn of_an_operation(name: &str) -> bool {
    !["peers-", "harness-", "e2e-", "trials-", "widths-"].iter().any(|other| name.starts_with(other))
}

/// Sizes are written as `4096`, not as `4096.0`.
pub(super) fn whole_numbers(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            #[allow(clippy::cast_possible_truncation, reason = "only whole numbers that fit are cast")]
            if let Some(float) = number.as_f64()
                && float.fract() == 0.0
                && float.abs() < 9e15
            {
                *value = Value::from(float as i64);
            }
        }
        Value::Array(values) => values.iter_mut().for_each(whole_numbers),
        Value::Object(fields) => fields.values_mut().for_each(whole_numbers),
        _ => {}
    }
}
