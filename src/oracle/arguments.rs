//! The tensors and scalar values from which an oracle is constructed. Errors name the operation.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};

use super::{Tensors, View};

#[derive(Clone, Copy)]
pub(super) struct Arguments<'a> {
    pub(super) operation: &'a str,
    pub(super) tensors: &'a Tensors<'a>,
    pub(super) values: &'a BTreeMap<String, f64>,
}

impl<'a> Arguments<'a> {
    /// A required tensor.
    pub(super) fn tensor(&self, name: &str) -> Result<&'a View<'a>> {
        self.tensors.need(name, self.operation)
    }

    /// A required tensor, and a check that the tensors `others` have its shape.
    pub(super) fn tensor_like(&self, name: &str, others: &[&str]) -> Result<&'a View<'a>> {
        let view = self.tensor(name)?;
        for other in others {
            let shape = &self.tensor(other)?.shape;
            ensure!(
                *shape == view.shape,
                "the oracle {}: {other} has the shape {shape:?}, and {name} {:?}",
                self.operation,
                view.shape
            );
        }
        Ok(view)
    }

    /// An optional tensor of the shape `[width]`: one element per column.
    pub(super) fn vector(&self, name: &str, width: u64) -> Result<Option<&'a View<'a>>> {
        let Some(view) = self.tensors.get(name) else {
            return Ok(None);
        };
        ensure!(
            view.shape == [width],
            "the oracle {}: {name} has the shape {:?} for rows of {width}",
            self.operation,
            view.shape
        );
        Ok(Some(view))
    }

    /// A required value.
    pub(super) fn value(&self, name: &str) -> Result<f64> {
        let value = self.values.get(name).copied();
        value.with_context(|| format!("the oracle {} needs a value named `{name}`", self.operation))
    }

    pub(super) fn value_or(&self, name: &str, default: f64) -> f64 {
        self.values.get(name).copied().unwrap_or(default)
    }

    /// A required value, rounded to fp32 because the launcher takes a `float`.
    pub(super) fn float(&self, name: &str) -> Result<f64> {
        self.value(name).map(float)
    }

    pub(super) fn float_or(&self, name: &str, default: f64) -> f64 {
        float(self.value_or(name, default))
    }

    /// Whether an option is set: there is such a value, and it is not 0.
    pub(super) fn flag(&self, name: &str) -> bool {
        self.value_or(name, 0.0) != 0.0
    }
}

#[cfg(test)]
impl<'a> Arguments<'a> {
    /// For tests: no values.
    pub(super) fn of(operation: &'a str, tensors: &'a Tensors<'a>) -> Self {
        const NONE: &BTreeMap<String, f64> = &BTreeMap::new();
        Self::with(operation, tensors, NONE)
    }

    pub(super) fn with(operation: &'a str, tensors: &'a Tensors<'a>, values: &'a BTreeMap<String, f64>) -> Self {
        Self { operation, tensors, values }
    }
}

#[allow(clippy::cast_possible_truncation)]
fn float(value: f64) -> f64 {
    f64::from(value as f32)
}
