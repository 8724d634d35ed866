//! From the text of `kernel.toml` to a [`Spec`], every problem with its line.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue};

use super::diagnostic::{Document, InvalidProject};
use super::formula::{is_name, listed};
use super::path::{Wanted, inside};
use super::table::{EXACT_INTEGER, Fields, Reader, Value, one_or_list};
use super::{
    Argument, Budget, CType, CaseSet, DType, Formula, Inputs, Integers, Operation, OracleRef, Role,
    Spec, Tolerance, Values,
};

/// The format that this binary reads.
pub(super) const FORMAT: i64 = 1;

/// Keys of a table of cases that are no names of the operation.
const CASE_KEYS: [&str; 5] = ["name", "dtype", "offsets", "inputs", "draw"];

/// A formula and where it stands, for problems that show only when all names are known.
struct Located {
    formula: Formula,
    span: Range<usize>,
}

pub(super) fn read(document: &Document, root: &Path) -> Result<Spec, InvalidProject> {
    let reader = Reader::new(document);
    let spec = reader
        .parse()
        .and_then(|table| whole(&reader, table.get_ref(), root));
    match spec {
        Some(spec) if reader.is_sound() => Ok(spec),
        _ => Err(document.invalid(reader.into_problems())),
    }
}

fn whole(reader: &Reader<'_>, table: &DeTable<'_>, root: &Path) -> Option<Spec> {
    let file = Fields::new(reader, "kernel.toml", table, 0..0);
    // Nothing else is looked at in a format that another version may read otherwise.
    let format = file.required("format", &format!("format = {FORMAT}"))?;
    let number = reader.integer(format, 0, i64::MAX)?;
    if number != FORMAT {
        reader.fail(
            format.span(),
            format!("format {number} is not known"),
            [format!(
                "this binary reads format = {FORMAT}; update `kernels` if the project is newer than it"
            )],
        );
        return None;
    }
    let mut operations: Vec<Operation> = Vec::new();
    let mut places: Vec<Range<usize>> = Vec::new();
    if let Some(value) = file.required("operation", "[[operation]]")
        && let Some(list) = reader.list(value, "tables headed [[operation]]")
    {
        if list.is_empty() {
            reader.fail(value.span(), "no operation", []);
        }
        for value in list {
            let Some(operation) = read_operation(reader, value, root) else {
                continue;
            };
            let place = value
                .get_ref()
                .get("name")
                .map_or(value.span(), toml::Spanned::span);
            let twin = operations
                .iter()
                .position(|other| other.name == operation.name);
            if let Some(twin) = twin {
                reader.fail(
                    place.clone(),
                    format!("a second operation `{}`", operation.name),
                    [format!(
                        "the first is at line {}; each needs a name of its own",
                        reader.document.line_of(places[twin].start)
                    )],
                );
            }
            operations.push(operation);
            places.push(place);
        }
    }
    let budgets = file
        .get("budget")
        .and_then(|value| reader.list(value, "tables headed [[budget]]"))
        .into_iter()
        .flatten()
        .filter_map(|value| read_budget(reader, value, root))
        .collect();
    if let Some(value) = file.get("check") {
        read_check(reader, value);
    }
    file.finish();
    Some(Spec {
        operations,
        budgets,
    })
}

