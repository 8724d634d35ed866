//! `[[operation]]`: one launcher and all that is said of it.

use std::collections::BTreeMap;
use std::path::Path;

use toml::de::DeValue;

use super::super::dtype::is_type_name;
use super::super::path::{Wanted, inside};
use super::super::table::{Fields, Reader, Value, one_or_list};
use super::super::{Argument, DType, Formula, Operation, OracleRef, Tolerance};
use super::dtype::{read_dtype, read_dtypes};
use super::{Draft, Located, argument, cases, check_name, identifier, like, located};

/// Reads an operation; `before` are those that stand before it in the file.
pub(super) fn read(reader: &Reader<'_>, value: &Value<'_>, root: &Path, before: &[Draft]) -> Option<Draft> {
    let table = reader.table(value, "a table")?;
    let fields = Fields::new(reader, "[[operation]]", table, value.span());
    let name = fields.required("name", "name = \"rms_norm\"").and_then(|value| read_name(reader, value));
    let launcher = match fields.get("launcher") {
        Some(value) => identifier(reader, value, "a C symbol"),
        None => name.as_ref().map(|name| format!("{}_launch", name.replace('-', "_"))),
    };
    let base = match fields.get("like") {
        Some(value) => Some(like::base(reader, value, before)?),
        None => None,
    };
    let error = match fields.get("error") {
        Some(value) => Some(identifier(reader, value, "a C symbol")?),
        None => base.and_then(|base| base.operation.error.clone()),
    };
    let finite_only = match fields.get("finite_only") {
        Some(value) => Some(read_reason(reader, value)?),
        None => base.and_then(|base| base.operation.finite_only.clone()),
    };
    let parts = read_parts(reader, &fields, root, base, name.as_deref());
    let tolerance = read_tolerance(reader, &fields, parts.oracle.as_ref());
    let whole = name.is_some()
        && launcher.is_some()
        && parts.oracle.is_some()
        && parts.dtypes.is_some()
        && parts.arguments.is_some()
        && parts.bytes.as_ref().is_none_or(Option::is_some)
        && parts.flops.is_some();
    if !whole {
        // Its cases cannot be read; an unknown key is all the same told, for it may be what is lacking.
        for key in ["in_place"].iter().chain(&cases::TABLES) {
            fields.get(key);
        }
        fields.finish();
        return None;
    }
    let formulas = parts.formulas;
    let mut operation = Operation {
        name: name?,
        launcher: launcher?,
        error,
        oracle: parts.oracle?,
        dtypes: parts.dtypes?,
        types: parts.types,
        arguments: parts.arguments?,
        defaults: parts.defaults,
        bytes: Formula::number(0.0),
        flops: parts.flops?,
        verify: Vec::new(),
        bench: Vec::new(),
        reject: Vec::new(),
        tolerance,
        finite_only,
    };
    if let Some(value) = fields.get("in_place") {
        like::make_in_place(reader, value, &mut operation);
    }
    if matches!(operation.oracle, OracleRef::Bundled(_)) && like::has_alternatives(&operation, None) {
        let place = fields.get("oracle").or_else(|| fields.get("name")).map_or(value.span(), toml::Spanned::span);
        reader.fail(
            place,
            "`alternatives` is for oracles in Python: a bundled one gives one number for each element",
            ["oracle = { python = \"reference.py\", function = \"f\" }".to_owned()],
        );
    }
    let bytes = parts.bytes.flatten();
    operation.bytes = bytes.clone().unwrap_or_else(|| operation.bytes_of_tensors());
    let defaults = operation.defaults.clone();
    operation.add_contiguous_defaults();
    check_defaults(reader, value, &operation);
    let sets = cases::read_own(reader, &fields, &operation);
    fields.finish();
    let name = value.get_ref().get("name");
    let name = name.map_or(value.span(), toml::Spanned::span);
    Some(Draft { name, span: value.span(), operation, bytes, defaults, formulas, sets })
}

/// What an operation may take from the one that it is like.
#[allow(clippy::option_option, reason = "absent, wrong or there")]
struct Parts {
    oracle: Option<OracleRef>,
    dtypes: Option<Vec<DType>>,
    types: BTreeMap<String, Vec<Option<DType>>>,
    /// None: those of the tensors. None within: it is wrong, which has been said.
    bytes: Option<Option<Formula>>,
    flops: Option<Formula>,
    arguments: Option<Vec<Argument>>,
    defaults: BTreeMap<String, Formula>,
    formulas: Vec<Located>,
}

