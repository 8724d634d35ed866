//! Runs a project's end-to-end benchmark.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Seek};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail};
use signal_hook::consts::SIGINT;

use super::EndToEnd;
use crate::against::Interpreter;
use crate::base::plural;

/// The script's name, in a project's folder.
pub(crate) const SCRIPT: &str = "benchmark_e2e.py";
/// How many bytes of its output are shown when it fails.
const SHOWN: usize = 4000;

/// What a script wrote.
pub(crate) struct Written {
    pub(crate) result: EndToEnd,
    /// Why it has not all cases: the script was interrupted, or failed.
    pub(crate) unfinished: Option<String>,
}

/// Runs the script of `dir`. `aloud`: its standard error is shown. An interrupt ends the script alone.
///
/// # Errors
/// The script does not exist, or wrote no result that can be read. A result with wrong figures is no error: it has findings.
pub(crate) fn run(dir: &Path, python: &Interpreter, arguments: &[OsString], aloud: bool) -> Result<Written> {
    let folder = tempfile::Builder::new().prefix("kernels-e2e-").tempdir()?;
    let out = folder.path().join("result.json");
    // Its standard output repeats the result, which the caller prints.
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
        .stderr(if aloud { Stdio::inherit() } else { printed.try_clone()?.into() });
    // A terminal interrupts both, and the script's cases are shown then.
    let ended = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register_conditional_default(SIGINT, Arc::clone(&ended))?;
    let status = command.status();
    ended.store(true, Ordering::SeqCst);
    let status = status.with_context(|| format!("--e2e: cannot start {}", python.path.display()))?;
    let script = dir.join(SCRIPT);
    let script = script.display();
    if !out.is_file() {
        let said = last(&mut printed, if aloud { "; its output is above" } else { "" })?;
        bail!("{script} wrote no result ({status}){said}");
    }
    let result = EndToEnd::read(&out).with_context(|| format!("--e2e: the result of {script}"))?;
    if !result.finished {
        let said = last(&mut printed, "")?;
        let cases = plural(result.cases.len() as u64, "case");
        let unfinished = Some(format!("{script} did not finish ({status}) after {cases}{said}"));
        return Ok(Written { result, unfinished });
    }
    if !status.success() && result.findings().is_empty() {
        let said = last(&mut printed, "")?;
        bail!("{script} failed ({status}), and its result does not say why{said}");
    }
    Ok(Written { result, unfinished: None })
}

/// The end of the script's output, introduced; `else_` where there is none.
fn last(printed: &mut File, else_: &str) -> Result<String> {
    let mut bytes = Vec::new();
    printed.rewind()?;
    printed.read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let text = text.trim_end();
    if text.is_empty() {
        return Ok(else_.to_owned());
    }
    let from = (text.len().saturating_sub(SHOWN)..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    Ok(format!("; the end of its output:\n{}", &text[from..]))
}
