//! A case as the driver is told of it.

use serde_json::{Value, json};

use crate::project::{Bound, BoundArgument, Case, Operation, OracleRef, Project, Role};

/// One case: names, sizes, the launcher's arguments, and the project's own reference where that is in Python.
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
            })
        })
        .collect();
    let arguments: Vec<Value> = bound
        .arguments
        .iter()
        .map(|argument| match *argument {
            BoundArgument::Tensor(at) => json!(["tensor", bound.tensors[at].name]),
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
        "bytes": bound.bytes,
        "values": case.values,
        "all": bound.values,
        "tensors": tensors,
        "arguments": arguments,
        "reference": reference,
    })
}

/// As kernel.toml says it.
fn role(role: Role) -> &'static str {
    match role {
        Role::Input => "input",
        Role::Output => "output",
        Role::InOut => "inout",
        Role::Scratch => "scratch",
    }
}