fn read_operation(reader: &Reader<'_>, value: &Value<'_>, root: &Path) -> Option<Operation> {
    let table = reader.table(value, "a table")?;
    let fields = Fields::new(reader, "[[operation]]", table, value.span());
    let mut formulas = Vec::new();
    let name = fields
        .required("name", "name = \"rms_norm\"")
        .and_then(|value| {
            let name = reader.string(value, "a string")?;
            let sound = name.starts_with(|first: char| first.is_ascii_lowercase())
                && name.bytes().all(|byte| {
                    byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-".contains(&byte)
                });
            if !sound {
                reader.fail(
                    value.span(),
                    format!("`{name}` is no name of an operation"),
                    ["allowed: small letters, digits, `_` and `-`, a letter first; files carry it".to_owned()],
                );
            }
            Some(name.to_owned())
        });
    let launcher = fields
        .required("launcher", "launcher = \"my_kernel_launch\"")
        .and_then(|value| identifier(reader, value, "a C symbol"));
    let oracle = fields
        .required(
            "oracle",
            "oracle = { python = \"reference.py\", function = \"rms_norm\" }",
        )
        .and_then(|value| read_oracle(reader, value, root));
    let dtypes = fields
        .required("dtypes", "dtypes = [\"bf16\", \"f16\", \"f32\"]")
        .and_then(|value| read_dtypes(reader, value));
    let mut required_formula = |key, example: &str| {
        let value = fields.required(key, example)?;
        located(reader, value, &mut formulas)
    };
    let bytes = required_formula("bytes", "bytes = \"2 * rows * width * size(T)\"");
    let flops = required_formula("flops", "flops = \"4 * rows * width\"");
    let arguments = fields
        .required("arguments", "arguments = [ … , { stream = true } ]")
        .and_then(|value| read_arguments(reader, value, dtypes.as_deref(), &mut formulas));
    let mut defaults = BTreeMap::new();
    if let Some(value) = fields.get("defaults")
        && let Some(table) = reader.table(value, "a table")
    {
        for (key, value) in table {
            check_name(reader, key.get_ref(), key.span());
            if let Some(formula) = located(reader, value, &mut formulas) {
                defaults.insert(key.get_ref().to_string(), formula);
            }
        }
    }
    let tolerance_value = fields.get("tolerance");
    let tolerance = tolerance_value
        .and_then(|value| read_tolerance(reader, value))
        .unwrap_or_default();
    if let (Some(value), Some(OracleRef::Bundled(_))) = (tolerance_value, &oracle) {
        reader.fail(
            value.span(),
            "[operation.tolerance] is for oracles in Python",
            [
                "the error budget of a bundled oracle follows from the dtype; remove the table"
                    .to_owned(),
            ],
        );
    }
    let verify_value = fields.required("verify", "[[operation.verify]]");
    let bench_value = fields.get("bench");
    let reject_value = fields.get("reject");
    fields.finish();
    let mut operation = Operation {
        name: name?,
        launcher: launcher?,
        oracle: oracle?,
        dtypes: dtypes?,
        arguments: arguments?,
        defaults,
        bytes: bytes?,
        flops: flops?,
        verify: Vec::new(),
        bench: Vec::new(),
        reject: Vec::new(),
        tolerance,
    };
    for argument in &operation.arguments {
        if let Argument::Scalar { name, .. } = argument
            && operation.computed(name).is_some()
            && operation.defaults.contains_key(name)
        {
            let span = value
                .get_ref()
                .get("defaults")
                .map_or(value.span(), toml::Spanned::span);
            reader.fail(
                span,
                format!("scalar `{name}` has a `value`, so a default would never be used"),
                ["remove one of them".to_owned()],
            );
        }
    }
    let mut sets = Vec::new();
    for (key, value) in [
        ("verify", verify_value),
        ("bench", bench_value),
        ("reject", reject_value),
    ] {
        let Some(value) = value else { continue };
        let heading = format!("tables headed [[operation.{key}]]");
        for value in reader.list(value, &heading).into_iter().flatten() {
            if let Some(set) = read_set(reader, key, value, &operation) {
                sets.push((key, value.span(), set));
            }
        }
    }
    check_names(reader, &operation, &sets, &formulas);
    if reader.is_sound() {
        check_cases(reader, &operation, &sets);
    }
    for (key, _, set) in sets {
        match key {
            "verify" => operation.verify.push(set),
            "bench" => operation.bench.push(set),
            _ => operation.reject.push(set),
        }
    }
    Some(operation)
}

/// Every name of a formula needs a value from somewhere, and every table of cases must give those without default.
fn check_names(
    reader: &Reader<'_>,
    operation: &Operation,
    sets: &[(&str, Range<usize>, CaseSet)],
    formulas: &[Located],
) {
    let has_value = |name: &str| {
        operation.computed(name).is_some()
            || operation.defaults.contains_key(name)
            || sets.iter().any(|(_, _, set)| set.values.contains_key(name))
    };
    let names = operation.names();
    for located in formulas {
        for (name, part) in located.formula.names() {
            let span = reader.within(&located.span, &located.formula.text, &part);
            if CASE_KEYS.contains(&name) {
                check_name(reader, name, span);
            } else if !has_value(name) {
                let known = names.iter().filter(|name| has_value(name));
                reader.fail(
                    span,
                    format!("unknown name `{name}`"),
                    [
                        format!("names with a value: {}", listed(known)),
                        "a name gets its value in [operation.defaults] or in a table of cases"
                            .to_owned(),
                    ],
                );
            }
        }
    }
    for (key, span, set) in sets {
        let missing: Vec<&String> = names
            .iter()
            .filter(|name| {
                !set.values.contains_key(*name)
                    && !operation.defaults.contains_key(*name)
                    && has_value(name)
            })
            .collect();
        if !missing.is_empty() {
            reader.fail(
                span.clone(),
                format!("[[operation.{key}]] gives no value to {}", listed(missing)),
                ["give it one here or in [operation.defaults]".to_owned()],
            );
        }
    }
}

