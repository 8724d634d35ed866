//! From a case to tensors with sizes and arguments with values.

use std::collections::BTreeMap;

use super::case::number;
use super::dtype::Element;
use super::formula::FormulaError;
use super::names::{CaseValue, Resolver};
use super::spec::BadPointer;
use super::{Argument, Bound, BoundArgument, BoundTensor, CType, Case, CaseError, DType, Formula, Integers, Operation};

/// The largest number that a floating-point tensor with a range is drawn from.
const MOST_DRAWN: f64 = 4_294_967_296.0;

/// The most elements that a tensor may span: 2^40.
pub(crate) const MOST_ELEMENTS: u64 = 1 << 40;

impl Operation {
    /// Fills every size of a case in. Tensors without strides are contiguous; a size may be zero.
    ///
    /// In a case that the launcher must refuse, a tensor whose sizes cannot be (negative, or beyond
    /// [`MOST_ELEMENTS`]) has each such size 1 and is contiguous: a launcher that does refuse never looks at it.
    ///
    /// Errors: a name without a value; a size that is negative, no integer, or overflows; a tensor beyond
    /// [`MOST_ELEMENTS`]; an output whose elements overlap; a scalar that its C type does not hold.
    pub fn bind(&self, case: &Case) -> anyhow::Result<Bound> {
        self.bound(case).map_err(|error| CaseError(format!("case `{}`: {error}", case.label)).into())
    }

    fn bound(&self, case: &Case) -> Result<Bound, CaseError> {
        let given: BTreeMap<&str, CaseValue<'_>> =
            case.values.iter().map(|(name, value)| (name.as_str(), CaseValue::Number(*value))).collect();
        let mut resolver = Resolver::new(self, &given, case.dtype);
        for name in self.names() {
            resolver.value(&name)?;
        }
        for argument in &self.arguments {
            if let Argument::Scalar { name, .. } = argument {
                resolver.value(name)?;
            }
        }
        let mut values = resolver.into_values();
        let mut tensors = Vec::new();
        let mut arguments = Vec::new();
        let mut scalars = Vec::new();
        for argument in &self.arguments {
            arguments.push(match argument {
                Argument::Tensor { name, present, .. } if is_present(name, present.as_ref(), case, &values)? => {
                    tensors.push(tensor(argument, case, &values)?);
                    let at = tensors.len() - 1;
                    match case.refusal.pointers.get(name) {
                        None => BoundArgument::Tensor(at),
                        Some(BadPointer::Null) => BoundArgument::Null,
                        Some(BadPointer::Beyond(bytes)) => BoundArgument::Beyond(at, *bytes),
                    }
                }
                Argument::Tensor { .. } => BoundArgument::Null,
                Argument::Scalar { name, ctype, .. } => {
                    let value = values.get(name).copied().unwrap_or_default();
                    let (argument, held) = scalar(name, *ctype, value, case.refused)?;
                    scalars.push((name.clone(), held));
                    argument
                }
                Argument::DType { codes } => {
                    let own = case.refusal.dtype_code.or_else(|| codes.get(&case.dtype).copied());
                    BoundArgument::I32(own.ok_or_else(|| CaseError(format!("{} has no code", case.dtype.name())))?)
                }
                Argument::Stream => BoundArgument::Stream,
            });
        }
        let (bytes, flops) = match self.cost(&values, case.dtype) {
            Ok(cost) => cost,
            Err(_) if case.refused => (0, 0.0),
            Err(error) => return Err(error),
        };
        // Last: formulas see what the case says, an oracle what the launcher gets (1e-6 as a float).
        values.extend(scalars);
        Ok(Bound { tensors, arguments, values, bytes, flops })
    }

    fn cost(&self, values: &BTreeMap<String, f64>, t: DType) -> Result<(u64, f64), CaseError> {
        let wrong = |error: FormulaError| CaseError(error.to_string());
        let bytes = self.bytes.eval_size(values, t).map_err(wrong)?;
        let flops = self.flops.eval(values, t).map_err(wrong)?;
        if flops < 0.0 {
            return Err(CaseError(format!("flops = `{}` gives {flops}, which is negative", self.flops.text)));
        }
        Ok((bytes, flops))
    }
}

