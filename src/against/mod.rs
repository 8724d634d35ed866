//! Other libraries' kernels, timed beside a project's own: `kernels bench --against`. A Python process with torch captures the
//! launches of each in CUDA graphs over the same rotating tensors, and replays them in turn.

mod cases;
mod describe;
pub(crate) mod functions;
mod peer;
mod program;
mod python;

pub(crate) use cases::cases;
pub(crate) use describe::Describer;
pub(crate) use peer::{Peer, UnknownPeer};
pub(crate) use python::Interpreter;

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::bench::{Against, BenchReport, Residency};
use crate::compile::Build;
use crate::project::Project;
use crate::verify::path::choose;
use crate::worker::Choice;

/// A line of the driver.
#[derive(Deserialize)]
#[serde(untagged)]
enum Answer {
    /// torch is loaded.
    Ready { ready: Ready },
    /// A case was timed.
    Row { row: usize, against: Option<Box<Against>>, error: Option<String> },
    /// All cases were timed.
    Done {
        #[allow(dead_code, reason = "tells the variants apart")]
        done: bool,
    },
}

#[derive(Deserialize)]
struct Ready {
    torch: String,
    clock: String,
}

/// Times `peers` in the cold cases of a report, and adds their times to it. `tell` is called with what is being done.
///
/// # Errors
/// The Python process did not start or died. A peer that is missing or fails is no error: its entry in the report says why.
pub(crate) fn run(
    report: &mut BenchReport,
    project: &Project,
    build: &Build,
    choice: &Choice,
    (peers, python, rounds): (&[Peer], &Interpreter, u32),
    tell: &dyn Fn(&str),
) -> Result<()> {
    let paths = choose(build, report.card.arch, true);
    let Some((target, _)) = paths.first() else {
        bail!("nothing in this build runs on {}", report.card.name);
    };
    let (rows, cases) = timed_cold(report, project, choice)?;
    let request = json!({
        "peers": peers.iter().map(Peer::name).collect::<Vec<_>>(),
        "cases": cases,
        "rounds": rounds,
        "library": target.library,
        "device": choice.ordinal,
        "version": env!("CARGO_PKG_VERSION"),
    });
    tell("starting Python for --against");
    let online = peers.iter().any(Peer::may_download);
    let mut driver = program::Driver::start(python, &request, online)?;
    let mut clock = String::new();
    loop {
        let line = driver.line(None)?;
        let answer: Answer = serde_json::from_str(&line)
            .with_context(|| format!("reading a line of the driver of --against: {line}"))?;
        match answer {
            Answer::Ready { ready } => {
                let (torch, path) = (&ready.torch, python.path.display());
                let remark = format!("others: torch {torch} in {path}");
                report.remarks.push(remark);
                clock = ready.clock;
            }
            Answer::Row { row, against, error } => {
                let index = rows.get(row);
                let Some(case) = index.and_then(|index| report.cases.get_mut(*index)) else {
                    bail!("the driver of --against answers an unknown case: {row}");
                };
                tell(&format!("others: {} {}", case.operation, case.case));
                case.against = Some(against.map_or_else(
                    || Against::failed(&clock, error.as_deref().unwrap_or("no reason given")),
                    |against| *against,
                ));
            }
            Answer::Done { .. } => return Ok(()),
        }
    }
}

/// The cases that a report has cold: their places in it, and the cases for the driver.
fn timed_cold(report: &BenchReport, project: &Project, choice: &Choice) -> Result<(Vec<usize>, Vec<Value>)> {
    let mut rows = Vec::new();
    let mut cases = Vec::new();
    for operation in &project.spec.operations {
        for case in choice.cases(operation, &operation.bench, report.seed)? {
            let timed = report.cases.iter().position(|timed| {
                timed.operation == operation.name && timed.case == case.label && timed.residency == Residency::Cold
            });
            if let Some(timed) = timed {
                let bound = operation.bind(&case)?;
                rows.push(timed);
                cases.push(cases::case(project, operation, &case, &bound));
            }
        }
    }
    if cases.is_empty() {
        bail!("--against: no case was timed with its data in device memory; peers are timed in such cases alone");
    }
    Ok((rows, cases))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, reason = "a test")]
mod tests {
    use std::io::Write;
    use std::path::{Path, PathBuf};

    use super::*;

    /// A bundled project's operation in bf16.
    fn bundled(project: &str, operation: &str, shape: &str) -> Value {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let project = Project::open(&root.join("kernels").join(project)).unwrap();
        let operations = &project.spec.operations;
        let operation = operations.iter().find(|one| one.name == operation).unwrap();
        let case = operation.case_of_shape(shape, crate::project::DType::BF16).unwrap();
        cases::case(&project, operation, &case, &operation.bind(&case).unwrap())
    }

    /// An operation that peers know only by its project's reference in Python.
    fn with_reference(unknown: &Value, folder: &Path) -> Value {
        let reference = folder.join("reference.py");
        std::fs::write(
            &reference,
            "def right(x, weight, eps):\n    return x * (x.double().pow(2).mean(-1, keepdim=True) + eps).rsqrt().to(x.dtype) * weight\n",
        )
        .unwrap();
        let mut own = unknown.clone();
        own["reference"] = json!({"file": reference, "function": "right"});
        own
    }

