//! Tables of cases: those of an operation, and those of `[[cases]]` that several share.

use std::collections::BTreeMap;
use std::ops::Range;

use toml::de::{DeTable, DeValue};

use super::super::case::{placeholders, type_named};
use super::super::formula::listed;
use super::super::spec::{BadPointer, Refusal};
use super::super::standard::{SMALL, Standard, Wrong, standard_sets};
use super::super::table::{EXACT_INTEGER, Fields, Reader, Value, one_or_list};
use super::super::{Argument, CaseSet, DType, Inputs, Operation, Values};
use super::dtype::read_dtypes;
use super::each::expand;
use super::{CASE_KEYS, Draft, REJECT_KEYS, tables};

/// Keys of an `[[operation]]` and of `[[cases]]` that hold cases.
pub(super) const TABLES: [&str; 5] = ["at", "standard", "verify", "bench", "reject"];

/// What the cases of a table are for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    Verify,
    Bench,
    Reject,
}

impl Kind {
    pub(super) const ALL: [Self; 3] = [Self::Verify, Self::Bench, Self::Reject];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Verify => "verify",
            Self::Bench => "bench",
            Self::Reject => "reject",
        }
    }
}

/// A table of cases and where it stands.
#[derive(Clone)]
pub(super) struct Located {
    pub(super) kind: Kind,
    pub(super) span: Range<usize>,
    pub(super) set: CaseSet,
}

/// What standard and refused cases take for the names that they do not vary.
type At = BTreeMap<String, Values>;

/// The tables in an `[[operation]]` itself.
pub(super) fn read_own(reader: &Reader<'_>, fields: &Fields<'_, '_, '_, '_>, operation: &Operation) -> Vec<Located> {
    read_tables(reader, fields, operation, "operation.")
}

/// One `[[cases]]`: its tables go to each of its operations.
pub(super) fn read_shared(reader: &Reader<'_>, value: &Value<'_>, drafts: &mut [Draft]) {
    let Some(table) = reader.table(value, "a table") else {
        return;
    };
    let fields = Fields::new(reader, "[[cases]]", table, value.span());
    let names: Vec<&Value<'_>> = fields
        .required("operations", "operations = [\"rms_norm\", \"add_rms_norm\"]")
        .map(one_or_list)
        .unwrap_or_default();
    for value in names {
        let Some(name) = reader.string(value, "the name of an operation") else {
            continue;
        };
        let before = reader.count();
        match drafts.iter_mut().find(|draft| draft.operation.name == name) {
            Some(draft) => {
                let sets = read_tables(reader, &fields, &draft.operation, "cases.");
                draft.sets.extend(sets);
            }
            None => reader.fail(
                value.span(),
                format!("no operation `{name}`"),
                [format!("operations: {}", listed(drafts.iter().map(|draft| &draft.operation.name)))],
            ),
        }
        // What is wrong for one operation is most often wrong for all.
        if reader.count() > before {
            break;
        }
    }
    for key in TABLES {
        fields.get(key);
    }
    fields.finish();
}

fn read_tables(
    reader: &Reader<'_>,
    fields: &Fields<'_, '_, '_, '_>,
    operation: &Operation,
    place: &str,
) -> Vec<Located> {
    let known = operation.names();
    let at = match fields.get("at") {
        Some(value) => read_names(reader, value, &format!("{place}at"), (operation, &known), false),
        None => At::new(),
    };
    let mut sets = Vec::new();
    if let Some(value) = fields.get("standard")
        && let Some(standard) = read_standard(reader, value, operation, &known, &at)
    {
        let standard = standard_sets(operation, &standard);
        sets.extend(standard.into_iter().map(|set| Located {
            kind: if set.refused { Kind::Reject } else { Kind::Verify },
            span: value.span(),
            set,
        }));
    }
    for (kind, key) in [(Kind::Verify, "verify"), (Kind::Bench, "bench"), (Kind::Reject, "reject")] {
        let heading = format!("[[{place}{key}]]");
        let expected = format!("tables headed {heading}");
        for value in tables(reader, fields.get(key), &expected).flat_map(|value| expand(reader, value)) {
            if let Some(mut set) = read_set(reader, kind, &heading, &value, operation) {
                // Cases to verify and to time say all that they are about.
                if kind == Kind::Reject {
                    for (name, values) in &at {
                        set.values.entry(name.clone()).or_insert_with(|| values.clone());
                    }
                }
                let span = value.span();
                sets.push(Located { kind, span, set });
            }
        }
    }
    sets
}

