//! `arguments`: what a launcher takes, in C order.

use std::collections::BTreeMap;
use std::ops::Range;

use toml::de::DeTable;

use super::super::dtype::Element;
use super::super::formula::is_name;
use super::super::table::{Fields, Reader, Value};
use super::super::{Argument, CType, DType, Formula, Integers, Operation, Role};
use super::dtype::{read_dtype, unknown_dtype};
use super::{Located, check_name, like, located};

type Types = BTreeMap<String, Vec<Option<DType>>>;

pub(super) fn read_all(
    reader: &Reader<'_>,
    value: &Value<'_>,
    dtypes: Option<&[DType]>,
    types: &Types,
    formulas: &mut Vec<Located>,
    base: Option<&Operation>,
) -> Option<Vec<Argument>> {
    let mut arguments = Vec::new();
    let mut seen: Vec<(String, Range<usize>)> = Vec::new();
    let mut sound = true;
    for item in reader.list(value, "a list of arguments in C order")? {
        let read = match item.get_ref().as_str() {
            Some(text) => Some(like::named(reader, item, text, base)).filter(|named| !named.is_empty()),
            None => read_argument(reader, item, dtypes, types, formulas),
        };
        let Some(read) = read else {
            sound = false;
            continue;
        };
        for argument in read {
            let name = argument.name().to_owned();
            if let Some((_, first)) = seen.iter().find(|(other, _)| *other == name) {
                reader.fail(
                    item.span(),
                    format!("a second argument `{name}`"),
                    [format!(
                        "the first is at line {}; each needs a name of its own",
                        reader.document.line_of(first.start)
                    )],
                );
            }
            seen.push((name, item.span()));
            arguments.push(argument);
        }
    }
    if !sound {
        return None;
    }
    check_all(reader, value, dtypes, &arguments);
    Some(arguments)
}

/// Problems that only all arguments together show.
fn check_all(reader: &Reader<'_>, value: &Value<'_>, dtypes: Option<&[DType]>, arguments: &[Argument]) {
    if !arguments.iter().any(|argument| matches!(argument, Argument::Stream)) {
        reader.fail(
            value.span(),
            "no stream argument",
            ["add { stream = true } where the launcher takes its cudaStream_t; work on any other stream is an error"
                .to_owned()],
        );
    }
    if !arguments.iter().any(|argument| matches!(argument, Argument::Tensor { role: Role::Output | Role::InOut, .. })) {
        reader.fail(
            value.span(),
            "no output: nothing to check",
            ["give a tensor role = \"output\" or \"inout\"".to_owned()],
        );
    }
    let uses_t = arguments.iter().any(|argument| matches!(argument, Argument::Tensor { dtype: Element::T, .. }));
    let tells = arguments.iter().any(|argument| matches!(argument, Argument::DType { .. }));
    if uses_t && !tells && dtypes.is_some_and(|dtypes| dtypes.len() > 1) {
        reader.fail(
            value.span(),
            "the launcher cannot tell which of its dtypes T is",
            ["add { dtype = { bf16 = 0, … } } with the code of each dtype, or list one dtype".to_owned()],
        );
    }
}

/// One entry, which may give several scalars of a type.
fn read_argument(
    reader: &Reader<'_>,
    value: &Value<'_>,
    dtypes: Option<&[DType]>,
    types: &Types,
    formulas: &mut Vec<Located>,
) -> Option<Vec<Argument>> {
    let table = reader.table(value, "an argument such as { stream = true }")?;
    let key = |key| table.get(key).is_some();
    let kinds = [key("tensor"), key("scalar"), key("scalars"), key("stream")];
    let is_dtype = key("dtype") && !kinds.contains(&true);
    if kinds.iter().filter(|kind| **kind).count() + usize::from(is_dtype) != 1 {
        reader.fail(
            value.span(),
            "an argument is one of tensor, scalar, dtype, stream",
            [
                "{ tensor = \"x\", role = \"input\", shape = [\"rows\", \"width\"] }, { scalar = \"eps\", type = \"f32\" },".to_owned(),
                "{ scalars = [\"rows\", \"width\"], type = \"i64\" },".to_owned(),
                "{ dtype = { f32 = 0, f16 = 1, bf16 = 2 } }, { stream = true }".to_owned(),
            ],
        );
        return None;
    }
    if key("tensor") {
        read_tensor(reader, table, value.span(), types, formulas).map(|argument| vec![argument])
    } else if key("scalar") {
        read_scalar(reader, table, value.span(), formulas).map(|argument| vec![argument])
    } else if key("scalars") {
        read_scalars(reader, table, value.span(), formulas)
    } else if key("stream") {
        read_stream(reader, table, value.span()).map(|argument| vec![argument])
    } else {
        read_codes(reader, table, value.span(), dtypes).map(|argument| vec![argument])
    }
}

