//! Running a project's script.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Seek};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::EndToEnd;
use crate::against::Interpreter;

/// The script's name, in a project's folder.
pub(crate) const SCRIPT: &str = "benchmark_e2e.py";
/// How much of what it printed is shown when it fails.
const SHOWN: usize = 4000;

/// Runs the script of `dir` to its end. `aloud`: it may tell of its progress on stderr.
///
/// # Errors
/// There is none, it wrote no result, or one that cannot be read. A result with wrong figures in it is no error: its
/// findings say what they are.
pub(crate) fn run(
    dir: &Path,
    python: &Interpreter,
    arguments: &[OsString],
    aloud: bool,
) -> Result<EndToEnd> {
    let folder = tempfile::Builder::new().prefix("kernels-e2e-").tempdir()?;
    let out = folder.path().join("result.json");
    // What it prints for people who run it alone is printed here from its result.
    let mut printed = tempfile::tempfile()?;
    let mut command = Command::new(&python.path);
    command
        .arg(std::path::absolute(dir.join(SCRIPT))?)
        .args(arguments)
        .arg("--out")
        .arg(&out)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::null())
        .stdout(printed.try_clone()?)
        .stderr(if aloud {
            Stdio::inherit()
        } else {
            printed.try_clone()?.into()
        });
    let status = command
        .status()
        .with_context(|| format!("--e2e: cannot start {}", python.path.display()))?;
    if !out.is_file() {
        let said = last(&mut printed)?;
        let said = match (said.is_empty(), aloud) {
            (true, true) => "; what it said stands above".to_owned(),
            (true, false) => String::new(),
            (false, _) => format!("; the last that it said:\n{said}"),
        };
        bail!(
            "{} wrote no result ({status}){said}",
            dir.join(SCRIPT).display()
        );
    }
    let result = EndToEnd::read(&out)
        .with_context(|| format!("--e2e: what {} wrote", dir.join(SCRIPT).display()))?;
    if !result.finished {
        let said = last(&mut printed)?;
        bail!(
            "{} did not come to its end ({status}) after {} cases{}{said}",
            dir.join(SCRIPT).display(),
            result.cases.len(),
            if said.is_empty() {
                ""
            } else {
                "; the last that it said:\n"
            }
        );
    }
    if !status.success() && result.findings().is_empty() {
        bail!(
            "{} failed ({status}), and its result does not say why:\n{}",
            dir.join(SCRIPT).display(),
            last(&mut printed)?
        );
    }
    Ok(result)
}

fn last(printed: &mut File) -> Result<String> {
    let mut bytes = Vec::new();
    printed.rewind()?;
    printed.read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let text = text.trim_end();
    let from = (text.len().saturating_sub(SHOWN)..=text.len())
        .find(|at| text.is_char_boundary(*at))
        .unwrap_or(0);
    Ok(text[from..].to_owned())
}