fn read_standard(
    reader: &Reader<'_>,
    value: &Value<'_>,
    operation: &Operation,
    known: &[String],
    at: &At,
) -> Option<Standard> {
    let table = reader.table(value, "a standard set, { sizes = { width = [64] } }")?;
    let fields = Fields::new(reader, "`standard`", table, value.span());
    let names = |key| match fields.get(key) {
        Some(value) => read_names(reader, value, key, (operation, known), key == "drawn"),
        None => At::new(),
    };
    let (mut sizes, values, dtypes) = (names("sizes"), names("values"), fields.get("dtype"));
    // Beside the edges of its layouts, the smallest sizes, and odd ones.
    for (name, value) in fields.get("sizes").and_then(|value| value.get_ref().as_table()).into_iter().flatten() {
        if let (DeValue::Table(_), Some(Values::List(list))) = (value.get_ref(), sizes.get_mut(name.get_ref().as_ref()))
        {
            list.splice(0..0, SMALL);
        }
    }
    let listed_names = |key| -> Option<Vec<String>> {
        let list = reader.list(fields.get(key)?, "a list of names")?;
        let name = |value: &Value<'_>| reader.string(value, "a name").map(str::to_owned);
        list.into_iter().map(name).collect()
    };
    let standard = Standard {
        at: at.clone(),
        values,
        inputs: if fields.get("inputs").is_some() {
            read_inputs(reader, &fields)?
        } else {
            // A sum of squares may be infinite where the least numbers are: an operation says that it takes them.
            let all = Inputs::ALL.into_iter();
            all.filter(|inputs| !matches!(inputs, Inputs::Normal | Inputs::Masked)).collect()
        },
        dtypes: match dtypes {
            Some(value) => read_case_dtypes(reader, value, operation)?,
            None => Vec::new(),
        },
        empty: listed_names("empty").unwrap_or_else(|| sizes.keys().cloned().collect()),
        fixed: listed_names("fixed").unwrap_or_default(),
        drawn: names("drawn"),
        refuses: read_refuses(reader, &fields, operation),
        step: fields.get("step").and_then(|value| reader.integer(value, 1, 4096)).map_or(1, i64::unsigned_abs),
        sizes,
    };
    fields.finish();
    Some(standard)
}

/// `refuses = { negative = 10001 }`: the codes for what is wrong.
fn read_refuses(reader: &Reader<'_>, fields: &Fields<'_, '_, '_, '_>, operation: &Operation) -> BTreeMap<Wrong, i32> {
    let mut refuses = BTreeMap::new();
    let Some(value) = fields.get("refuses") else {
        return refuses;
    };
    if operation.error.is_none() {
        fail_without_error(reader, value.span(), operation);
    }
    let expected = "codes by what is wrong, { negative = 10001 }";
    for (key, value) in reader.table(value, expected).into_iter().flatten() {
        let name = key.get_ref().as_ref();
        let code = reader.integer(value, 1, i64::from(i32::MAX));
        match (Wrong::from_name(name), code.and_then(|code| i32::try_from(code).ok())) {
            (Some(wrong), Some(code)) => {
                refuses.insert(wrong, code);
            }
            (None, _) => reader.fail(
                key.span(),
                format!("unknown kind of what is wrong, `{name}`"),
                [format!("allowed: {}", listed(Wrong::ALL.map(Wrong::name)))],
            ),
            (_, None) => {}
        }
    }
    refuses
}

