//! Verification under compute-sanitizer: memcheck, racecheck, initcheck.
//!
//! The harness runs itself under the tool. There, each tensor has an allocation of exactly its size and nothing is poisoned:
//! red zones and poison would hide errors from the tool.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde::Serialize;

use super::finding::VerifyReport;
use crate::project::{Case, Operation};
use crate::worker::{Choice, CodePath, Request, Verify};

const TOOLS: [&str; 3] = ["memcheck", "racecheck", "initcheck"];
/// The exit code that compute-sanitizer is told to use when it finds an error.
const FOUND: i32 = 86;
/// The maximum number of cases of an operation, which run a hundred times slower under a tool.
const MOST_CASES: usize = 48;
/// The largest case, in bytes that it moves.
const MOST_BYTES: u64 = 8 << 20;

/// The cases that are run under a tool: evenly spread over those that are small enough.
pub(crate) fn thinned(operation: &Operation, cases: Vec<Case>) -> Vec<Case> {
    let small: Vec<Case> =
        cases.into_iter().filter(|case| operation.bind(case).is_ok_and(|bound| bound.bytes <= MOST_BYTES)).collect();
    let step = small.len().div_ceil(MOST_CASES).max(1);
    small.into_iter().step_by(step).collect()
}

/// The result of one tool.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ToolResult {
    /// Its name.
    pub(crate) tool: String,
    /// Whether it found nothing.
    pub(crate) clean: bool,
    /// The last line of its log with a summary.
    pub(crate) summary: String,
    /// The beginning of its log.
    pub(crate) text: String,
}

/// Runs every tool over a project.
pub(crate) fn run(project: &Path, choice: &Choice) -> Result<Vec<ToolResult>> {
    if std::env::var_os("KERNELS_HELD").is_some() {
        bail!(
            "compute-sanitizer talks to the program through a local socket, which the tests of a task may not open: run it outside of them"
        );
    }
    let sanitizer = find()?;
    let (project, choice) = (project.to_path_buf(), choice.clone());
    let request = Request::Verify(Verify { project, choice, path: CodePath::Sanitized, parent: None });
    TOOLS.iter().map(|tool| run_tool(&sanitizer, tool, &request)).collect()
}

fn run_tool(sanitizer: &Path, tool: &str, request: &Request) -> Result<ToolResult> {
    let log = tempfile::NamedTempFile::new()?;
    let (program, arguments) = request.arguments()?;
    let output = Command::new(sanitizer)
        .args(["--tool", tool])
        .args(["--target-processes", "application-only"])
        .args(["--print-limit", "20"])
        // The harness makes driver calls that are expected to fail.
        .args(["--report-api-errors", "no"])
        .args(["--error-exitcode", &FOUND.to_string(), "--log-file"])
        .arg(log.path())
        .arg(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("starting {}", sanitizer.display()))?;
    if !output.status.success() && output.status.code() != Some(FOUND) {
        let mut said = String::from_utf8_lossy(&output.stderr).into_owned();
        if let Ok(report) = serde_json::from_slice::<VerifyReport>(&output.stdout) {
            let findings = report.findings.iter().map(ToString::to_string);
            said.push_str(&findings.collect::<Vec<_>>().join("\n"));
        }
        bail!("{tool}: the verification itself failed under the tool ({}):\n{said}", output.status);
    }
    let text = std::fs::read_to_string(log.path()).unwrap_or_default();
    let lines: Vec<&str> = text.lines().map(|line| line.trim_start_matches('=').trim()).collect();
    let summary = lines.iter().rev().find(|line| line.contains("SUMMARY"));
    Ok(ToolResult {
        tool: tool.to_owned(),
        clean: output.status.success(),
        summary: summary.map_or_else(|| "no summary".to_owned(), |line| (*line).to_owned()),
        text: lines.into_iter().take(60).collect::<Vec<_>>().join("\n"),
    })
}

fn find() -> Result<PathBuf> {
    let name = "compute-sanitizer";
    let mut folders: Vec<PathBuf> =
        std::env::var_os("PATH").map(|path| std::env::split_paths(&path).collect()).unwrap_or_default();
    for variable in ["CUDA_HOME", "CUDA_PATH"] {
        if let Some(home) = std::env::var_os(variable) {
            folders.push(PathBuf::from(&home).join("bin"));
            folders.push(PathBuf::from(home).join("compute-sanitizer"));
        }
    }
    folders.push("/usr/local/cuda/bin".into());
    folders.push("/usr/local/cuda/compute-sanitizer".into());
    folders.into_iter().map(|folder| folder.join(name)).find(|path| path.is_file()).with_context(|| {
        format!("{name} is not in PATH, CUDA_HOME or /usr/local/cuda: install the CUDA toolkit, which contains it")
    })
}
