//! From tensors that a caller has to a case: sizes are taken from their shapes, and everything is checked against
//! kernel.toml.

use std::collections::BTreeMap;

use super::dtype::Element;
use super::formula::listed;
use super::names::CaseValue;
use super::{Argument, Bound, BoundTensor, Case, CaseError, DType, Formula, Operation, Role};

/// A tensor as its owner describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct GivenTensor {
    /// The type of its elements.
    pub dtype: DType,
    /// Its shape.
    pub shape: Vec<u64>,
    /// Its strides in elements.
    pub strides: Vec<i64>,
}

impl Operation {
    /// Infers the case from these tensors and values. Its tensors that were not given are outputs and scratch for the
    /// caller to allocate.
    ///
    /// # Errors
    /// A name that the operation does not know; a tensor that is missing, or whose type, shape or strides do not fit
    /// kernel.toml or another tensor; all that [`Operation::bind`] finds.
    pub fn fit(
        &self,
        tensors: &BTreeMap<String, GivenTensor>,
        values: &BTreeMap<String, f64>,
    ) -> anyhow::Result<(Case, Bound)> {
        let wrong = |error: CaseError| CaseError(format!("{}: {}", self.name, error.0));
        let case = self.infer(tensors, values).map_err(wrong)?;
        let bound = self.bind(&case)?;
        self.check_tensors(&bound, tensors).map_err(wrong)?;
        Ok((case, bound))
    }

    fn infer(
        &self,
        tensors: &BTreeMap<String, GivenTensor>,
        values: &BTreeMap<String, f64>,
    ) -> Result<Case, CaseError> {
        let known = self.names();
        self.check_given_names(&known, tensors, values)?;
        let dtype = self.dtype_of(tensors)?;
        let mut found = Found(BTreeMap::new());
        for (name, value) in values {
            found.put(name, *value, "the value")?;
        }
        // Inputs first: an output is what is wrong where it differs from them.
        let (inputs, outputs): (Vec<_>, Vec<_>) = self.tensor_arguments().partition(|tensor| tensor.role.is_given());
        for tensor in inputs.into_iter().chain(outputs) {
            match tensors.get(tensor.name) {
                Some(given) => self.take(&tensor, given, dtype, &mut found)?,
                None if tensor.role.is_given() => self.take_absent(&tensor, &mut found)?,
                None => {}
            }
        }
        let given: BTreeMap<&str, CaseValue<'_>> =
            found.0.iter().map(|(name, (value, _))| (name.as_str(), CaseValue::Number(*value))).collect();
        Ok(Case::new(dtype, self.values_of(&known, &given, dtype)?))
    }

    fn check_given_names(
        &self,
        known: &[String],
        tensors: &BTreeMap<String, GivenTensor>,
        values: &BTreeMap<String, f64>,
    ) -> Result<(), CaseError> {
        let names: Vec<&str> = self.tensor_arguments().map(|tensor| tensor.name).collect();
        if let Some(name) = tensors.keys().find(|name| !names.contains(&name.as_str())) {
            return Err(CaseError(format!("there is no tensor `{name}`; tensors: {}", listed(names))));
        }
        if let Some(name) = values.keys().find(|name| !known.contains(name)) {
            return Err(CaseError(format!(
                "there is no `{name}`; tensors: {}; values: {}",
                listed(names),
                listed(known)
            )));
        }
        Ok(())
    }

    /// What a tensor that is not given says of the names.
    fn take_absent(&self, tensor: &TensorArgument<'_>, found: &mut Found) -> Result<(), CaseError> {
        match tensor.present {
            None => Err(CaseError(format!("{} is missing: a tensor [{}]", tensor.name, texts(tensor.shape)))),
            Some(present) => match self.settable_name(present) {
                Some(name) => found.put(name, 0.0, &format!("{} is not given", tensor.name)),
                None => Ok(()),
            },
        }
    }

    /// What a given tensor says of the names.
    #[allow(clippy::cast_precision_loss, reason = "bind refuses what is beyond 2^40")]
    fn take(
        &self,
        tensor: &TensorArgument<'_>,
        given: &GivenTensor,
        dtype: DType,
        found: &mut Found,
    ) -> Result<(), CaseError> {
        if let Some(name) = tensor.present.and_then(|present| self.settable_name(present)) {
            found.put(name, 1.0, &format!("{} is given", tensor.name))?;
        }
        if given.shape.len() != tensor.shape.len() || given.strides.len() != given.shape.len() {
            return Err(CaseError(format!(
                "{} has the shape {:?}; kernel.toml says [{}]: reshape it",
                tensor.name,
                given.shape,
                texts(tensor.shape)
            )));
        }
        if let Element::Parameter(name) = tensor.dtype {
            let code = self.type_of(tensor.name, name, given.dtype, dtype)?;
            found.put(name, code, &format!("{}.dtype", tensor.name))?;
        }
        for (at, (formula, size)) in tensor.shape.iter().zip(&given.shape).enumerate() {
            if let Some(name) = self.settable_name(formula) {
                found.put(name, *size as f64, &format!("{}.shape[{at}]", tensor.name))?;
            }
        }
        let strides = tensor.strides.iter().flat_map(|strides| strides.iter());
        for (at, (formula, stride)) in strides.zip(&given.strides).enumerate() {
            // A single row may have any stride; what the operation would take for itself is right.
            if given.shape[at] > 1
                && let Some(name) = self.settable_name(formula)
            {
                found.put(name, *stride as f64, &format!("{}.stride({at})", tensor.name))?;
            }
        }
        Ok(())
    }

