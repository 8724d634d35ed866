//! The checks of a project for torch, which need no card: its variant is built, loaded by the Hub's library, and tested.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Instant;

use crate::against::Interpreter;
use crate::project::{InvalidProject, TorchProject};
use crate::report::check::{Check, Status};
use crate::toolchain::{self, Torch, Version};
use crate::variant::{self, Options, Protected, Variant};

const GROUP: &str = "torch";
const LOAD: &str = include_str!("load.py");
/// The script's exit code if nothing here can load the variant.
const CANNOT: i32 = 3;
/// The exit code of pytest if it found no tests.
const NO_TESTS: i32 = 5;
/// At most this many lines of a failed program are shown.
const SHOWN: usize = 60;

/// Makes the checks of the project in a folder, and reports each as it ends. `required`: a check for which something is missing
/// fails.
pub(super) fn checks(dir: &Path, python: Option<&PathBuf>, required: bool, tell: &mut dyn FnMut(Check)) {
    let start = Instant::now();
    let mut ended = |start: Instant, check: Check| tell(check.taking(start.elapsed().as_secs_f64()));
    let python = Interpreter::find(python, GROUP).map_err(|error| format!("{error:#}"));
    let variant = match build(dir, python.as_ref().ok(), required) {
        Ok(variant) => variant,
        Err(check) => {
            ended(start, *check);
            let skipped = |name| Check::skipped(GROUP, name, "nothing was built for torch");
            return ["load", "tests"].into_iter().for_each(|name| ended(Instant::now(), skipped(name)));
        }
    };
    let detail = match &variant.made {
        Some(made) => format!("{}: {} compiled, {} from the cache", variant.name, made.compiled, made.cached),
        None => format!("{}, unchanged", variant.name),
    };
    ended(start, Check::passed(GROUP, "build", detail));
    let start = Instant::now();
    let loaded = match &python {
        Ok(python) => load(&variant, python, required),
        Err(why) => cannot("load", why, required),
    };
    let loads = loaded.status == Status::Passed;
    ended(start, loaded);
    let start = Instant::now();
    let tested = match &python {
        Ok(python) if loads => tests(dir, &variant, python, required),
        _ => Check::skipped(GROUP, "tests", "what was built was not loaded"),
    };
    ended(start, tested);
}

/// A check for which something is missing on this machine.
fn cannot(name: &str, why: &str, required: bool) -> Check {
    if required {
        Check::failed(GROUP, name, format!("--require-torch, and {why}"))
    } else {
        Check::skipped(GROUP, name, why)
    }
}

/// Builds the variant into the project's `build`; the error is a check that says why it could not.
fn build(dir: &Path, python: Option<&Interpreter>, required: bool) -> Result<Variant, Box<Check>> {
    let cannot = |why: String| Box::new(cannot("build", &why, required));
    let failed = |error: anyhow::Error| {
        let files = error.downcast_ref::<Protected>().map(|protected| protected.files.clone()).unwrap_or_default();
        Box::new(Check::failed(GROUP, "build", [vec![format!("{error:#}")], files].concat().join("\n  ")))
    };
    // A valid project that this program cannot build may be one for kernel-builder, which also builds without stable-abi and
    // with CUTLASS. So it does not fail.
    let project = TorchProject::open(dir).map_err(|error| match error.downcast::<InvalidProject>() {
        Ok(error) => failed(error.into()),
        Err(other) => cannot(format!("{other:#}")),
    })?;
    // If this Python's torch has no headers or no CUDA, the headers of another place are used.
    let python = python.map(|python| python.path.as_path());
    let python = python.filter(|python| Torch::find(Some(python), project.stable_abi).is_ok());
    Torch::find(python, project.stable_abi).map_err(|why| cannot(why.to_string()))?;
    variant::build(&project, Options { python, ..Options::default() }, &|_| {}).map_err(failed)
}

fn load(variant: &Variant, python: &Interpreter, required: bool) -> Check {
    let cuda = Version::parse(&variant.compiler).map_or(0, |version| version.major);
    let command = &mut toolchain::python(&python.path);
    command.args(["-c", LOAD]).arg(&variant.path).arg(cuda.to_string());
    match output(command) {
        Ok(output) if output.status.success() => Check::passed(GROUP, "load", last(&output.stdout, 1)),
        Ok(output) if output.status.code() == Some(CANNOT) => cannot("load", &last(&output.stdout, 1), required),
        Ok(output) => Check::failed(GROUP, "load", said(&variant.path, "does not load", &output)),
        Err(why) => Check::failed(GROUP, "load", why),
    }
}

/// Runs the project's tests by pytest, as a user does. The check passes only if some tests ran.
fn tests(dir: &Path, variant: &Variant, python: &Interpreter, required: bool) -> Check {
    let folder = dir.join("tests");
    let skipped = |why: String| Check::skipped(GROUP, "tests", why);
    if !folder.is_dir() {
        return skipped(format!("there is no {}", folder.display()));
    }
    let mut command = Command::new(&python.path);
    command.current_dir(dir).args(["-m", "pytest", "-q", "-rs", "--color=no", "-p", "no:cacheprovider", "tests"]);
    // Tests of `kernels init` look for builds there.
    command.env("KERNEL_BUILD", variant.path.parent().unwrap_or(&variant.path));
    let output = match output(&mut command) {
        Ok(output) => output,
        Err(why) => return Check::failed(GROUP, "tests", why),
    };
    let summary = last(&output.stdout, 1);
    let reasons = reasons(&output.stdout);
    match output.status.code() {
        Some(0) if summary.contains("passed") => Check::passed(GROUP, "tests", format!("{summary}{reasons}")),
        Some(0) => skipped(format!("{summary}{reasons}")),
        Some(NO_TESTS) => skipped(format!("pytest found no tests in {}", folder.display())),
        _ if last(&output.stderr, 1).ends_with("No module named pytest") => {
            cannot("tests", &format!("{} has no pytest: pip install pytest", python.path.display()), required)
        }
        _ => Check::failed(GROUP, "tests", said(&folder, "fail", &output)),
    }
}

/// Why tests were skipped, of lines such as `SKIPPED [4] tests/test_ops.py:31: no CUDA device`.
fn reasons(stdout: &[u8]) -> String {
    let text = String::from_utf8_lossy(stdout);
    let of = |line: &'_ str| Some(line.strip_prefix("SKIPPED [")?.split_once(": ")?.1.to_owned());
    let mut reasons: Vec<String> = text.lines().filter_map(of).collect();
    reasons.sort();
    reasons.dedup();
    if reasons.is_empty() { String::new() } else { format!("; skipped: {}", reasons.join("; ")) }
}

/// Runs a program with the Hub's library offline, and without leaving bytecode in the project.
fn output(command: &mut Command) -> Result<Output, String> {
    command.env("HF_HUB_OFFLINE", "1").env("PYTHONDONTWRITEBYTECODE", "1").stdin(Stdio::null());
    let output = command.output();
    output.map_err(|error| format!("cannot start {}: {error}", command.get_program().display()))
}

fn said(what: &Path, does: &str, output: &Output) -> String {
    let (out, err) = (last(&output.stdout, SHOWN), last(&output.stderr, SHOWN));
    let texts = [out.as_str(), err.as_str()].into_iter().filter(|text| !text.is_empty());
    let texts: Vec<&str> = texts.collect();
    format!("{} {does} ({})\n{}", what.display(), output.status, texts.join("\n"))
}

/// The last lines that have text.
fn last(text: &[u8], lines: usize) -> String {
    let text = String::from_utf8_lossy(text);
    let all: Vec<&str> = text.trim_end().lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}