/// Names with their values.
fn read_names(
    reader: &Reader<'_>,
    value: &Value<'_>,
    what: &str,
    (operation, known): (&Operation, &[String]),
    draws: bool,
) -> At {
    let mut names = At::new();
    for (key, value) in reader.table(value, "names with values").into_iter().flatten() {
        let name = key.get_ref().as_ref();
        let what = format!("`{what}`");
        let place = Scope { what: &what, operation, known };
        if let Some(values) = place.read(reader, name, key.span(), value, draws) {
            names.insert(name.to_owned(), values);
        }
    }
    names
}

fn read_set(
    reader: &Reader<'_>,
    kind: Kind,
    heading: &str,
    value: &Value<'_>,
    operation: &Operation,
) -> Option<CaseSet> {
    let table = reader.table(value, "a table")?;
    let fields = Fields::new(reader, heading, table, value.span());
    let name = fields.get("name").and_then(|value| read_name(reader, value, operation));
    let dtypes = match fields.get("dtype") {
        Some(value) => read_case_dtypes(reader, value, operation)?,
        None => Vec::new(),
    };
    let offsets = match fields.get("offsets") {
        Some(value) => read_offsets(reader, value, operation),
        None => BTreeMap::new(),
    };
    let inputs = read_inputs(reader, &fields)?;
    let refusal = match kind {
        Kind::Reject => read_refusal(reader, &fields, operation),
        Kind::Verify | Kind::Bench => Refusal::default(),
    };
    let draw =
        fields.get("draw").and_then(|value| reader.integer(value, 1, 10_000)).and_then(|draw| u32::try_from(draw).ok());
    let known = operation.names();
    let place = Scope { what: heading, operation, known: &known };
    let mut values = BTreeMap::new();
    for (key, span, value) in fields.rest() {
        let read = match value.get_ref() {
            // What the launcher is to refuse may be no finite number.
            _ if kind == Kind::Reject && place.has(key) && has_floats(value) => {
                let numbers = one_or_list(value).into_iter().map(any_number);
                numbers.collect::<Option<Vec<f64>>>().map(Values::List)
            }
            _ => place.read(reader, key, span, value, draw.is_some()),
        };
        if let Some(read) = read {
            values.insert(key.to_owned(), read);
        }
    }
    Some(CaseSet { name, values, dtypes, offsets, inputs, draw, refused: kind == Kind::Reject, refusal })
}

/// What cases are about, which may have values of theirs: `"Qwen3-8B, {tokens} tokens"`.
fn read_name(reader: &Reader<'_>, value: &Value<'_>, operation: &Operation) -> Option<String> {
    let text = reader.string(value, "a string")?;
    let known = operation.names();
    for (name, part) in placeholders(text) {
        if !known.iter().any(|known| known == name) {
            reader.fail(
                reader.within(&value.span(), text, &part),
                format!("unknown name `{name}`"),
                [format!("{{NAME}} stands for the value of one of the operation's names: {}", listed(&known))],
            );
        }
    }
    Some(text.to_owned())
}

/// Whether a value is a floating-point number or a list with one.
fn has_floats(value: &Value<'_>) -> bool {
    let is_float = |value: &&Value<'_>| matches!(value.get_ref(), DeValue::Float(_));
    one_or_list(value).iter().any(is_float)
}

/// A number, infinite or none at all.
fn any_number(value: &Value<'_>) -> Option<f64> {
    match value.get_ref() {
        DeValue::Float(float) => float.as_str().parse().ok(),
        DeValue::Integer(integer) => integer.as_str().parse().ok(),
        _ => None,
    }
}

fn read_case_dtypes(reader: &Reader<'_>, value: &Value<'_>, operation: &Operation) -> Option<Vec<DType>> {
    let dtypes = read_dtypes(reader, value)?;
    for dtype in &dtypes {
        if !operation.dtypes.contains(dtype) {
            reader.fail(
                value.span(),
                format!("`{}` is not among the operation's dtypes", dtype.name()),
                [format!("allowed: {}", listed(operation.dtypes.iter().map(|dtype| dtype.name())))],
            );
        }
    }
    Some(dtypes)
}

fn read_offsets(reader: &Reader<'_>, value: &Value<'_>, operation: &Operation) -> BTreeMap<String, u64> {
    by_tensor(reader, value, "offsets by tensor, { x = 1 }", operation)
        .filter_map(|(tensor, offset)| {
            let offset = reader.integer(offset, 0, 4096)?;
            Some((tensor, offset.unsigned_abs()))
        })
        .collect()
}

