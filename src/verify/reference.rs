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
    Ok(oracle)
}
