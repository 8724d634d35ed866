//! What upstream's `kernels benchmark` runs for a published kernel: the project's own classes, else one generated from the
//! bench cases of its kernel.toml.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::file::{File, is_inside};
use crate::project::{Argument, KERNEL_TOML, Operation, OracleRef, Project};

const SCRIPT: &str = include_str!("benchmark_cases.py");
/// The most bench cases of an operation; each is timed more than a hundred times.
const MOST: usize = 8;

/// What is published of benchmarks.
#[derive(Debug, Default)]
pub(super) struct Benchmarks {
    pub(super) files: Vec<File>,
    /// The project's files at which `kernels benchmark` would stop.
    pub(super) left_out: Vec<String>,
    /// The project's files that they are, or are generated from.
    pub(super) from: Vec<PathBuf>,
}

/// The files. The generated class times only functions of these names: users cannot call an operation that the module does not
/// export, such as a gradient.
pub(super) fn files(root: &Path, names: Option<&[String]>) -> Result<Benchmarks> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(root.join("benchmarks")).into_iter().flatten().flatten().map(|one| one.path()).collect();
    paths.sort();
    let mut all = Benchmarks::default();
    for path in paths {
        let name = format!("benchmarks/{}", path.file_name().unwrap_or_default().to_string_lossy());
        if name.starts_with("benchmarks/benchmark") && name.ends_with(".py") && path.is_file() {
            is_inside(root, &path)?;
            let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            if text.lines().any(|line| line.starts_with("class ") && line.contains("Benchmark)")) {
                all.files.push(File::of_disk(name, &path)?);
                all.from.push(path);
            } else {
                all.left_out.push(name);
            }
        }
    }
    if all.files.is_empty() && root.join(KERNEL_TOML).is_file() {
        let project = Project::open(root)?;
        let offered: Vec<&Operation> =
            project.spec.operations.iter().filter(|one| names.is_none_or(|names| names.contains(&one.name))).collect();
        if offered.is_empty() {
            return Ok(all);
        }
        let operations = offered.iter().map(|one| operation(&project, one)).collect::<Result<Vec<Value>>>()?;
        let text = SCRIPT.replace("@OPERATIONS@", &Value::from(operations).to_string());
        all.files.push(File::of_text("benchmarks/benchmark_cases.py".to_owned(), text.into_bytes()));
        all.from.push(root.join(KERNEL_TOML));
        all.from.extend(offered.iter().filter_map(|one| match &one.oracle {
            OracleRef::Python { file, .. } => Some(root.join(file)),
            OracleRef::Bundled(_) => None,
        }));
    }
    Ok(all)
}

fn operation(project: &Project, operation: &Operation) -> Result<Value> {
    let reference = match &operation.oracle {
        OracleRef::Python { file, function } => {
            let path = project.root.join(file);
            is_inside(&project.root, &path)?;
            let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            json!({"text": text, "function": function})
        }
        OracleRef::Bundled(_) => Value::Null,
    };
    let mut cases = operation.cases(&operation.bench, 0)?;
    let first = operation.dtypes.first().copied();
    cases.retain(|case| Some(case.dtype) == first);
    cases.truncate(MOST);
    let case = |case| -> Result<Value> {
        let bound = operation.bind(case)?;
        let tensors = bound.tensors.iter().map(|one| {
            let integers = one.integers.as_ref().map(|numbers| [numbers.first, numbers.last]);
            let spec = json!({"role": one.role, "dtype": one.dtype.name(), "shape": one.shape, "strides": one.strides,
                "span": one.span(), "integers": integers});
            (one.name.clone(), spec)
        });
        Ok(json!({"label": case.label, "tensors": tensors.collect::<serde_json::Map<_, _>>(), "values": bound.values}))
    };
    let names = operation.arguments.iter().filter_map(|argument| match argument {
        Argument::Tensor { name, .. } => Some(name),
        _ => None,
    });
    Ok(json!({"name": operation.name, "reference": reference, "tensors": names.collect::<Vec<_>>(),
        "cases": cases.iter().map(case).collect::<Result<Vec<_>>>()?}))
}