/// The entries of a table whose keys are tensors.
fn by_tensor<'v, 't>(
    reader: &Reader<'_>,
    value: &'v Value<'t>,
    expected: &str,
    operation: &Operation,
) -> impl Iterator<Item = (String, &'v Value<'t>)> {
    let tensors: Vec<&str> = operation
        .arguments
        .iter()
        .filter_map(|argument| match argument {
            Argument::Tensor { name, .. } => Some(name.as_str()),
            _ => None,
        })
        .collect();
    let table = reader.table(value, expected);
    for (tensor, _) in table.into_iter().flatten() {
        if !tensors.contains(&tensor.get_ref().as_ref()) {
            reader.fail(
                tensor.span(),
                format!("no tensor `{}`", tensor.get_ref()),
                [format!("tensors: {}", tensors.join(", "))],
            );
        }
    }
    table.into_iter().flatten().map(|(tensor, value)| (tensor.get_ref().to_string(), value))
}

fn read_inputs(reader: &Reader<'_>, fields: &Fields<'_, '_, '_, '_>) -> Option<Vec<Inputs>> {
    let mut inputs = Vec::new();
    for value in fields.get("inputs").map(one_or_list).into_iter().flatten() {
        let text = reader.string(value, "a kind of inputs")?;
        match Inputs::from_name(text) {
            Some(kind) => inputs.push(kind),
            None => reader.fail(
                value.span(),
                format!("unknown inputs `{text}`"),
                [format!("allowed: {}", listed(Inputs::ALL.map(Inputs::name)))],
            ),
        }
    }
    Some(inputs)
}

fn read_refusal(reader: &Reader<'_>, fields: &Fields<'_, '_, '_, '_>, operation: &Operation) -> Refusal {
    let number = |key| {
        let value = fields.get(key)?;
        let number = reader.integer(value, i64::from(i32::MIN), i64::from(i32::MAX))?;
        i32::try_from(number).ok()
    };
    let says = fields.get("says").and_then(|value| {
        if operation.error.is_none() {
            fail_without_error(reader, value.span(), operation);
        }
        reader.string(value, "words").map(str::to_owned)
    });
    let mut pointers = BTreeMap::new();
    if let Some(value) = fields.get("pointers") {
        let expected = "pointers by tensor, { x = 0, out = \"+2\" }";
        for (tensor, value) in by_tensor(reader, value, expected, operation) {
            if let Some(pointer) = read_pointer(reader, value) {
                pointers.insert(tensor, pointer);
            }
        }
    }
    Refusal { code: number("code"), says, dtype_code: number("dtype_code"), pointers }
}

fn fail_without_error(reader: &Reader<'_>, span: Range<usize>, operation: &Operation) {
    reader.fail(
        span,
        format!("operation `{}` has no `error`: nothing says its codes in words", operation.name),
        ["add error = \"my_kernel_error\" to it: extern \"C\" const char* my_kernel_error(int)".to_owned()],
    );
}

/// `0`, or `"+2"`.
fn read_pointer(reader: &Reader<'_>, value: &Value<'_>) -> Option<BadPointer> {
    let bytes = match value.get_ref() {
        DeValue::Integer(number) if number.as_str() == "0" => return Some(BadPointer::Null),
        DeValue::String(text) => text.strip_prefix('+').and_then(|bytes| bytes.parse().ok()),
        _ => None,
    };
    if bytes.is_none() {
        reader.fail(value.span(), "a pointer is 0, or a number of bytes beyond its tensor in quotes: \"+2\"", []);
    }
    bytes.map(BadPointer::Beyond)
}

/// Where a name gets values: a table of an operation.
struct Scope<'a> {
    what: &'a str,
    operation: &'a Operation,
    known: &'a [String],
}