/// Whether a case has a tensor.
fn is_present(
    name: &str,
    present: Option<&Formula>,
    case: &Case,
    values: &BTreeMap<String, f64>,
) -> Result<bool, CaseError> {
    let Some(formula) = present else {
        return Ok(true);
    };
    formula
        .eval(values, case.dtype)
        .map(|value| value != 0.0)
        .map_err(|error| CaseError(format!("`present` of tensor `{name}`: {error}")))
}

fn tensor(argument: &Argument, case: &Case, values: &BTreeMap<String, f64>) -> Result<BoundTensor, CaseError> {
    let Argument::Tensor { name, role, dtype, shape, strides, integers, alternatives, .. } = argument else {
        return Err(CaseError("no tensor".to_owned()));
    };
    let wrong = |message: String| CaseError(format!("tensor `{name}`: {message}"));
    let sizes = |formulas: &[Formula]| -> Result<Vec<u64>, CaseError> {
        formulas
            .iter()
            .map(|formula| formula.eval_size(values, case.dtype).map_err(|error| wrong(error.to_string())))
            .collect()
    };
    let own = match dtype {
        Element::T => case.dtype,
        Element::Fixed(dtype) => *dtype,
        Element::Parameter(name) => DType::from_code(values.get(name).copied().unwrap_or(-1.0)).unwrap_or(case.dtype),
    };
    let integers = match integers {
        // What a refused case draws is never looked at.
        Some(from) if !case.refused => Some(drawn(from, own, case.dtype, values).map_err(wrong)?),
        // Small integers of both signs, which others are without a range, are too large for these.
        None if own.size() == 1 => own.integers().map(|(first, last)| Integers { first, last, also: Vec::new() }),
        _ => None,
    };
    let made = |shape: Vec<u64>, strides: Option<Vec<u64>>| -> Result<BoundTensor, CaseError> {
        let contiguous = contiguous(&shape).ok_or_else(|| wrong(too_large(&shape)))?;
        let tensor = BoundTensor {
            name: name.clone(),
            role: *role,
            dtype: own,
            strides: strides.unwrap_or(contiguous),
            shape,
            offset: case.offsets.get(name).copied().unwrap_or(0),
            integers: integers.clone(),
            alternatives: alternatives.unwrap_or(1).into(),
        };
        check(&tensor).map_err(wrong)?;
        Ok(tensor)
    };
    let exact = sizes(shape).and_then(|shape| {
        let strides = strides.as_deref().map(sizes).transpose()?;
        made(shape, strides)
    });
    match exact {
        Err(_) if case.refused => {
            let possible = shape
                .iter()
                .map(|formula| formula.eval_size(values, case.dtype).ok().filter(|size| *size <= 1 << 16).unwrap_or(1))
                .collect();
            // Several sizes of 2^16 are still too much together; then all are 1.
            made(possible, None).or_else(|_| made(vec![1; shape.len()], None))
        }
        result => result,
    }
}

/// What a tensor of a type is drawn from: only what the type holds.
#[allow(clippy::cast_possible_truncation, reason = "within what the type holds, which is checked")]
fn drawn(
    from: &Integers<Formula>,
    dtype: DType,
    t: DType,
    values: &BTreeMap<String, f64>,
) -> Result<Integers<i64>, String> {
    #[allow(clippy::cast_precision_loss, reason = "a power of two at most")]
    let (least, most) = dtype.integers().map_or((-MOST_DRAWN, MOST_DRAWN), |(first, last)| (first as f64, last as f64));
    let (least, most) = match dtype {
        DType::E4M3 => (-448.0, 448.0),
        DType::F16 | DType::E5M2 => (-57344.0, 57344.0),
        _ => (least, most),
    };
    let limited = |formula: &Formula| {
        #[allow(clippy::cast_precision_loss, reason = "at most 2^53")]
        let value = if dtype.is_float() {
            formula.eval(values, t)
        } else {
            formula.eval_integer(values, t).map(|value| value as f64)
        };
        let value = value.map_err(|error| error.to_string())?;
        if !(least..=most).contains(&value) {
            return Err(format!(
                "`{}` in its range gives {}; {} is drawn from {} to {}",
                formula.text,
                number(value),
                dtype.name(),
                number(least),
                number(most)
            ));
        }
        Ok(if dtype.is_float() { (value / Integers::UNIT).round() as i64 } else { value as i64 })
    };
    let also = from.also.iter().map(limited).collect::<Result<_, _>>()?;
    Ok(Integers { first: limited(&from.first)?, last: limited(&from.last)?, also })
}

