//! A project's launchers, called on tensors.

#![allow(unsafe_code, reason = "a project's launcher runs in this process; that is what its user asks for")]

use std::collections::BTreeMap;
use std::path::PathBuf;

use kernels::gpu::launcher::Library;
use kernels::gpu::recording::Value;
use kernels::project::{Argument, BoundArgument, Operation, Role};
use kernels::toolchain::Toolchain;
use kernels::verify::path::choose;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::json;

use crate::dlpack::Tensor;
use crate::error::{Error, gpu, json as text, raised};

/// A kernel project, and its library for each GPU architecture that it was called on.
#[pyclass(unsendable)]
pub(crate) struct Project {
    project: kernels::project::Project,
    libraries: BTreeMap<i32, (Library, PathBuf)>,
}

#[allow(clippy::needless_pass_by_value, reason = "values that Python gives are owned")]
#[pymethods]
impl Project {
    #[new]
    fn new(folder: PathBuf) -> PyResult<Self> {
        let project = kernels::project::Project::open(&folder).map_err(raised)?;
        Ok(Self { project, libraries: BTreeMap::new() })
    }

    /// Its name.
    fn name(&self) -> String {
        self.project.name.clone()
    }

    /// Its folder.
    fn root(&self) -> PathBuf {
        self.project.root.clone()
    }

    /// Its operations as JSON: name, dtypes, tensors, and the names that a call may set.
    fn operations(&self) -> PyResult<String> {
        let operations: Vec<_> = self
            .project
            .spec
            .operations
            .iter()
            .map(|operation| {
                let tensors: Vec<_> = operation
                    .arguments
                    .iter()
                    .filter_map(|argument| match argument {
                        Argument::Tensor { name, role, shape, present, .. } => {
                            let shape: Vec<_> = shape.iter().map(|size| size.text.as_str()).collect();
                            let (role, optional) = (role_name(*role), present.is_some());
                            Some(json!({"name": name, "role": role, "shape": shape, "optional": optional}))
                        }
                        _ => None,
                    })
                    .collect();
                let dtypes: Vec<_> = operation.dtypes.iter().map(|dtype| dtype.name()).collect();
                let (name, values) = (&operation.name, operation.names());
                json!({"name": name, "dtypes": dtypes, "tensors": tensors, "values": values})
            })
            .collect();
        text(&operations)
    }

    /// Checks tensors and values against the operation; returns the tensors still to be allocated, as JSON.
    fn fit(
        &self,
        operation: &str,
        tensors: &Bound<'_, PyDict>,
        values: BTreeMap<String, f64>,
        stream: u64,
    ) -> PyResult<String> {
        let tensors = taken(tensors, stream)?;
        let given = tensors.iter().map(|(name, tensor)| (name.clone(), tensor.given.clone())).collect();
        let (_, bound) = self.operation(operation)?.fit(&given, &values).map_err(raised)?;
        let missing: Vec<_> = bound
            .tensors
            .iter()
            .filter(|tensor| !tensors.contains_key(&tensor.name))
            .map(|tensor| {
                json!({
                    "name": tensor.name,
                    "role": role_name(tensor.role),
                    "dtype": tensor.dtype.name(),
                    "shape": tensor.shape,
                    "strides": tensor.strides,
                })
            })
            .collect();
        text(&missing)
    }

    /// Launches on a stream. All tensors that the values make present must be given.
    fn launch(
        &mut self,
        operation: &str,
        tensors: &Bound<'_, PyDict>,
        values: BTreeMap<String, f64>,
        device: i32,
        stream: u64,
    ) -> PyResult<()> {
        let tensors = taken(tensors, stream)?;
        if let Some((name, other)) = tensors.iter().find(|(_, tensor)| tensor.device != device) {
            return Err(Error::new_err(format!(
                "{operation}: {name} is on card {}, the others on card {device}",
                other.device
            )));
        }
        let given = tensors.iter().map(|(name, tensor)| (name.clone(), tensor.given.clone())).collect();
        let found = self.operation(operation)?;
        let (launcher, name) = (found.launcher.clone(), found.name.clone());
        let (_, bound) = found.fit(&given, &values).map_err(raised)?;
        let mut arguments = Vec::with_capacity(bound.arguments.len());
        for argument in &bound.arguments {
            arguments.push(match *argument {
                BoundArgument::Tensor(index) | BoundArgument::Beyond(index, _) => {
                    let wanted = &bound.tensors[index].name;
                    let Some(tensor) = tensors.get(wanted) else {
                        return Err(Error::new_err(format!("{name}: {wanted} is missing")));
                    };
                    Value::Pointer(tensor.address)
                }
                BoundArgument::Null => Value::Pointer(0),
                BoundArgument::I32(number) => Value::I32(number),
                BoundArgument::I64(number) => Value::I64(number),
                BoundArgument::F32(number) => Value::F32(number.to_bits()),
                BoundArgument::F64(number) => Value::F64(number.to_bits()),
                BoundArgument::Stream => Value::Stream,
            });
        }
        let library = self.library(device)?;
        // SAFETY: the arguments are those of kernel.toml, which the launcher's author wrote; tensors were checked against
        // it, are on this GPU, and outlive the call; torch keeps their memory for the work queued on its streams.
        let code = unsafe { library.launch(&launcher, &arguments, stream) }.map_err(|error| raised(error.into()))?;
        if code != 0 {
            return Err(Error::new_err(format!(
                "{name}: {launcher} refused these arguments, or could not launch: it returned {code}; `kernels verify` \
                 shows what it takes"
            )));
        }
        Ok(())
    }
}

impl Project {
    fn operation(&self, name: &str) -> PyResult<&Operation> {
        let operations = &self.project.spec.operations;
        operations.iter().find(|operation| operation.name == name).ok_or_else(|| {
            let names: Vec<_> = operations.iter().map(|one| one.name.as_str()).collect();
            Error::new_err(format!("{} has no operation {name}; there are {}", self.project.name, names.join(", ")))
        })
    }

    /// The library for a GPU, compiled on first use.
    fn library(&mut self, device: i32) -> PyResult<&Library> {
        if !self.libraries.contains_key(&device) {
            let cards = kernels::gpu::probe().map_err(|why| gpu(&why))?;
            let card = usize::try_from(device)
                .ok()
                .and_then(|index| cards.get(index))
                .ok_or_else(|| gpu(&format!("there is no card {device}")))?;
            let toolchain = Toolchain::find().map_err(|error| raised(error.into()))?;
            let archs = [card.arch];
            let build = kernels::compile::build(&self.project, &archs, &toolchain, false, &|_| {}).map_err(raised)?;
            let path = choose(&build, card.arch, true)
                .first()
                .map(|(target, _)| target.library.clone())
                .ok_or_else(|| Error::new_err("nothing in this build runs on that card"))?;
            // SAFETY: the caller asked to launch this project.
            let library = unsafe { Library::open(&path) }.map_err(Error::new_err)?;
            self.libraries.insert(device, (library, path));
        }
        self.libraries.get(&device).map(|(library, _)| library).ok_or_else(|| Error::new_err("no library"))
    }
}

fn taken(tensors: &Bound<'_, PyDict>, stream: u64) -> PyResult<BTreeMap<String, Tensor>> {
    tensors
        .iter()
        .map(|(name, tensor)| {
            let name: String = name.extract()?;
            let tensor = Tensor::of(&name, &tensor, stream)?;
            Ok((name, tensor))
        })
        .collect()
}

fn role_name(role: Role) -> &'static str {
    match role {
        Role::Input => "input",
        Role::Output => "output",
        Role::InOut => "inout",
        Role::Scratch => "scratch",
    }
}