impl Scope<'_> {
    /// Whether a name may be set.
    fn has(&self, name: &str) -> bool {
        self.operation.computed(name).is_none() && self.known.iter().any(|known| known == name)
    }

    /// The values that a table gives to a name.
    fn read(
        &self,
        reader: &Reader<'_>,
        name: &str,
        span: Range<usize>,
        value: &Value<'_>,
        draws: bool,
    ) -> Option<Values> {
        if self.operation.computed(name).is_some() {
            reader.fail(span, format!("scalar `{name}` has a `value` of its own, so no case can set it"), []);
            return None;
        }
        if !self.has(name) {
            let keys = CASE_KEYS.into_iter().chain(REJECT_KEYS);
            let keys: Vec<&str> = keys.take(if self.what.contains("reject") { 10 } else { CASE_KEYS.len() }).collect();
            reader.fail(
                span,
                format!("unknown name `{name}` in {}", self.what),
                [format!("names of the operation: {}", listed(self.known)), format!("other keys: {}", keys.join(", "))],
            );
            return None;
        }
        match self.operation.types.get(name) {
            Some(types) => read_type_values(reader, value, types),
            None => read_values(reader, value, draws, self.known),
        }
    }
}

/// `"f32"`, or `["T", "f32"]`.
fn read_type_values(reader: &Reader<'_>, value: &Value<'_>, types: &[Option<DType>]) -> Option<Values> {
    let code = |item: &Value<'_>| {
        let text = reader.string(item, "a type")?;
        type_named(text, types).map_err(|message| reader.fail(item.span(), message, [])).ok()
    };
    let codes: Option<Vec<f64>> = one_or_list(value).into_iter().map(code).collect();
    codes.map(Values::List)
}

fn read_values(reader: &Reader<'_>, value: &Value<'_>, draws: bool, known: &[String]) -> Option<Values> {
    const EXPECTED: &str = "a number, a list of numbers, or a formula in quotes";
    match value.get_ref() {
        DeValue::String(text) if text.contains("..") => read_range(reader, value, text, draws),
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
        DeValue::Array(_) => read_numbers(reader, value).map(Values::List),
        DeValue::Table(table) => read_around(reader, table, value.span()),
        _ => reader.number(value, EXPECTED).map(|number| Values::List(vec![number])),
    }
}

fn read_numbers(reader: &Reader<'_>, value: &Value<'_>) -> Option<Vec<f64>> {
    let list = reader.list(value, "a list of numbers")?;
    if list.is_empty() {
        reader.fail(value.span(), "an empty list gives no case", []);
        return None;
    }
    list.into_iter().map(|item| reader.number(item, "a number")).collect()
}

/// `{ around = [64, 128] }`: sizes on both sides of where a layout changes.
fn read_around(reader: &Reader<'_>, table: &DeTable<'_>, span: Range<usize>) -> Option<Values> {
    let fields = Fields::new(reader, "the values of a name", table, span);
    let edges = fields.required("around", "around = [64, 128]").and_then(|value| read_numbers(reader, value));
    fields.finish();
    let mut sizes: Vec<f64> = edges?
        .into_iter()
        .flat_map(|edge| [edge - 1.0, edge, edge + 1.0, edge + 8.0])
        .filter(|size| *size >= 1.0)
        .collect();
    sizes.sort_by(f64::total_cmp);
    sizes.dedup();
    Some(Values::List(sizes))
}

fn read_range(reader: &Reader<'_>, value: &Value<'_>, text: &str, draws: bool) -> Option<Values> {
    let within = |number: &i64| number.unsigned_abs() <= EXACT_INTEGER.unsigned_abs();
    let range = text
        .split_once("..")
        .and_then(|(first, last)| Some((first.trim().parse().ok()?, last.trim().parse().ok()?)))
        .filter(|(first, last)| first <= last && within(first) && within(last));
    let Some((first, last)) = range else {
        reader.fail(
            value.span(),
            format!("`{text}` is not a range"),
            ["two integers, the smaller first, both included: \"1..300\"".to_owned()],
        );
        return None;
    };
    if !draws {
        reader.fail(
            value.span(),
            "a range is drawn from, and this table does not draw",
            ["add `draw = 16` for 16 cases drawn afresh, or list the numbers".to_owned()],
        );
    }
    Some(Values::Range(first, last))
}