/// The strides of a tensor without gaps; none where they overflow. A size of zero counts as one, as in torch.
fn contiguous(shape: &[u64]) -> Option<Vec<u64>> {
    let mut strides = vec![1; shape.len()];
    let mut stride = 1_u64;
    for (at, size) in shape.iter().enumerate().rev() {
        strides[at] = stride;
        stride = stride.checked_mul((*size).max(1))?;
    }
    Some(strides)
}

fn too_large(shape: &[u64]) -> String {
    let sizes: Vec<String> = shape.iter().map(u64::to_string).collect();
    format!("{} elements are more than 2^40, the most a tensor may have", sizes.join(" × "))
}

/// Whether a tensor can be: not beyond the limit, nor writing an element twice.
fn check(tensor: &BoundTensor) -> Result<(), String> {
    if tensor.shape.contains(&0) {
        return Ok(());
    }
    let mut elements = 1_u64;
    let mut last = 0_u64;
    let mut dimensions = Vec::new();
    for (size, stride) in tensor.shape.iter().zip(&tensor.strides) {
        elements = elements
            .checked_mul(*size)
            .filter(|elements| *elements <= MOST_ELEMENTS)
            .ok_or_else(|| too_large(&tensor.shape))?;
        last = (size - 1)
            .checked_mul(*stride)
            .and_then(|gap| last.checked_add(gap))
            .filter(|last| *last < MOST_ELEMENTS)
            .ok_or_else(|| {
                format!("spans more than 2^40 elements: shape {:?}, strides {:?}", tensor.shape, tensor.strides)
            })?;
        if *size > 1 {
            dimensions.push((*stride, *size));
        }
    }
    if tensor.role.is_written() {
        dimensions.sort_unstable();
        let mut span = 1;
        for (stride, size) in dimensions {
            if stride < span {
                return Err(format!(
                    "its elements overlap, and it is written: shape {:?}, strides {:?}",
                    tensor.shape, tensor.strides
                ));
            }
            span += (size - 1) * stride;
        }
    }
    Ok(())
}

/// A scalar as its C type, and the number that the launcher then gets. One that is to be refused may be no finite number.
fn scalar(name: &str, ctype: CType, value: f64, refused: bool) -> Result<(BoundArgument, f64), CaseError> {
    let wrong = |what: &str| CaseError(format!("scalar `{name}` is {}, which {what}", number(value)));
    // Every i64 that a double holds lies below 2^63, which is one itself.
    let limit = 9_223_372_036_854_775_808.0;
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        reason = "in range and whole, as checked; rounding to a float is meant"
    )]
    match ctype {
        // Infinite, or beyond the type: a launcher that is to refuse it gets the nearest that there is.
        CType::I32 | CType::I64 if value.fract() != 0.0 && !(refused && value.is_infinite()) => {
            Err(wrong("is not an integer"))
        }
        CType::I32 if refused => Ok((BoundArgument::I32(value as i32), value)),
        CType::I64 if refused => Ok((BoundArgument::I64(value as i64), value)),
        CType::I32 => i32::try_from(value as i64)
            .map(|held| (BoundArgument::I32(held), value))
            .map_err(|_| wrong("an int32_t does not hold")),
        CType::I64 if (-limit..limit).contains(&value) => Ok((BoundArgument::I64(value as i64), value)),
        CType::I64 => Err(wrong("an int64_t does not hold")),
        CType::F32 if refused || (value as f32).is_finite() => {
            Ok((BoundArgument::F32(value as f32), f64::from(value as f32)))
        }
        CType::F32 => Err(wrong("a float does not hold")),
        CType::F64 => Ok((BoundArgument::F64(value), value)),
    }
}