fn read_stream(reader: &Reader<'_>, table: &DeTable<'_>, span: Range<usize>) -> Option<Argument> {
    let fields = Fields::new(reader, "a stream argument", table, span);
    let stream = fields.get("stream")?;
    if reader.boolean(stream) == Some(false) {
        reader.fail(
            stream.span(),
            "a stream argument is { stream = true }",
            ["remove the argument if the launcher does not take it".to_owned()],
        );
    }
    fields.finish();
    Some(Argument::Stream)
}

fn read_tensor(
    reader: &Reader<'_>,
    table: &DeTable<'_>,
    span: Range<usize>,
    types: &Types,
    formulas: &mut Vec<Located>,
) -> Option<Argument> {
    let fields = Fields::new(reader, "a tensor argument", table, span);
    let name = fields.get("tensor").and_then(|value| {
        let name = reader.string(value, "a name")?;
        if !is_name(name) {
            check_name(reader, name, value.span());
        }
        Some(name.to_owned())
    });
    let role = fields.required("role", "role = \"input\"").and_then(|value| read_role(reader, value));
    let dtype = match fields.get("dtype") {
        Some(value) => read_element(reader, value, types),
        None => Some(Element::T),
    };
    let mut list = |value| {
        reader
            .list(value, "a list of formulas, one a dimension")?
            .into_iter()
            .map(|value| located(reader, value, formulas))
            .collect::<Option<Vec<Formula>>>()
    };
    let shape = fields.required("shape", "shape = [\"rows\", \"width\"]").and_then(&mut list);
    let strides_value = fields.get("strides");
    let strides = match strides_value {
        Some(value) => Some(list(value)?),
        None => None,
    };
    if let (Some(value), Some(strides), Some(shape)) = (strides_value, &strides, &shape)
        && strides.len() != shape.len()
    {
        reader.fail(
            value.span(),
            format!("{} strides for {} dimensions", strides.len(), shape.len()),
            ["one stride a dimension, in elements".to_owned()],
        );
    }
    let present = match fields.get("present") {
        Some(value) => Some(located(reader, value, formulas)?),
        None => None,
    };
    let integers = read_integers(reader, &fields, formulas)?;
    let alternatives_value = fields.get("alternatives");
    let alternatives = match alternatives_value {
        Some(value) => u8::try_from(reader.integer(value, 2, 64)?).ok(),
        None => None,
    };
    fields.finish();
    let (role, dtype) = (role?, dtype?);
    let is_exact = role == Role::Output && matches!(dtype, Element::Fixed(dtype) if !dtype.is_float());
    if let (Some(value), false) = (alternatives_value, is_exact) {
        reader.fail(
            value.span(),
            "`alternatives` is for an output of integers",
            ["role = \"output\", and a dtype such as \"i64\"".to_owned()],
        );
    }
    if let (Some((span, _)), false) = (&integers, role.is_given()) {
        reader.fail(
            span.clone(),
            "`range` is for a tensor that is drawn",
            ["role = \"input\" or \"inout\"".to_owned()],
        );
    }
    Some(Argument::Tensor {
        name: name?,
        role,
        dtype,
        shape: shape?,
        strides,
        present,
        integers: integers.map(|(_, integers)| integers),
        alternatives,
    })
}

fn read_role(reader: &Reader<'_>, value: &Value<'_>) -> Option<Role> {
    match reader.string(value, "a role")? {
        "input" => Some(Role::Input),
        "output" => Some(Role::Output),
        "inout" => Some(Role::InOut),
        "scratch" => Some(Role::Scratch),
        other => {
            reader.fail(
                value.span(),
                format!("unknown role `{other}`"),
                ["allowed: input, output, inout, scratch".to_owned()],
            );
            None
        }
    }
}

/// A dtype, `T`, or a type parameter.
fn read_element(reader: &Reader<'_>, value: &Value<'_>, types: &Types) -> Option<Element> {
    match reader.string(value, "a dtype")? {
        "T" => Some(Element::T),
        name if types.contains_key(name) => Some(Element::Parameter(name.to_owned())),
        _ => read_dtype(reader, value).map(Element::Fixed),
    }
}

