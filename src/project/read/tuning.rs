//! `[[tuning]]`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use toml::de::DeValue;

use super::super::formula::{is_name, listed};
use super::super::path::{Wanted, inside};
use super::super::table::{Fields, Reader, Value, one_or_list};
use super::super::tuning::{CASE_NAMES, Field, Key, Relation, Tuning, Vary};
use super::super::{BUILD_TOML, Formula};
use super::{Draft, identifier, tables};

/// Fields inside one another.
const DEEPEST: usize = 8;

/// One `[[tuning]]`: a table and the operations that look there, or several such with `each`.
pub(super) fn read(reader: &Reader<'_>, value: &Value<'_>, root: &Path, drafts: &[Draft]) -> Vec<Tuning> {
    let Some(table) = reader.table(value, "a table") else { return Vec::new() };
    let fields = Fields::new(reader, "[[tuning]]", table, value.span());
    let file =
        fields.required("file", "file = \"kernel_src/tuning.h\"").and_then(|value| read_file(reader, value, root));
    let name = fields.required("table", "table = \"kTuning\"");
    let row = fields.required("row", "row = [\"arch\", \"packs\", [\"threads\", \"held\"]]");
    let base = Tuning {
        file: file.unwrap_or_default(),
        table: name.and_then(|value| identifier(reader, value, "the name of an array")).unwrap_or_default(),
        operations: Vec::new(),
        when: None,
        row: row.map(|value| read_row(reader, value, 0)).unwrap_or_default(),
        optional: read_numbers(reader, fields.get("optional")),
        keys: Vec::new(),
        vary: Vec::new(),
        constants: read_numbers(reader, fields.get("constants")),
    };
    check_row(reader, value, &base);
    let each = fields.get("each");
    let all = match each {
        None => vec![read_use(reader, &fields, None, base, drafts)],
        Some(_) => tables(reader, each, "a list of { operations = […], keys = {…} }")
            .filter_map(|value| {
                let own = Fields::new(reader, "`each`", reader.table(value, "a table")?, value.span());
                let tuning = read_use(reader, &own, Some(&fields), base.clone(), drafts);
                own.finish();
                Some(tuning)
            })
            .collect(),
    };
    fields.finish();
    all
}

/// What operations look for in a table. Keys add to those of `base`; all else comes in its place.
fn read_use<'v, 't>(
    reader: &Reader<'_>,
    own: &Fields<'_, '_, 'v, 't>,
    base: Option<&Fields<'_, '_, 'v, 't>>,
    mut tuning: Tuning,
    drafts: &[Draft],
) -> Tuning {
    let get = |key| own.get(key).or_else(|| base.and_then(|base| base.get(key)));
    let required = |key, example| get(key).or_else(|| own.required(key, example));
    tuning.operations = read_operations(reader, required("operations", "operations = [\"rms_norm\"]"), drafts);
    required("keys", "keys = { arch = \"<= arch\", packs = \">= ceil_div(width * size(T), 16)\" }");
    for value in base.and_then(|base| base.get("keys")).into_iter().chain(own.get("keys")) {
        let keys = read_keys(reader, value, &tuning, drafts);
        tuning.keys.extend(keys);
    }
    let vary = required("vary", "vary = [{ threads = [128, 256], held = [1, 2] }]");
    let list = tables(reader, vary, "a list of what may be tried, { threads = [128, 256] }");
    tuning.vary = list.filter_map(|value| read_vary(reader, value, &tuning)).collect();
    if let Some(value) = get("when") {
        tuning.when = reader.formula(value);
        tuning.when.iter().for_each(|when| check_case_names(reader, value, when, &tuning, drafts));
    }
    tuning
}

fn read_file(reader: &Reader<'_>, value: &Value<'_>, root: &Path) -> Option<PathBuf> {
    let text = reader.string(value, "the file that has the table")?;
    // A kernel.toml by itself, of a published kernel, has no sources beside it, and nothing there is tuned.
    if !root.join(BUILD_TOML).exists() {
        return Some(text.into());
    }
    let help = ["the file with the table, relative to the project: \"kernel_src/tuning.h\"".to_owned()];
    inside(root, text, Wanted::File).map_err(|message| reader.fail(value.span(), message, help)).ok()
}

fn read_operations(reader: &Reader<'_>, value: Option<&Value<'_>>, drafts: &[Draft]) -> Vec<String> {
    let all = || drafts.iter().map(|draft| &draft.operation.name);
    let mut names = Vec::new();
    for value in value.map(one_or_list).into_iter().flatten() {
        let Some(name) = reader.string(value, "the name of an operation") else { continue };
        if all().any(|known| known == name) {
            names.push(name.to_owned());
        } else {
            let help = [format!("operations: {}", listed(all()))];
            reader.fail(value.span(), format!("no operation `{name}`"), help);
        }
    }
    names
}

fn read_row(reader: &Reader<'_>, value: &Value<'_>, depth: usize) -> Vec<Field> {
    let expected = "the fields of a row in their order, those in braces of their own as a list in it";
    let field = |value: &Value<'_>| match value.get_ref() {
        DeValue::Array(_) if depth < DEEPEST => Some(Field::Group(read_row(reader, value, depth + 1))),
        _ => {
            let name = reader.string(value, expected)?;
            if !is_name(name) || ["macro", "names", "where"].contains(&name) {
                let help = ["letters, digits and `_`; not macro, names, where, T, min, max, ceil_div, size".to_owned()];
                reader.fail(value.span(), format!("`{name}` cannot be the name of a field here"), help);
            }
            Some(Field::One(name.to_owned()))
        }
    };
    tables(reader, Some(value), expected).filter_map(field).collect()
}

