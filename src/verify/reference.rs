//! The oracle of a case: bundled, or a reference in Python.

use anyhow::Result;

use crate::oracle::python::{Call, Python};
use crate::oracle::{self, Oracle, Tensors};
use crate::project::{Argument, Bound, Operation, OracleRef, Project};

/// The oracle of an operation for one set of inputs. A reference in Python uses `threads` threads.
pub(crate) fn oracle_for(
    project: &Project,
    operation: &Operation,
    bound: &Bound,
    given: &Tensors,
    threads: usize,
) -> Result<Box<dyn Oracle>> {
    let oracle: Box<dyn Oracle> = match &operation.oracle {
        OracleRef::Bundled(name) => oracle::bundled(name, given, &bound.values)?.ok_or_else(|| {
            anyhow::anyhow!(
                "{}: there is no bundled oracle named `{name}`; there are {}, or name a function of your own: \
                 oracle = {{ python = \"reference.py\", function = \"…\" }}",
                operation.name,
                oracle::BUNDLED.join(", ")
            )
        })?,
        OracleRef::Python { file, function } => {
            let absent: Vec<&str> = operation
                .arguments
                .iter()
                .filter_map(|argument| match argument {
                    Argument::Tensor { name, role, .. } if role.is_given() => Some(name.as_str()),
                    _ => None,
                })
                .filter(|name| bound.tensors.iter().all(|tensor| tensor.name != *name))
                .collect();
            let call = Call { project: &project.root, file, function, absent: &absent, threads };
            let (tensors, values) = (&bound.tensors, &bound.values);
            Box::new(Python::run(&call, tensors, given, values, operation.tolerance)?)
        }
    };
    // An output that the oracle does not compute would pass unchecked.
    let compared = oracle.outputs();
    if let Some(unseen) = bound
        .tensors
        .iter()
        .find(|tensor| tensor.role.is_result() && tensor.elements() > 0 && !compared.contains(&tensor.name))
    {
        anyhow::bail!(
            "{}: its oracle does not compute the output `{}`; it computes {}",
            operation.name,
            unseen.name,
            compared.join(", ")
        );
    }
    // So would one that kernel.toml calls an input: nothing compares an input with an oracle.
    if let Some(given) = bound
        .tensors
        .iter()
        .find(|tensor| !tensor.role.is_result() && tensor.elements() > 0 && compared.contains(&tensor.name))
    {
        anyhow::bail!(
            "{}: its oracle computes `{}`, which is no output in kernel.toml; give it the role \"output\"",
            operation.name,
            given.name
        );
    }
    Ok(oracle)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::verify::layout::Layout;
    use crate::verify::slot::tensors;

    /// What the oracle of `add_rms_norm` says where kernel.toml gives `sum` a role, for a case of some rows.
    fn with_sum_as(role: &str, rows: u32) -> Result<Box<dyn Oracle>> {
        changed(&|text| text.replace("\"sum\", role = \"output\"", &format!("\"sum\", role = \"{role}\"")), rows)
    }

    fn changed(change: &dyn Fn(String) -> String, rows: u32) -> Result<Box<dyn Oracle>> {
        let scratch = tempfile::tempdir().unwrap();
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels/rmsnorm");
        for entry in walkdir::WalkDir::new(&from).into_iter().flatten().filter(|entry| entry.path().is_file()) {
            let to = scratch.path().join(entry.path().strip_prefix(&from).unwrap());
            std::fs::create_dir_all(to.parent().unwrap()).unwrap();
            std::fs::copy(entry.path(), to).unwrap();
        }
        let path = scratch.path().join("kernel.toml");
        std::fs::write(&path, change(std::fs::read_to_string(&path).unwrap())).unwrap();
        let project = Project::open(scratch.path()).unwrap();
        let operation = project.spec.operations.iter().find(|one| one.name == "add_rms_norm").unwrap();
        let mut case = operation.cases(&operation.verify, 0).unwrap().into_iter().next().unwrap();
        case.values.insert("rows".to_owned(), rows.into());
        let bound = operation.bind(&case).unwrap();
        let layout = Layout::new(&bound);
        let bytes = vec![0; usize::try_from(layout.bytes).unwrap()];
        oracle_for(&project, operation, &bound, &tensors(&bound, &layout, &bytes, &bytes), 1)
    }

    #[test]
    fn an_output_of_the_oracle_is_no_input() {
        assert!(with_sum_as("output", 3).is_ok());
        // One without elements is not compared.
        assert!(with_sum_as("input", 0).is_ok());
        let error = with_sum_as("input", 3).err().unwrap().to_string();
        assert!(error.contains("computes `sum`, which is no output"), "{error}");
    }

    #[test]
    fn an_output_that_the_oracle_does_not_compute_is_none() {
        let other = |text: String| text.replace("oracle = \"add_rms_norm\"", "oracle = \"rms_norm\"");
        assert!(changed(&other, 0).is_ok(), "one without elements");
        let error = changed(&other, 3).err().unwrap().to_string();
        assert!(error.contains("does not compute the output `sum`; it computes out"), "{error}");
    }
}