fn read_parts(
    reader: &Reader<'_>,
    fields: &Fields<'_, '_, '_, '_>,
    root: &Path,
    base: Option<&Draft>,
    name: Option<&str>,
) -> Parts {
    let based = base;
    let base = based.map(|draft| like::without(reader, fields.get("without"), draft));
    let base = base.as_ref();
    let mut formulas = Vec::new();
    // A key that the base has may be left out.
    let find = |key, example: &str| match base {
        Some(_) => fields.get(key),
        None => fields.required(key, example),
    };
    let oracle = match fields.get("oracle") {
        Some(value) => read_oracle(reader, value, root),
        None => base.map(|base| base.oracle.clone()).or_else(|| name.map(|name| OracleRef::Bundled(name.to_owned()))),
    };
    let given_dtypes = match fields.get("dtypes") {
        Some(value) => Some(read_dtypes(reader, value)),
        None => base.map(|base| Some(base.dtypes.clone())),
    };
    let types = match fields.get("types") {
        Some(value) => read_types(reader, value),
        None => base.map(|base| base.types.clone()).unwrap_or_default(),
    };
    let bytes = match fields.get("bytes") {
        Some(value) => Some(located(reader, value, &mut formulas)),
        None => based.and_then(|draft| draft.bytes.clone()).map(Some),
    };
    let flops = match find("flops", "flops = \"4 * rows * width\"") {
        Some(value) => located(reader, value, &mut formulas),
        None => base.map(|base| base.flops.clone()),
    };
    let dtypes = given_dtypes.clone().flatten();
    let arguments = match find("arguments", "arguments = [ … , { stream = true } ]") {
        Some(value) => argument::read_all(reader, value, dtypes.as_deref(), &types, &mut formulas, base),
        None => base.map(|base| base.arguments.clone()),
    };
    let dtypes = match (given_dtypes, &arguments) {
        (None, Some(arguments)) => coded(arguments).or_else(|| {
            fields.required("dtypes", "dtypes = [\"bf16\", \"f16\", \"f32\"]");
            None
        }),
        (given, _) => given.flatten(),
    };
    let defaults = read_defaults(reader, fields, base, &mut formulas);
    Parts { oracle, dtypes, types, bytes, flops, arguments, defaults, formulas }
}

/// The dtypes that have a code, those of 16 bits first.
fn coded(arguments: &[Argument]) -> Option<Vec<DType>> {
    arguments.iter().find_map(|argument| match argument {
        Argument::DType { codes } => Some(codes.keys().rev().copied().collect()),
        _ => None,
    })
}

/// A table, or several in a list.
fn read_defaults(
    reader: &Reader<'_>,
    fields: &Fields<'_, '_, '_, '_>,
    base: Option<&Operation>,
    formulas: &mut Vec<Located>,
) -> BTreeMap<String, Formula> {
    let mut defaults = base.map(|base| base.defaults.clone()).unwrap_or_default();
    for value in fields.get("defaults").map(one_or_list).into_iter().flatten() {
        for (key, value) in reader.table(value, "a table").into_iter().flatten() {
            check_name(reader, key.get_ref(), key.span());
            if let Some(formula) = located(reader, value, formulas) {
                defaults.insert(key.get_ref().to_string(), formula);
            }
        }
    }
    defaults
}

fn read_name(reader: &Reader<'_>, value: &Value<'_>) -> Option<String> {
    let name = reader.string(value, "a string")?;
    let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-".contains(&byte);
    if !name.starts_with(|first: char| first.is_ascii_lowercase()) || !name.bytes().all(is_allowed) {
        reader.fail(
            value.span(),
            format!("`{name}` is not a valid name of an operation"),
            ["allowed: small letters, digits, `_` and `-`, a letter first; files carry it".to_owned()],
        );
    }
    Some(name.to_owned())
}