fn read_numbers(reader: &Reader<'_>, value: Option<&Value<'_>>) -> BTreeMap<String, f64> {
    let table = value.and_then(|value| reader.table(value, "a table of names with numbers"));
    let number = |value| reader.number(value, "a number");
    let all = table.into_iter().flat_map(|table| table.iter());
    all.filter_map(|(key, value)| Some((key.get_ref().to_string(), number(value)?))).collect()
}

/// `packs = ">= ceil_div(width, 8)"`: a relation, and a formula of the case.
fn read_keys(reader: &Reader<'_>, value: &Value<'_>, tuning: &Tuning, drafts: &[Draft]) -> Vec<Key> {
    const RELATIONS: [(&str, Relation); 3] =
        [("<=", Relation::AtMost), (">=", Relation::AtLeast), ("==", Relation::Equal)];
    let mut keys = Vec::new();
    let Some(table) = reader.table(value, "a table, { arch = \"<= arch\" }") else { return keys };
    for (name, value) in table {
        let field = name.get_ref().to_string();
        known_field(reader, name.span(), &field, tuning);
        let Some(text) = reader.string(value, "a relation and a formula, \">= width\"") else { continue };
        let found = RELATIONS.into_iter().find_map(|(sign, relation)| Some((relation, text.strip_prefix(sign)?)));
        let Some((relation, rest)) = found else {
            let help = ["the row's value stands on the left: \"<= arch\", \">= width\", \"== size(T)\"".to_owned()];
            reader.fail(value.span(), format!("`{text}` does not begin with <=, >= or =="), help);
            continue;
        };
        match Formula::parse(rest) {
            Ok(formula) => {
                check_case_names(reader, value, &formula, tuning, drafts);
                keys.push(Key { field, relation, formula });
            }
            Err(error) => reader.fail(value.span(), error.to_string(), []),
        }
    }
    keys
}

fn read_vary(reader: &Reader<'_>, value: &Value<'_>, tuning: &Tuning) -> Option<Vary> {
    let fields = Fields::new(reader, "`vary`", reader.table(value, "a table")?, value.span());
    let mut vary =
        Vary { entries: None, values: Vec::new(), condition: fields.get("where").and_then(|at| reader.formula(at)) };
    let mut names: Vec<String> = tuning.fields().into_iter().map(str::to_owned).collect();
    if let Some(name) = fields.get("macro") {
        let given = fields.required("names", "names = [\"threads\", \"held\"]").map(one_or_list).unwrap_or_default();
        let name_of = |value| identifier(reader, value, "a name for an argument");
        let given: Vec<String> = given.into_iter().filter_map(name_of).collect();
        names.extend(given.iter().cloned());
        vary.entries = Some((identifier(reader, name, "the name of a macro")?, given));
    }
    for (key, span, value) in fields.rest() {
        known_field(reader, span, key, tuning);
        let list = one_or_list(value);
        vary.values.push((key.to_owned(), list.iter().filter_map(|one| reader.number(one, "a number")).collect()));
    }
    if vary.entries.is_none() && vary.values.is_empty() {
        let help = ["{ macro = \"…\", names = […] } or { threads = [128] }".to_owned()];
        reader.fail(value.span(), "nothing to try", help);
    }
    let unknown = vary.condition.iter().flat_map(Formula::names).find(|(name, _)| !names.iter().any(|one| one == name));
    if let Some((name, _)) = unknown {
        let help = [format!("known: {}", listed(names))];
        reader.fail(value.span(), format!("`where` uses `{name}`, which is no field of the row"), help);
    }
    Some(vary)
}

fn known_field(reader: &Reader<'_>, span: std::ops::Range<usize>, name: &str, tuning: &Tuning) {
    let fields = tuning.fields();
    if !fields.contains(&name) {
        reader.fail(span, format!("`{name}` is no field of `row`"), [format!("fields: {}", listed(fields))]);
    }
}

/// Names are used once, and what a row may leave out is known.
fn check_row(reader: &Reader<'_>, value: &Value<'_>, tuning: &Tuning) {
    let fields = tuning.fields();
    if let Some(twice) = fields.iter().enumerate().find(|(at, name)| fields[..*at].contains(name)) {
        reader.fail(value.span(), format!("`row` has two fields `{}`", twice.1), []);
    }
    for name in tuning.optional.keys() {
        known_field(reader, value.span(), name, tuning);
    }
}

/// The names of a formula are those of each operation that looks here.
fn check_case_names(reader: &Reader<'_>, value: &Value<'_>, formula: &Formula, tuning: &Tuning, drafts: &[Draft]) {
    for draft in drafts.iter().filter(|draft| tuning.operations.contains(&draft.operation.name)) {
        let mut known = draft.operation.names();
        known.extend(draft.operation.arguments.iter().map(|argument| argument.name().to_owned()));
        known.extend(CASE_NAMES.map(str::to_owned));
        if let Some((name, _)) = formula.names().find(|(name, _)| !known.iter().any(|one| one == name)) {
            let help = [format!("known: {}", listed(&known))];
            let message = format!("unknown name `{name}`: operation `{}` has none of it", draft.operation.name);
            return reader.fail(value.span(), message, help);
        }
    }
}
