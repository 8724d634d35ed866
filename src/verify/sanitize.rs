//! compute-sanitizer around a verification: memcheck, racecheck, initcheck.
//!
//! The harness runs itself under the tool. Inside, every tensor has an allocation of its own of exactly its size and
//! nothing is poisoned, so that the tool sees what red zones and poison would hide from it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde::Serialize;

use crate::project::{Case, Operation};

/// Tells the inner process which tool it runs under.
const INSIDE: &str = "KERNELS_SANITIZER";
/// The tools.
const TOOLS: [&str; 3] = ["memcheck", "racecheck", "initcheck"];
/// What compute-sanitizer exits with when it found something.
const FOUND: i32 = 86;
/// Cases of an operation that are run under a tool, at most: they are a hundred times slower there.
const MOST_CASES: usize = 48;
/// Bytes that a case may move under a tool.
const MOST_BYTES: u64 = 8 << 20;

/// The cases that are run under a tool: of those that are small enough, an even choice.
pub fn thinned(operation: &Operation, cases: Vec<Case>) -> Vec<Case> {
    let small: Vec<Case> = cases
        .into_iter()
        .filter(|case| {
            operation
                .bind(case)
                .is_ok_and(|bound| bound.bytes <= MOST_BYTES)
        })
        .collect();
    let step = small.len().div_ceil(MOST_CASES).max(1);
    small.into_iter().step_by(step).collect()
}

/// What one tool said.
#[derive(Clone, Debug, Serialize)]
pub struct ToolResult {
    /// Its name.
    pub tool: String,
    /// Whether it found nothing.
    pub clean: bool,
    /// Its last line.
    pub summary: String,
    /// The first of what it found.
    pub text: String,
}

/// The tool that this process runs under.
pub fn inside() -> Option<String> {
    std::env::var(INSIDE).ok()
}

/// Runs every tool over the project in a folder; `arguments` go to the inner `kernels verify`.
pub fn run(dir: &Path, arguments: &[String]) -> Result<Vec<ToolResult>> {
    let sanitizer = find()?;
    let program = std::env::current_exe()?;
    let mut results = Vec::new();
    for tool in TOOLS {
        let log = tempfile::NamedTempFile::new()?;
        let mut command = Command::new(&sanitizer);
        command
            .args([
                "--tool",
                tool,
                "--target-processes",
                "application-only",
                "--print-limit",
                "20",
                // The driver answers some questions of the harness with an error, which is the answer.
                "--report-api-errors",
                "no",
            ])
            .args(["--error-exitcode", &FOUND.to_string(), "--log-file"])
            .arg(log.path())
            .arg(&program)
            .arg("verify")
            .arg(dir)
            .args(arguments)
            .env(INSIDE, tool)
            .stdin(Stdio::null());
        let output = command
            .output()
            .with_context(|| format!("starting {}", sanitizer.display()))?;
        let text = std::fs::read_to_string(log.path()).unwrap_or_default();
        let code = output.status.code();
        if !output.status.success() && code != Some(FOUND) {
            bail!(
                "{tool}: the verification itself failed under the tool ({}):\n{}{}",
                output.status,
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr)
            );
        }
        let lines: Vec<&str> = text
            .lines()
            .map(|line| line.trim_start_matches('=').trim())
            .collect();
        results.push(ToolResult {
            tool: tool.to_owned(),
            clean: output.status.success(),
            summary: lines
                .iter()
                .rev()
                .find(|line| line.contains("SUMMARY"))
                .map_or_else(|| "no summary".to_owned(), |line| (*line).to_owned()),
            text: lines
                .iter()
                .take(60)
                .copied()
                .collect::<Vec<_>>()
                .join("\n"),
        });
    }
    Ok(results)
}

fn find() -> Result<PathBuf> {
    let name = "compute-sanitizer";
    let mut folders: Vec<PathBuf> = std::env::var_os("PATH")
        .map(|path| std::env::split_paths(&path).collect())
        .unwrap_or_default();
    for variable in ["CUDA_HOME", "CUDA_PATH"] {
        if let Some(home) = std::env::var_os(variable) {
            folders.push(PathBuf::from(&home).join("bin"));
            folders.push(PathBuf::from(home).join("compute-sanitizer"));
        }
    }
    folders.push("/usr/local/cuda/bin".into());
    folders.push("/usr/local/cuda/compute-sanitizer".into());
    folders
        .into_iter()
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
        .with_context(|| {
            format!("{name} is not in PATH, CUDA_HOME or /usr/local/cuda: it comes with the CUDA toolkit")
        })
}