/// The keys `range` and `also` of a tensor, and where the first stands. None: they are wrong, which has been said.
#[allow(clippy::option_option, reason = "wrong, absent or there")]
fn read_integers(
    reader: &Reader<'_>,
    fields: &Fields<'_, '_, '_, '_>,
    formulas: &mut Vec<Located>,
) -> Option<Option<(Range<usize>, Integers<Formula>)>> {
    let mut formulas_of = |value| {
        reader
            .list(value, "a list of formulas")?
            .into_iter()
            .map(|value| located(reader, value, formulas))
            .collect::<Option<Vec<Formula>>>()
    };
    let also = fields.get("also");
    let Some(value) = fields.get("range") else {
        if let Some(also) = also {
            reader.fail(
                also.span(),
                "`also` without `range`",
                ["range = [\"0\", \"classes - 1\"], also = [\"ignore_index\"]".to_owned()],
            );
        }
        return Some(None);
    };
    let Ok([first, last]) = <[Formula; 2]>::try_from(formulas_of(value)?) else {
        reader.fail(
            value.span(),
            "a range is two formulas, the smallest and the largest",
            ["range = [\"0\", \"classes - 1\"]".to_owned()],
        );
        return None;
    };
    // Ends that depend on a case may leave nothing to draw from: without classes, from 0 to -1.
    let constant = |formula: &Formula| formula.eval(&BTreeMap::new(), DType::F32).ok();
    if let (Some(from), Some(to)) = (constant(&first), constant(&last))
        && from > to + 1.0
    {
        let help = format!("range = [\"{}\", \"{}\"]", last.text, first.text);
        reader.fail(value.span(), "a range is the smallest value first, then the largest", [help]);
        return None;
    }
    let also = match also {
        Some(value) => formulas_of(value)?,
        None => Vec::new(),
    };
    Some(Some((value.span(), Integers { first, last, also })))
}

fn read_scalar(
    reader: &Reader<'_>,
    table: &DeTable<'_>,
    span: Range<usize>,
    formulas: &mut Vec<Located>,
) -> Option<Argument> {
    let fields = Fields::new(reader, "a scalar argument", table, span);
    let name = fields.get("scalar")?;
    let ctype = read_ctype(reader, &fields);
    let value = fields.get("value");
    let scalar = scalar(reader, name, value, formulas);
    fields.finish();
    let (name, value) = scalar?;
    Some(Argument::Scalar { name, ctype: ctype?, value })
}

/// Scalars of one type, one after another.
fn read_scalars(
    reader: &Reader<'_>,
    table: &DeTable<'_>,
    span: Range<usize>,
    formulas: &mut Vec<Located>,
) -> Option<Vec<Argument>> {
    let fields = Fields::new(reader, "an argument of several scalars", table, span);
    let names = reader.list(fields.get("scalars")?, "a list of names");
    let ctype = read_ctype(reader, &fields);
    fields.finish();
    let (names, ctype) = (names?, ctype?);
    names
        .into_iter()
        .map(|name| {
            let (name, value) = scalar(reader, name, None, formulas)?;
            Some(Argument::Scalar { name, ctype, value })
        })
        .collect()
}

fn read_ctype(reader: &Reader<'_>, fields: &Fields<'_, '_, '_, '_>) -> Option<CType> {
    let value = fields.required("type", "type = \"i64\"")?;
    match reader.string(value, "a C type")? {
        "i32" => Some(CType::I32),
        "i64" => Some(CType::I64),
        "f32" => Some(CType::F32),
        "f64" => Some(CType::F64),
        other => {
            reader.fail(
                value.span(),
                format!("unknown type `{other}`"),
                ["allowed: i32 (int32_t), i64 (int64_t), f32 (float), f64 (double)".to_owned()],
            );
            None
        }
    }
}

/// A scalar's name, and its value: what the name stands for in the case, where no formula is given.
fn scalar(
    reader: &Reader<'_>,
    name_value: &Value<'_>,
    value: Option<&Value<'_>>,
    formulas: &mut Vec<Located>,
) -> Option<(String, Formula)> {
    let name = reader.string(name_value, "a name")?;
    check_name(reader, name, name_value.span());
    let formula = match value {
        Some(value) => located(reader, value, formulas),
        None => Formula::parse(name).ok().inspect(|formula| {
            formulas.push(Located { formula: formula.clone(), span: name_value.span() });
        }),
    };
    Some((name.to_owned(), formula?))
}

fn read_codes(
    reader: &Reader<'_>,
    table: &DeTable<'_>,
    span: Range<usize>,
    dtypes: Option<&[DType]>,
) -> Option<Argument> {
    let fields = Fields::new(reader, "a dtype argument", table, span);
    let value = fields.get("dtype")?;
    let mut codes = BTreeMap::new();
    for (key, code) in reader.table(value, "the code of each dtype, { f32 = 0, bf16 = 2 }")? {
        let Some(dtype) = DType::from_name(key.get_ref()) else {
            unknown_dtype(reader, key.get_ref(), key.span());
            continue;
        };
        let number = reader.integer(code, i64::from(i32::MIN), i64::from(i32::MAX))?;
        let number = i32::try_from(number).ok()?;
        if codes.values().any(|other| *other == number) {
            reader.fail(code.span(), format!("code {number} twice"), []);
        }
        codes.insert(dtype, number);
    }
    let without: Vec<&str> =
        dtypes.into_iter().flatten().filter(|dtype| !codes.contains_key(dtype)).map(|dtype| dtype.name()).collect();
    if !without.is_empty() {
        reader.fail(
            value.span(),
            format!("no code for {}", without.join(", ")),
            ["every dtype of `dtypes` needs one".to_owned()],
        );
    }
    fields.finish();
    Some(Argument::DType { codes })
}