/// Makes every case once: sizes, strides and scalars must come out.
fn check_cases(reader: &Reader<'_>, operation: &Operation, sets: &[(&str, Range<usize>, CaseSet)]) {
    for kind in ["verify", "bench", "reject"] {
        let of_kind: Vec<&(&str, Range<usize>, CaseSet)> =
            sets.iter().filter(|(key, ..)| *key == kind).collect();
        let all: Vec<CaseSet> = of_kind.iter().map(|(_, _, set)| set.clone()).collect();
        let Some((_, first, _)) = of_kind.first() else {
            continue;
        };
        // The guard on the number of cases is on all tables of a kind together.
        if let Err(error) = operation.check_count(&all) {
            reader.fail(first.clone(), error.to_string(), []);
            continue;
        }
        for (_, span, set) in of_kind {
            let made = both_ends(set).iter().try_for_each(|set| {
                operation
                    .cases(std::slice::from_ref(set), 0)?
                    .iter()
                    .try_for_each(|case| operation.bind(case).map(drop))
            });
            if let Err(error) = made {
                reader.fail(
                    span.clone(),
                    error.to_string(),
                    ["mend the sizes here, or the formula".to_owned()],
                );
            }
        }
    }
}

/// The table itself, and where it draws, the smallest and the largest of its cases too.
fn both_ends(set: &CaseSet) -> Vec<CaseSet> {
    let mut sets = vec![set.clone()];
    if set.draw.is_some() {
        for last in [false, true] {
            let mut end = set.clone();
            end.draw = Some(1);
            for values in end.values.values_mut() {
                if let Values::Range(low, high) = *values {
                    let at = if last { high } else { low };
                    *values = Values::Range(at, at);
                }
            }
            sets.push(end);
        }
    }
    sets
}

fn located(reader: &Reader<'_>, value: &Value<'_>, formulas: &mut Vec<Located>) -> Option<Formula> {
    let formula = reader.formula(value)?;
    formulas.push(Located {
        formula: formula.clone(),
        span: value.span(),
    });
    Some(formula)
}

fn check_name(reader: &Reader<'_>, name: &str, span: Range<usize>) {
    if CASE_KEYS.contains(&name) {
        reader.fail(
            span,
            format!("`{name}` cannot be a name of the operation"),
            [format!(
                "a table of cases has a key of that name; so have: {}",
                CASE_KEYS.join(", ")
            )],
        );
    } else if !is_name(name) {
        reader.fail(
            span,
            format!("`{name}` is no name that a formula can use"),
            [
                "allowed: letters, digits and `_`, no digit first; not T, min, max, ceil_div, size"
                    .to_owned(),
            ],
        );
    }
}

fn identifier(reader: &Reader<'_>, value: &Value<'_>, what: &str) -> Option<String> {
    let text = reader.string(value, "a string")?;
    let sound = text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if !sound {
        reader.fail(
            value.span(),
            format!("`{text}` is not {what}"),
            ["allowed: letters, digits and `_`, no digit first".to_owned()],
        );
    }
    Some(text.to_owned())
}

