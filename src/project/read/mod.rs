//! From the text of `kernel.toml` to a [`Spec`], every problem with its line.

mod argument;
mod budget;
mod cases;
mod check;
mod dtype;
mod each;
mod like;
mod operation;
mod tuning;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use toml::de::DeTable;

use super::diagnostic::{Document, InvalidProject, Problem};
use super::formula::is_name;
use super::table::{Fields, Reader, Value};
use super::{Budget, Formula, Operation, Spec};
use cases::Located as LocatedSet;

/// The format that this binary reads.
const FORMAT: i64 = 1;

/// Keys of a table of cases that are no names of the operation.
const CASE_KEYS: [&str; 6] = ["name", "dtype", "offsets", "inputs", "draw", "each"];

/// Keys of a table of cases to be refused, beside those.
const REJECT_KEYS: [&str; 4] = ["code", "says", "dtype_code", "pointers"];

/// A formula and where it stands, for problems that show only when all names are known.
#[derive(Clone)]
struct Located {
    formula: Formula,
    span: Range<usize>,
}

/// An operation as far as it is read: its cases may stand elsewhere in the file.
struct Draft {
    operation: Operation,
    /// Where its table stands.
    span: Range<usize>,
    /// Where its name stands.
    name: Range<usize>,
    /// What it says of its bytes; none: they follow from its tensors.
    bytes: Option<Formula>,
    /// The defaults that are written, without those of strides.
    defaults: BTreeMap<String, Formula>,
    formulas: Vec<Located>,
    sets: Vec<LocatedSet>,
}

pub(super) fn read(document: &Document, root: &Path) -> Result<Spec, InvalidProject> {
    match with_problems(document, root) {
        (Some(spec), problems) if problems.is_empty() => Ok(spec),
        (_, problems) => Err(document.invalid(problems)),
    }
}

pub(super) fn with_problems(document: &Document, root: &Path) -> (Option<Spec>, Vec<Problem>) {
    let reader = Reader::new(document);
    let spec = reader.parse().and_then(|table| read_file(&reader, table.get_ref(), root));
    (spec, reader.into_problems())
}

fn read_file(reader: &Reader<'_>, table: &DeTable<'_>, root: &Path) -> Option<Spec> {
    let file = Fields::new(reader, "kernel.toml", table, 0..0);
    // Nothing else is looked at in a format that another version may read otherwise.
    let format = file.required("format", &format!("format = {FORMAT}"))?;
    let number = reader.integer(format, 0, i64::MAX)?;
    if number != FORMAT {
        reader.fail(
            format.span(),
            format!("format {number} is not known"),
            [format!("this binary reads format = {FORMAT}; update `kernels` if the project is newer than it")],
        );
        return None;
    }
    let mut drafts = match file.required("operation", "[[operation]]") {
        Some(value) => read_operations(reader, value, root),
        None => Vec::new(),
    };
    for value in tables(reader, file.get("cases"), "tables headed [[cases]]") {
        cases::read_shared(reader, value, &mut drafts);
    }
    let budgets: Vec<Budget> = tables(reader, file.get("budget"), "tables headed [[budget]]")
        .flat_map(|value| budget::read(reader, value, root))
        .collect();
    let tunings = tables(reader, file.get("tuning"), "tables headed [[tuning]]")
        .flat_map(|value| tuning::read(reader, value, root, &drafts))
        .collect();
    if let Some(value) = file.get("check") {
        budget::read_check(reader, value);
    }
    file.finish();
    Some(Spec { operations: drafts.into_iter().map(|draft| check::finish(reader, draft)).collect(), budgets, tunings })
}

/// The tables of a list that may be missing.
fn tables<'v, 't>(
    reader: &Reader<'_>,
    value: Option<&'v Value<'t>>,
    expected: &str,
) -> impl Iterator<Item = &'v Value<'t>> {
    value.and_then(|value| reader.list(value, expected)).into_iter().flatten()
}

fn read_operations(reader: &Reader<'_>, value: &Value<'_>, root: &Path) -> Vec<Draft> {
    let mut drafts: Vec<Draft> = Vec::new();
    let Some(list) = reader.list(value, "tables headed [[operation]]") else {
        return drafts;
    };
    if list.is_empty() {
        reader.fail(value.span(), "no operation", []);
    }
    for value in list {
        let Some(draft) = operation::read(reader, value, root, &drafts) else {
            continue;
        };
        let name = &draft.operation.name;
        if let Some(twin) = drafts.iter().find(|other| other.operation.name == *name) {
            reader.fail(
                draft.name.clone(),
                format!("a second operation `{name}`"),
                [format!(
                    "the first is at line {}; each needs a name of its own",
                    reader.document.line_of(twin.name.start)
                )],
            );
        }
        drafts.push(draft);
    }
    drafts
}

fn located(reader: &Reader<'_>, value: &Value<'_>, formulas: &mut Vec<Located>) -> Option<Formula> {
    let formula = reader.formula(value)?;
    formulas.push(Located { formula: formula.clone(), span: value.span() });
    Some(formula)
}

fn is_case_key(name: &str) -> bool {
    CASE_KEYS.contains(&name) || REJECT_KEYS.contains(&name)
}

fn check_name(reader: &Reader<'_>, name: &str, span: Range<usize>) {
    if is_case_key(name) {
        reader.fail(
            span,
            format!("`{name}` cannot be a name of the operation"),
            [format!(
                "a table of cases has a key of that name; so have: {}",
                CASE_KEYS.into_iter().chain(REJECT_KEYS).collect::<Vec<_>>().join(", ")
            )],
        );
    } else if !is_name(name) {
        reader.fail(
            span,
            format!("`{name}` is not a name that a formula can use"),
            ["allowed: letters, digits and `_`, no digit first; not T, min, max, ceil_div, size".to_owned()],
        );
    }
}

fn identifier(reader: &Reader<'_>, value: &Value<'_>, what: &str) -> Option<String> {
    let text = reader.string(value, "a string")?;
    let sound = text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if !sound {
        reader.fail(
            value.span(),
            format!("`{text}` is not {what}"),
            ["allowed: letters, digits and `_`, no digit first".to_owned()],
        );
    }
    Some(text.to_owned())
}