/// `finite_only = "a reason"`.
fn read_reason(reader: &Reader<'_>, value: &Value<'_>) -> Option<String> {
    let reason = reader.string(value, "a reason")?.trim();
    if reason.split_whitespace().count() < 3 {
        reader.fail(
            value.span(),
            "`finite_only` is the reason why NaN and infinity are not verified",
            ["write it in a few words; every report shows it".to_owned()],
        );
    }
    Some(reason.to_owned())
}

/// A default that no case could ever use is a mistake.
fn check_defaults(reader: &Reader<'_>, value: &Value<'_>, operation: &Operation) {
    for name in operation.defaults.keys() {
        let what = if operation.computed(name).is_some() {
            format!("scalar `{name}` has a `value`")
        } else if operation.types.contains_key(name) {
            format!("`{name}` is a type, of which the first in `types` is the default")
        } else {
            continue;
        };
        let place = value.get_ref().get("defaults");
        reader.fail(
            place.map_or(value.span(), toml::Spanned::span),
            format!("{what}, so a default would never be used"),
            ["remove one of them".to_owned()],
        );
    }
}

fn read_oracle(reader: &Reader<'_>, value: &Value<'_>, root: &Path) -> Option<OracleRef> {
    match value.get_ref() {
        DeValue::String(name) => Some(OracleRef::Bundled(name.to_string())),
        DeValue::Table(table) => {
            let fields = Fields::new(reader, "`oracle`", table, value.span());
            let file = fields.required("python", "python = \"reference.py\"").and_then(|value| {
                let text = reader.string(value, "a path")?;
                inside(root, text, Wanted::File)
                    .map_err(|message| {
                        reader.fail(
                            value.span(),
                            message,
                            ["the file holds the function that computes the right answer".to_owned()],
                        );
                    })
                    .ok()
            });
            let function = fields
                .required("function", "function = \"rms_norm\"")
                .and_then(|value| identifier(reader, value, "a Python function"));
            fields.finish();
            Some(OracleRef::Python { file: file?, function: function? })
        }
        _ => {
            reader.string(value, "a bundled operation's name or { python = …, function = … }");
            None
        }
    }
}

/// `types = { W = ["T", "f32"] }`.
fn read_types(reader: &Reader<'_>, value: &Value<'_>) -> BTreeMap<String, Vec<Option<DType>>> {
    let mut types = BTreeMap::new();
    let expected = "type parameters, { W = [\"T\", \"f32\"] }";
    for (key, value) in reader.table(value, expected).into_iter().flatten() {
        let name = key.get_ref().to_string();
        if !is_type_name(&name) {
            reader.fail(
                key.span(),
                format!("`{name}` is not a valid name of a type parameter"),
                ["allowed: capital letters and digits, a letter first; not T".to_owned()],
            );
        }
        let of = |item: &Value<'_>| match reader.string(item, "a dtype, or T")? {
            "T" => Some(None),
            _ => read_dtype(reader, item).map(Some),
        };
        let list: Option<Vec<_>> = one_or_list(value).into_iter().map(of).collect();
        match list {
            Some(list) if list.is_empty() => {
                reader.fail(value.span(), "no dtype", ["list one at least".to_owned()]);
            }
            Some(list) => {
                types.insert(name, list);
            }
            None => {}
        }
    }
    types
}

fn read_tolerance(reader: &Reader<'_>, fields: &Fields<'_, '_, '_, '_>, oracle: Option<&OracleRef>) -> Tolerance {
    let Some(value) = fields.get("tolerance") else {
        return Tolerance::default();
    };
    if let Some(OracleRef::Bundled(_)) = oracle {
        reader.fail(
            value.span(),
            "[operation.tolerance] is for oracles in Python",
            ["the error budget of a bundled oracle follows from the dtype; remove the table".to_owned()],
        );
    }
    let Some(table) = reader.table(value, "a table") else {
        return Tolerance::default();
    };
    let fields = Fields::new(reader, "[operation.tolerance]", table, value.span());
    let number = |key| {
        let value = fields.get(key)?;
        let number = reader.number(value, "a number")?;
        if number < 0.0 {
            reader.fail(value.span(), "a tolerance is not negative", []);
        }
        Some(number)
    };
    let tolerance =
        Tolerance { ulps: number("ulps"), relative_norm: number("relative_norm"), absolute: number("absolute") };
    fields.finish();
    tolerance
}