    /// A kernel of the Hub with `rms_norm` alone.
    fn hub_kernel(folder: &Path) -> String {
        let hub = folder.join("hub");
        let variant = hub.join("build/torch-universal");
        std::fs::create_dir_all(&variant).unwrap();
        std::fs::write(
            variant.join("__init__.py"),
            "import torch\n__all__ = ['rms_norm']\ndef rms_norm(input, gamma, epsilon=1e-6):\n    \
             return torch.nn.functional.rms_norm(input, (input.shape[-1],), gamma, epsilon)\n",
        )
        .unwrap();
        std::fs::write(
            variant.join("metadata.json"),
            r#"{"name": "norm", "id": "_norm_cpu_1234567", "version": 1, "license": "Apache-2.0", "python-depends": [], "backend": {"type": "cpu"}}"#,
        )
        .unwrap();
        format!("hub:{}", hub.display())
    }

    /// Runs each peer once on the CPU.
    fn dry_run(python: &Interpreter, peers: &Value, cases: &[Value]) -> Vec<Against> {
        let request = json!({
            "peers": peers, "cases": cases,
            "rounds": 30, "library": "", "device": 0, "version": "0", "dry": true,
        });
        let mut driver = program::Driver::start(python, &request, false).unwrap();
        let mut rows = Vec::new();
        loop {
            match serde_json::from_str(&driver.line(None).unwrap()).unwrap() {
                Answer::Ready { ready } => assert_eq!(ready.clock, "torch"),
                Answer::Row { row, against, error } => {
                    assert_eq!((row, error), (rows.len(), None));
                    rows.push(*against.unwrap());
                }
                Answer::Done { .. } => return rows,
            }
        }
    }

    /// With a Python that has torch: `KERNELS_PYTHON=… cargo test against::`.
    #[test]
    fn who_is_right_and_who_is_not_there_is_told_case_by_case() {
        let python = std::env::var_os("KERNELS_PYTHON").map(PathBuf::from);
        let Ok(python) = Interpreter::find(python.as_ref(), "--against") else {
            let line = "\nnot run: the driver of --against, for want of a Python with torch (KERNELS_PYTHON)";
            let _ = writeln!(std::io::stderr(), "{line}");
            return;
        };
        let folder = tempfile::tempdir().unwrap();
        let known = bundled("rmsnorm", "rms_norm", "rows=8,width=64");
        let mut unknown = known.clone();
        unknown["operation"] = json!("nobodys");
        let own = with_reference(&unknown, folder.path());
        let gated = bundled("geglu", "swiglu", "rows=8,width=64");
        let peers = json!(["torch", "liger", "quack", "hub:./no/such/folder", hub_kernel(folder.path())]);
        let rows = dry_run(&python, &peers, &[known, gated, unknown, own]);
        assert_eq!(rows.len(), 4);
        for known in [0, 1, 3] {
            let torch = &rows[known].peers[0];
            assert_eq!((torch.name.as_str(), &torch.wrong, &torch.skipped), ("torch", &None, &None), "{known}");
        }
        let why = |row: usize, peer: usize| rows[row].peers[peer].skipped.clone().unwrap();
        for (row, peer, word) in [
            (0, 3, "there is no ./no/such/folder"),
            (1, 3, "there is no ./no/such/folder"),
            (1, 2, "QuACK has no such operation"),
            (3, 1, "Liger has no such operation"),
            (2, 0, "there is no formula for nobodys"),
            (2, 1, "there is no formula for nobodys"),
            (2, 2, "there is no formula for nobodys"),
            (2, 3, "there is no formula for nobodys"),
            (2, 4, "there is no formula for nobodys"),
        ] {
            assert!(why(row, peer).contains(word), "{}", why(row, peer));
        }
        // These may or may not be installed on this machine; they are named in either case.
        let of_hub = &rows[0].peers[4];
        if let Some(why) = &of_hub.skipped {
            assert!(why.contains("kernels cannot be imported"), "{why}");
        } else {
            assert_eq!(of_hub.wrong, None);
            let other = why(1, 4);
            assert!(other.contains("has no function swiglu"), "{other}");
        }
        for (peer, package) in [(1, "liger-kernel"), (2, "quack-kernels")] {
            let found = &rows[0].peers[peer];
            assert!(
                found.wrong.is_some() || found.skipped.as_ref().is_none_or(|why| why.contains(package)),
                "{found:?}"
            );
        }
    }

    #[test]
    fn a_driver_that_dies_is_quoted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("python");
        std::fs::write(&path, "#!/bin/sh\necho 'last words' >&2\nexit 4\n").unwrap();
        let mut mode = std::fs::metadata(&path).unwrap().permissions();
        std::os::unix::fs::PermissionsExt::set_mode(&mut mode, 0o755);
        std::fs::set_permissions(&path, mode).unwrap();
        let mut driver = program::Driver::start(&Interpreter { path }, &json!({}), false).unwrap();
        let error = format!("{:#}", driver.line(None).unwrap_err());
        assert!(error.contains("last words") && error.contains("exit status: 4"), "{error}");
    }
}
