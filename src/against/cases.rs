//! Cases as JSON for the Python programs that launch them.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::project::{
    Argument, Bound, BoundArgument, BoundTensor, Case, CaseSet, Integers, Operation, OracleRef, Project, Role,
};
use crate::worker::Cases;

/// A project's sources, its operations, and their bound cases less those that are drawn at random.
pub(crate) fn cases(request: &Cases) -> Result<Value> {
    let project = Project::open(&request.project)?;
    let bound = |operation: &Operation, case: &Case| -> Result<Value> {
        Ok(self::case(&project, operation, case, &operation.bind(case)?))
    };
    let list = |operation: &Operation, sets: &[CaseSet]| -> Result<Vec<Value>> {
        let fixed: Vec<CaseSet> = sets.iter().filter(|set| set.draw.is_none()).cloned().collect();
        let cases = operation.cases(&fixed, 0)?;
        cases.iter().map(|case| bound(operation, case)).collect()
    };
    let mut operations = Vec::new();
    for operation in &project.spec.operations {
        operations.push(json!({
            "name": operation.name,
            "dtypes": operation.dtypes,
            "names": operation.names(),
            "tensors": tensors(operation),
            "bench": list(operation, &operation.bench)?,
            "verify": if request.verify { list(operation, &operation.verify)? } else { Vec::new() },
        }));
    }
    let mut shaped = Vec::new();
    for (name, dtype, shape) in &request.shapes {
        let mut all = project.spec.operations.iter();
        let operation = all
            .find(|operation| operation.name == *name)
            .with_context(|| format!("{} has no operation {name}", project.name))?;
        shaped.push(bound(operation, &operation.case_of_shape(shape, *dtype)?)?);
    }
    let absolute =
        |paths: &[std::path::PathBuf]| -> Vec<_> { paths.iter().map(|path| project.root.join(path)).collect() };
    Ok(json!({
        "name": project.name,
        "folder": project.root,
        "sources": absolute(&project.sources),
        "includes": absolute(&project.includes),
        "flags": project.cuda_flags,
        "operations": operations,
        "shaped": shaped,
    }))
}

/// The tensors of an operation with the formulas of their sizes and presence.
fn tensors(operation: &Operation) -> Vec<Value> {
    let tensors = operation.arguments.iter().filter_map(|argument| {
        let Argument::Tensor { name, shape, present, .. } = argument else {
            return None;
        };
        let shape: Vec<&str> = shape.iter().map(|size| size.text.as_str()).collect();
        let present = present.as_ref().map(|formula| &formula.text);
        Some(json!({"name": name, "shape": shape, "present": present}))
    });
    tensors.collect()
}

/// A bound case: names, sizes, the launcher's arguments, and the project's reference where that is in Python.
pub(super) fn case(project: &Project, operation: &Operation, case: &Case, bound: &Bound) -> Value {
    let tensors: Vec<Value> = bound
        .tensors
        .iter()
        .map(|tensor| {
            json!({
                "name": tensor.name,
                "role": role(tensor.role),
                "dtype": tensor.dtype.name(),
                "shape": tensor.shape,
                "strides": tensor.strides,
                "offset": tensor.offset,
                "range": range(tensor),
            })
        })
        .collect();
    let arguments: Vec<Value> = bound
        .arguments
        .iter()
        .map(|argument| match *argument {
            BoundArgument::Tensor(at) | BoundArgument::Beyond(at, _) => {
                json!(["tensor", bound.tensors[at].name])
            }
            BoundArgument::Null => json!(["null", null]),
            BoundArgument::I32(number) => json!(["i32", number]),
            BoundArgument::I64(number) => json!(["i64", number]),
            BoundArgument::F32(number) => json!(["f32", number]),
            BoundArgument::F64(number) => json!(["f64", number]),
            BoundArgument::Stream => json!(["stream", null]),
        })
        .collect();
    let reference = match &operation.oracle {
        OracleRef::Python { file, function } => {
            json!({"file": project.root.join(file), "function": function})
        }
        OracleRef::Bundled(_) => Value::Null,
    };
    json!({
        "operation": operation.name,
        "launcher": operation.launcher,
        "case": case.label,
        "dtype": case.dtype.name(),
        "inputs": case.inputs.name(),
        "bytes": bound.bytes,
        "values": case.values,
        "all": bound.values,
        "tensors": tensors,
        "arguments": arguments,
        "reference": reference,
    })
}

/// The smallest and the largest value of an input, where kernel.toml says so.
#[allow(clippy::cast_precision_loss, reason = "binding limits it to 2^53")]
fn range(tensor: &BoundTensor) -> Option<[f64; 2]> {
    let from = tensor.integers.as_ref()?;
    let unit = if tensor.dtype.is_float() { Integers::UNIT } else { 1.0 };
    Some([from.first as f64 * unit, from.last as f64 * unit])
}

/// As kernel.toml names it.
fn role(role: Role) -> &'static str {
    match role {
        Role::Input => "input",
        Role::Output => "output",
        Role::InOut => "inout",
        Role::Scratch => "scratch",
    }
}