fn read_oracle(reader: &Reader<'_>, value: &Value<'_>, root: &Path) -> Option<OracleRef> {
    match value.get_ref() {
        DeValue::String(name) => Some(OracleRef::Bundled(name.to_string())),
        DeValue::Table(table) => {
            let fields = Fields::new(reader, "`oracle`", table, value.span());
            let file = fields
                .required("python", "python = \"reference.py\"")
                .and_then(|value| {
                    let text = reader.string(value, "a path")?;
                    inside(root, text, Wanted::File)
                        .map_err(|message| {
                            reader.fail(
                                value.span(),
                                message,
                                ["the file holds the function that computes the right answer"
                                    .to_owned()],
                            );
                        })
                        .ok()
                });
            let function = fields
                .required("function", "function = \"rms_norm\"")
                .and_then(|value| identifier(reader, value, "a Python function"));
            fields.finish();
            Some(OracleRef::Python {
                file: file?,
                function: function?,
            })
        }
        _ => {
            reader.string(
                value,
                "a bundled operation's name or { python = …, function = … }",
            );
            None
        }
    }
}

fn read_dtype(reader: &Reader<'_>, value: &Value<'_>) -> Option<DType> {
    let text = reader.string(value, "a dtype")?;
    let dtype = DType::from_name(text);
    if dtype.is_none() {
        unknown_dtype(reader, text, value.span());
    }
    dtype
}

fn unknown_dtype(reader: &Reader<'_>, text: &str, span: Range<usize>) {
    reader.fail(
        span,
        format!("unknown dtype `{text}`"),
        ["allowed: f32, f16, bf16, i32, i64".to_owned()],
    );
}

/// One or several dtypes, each once.
fn read_dtypes(reader: &Reader<'_>, value: &Value<'_>) -> Option<Vec<DType>> {
    let mut dtypes = Vec::new();
    for item in one_or_list(value) {
        let dtype = read_dtype(reader, item)?;
        if dtypes.contains(&dtype) {
            reader.fail(item.span(), format!("`{}` twice", dtype.name()), []);
        }
        dtypes.push(dtype);
    }
    if dtypes.is_empty() {
        reader.fail(value.span(), "no dtype", ["list one at least".to_owned()]);
        return None;
    }
    Some(dtypes)
}