    /// The code of a type parameter whose tensor has a dtype, where `T` is `t`.
    fn type_of(&self, tensor: &str, name: &str, given: DType, t: DType) -> Result<f64, CaseError> {
        let types = self.types.get(name).map_or(&[][..], Vec::as_slice);
        types.iter().find(|allowed| allowed.unwrap_or(t) == given).map(|allowed| DType::code(*allowed)).ok_or_else(
            || {
                CaseError(format!(
                    "{tensor} is {}; it must be one of {}",
                    given.name(),
                    listed(types.iter().map(|allowed| allowed.unwrap_or(t).name()))
                ))
            },
        )
    }

    /// What `T` is.
    fn dtype_of(&self, tensors: &BTreeMap<String, GivenTensor>) -> Result<DType, CaseError> {
        let mut first: Option<(&str, DType)> = None;
        for tensor in self.tensor_arguments().filter(|tensor| *tensor.dtype == Element::T) {
            let Some(given) = tensors.get(tensor.name) else {
                continue;
            };
            match first {
                None => first = Some((tensor.name, given.dtype)),
                Some((name, dtype)) if dtype != given.dtype => {
                    return Err(CaseError(format!(
                        "{name} is {} and {} is {}: they must be of one type",
                        dtype.name(),
                        tensor.name,
                        given.dtype.name()
                    )));
                }
                Some(_) => {}
            }
        }
        let types = || listed(self.dtypes.iter().map(|dtype| dtype.name()));
        match first {
            Some((_, dtype)) if self.dtypes.contains(&dtype) => Ok(dtype),
            Some((name, dtype)) => Err(CaseError(format!("{name} is {}; it must be one of {}", dtype.name(), types()))),
            // Only one type could be meant.
            None if self.dtypes.len() == 1 => Ok(self.dtypes[0]),
            None => Err(CaseError(format!(
                "no tensor says which of {} it is; give {}",
                types(),
                listed(self.tensor_arguments().filter(|t| t.role.is_given()).map(|t| t.name))
            ))),
        }
    }

    /// The name that a formula consists of, where a case may set it.
    fn settable_name<'a>(&self, formula: &'a Formula) -> Option<&'a str> {
        formula.as_name().filter(|name| self.computed(name).is_none())
    }

    /// Checks what was given against what the operation takes.
    fn check_tensors(&self, bound: &Bound, tensors: &BTreeMap<String, GivenTensor>) -> Result<(), CaseError> {
        for tensor in self.tensor_arguments() {
            let name = tensor.name;
            let wanted = bound.tensors.iter().find(|bound| bound.name == name);
            match (wanted, tensors.get(name)) {
                (None, Some(_)) => {
                    return Err(CaseError(format!(
                        "{name} is given, and these values leave it out (`present` in kernel.toml)"
                    )));
                }
                (Some(wanted), None) if wanted.role.is_given() => {
                    return Err(CaseError(format!(
                        "{name} is missing: a {} tensor of shape {:?}, [{}]",
                        wanted.dtype.name(),
                        wanted.shape,
                        texts(tensor.shape)
                    )));
                }
                (Some(wanted), Some(given)) => fits(wanted, given, tensor.shape)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn tensor_arguments(&self) -> impl Iterator<Item = TensorArgument<'_>> {
        self.arguments.iter().filter_map(|argument| match argument {
            Argument::Tensor { name, role, dtype, shape, strides, present, .. } => Some(TensorArgument {
                name,
                role: *role,
                dtype,
                shape,
                strides: strides.as_ref(),
                present: present.as_ref(),
            }),
            _ => None,
        })
    }
}

/// [`Argument::Tensor`], looked at.
struct TensorArgument<'a> {
    name: &'a str,
    role: Role,
    dtype: &'a Element,
    shape: &'a [Formula],
    strides: Option<&'a Vec<Formula>>,
    present: Option<&'a Formula>,
}

/// Values of names, and where each comes from.
struct Found(BTreeMap<String, (f64, String)>);

impl Found {
    fn put(&mut self, name: &str, value: f64, source: &str) -> Result<(), CaseError> {
        match self.0.get(name) {
            Some((before, whence)) if before.to_bits() != value.to_bits() => {
                Err(CaseError(format!("`{name}` is {before} by {whence}, and {value} by {source}")))
            }
            Some(_) => Ok(()),
            None => {
                self.0.insert(name.to_owned(), (value, source.to_owned()));
                Ok(())
            }
        }
    }
}

