//! What torch itself computes in a task's own type, on the CPU, judged as if it were a candidate: whether the budget of errors
//! can be met at all. It says nothing of any kernel.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

use crate::base::cores;
use crate::base::scratch::Scratch;
use crate::oracle::python::{Call, Python};
use crate::oracle::view::encode_all;
use crate::oracle::{Expected, Oracle as _, Tensors};
use crate::project::{Operation, OracleRef, Project, Tolerance};
use crate::verify::Choice;
use crate::verify::function::{Given, Unanswered};
use crate::verify::slot::tensors;
use crate::verify::through::{self, Verified};

/// Calls a project's reference with its floating-point tensors in another type.
const CALLER: &str = r#"import importlib.util
import torch

spec = importlib.util.spec_from_file_location("task", FILE)
task = importlib.util.module_from_spec(spec)
spec.loader.exec_module(task)


def own(**given):
    floats = {name: value.to(torch.TYPE) for name, value in given.items() if torch.is_tensor(value) and value.is_floating_point()}
    result = task.FUNCTION(**{**given, **floats})
    return result
"#;

/// Verifies the reference of an operation in its own type, on the chosen cases.
pub(super) fn verify(project: &Project, operation: &Operation, choice: &Choice, seed: u64) -> Result<Verified> {
    let scratch = Scratch::new()?;
    let call = &mut |given: &Given| called(project, scratch.path(), given);
    through::verify((project, operation), choice, seed, "torch on the CPU", call)
}

fn called(project: &Project, scratch: &Path, given: &Given) -> Result<Result<Vec<u8>, Unanswered>> {
    let OracleRef::Python { file, function } = &given.operation.oracle else {
        return Ok(Err(Unanswered::Absent("its reference is not in Python".to_owned())));
    };
    let dtype = match given.case.dtype.name() {
        "bf16" => "bfloat16",
        "f16" => "float16",
        _ => "float32",
    };
    let caller = scratch.join(format!("{dtype}.py"));
    let path = serde_json::to_string(&project.root.join(file))?;
    let text = CALLER.replace("FILE", &path).replace("FUNCTION", function).replace("TYPE", dtype);
    fs::write(&caller, text).with_context(|| format!("cannot write {}", caller.display()))?;
    let call = Call { project: scratch, file: &caller, function: "own", absent: &[], threads: cores() };
    let inputs = tensors(given.bound, given.layout, given.slot, given.slot);
    let declared = &given.bound.tensors;
    let found = match Python::run(&call, declared, &inputs, &given.bound.values, Tolerance::default()) {
        Ok(found) => found,
        Err(why) => return Ok(Err(Unanswered::Refused(format!("{why:#}")))),
    };
    let mut slot = given.slot.to_vec();
    let mut row = Expected::default();
    for (output, name) in found.outputs().iter().enumerate() {
        let Some(index) = declared.iter().position(|tensor| tensor.name == *name) else { continue };
        let mut at = given.layout.range(given.bound, index).start;
        for number in 0..found.rows(output) {
            found.row(&Tensors::default(), output, number, &mut row);
            let bytes = row.values.len() * declared[index].dtype.size();
            encode_all(declared[index].dtype, &row.values, &mut slot[at..at + bytes]);
            at += bytes;
        }
    }
    Ok(Ok(slot))
}