fn read_arguments(
    reader: &Reader<'_>,
    value: &Value<'_>,
    dtypes: Option<&[DType]>,
    formulas: &mut Vec<Located>,
) -> Option<Vec<Argument>> {
    let mut arguments = Vec::new();
    let mut seen: Vec<(String, Range<usize>)> = Vec::new();
    let mut sound = true;
    for item in reader.list(value, "a list of arguments in C order")? {
        let Some(argument) = read_argument(reader, item, dtypes, formulas) else {
            sound = false;
            continue;
        };
        let name = match &argument {
            Argument::Tensor { name, .. } | Argument::Scalar { name, .. } => name.clone(),
            Argument::DType { .. } => "{ dtype = … }".to_owned(),
            Argument::Stream => "{ stream = true }".to_owned(),
        };
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
    if !sound {
        return None;
    }
    if !arguments
        .iter()
        .any(|argument| matches!(argument, Argument::Stream))
    {
        reader.fail(
            value.span(),
            "no stream argument",
            [
                "add { stream = true } where the launcher takes its cudaStream_t; work on any other stream is an error".to_owned(),
            ],
        );
    }
    if !arguments.iter().any(|argument| {
        matches!(
            argument,
            Argument::Tensor {
                role: Role::Output | Role::InOut,
                ..
            }
        )
    }) {
        reader.fail(
            value.span(),
            "no output: nothing to check",
            ["give a tensor role = \"output\" or \"inout\"".to_owned()],
        );
    }
    let uses_t = arguments
        .iter()
        .any(|argument| matches!(argument, Argument::Tensor { dtype: None, .. }));
    let tells = arguments
        .iter()
        .any(|argument| matches!(argument, Argument::DType { .. }));
    if uses_t && !tells && dtypes.is_some_and(|dtypes| dtypes.len() > 1) {
        reader.fail(
            value.span(),
            "the launcher cannot tell which of its dtypes T is",
            [
                "add { dtype = { bf16 = 0, … } } with the code of each dtype, or list one dtype"
                    .to_owned(),
            ],
        );
    }
    Some(arguments)
}

fn read_argument(
    reader: &Reader<'_>,
    value: &Value<'_>,
    dtypes: Option<&[DType]>,
    formulas: &mut Vec<Located>,
) -> Option<Argument> {
    let table = reader.table(value, "an argument such as { stream = true }")?;
    let key = |key| table.get(key).is_some();
    let kinds = [key("tensor"), key("scalar"), key("stream")];
    let is_dtype = key("dtype") && !kinds.contains(&true);
    if kinds.iter().filter(|kind| **kind).count() + usize::from(is_dtype) != 1 {
        reader.fail(
            value.span(),
            "an argument is one of tensor, scalar, dtype, stream",
            [
                "{ tensor = \"x\", role = \"input\", shape = [\"rows\", \"width\"] }, { scalar = \"eps\", type = \"f32\" },".to_owned(),
                "{ dtype = { f32 = 0, f16 = 1, bf16 = 2 } }, { stream = true }".to_owned(),
            ],
        );
        return None;
    }
    if key("tensor") {
        read_tensor(reader, table, value.span(), formulas)
    } else if key("scalar") {
        read_scalar(reader, table, value.span(), formulas)
    } else if key("stream") {
        let fields = Fields::new(reader, "a stream argument", table, value.span());
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
    } else {
        read_codes(reader, table, value.span(), dtypes)
    }
}

fn read_tensor(
    reader: &Reader<'_>,
    table: &DeTable<'_>,
    span: Range<usize>,
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
    let role = fields
        .required("role", "role = \"input\"")
        .and_then(|value| match reader.string(value, "a role")? {
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
        });
    let dtype = match fields.get("dtype") {
        Some(value) => match reader.string(value, "a dtype") {
            Some("T") => Some(None),
            Some(_) => read_dtype(reader, value).map(Some),
            None => None,
        },
        None => Some(None),
    };
    let mut list = |value| {
        reader
            .list(value, "a list of formulas, one a dimension")?
            .into_iter()
            .map(|value| located(reader, value, formulas))
            .collect::<Option<Vec<Formula>>>()
    };
    let shape = fields
        .required("shape", "shape = [\"rows\", \"width\"]")
        .and_then(&mut list);
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
    fields.finish();
    let (role, dtype) = (role?, dtype?);
    if let (Some((span, _)), false) = (
        &integers,
        role.is_given() && dtype.is_some_and(|dtype| !dtype.is_float()),
    ) {
        reader.fail(
            span.clone(),
            "`range` is for a tensor of integers that is drawn",
            ["role = \"input\" or \"inout\", and dtype = \"i32\" or \"i64\"".to_owned()],
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
    })
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
    let name_value = fields.get("scalar")?;
    let name = reader.string(name_value, "a name")?;
    check_name(reader, name, name_value.span());
    let ctype = fields.required("type", "type = \"i64\"").and_then(|value| {
        match reader.string(value, "a C type")? {
            "i32" => Some(CType::I32),
            "i64" => Some(CType::I64),
            "f32" => Some(CType::F32),
            "f64" => Some(CType::F64),
            other => {
                reader.fail(
                    value.span(),
                    format!("unknown type `{other}`"),
                    [
                        "allowed: i32 (int32_t), i64 (int64_t), f32 (float), f64 (double)"
                            .to_owned(),
                    ],
                );
                None
            }
        }
    });
    let value = match fields.get("value") {
        Some(value) => located(reader, value, formulas),
        // The name's own value; it stands in the file without being a formula's text.
        None => Formula::parse(name).ok().inspect(|formula| {
            formulas.push(Located {
                formula: formula.clone(),
                span: name_value.span(),
            });
        }),
    };
    fields.finish();
    Some(Argument::Scalar {
        name: name.to_owned(),
        ctype: ctype?,
        value: value?,
    })
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
    let without: Vec<&str> = dtypes
        .into_iter()
        .flatten()
        .filter(|dtype| !codes.contains_key(dtype))
        .map(|dtype| dtype.name())
        .collect();
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

fn read_set(
    reader: &Reader<'_>,
    key: &str,
    value: &Value<'_>,
    operation: &Operation,
) -> Option<CaseSet> {
    let table = reader.table(value, "a table")?;
    let what = format!("[[operation.{key}]]");
    let fields = Fields::new(reader, what.as_str(), table, value.span());
    let name = fields
        .get("name")
        .and_then(|value| reader.string(value, "a string"))
        .map(str::to_owned);
    let mut dtypes = Vec::new();
    if let Some(value) = fields.get("dtype") {
        dtypes = read_dtypes(reader, value)?;
        for dtype in &dtypes {
            if !operation.dtypes.contains(dtype) {
                reader.fail(
                    value.span(),
                    format!("`{}` is not among the operation's dtypes", dtype.name()),
                    [format!(
                        "allowed: {}",
                        listed(operation.dtypes.iter().map(|dtype| dtype.name()))
                    )],
                );
            }
        }
    }
    let mut offsets = BTreeMap::new();
    if let Some(value) = fields.get("offsets")
        && let Some(table) = reader.table(value, "offsets by tensor, { x = 1 }")
    {
        let tensors: Vec<&str> = operation
            .arguments
            .iter()
            .filter_map(|argument| match argument {
                Argument::Tensor { name, .. } => Some(name.as_str()),
                _ => None,
            })
            .collect();
        for (tensor, offset) in table {
            if !tensors.contains(&tensor.get_ref().as_ref()) {
                reader.fail(
                    tensor.span(),
                    format!("no tensor `{}`", tensor.get_ref()),
                    [format!("tensors: {}", tensors.join(", "))],
                );
            }
            if let Some(offset) = reader.integer(offset, 0, 4096) {
                offsets.insert(tensor.get_ref().to_string(), offset.unsigned_abs());
            }
        }
    }
    let mut inputs = Vec::new();
    for value in fields.get("inputs").map(one_or_list).into_iter().flatten() {
        let text = reader.string(value, "a kind of inputs")?;
        let Some(kind) = Inputs::from_name(text) else {
            reader.fail(
                value.span(),
                format!("unknown inputs `{text}`"),
                [format!(
                    "allowed: {}",
                    listed(Inputs::ALL.map(Inputs::name))
                )],
            );
            continue;
        };
        inputs.push(kind);
    }
    let draw = fields
        .get("draw")
        .and_then(|value| reader.integer(value, 1, 10_000))
        .and_then(|draw| u32::try_from(draw).ok());
    let known = operation.names();
    let mut values = BTreeMap::new();
    for (key, span, value) in fields.rest() {
        if operation.computed(key).is_some() {
            reader.fail(
                span,
                format!("scalar `{key}` has a `value` of its own, so no case can set it"),
                [],
            );
        } else if !known.iter().any(|name| name == key) {
            reader.fail(
                span,
                format!("unknown name `{key}` in {what}"),
                [
                    format!("names of the operation: {}", listed(&known)),
                    format!("other keys: {}", CASE_KEYS.join(", ")),
                ],
            );
        } else if let Some(read) = read_values(reader, value, draw.is_some(), &known) {
            values.insert(key.to_owned(), read);
        }
    }
    Some(CaseSet {
        name,
        values,
        dtypes,
        offsets,
        inputs,
        draw,
        refused: key == "reject",
    })
}

fn read_values(
    reader: &Reader<'_>,
    value: &Value<'_>,
    draws: bool,
    known: &[String],
) -> Option<Values> {
    const EXPECTED: &str = "a number, a list of numbers, or a formula in quotes";
    match value.get_ref() {
        DeValue::String(text) if text.contains("..") => {
            let range = text.split_once("..").and_then(|(first, last)| {
                Some((first.trim().parse().ok()?, last.trim().parse().ok()?))
            });
            let within = |number: &i64| number.unsigned_abs() <= EXACT_INTEGER.unsigned_abs();
            match range {
                Some((first, last)) if first <= last && within(&first) && within(&last) => {
                    if !draws {
                        reader.fail(
                            value.span(),
                            "a range is drawn from, and this table does not draw",
                            [
                                "add `draw = 16` for 16 cases drawn afresh, or list the numbers"
                                    .to_owned(),
                            ],
                        );
                    }
                    Some(Values::Range(first, last))
                }
                _ => {
                    reader.fail(
                        value.span(),
                        format!("`{text}` is no range"),
                        ["two integers, the smaller first, both included: \"1..300\"".to_owned()],
                    );
                    None
                }
            }
        }
        DeValue::String(_) => {
            let formula = reader.formula(value)?;
            for (name, part) in formula.names() {
                if !known.iter().any(|known| known == name) {
                    reader.fail(
                        reader.within(&value.span(), &formula.text, &part),
                        format!("unknown name `{name}`"),
                        [format!("names of the operation: {}", listed(known))],
                    );
                }
            }
            Some(Values::Formula(formula))
        }
        DeValue::Array(array) => {
            if array.is_empty() {
                reader.fail(value.span(), "an empty list gives no case", []);
                return None;
            }
            array
                .iter()
                .map(|item| reader.number(item, "a number"))
                .collect::<Option<Vec<f64>>>()
                .map(Values::List)
        }
        _ => reader
            .number(value, EXPECTED)
            .map(|number| Values::List(vec![number])),
    }
}

fn read_tolerance(reader: &Reader<'_>, value: &Value<'_>) -> Option<Tolerance> {
    let table = reader.table(value, "a table")?;
    let fields = Fields::new(reader, "[operation.tolerance]", table, value.span());
    let number = |key| {
        let value = fields.get(key)?;
        let number = reader.number(value, "a number")?;
        if number < 0.0 {
            reader.fail(value.span(), "a tolerance is not negative", []);
        }
        Some(number)
    };
    let tolerance = Tolerance {
        ulps: number("ulps"),
        relative_norm: number("relative_norm"),
        absolute: number("absolute"),
    };
    fields.finish();
    Some(tolerance)
}

/// `[[check.allow]]` is for `kernels check`, which reads it itself; here only its form is looked at.
fn read_check(reader: &Reader<'_>, value: &Value<'_>) {
    let Some(table) = reader.table(value, "a table with [[check.allow]]") else {
        return;
    };
    let fields = Fields::new(reader, "[check]", table, value.span());
    let list = fields
        .required("allow", "[[check.allow]]")
        .and_then(|value| reader.list(value, "tables headed [[check.allow]]"));
    for value in list.into_iter().flatten() {
        let Some(table) = reader.table(value, "a table") else {
            continue;
        };
        let allow = Fields::new(reader, "[[check.allow]]", table, value.span());
        for (key, example) in [
            ("rule", "rule = \"cuda/launch-unchecked\""),
            ("reason", "reason = \"the caller looks at errors\""),
        ] {
            allow
                .required(key, example)
                .map(|value| reader.string(value, "a string"));
        }
        allow
            .get("path")
            .map(|value| reader.string(value, "a path"));
        allow.finish();
    }
    fields.finish();
}

fn read_budget(reader: &Reader<'_>, value: &Value<'_>, root: &Path) -> Option<Budget> {
    let table = reader.table(value, "a table")?;
    let fields = Fields::new(reader, "[[budget]]", table, value.span());
    let kernel = fields
        .required("kernel", "kernel = \"*\"")
        .and_then(|value| reader.string(value, "a pattern over kernels' names"));
    let source = fields
        .get("source")
        .and_then(|value| read_source(reader, value, root));
    let arch = fields
        .get("arch")
        .map(one_or_list)
        .into_iter()
        .flatten()
        .filter_map(|value| reader.integer(value, 50, 999))
        .filter_map(|arch| u32::try_from(arch).ok())
        .collect();
    let count = |key| {
        fields
            .get(key)
            .and_then(|value| reader.integer(value, 0, i64::from(u32::MAX)))
            .and_then(|count| u32::try_from(count).ok())
    };
    let budget = Budget {
        kernel: kernel.unwrap_or_default().to_owned(),
        source,
        arch,
        registers: count("registers"),
        spill_bytes: count("spill_bytes"),
        stack_bytes: count("stack_bytes"),
        shared_bytes: count("shared_bytes"),
        occupancy: fields.get("occupancy").and_then(|value| {
            let occupancy = reader.number(value, "a number from 0 to 1")?;
            if !(0.0..=1.0).contains(&occupancy) {
                reader.fail(value.span(), "an occupancy lies from 0 to 1", []);
            }
            Some(occupancy)
        }),
        wide_access: fields
            .get("wide_access")
            .and_then(|value| reader.boolean(value)),
    };
    fields.finish();
    Some(budget)
}

/// A `.cu` file or a folder of the project.
fn read_source(reader: &Reader<'_>, value: &Value<'_>, root: &Path) -> Option<PathBuf> {
    let text = reader.string(value, "a .cu file, or a folder of them")?;
    let wanted = if text.ends_with(".cu") {
        Wanted::File
    } else {
        Wanted::Folder
    };
    inside(root, text, wanted)
        .map_err(|message| {
            reader.fail(
                value.span(),
                message,
                [
                    "a budget with `source` is for the kernels of that file or folder alone"
                        .to_owned(),
                ],
            );
        })
        .ok()
}