fn fits(wanted: &BoundTensor, given: &GivenTensor, shape: &[Formula]) -> Result<(), CaseError> {
    let name = &wanted.name;
    if wanted.dtype != given.dtype {
        return Err(CaseError(format!("{name} is {}, and must be {}", given.dtype.name(), wanted.dtype.name())));
    }
    if wanted.shape != given.shape {
        return Err(CaseError(format!(
            "{name} has the shape {:?}, and must have {:?}, [{}]",
            given.shape,
            wanted.shape,
            texts(shape)
        )));
    }
    // Nobody steps along what has one element, or none.
    let differs = |at: usize| given.shape[at] > 1 && i64::try_from(wanted.strides[at]) != Ok(given.strides[at]);
    if wanted.elements() > 0 && (0..given.shape.len()).any(differs) {
        return Err(CaseError(format!(
            "{name} has the strides {:?}, and must have {:?}: `.contiguous()` makes such a copy",
            given.strides, wanted.strides
        )));
    }
    Ok(())
}

fn texts(formulas: &[Formula]) -> String {
    let texts: Vec<&str> = formulas.iter().map(|formula| formula.text.as_str()).collect();
    texts.join(", ")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::project::Project;
    use std::path::Path;

    fn operation(project: &str, name: &str) -> Operation {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels").join(project);
        let project = Project::open(&root).unwrap();
        let found = project.spec.operations.into_iter().find(|operation| operation.name == name);
        found.unwrap()
    }

    fn given(dtype: DType, shape: &[u64], strides: &[i64]) -> GivenTensor {
        GivenTensor { dtype, shape: shape.to_vec(), strides: strides.to_vec() }
    }

    fn said(operation: &Operation, tensors: &[(&str, GivenTensor)], values: &[(&str, f64)]) -> String {
        let tensors = tensors.iter().map(|(name, given)| ((*name).to_owned(), given.clone())).collect();
        let values = values.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        match operation.fit(&tensors, &values) {
            Ok((case, _)) => format!("{:?}", case.values),
            Err(error) => format!("{error:#}"),
        }
    }

    #[test]
    fn sizes_and_strides_are_the_tensors_own() {
        let operation = operation("rmsnorm", "rms_norm");
        let x = given(DType::BF16, &[8, 256], &[512, 1]);
        let weight = given(DType::BF16, &[256], &[1]);
        let tensors = BTreeMap::from([("x".to_owned(), x), ("weight".to_owned(), weight)]);
        let values = BTreeMap::from([("eps".to_owned(), 1e-5)]);
        let (case, bound) = operation.fit(&tensors, &values).unwrap();
        for (name, value) in
            [("rows", 8.0), ("width", 256.0), ("x_stride", 512.0), ("out_stride", 256.0), ("weight", 1.0)]
        {
            assert_eq!(case.values[name].to_bits(), f64::to_bits(value), "{name}");
        }
        let out = &bound.tensors[0];
        assert_eq!((out.name.as_str(), &out.shape[..], out.dtype), ("out", &[8, 256][..], DType::BF16));
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let operation = operation("rmsnorm", "rms_norm");
        let x = || ("x", given(DType::BF16, &[8, 256], &[256, 1]));
        let weight = |dtype, width| ("weight", given(dtype, &[width], &[1]));
        for (tensors, values, words) in [
            (vec![x()], vec![], "\"weight\": 0.0"),
            (vec![x(), weight(DType::F32, 256)], vec![], "x is bf16 and weight is f32"),
            (vec![x(), weight(DType::BF16, 255)], vec![], "`width` is 256 by x.shape[1], and 255 by weight.shape[0]"),
            (vec![x()], vec![("width", 8.0)], "`width` is 8 by the value, and 256 by x.shape[1]"),
            (vec![x()], vec![("epsilon", 8.0)], "there is no `epsilon`"),
            (vec![x()], vec![("weight", 1.0)], "`weight` is 1 by the value, and 0 by weight is not given"),
            (vec![("y", given(DType::BF16, &[1], &[1]))], vec![], "there is no tensor `y`"),
            (vec![("x", given(DType::I32, &[8, 256], &[256, 1]))], vec![], "x is i32; it must be one of"),
            (vec![("x", given(DType::BF16, &[2, 4, 256], &[1024, 256, 1]))], vec![], "[rows, width]: reshape it"),
            (vec![("x", given(DType::BF16, &[8, 256], &[256, 2]))], vec![], "x has the strides [256, 2]"),
            (vec![weight(DType::BF16, 256)], vec![], "x is missing: a tensor [rows, width]"),
            (vec![x(), ("out", given(DType::BF16, &[8, 128], &[128, 1]))], vec![], "and 128 by out.shape[1]"),
        ] {
            let told = said(&operation, &tensors, &values);
            assert!(told.contains(words), "{words}: {told}");
        }
    }
}
