//! The names of an operation, and what each stands for in one case.

use std::collections::BTreeMap;

use thiserror::Error;

use super::dtype::Element;
use super::{Argument, DType, Formula, Integers, Operation, Role};

/// Why a case cannot be made or bound. The text names the operation or tensor, the name and what is allowed.
#[derive(Clone, Debug, Error)]
#[error("{0}")]
pub(crate) struct CaseError(pub String);

impl Operation {
    /// The names that a case may set, in the order in which the launcher's arguments use them first, then those of
    /// `bytes`, `flops` and the defaults. Scalars with a formula of their own are not among them.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        let mut add = |name: &str| {
            if self.computed(name).is_none() && !names.iter().any(|known| known == name) {
                names.push(name.to_owned());
            }
        };
        // Shapes first: `rows=4 width=8 x_stride=16` reads better than the C order, in which strides come between.
        for argument in &self.arguments {
            if let Argument::Tensor { shape, .. } = argument {
                for formula in shape {
                    formula.names().for_each(|(name, _)| add(name));
                }
            }
        }
        for argument in &self.arguments {
            match argument {
                Argument::Tensor { strides, present, integers, dtype, .. } => {
                    if let Element::Parameter(name) = dtype {
                        add(name);
                    }
                    let drawn = integers.iter().flat_map(Integers::all);
                    for formula in strides.iter().flatten().chain(present).chain(drawn) {
                        formula.names().for_each(|(name, _)| add(name));
                    }
                }
                Argument::Scalar { value, .. } => value.names().for_each(|(name, _)| add(name)),
                Argument::DType { .. } | Argument::Stream => {}
            }
        }
        for formula in [&self.bytes, &self.flops] {
            formula.names().for_each(|(name, _)| add(name));
        }
        for (name, formula) in &self.defaults {
            add(name);
            formula.names().for_each(|(name, _)| add(name));
        }
        names
    }

    /// The bytes of all tensors that are read or written, each once, and twice where it is both.
    pub(super) fn bytes_of_tensors(&self) -> Formula {
        let terms = self.arguments.iter().filter_map(|argument| match argument {
            Argument::Tensor { role: Role::Scratch, .. } => None,
            Argument::Tensor { role, dtype, shape, present, .. } => {
                let times = if *role == Role::InOut { "2" } else { "1" };
                let sizes = shape.iter().map(|size| format!(" * ({})", size.text));
                let there = present.iter().map(|formula| format!(" * (({}) != 0)", formula.text));
                let of = match dtype {
                    Element::T => "T",
                    Element::Fixed(dtype) => dtype.name(),
                    Element::Parameter(name) => name,
                };
                Some(format!("{times}{}{} * size({of})", sizes.collect::<String>(), there.collect::<String>()))
            }
            _ => None,
        });
        let text = terms.collect::<Vec<_>>().join(" + ");
        // A sum of formulas that were read one by one.
        Formula::parse(&text).unwrap_or_else(|_| Formula::number(0.0))
    }

    /// A name that is a stride has as default what makes its tensor contiguous.
    pub(super) fn add_contiguous_defaults(&mut self) {
        let mut found: BTreeMap<String, Formula> = BTreeMap::new();
        let is_size = |wanted: &str| {
            self.arguments.iter().any(|argument| {
                matches!(argument, Argument::Tensor { shape, .. }
                    if shape.iter().any(|size| size.names().any(|(name, _)| name == wanted)))
            })
        };
        for argument in &self.arguments {
            let Argument::Tensor { shape, strides: Some(strides), .. } = argument else {
                continue;
            };
            for (at, stride) in strides.iter().enumerate() {
                let (Some(name), Some(size), Some(inner)) = (stride.as_name(), shape.get(at + 1), strides.get(at + 1))
                else {
                    continue;
                };
                let text = match inner.text.as_str() {
                    "1" => size.text.clone(),
                    inner => format!("({}) * ({inner})", size.text),
                };
                if self.computed(name).is_none()
                    && !is_size(name)
                    && !self.defaults.contains_key(name)
                    && let Ok(formula) = Formula::parse(&text)
                {
                    found.entry(name.to_owned()).or_insert(formula);
                }
            }
        }
        self.defaults.extend(found);
    }

    /// The formula of a scalar argument that no case sets.
    pub(super) fn computed(&self, wanted: &str) -> Option<&Formula> {
        self.arguments.iter().find_map(|argument| match argument {
            Argument::Scalar { name, value, .. } if name == wanted && !value.is_name(name) => Some(value),
            _ => None,
        })
    }
}

/// The value that a case gives to a name.
#[derive(Clone, Copy, Debug)]
pub(super) enum CaseValue<'a> {
    Number(f64),
    Formula(&'a Formula),
}

/// Finds the value of names: what the case gives, else the default, each formula after the names it uses.
pub(super) struct Resolver<'a> {
    operation: &'a Operation,
    given: &'a BTreeMap<&'a str, CaseValue<'a>>,
    dtype: DType,
    done: BTreeMap<String, f64>,
    /// The names whose formulas are being worked out.
    open: Vec<String>,
}

impl<'a> Resolver<'a> {
    pub(super) fn new(operation: &'a Operation, given: &'a BTreeMap<&'a str, CaseValue<'a>>, dtype: DType) -> Self {
        Self { operation, given, dtype, done: BTreeMap::new(), open: Vec::new() }
    }

    /// The value of a name. Errors: none is given, a formula has none, a name is computed of itself.
    pub(super) fn value(&mut self, name: &str) -> Result<f64, CaseError> {
        if let Some(value) = self.done.get(name) {
            return Ok(*value);
        }
        if self.open.iter().any(|open| open == name) {
            let circle: Vec<String> = self.open.iter().map(|open| format!("`{open}`")).collect();
            return Err(CaseError(format!(
                "`{name}` is computed of itself: {} → `{name}`; give one of them a number",
                circle.join(" → ")
            )));
        }
        let operation = self.operation;
        let formula = match (operation.computed(name), self.given.get(name)) {
            (Some(formula), _) => formula,
            (None, Some(CaseValue::Formula(formula))) => formula,
            (None, Some(CaseValue::Number(value))) => {
                self.done.insert(name.to_owned(), *value);
                return Ok(*value);
            }
            (None, None) => match (operation.types.get(name), operation.defaults.get(name)) {
                (Some(types), _) => {
                    let code = DType::code(types.first().copied().flatten());
                    self.done.insert(name.to_owned(), code);
                    return Ok(code);
                }
                (None, Some(formula)) => formula,
                (None, None) => {
                    return Err(CaseError(format!(
                        "`{name}` has no value; give it one here or in [operation.defaults]"
                    )));
                }
            },
        };
        self.open.push(name.to_owned());
        for (inner, _) in formula.names() {
            self.value(inner)?;
        }
        let value = formula.eval(&self.done, self.dtype).map_err(|error| CaseError(format!("`{name}`: {error}")))?;
        self.open.pop();
        self.done.insert(name.to_owned(), value);
        Ok(value)
    }

    /// All values found so far.
    pub(super) fn into_values(self) -> BTreeMap<String, f64> {
        self.done
    }
}
