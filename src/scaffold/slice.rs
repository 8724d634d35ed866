//! kernel.toml of a bundled project with some of its operations.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use anyhow::{Context, Result, bail};
use toml::{Table, Value};

/// The text with the operations whose launcher is wanted. What an operation takes from one that is left out is written out.
pub(super) fn slice(text: &str, wanted: &dyn Fn(&str) -> bool) -> Result<String> {
    let table: Table = text.parse().context("a bundled kernel.toml is not TOML")?;
    let operations: Vec<&Table> = tables(&table, "operation");
    let kept: BTreeSet<&str> =
        operations.iter().filter(|operation| wanted(&launcher(operation))).map(|operation| name(operation)).collect();
    if kept.len() == operations.len() {
        return Ok(text.to_owned());
    }
    let mut operations_seen = operations.iter();
    let (mut cases_seen, mut tunings_seen) =
        (tables(&table, "cases").into_iter(), tables(&table, "tuning").into_iter());
    let mut out = String::new();
    for block in blocks(text) {
        let header = block.lines().find(|line| line.starts_with("[["));
        match header {
            Some("[[operation]]") => {
                let operation = operations_seen.next().context("more operations than there are")?;
                let base = operation.get("like").and_then(Value::as_str);
                if !kept.contains(name(operation)) {
                    continue;
                }
                match base.filter(|base| !kept.contains(base)) {
                    Some(_) => out.push_str(&written_out(block, &resolved(&operations, operation)?)),
                    None => out.push_str(block),
                }
            }
            Some("[[cases]]") => {
                let cases = cases_seen.next().context("more cases than there are")?;
                out.push_str(&restricted(block, cases, &kept));
            }
            Some("[[tuning]]") => {
                let tuning = tunings_seen.next().context("more tunings than there are")?;
                out.push_str(&restricted(block, tuning, &kept));
            }
            _ => out.push_str(block),
        }
    }
    Ok(out)
}

/// A table of `[[cases]]` or `[[tuning]]` for the operations that are kept; empty if it is for none of them.
fn restricted(block: &str, table: &Table, kept: &BTreeSet<&str>) -> String {
    let of = |table: &Table| -> Vec<Value> {
        let all = table.get("operations").and_then(Value::as_array).into_iter().flatten();
        all.filter(|one| one.as_str().is_some_and(|one| kept.contains(one))).cloned().collect()
    };
    let mut each = tables(table, "each").into_iter().cloned().collect::<Vec<_>>();
    for one in &mut each {
        one.insert("operations".into(), Value::Array(of(one)));
    }
    each.retain(|one| !of(one).is_empty());
    if table.contains_key("each") {
        let none = each.is_empty();
        let list: Vec<String> = each.into_iter().map(|one| inline(&Value::Table(one))).collect();
        let text = format!("each = [\n  {},\n]\n", list.join(",\n  "));
        return if none { String::new() } else { replaced(block, &["each"], &text) };
    }
    let text = format!("operations = {}\n", inline(&Value::Array(of(table))));
    if of(table).is_empty() { String::new() } else { replaced(block, &["operations"], &text) }
}

pub(super) fn tables<'a>(table: &'a Table, key: &str) -> Vec<&'a Table> {
    table.get(key).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_table).collect()
}

pub(super) fn name(operation: &Table) -> &str {
    operation.get("name").and_then(Value::as_str).unwrap_or_default()
}

fn launcher(operation: &Table) -> String {
    operation
        .get("launcher")
        .and_then(Value::as_str)
        .map_or_else(|| format!("{}_launch", name(operation)), str::to_owned)
}

/// The text in pieces, each a `[[table]]` with the comments before it.
fn blocks(text: &str) -> Vec<&str> {
    let (mut blocks, mut begin, mut comments, mut at) = (Vec::new(), 0, None, 0);
    for line in text.split_inclusive('\n') {
        if line.starts_with('#') {
            comments.get_or_insert(at);
        } else {
            if line.starts_with("[[") {
                let cut = comments.unwrap_or(at);
                blocks.push(&text[begin..cut]);
                begin = cut;
            }
            comments = None;
        }
        at += line.len();
    }
    blocks.push(&text[begin..]);
    blocks
}

/// An operation with what it takes from the operation that its `like` names.
pub(super) fn resolved(all: &[&Table], operation: &Table) -> Result<Table> {
    let mut own = operation.clone();
    let Some(base) = own.remove("like") else { return Ok(own) };
    let found = all.iter().find(|one| Some(name(one)) == base.as_str()).context("`like` names no operation")?;
    let mut base = resolved(all, found)?;
    if own.contains_key("in_place") {
        bail!("{} is in place of an operation that is not there", name(operation));
    }
    for cases in ["launcher", "at", "standard", "verify", "bench", "reject"] {
        base.remove(cases);
    }
    let base_name = base.remove("name").context("an operation without a name")?;
    base.entry("oracle").or_insert(base_name);
    let without: Vec<Value> = own.remove("without").and_then(|names| names.as_array().cloned()).unwrap_or_default();
    let mut arguments = flattened(&base)?;
    arguments.retain(|(name, _)| !without.iter().any(|one| one.as_str() == Some(name)));
    if let Some(Value::Array(given)) = own.remove("arguments") {
        arguments = spliced(&given, &arguments)?;
    }
    base.insert("arguments".into(), Value::Array(arguments.into_iter().map(|(_, value)| value).collect()));
    let given = defaults(own.remove("defaults"));
    let mut all = defaults(base.remove("defaults"));
    for table in &mut all {
        let is_given = |name: &str| given.iter().any(|table| table.contains_key(name));
        table.retain(|name, _| !is_given(name) && !without.iter().any(|one| one.as_str() == Some(name)));
    }
    all.extend(given);
    all.retain(|table| !table.is_empty());
    if !all.is_empty() {
        base.insert("defaults".into(), Value::Array(all.into_iter().map(Value::Table).collect()));
    }
    base.extend(own);
    Ok(base)
}

/// Defaults, which are one table or several.
fn defaults(value: Option<Value>) -> Vec<Table> {
    match value {
        Some(Value::Table(table)) => vec![table],
        Some(Value::Array(tables)) => tables.into_iter().filter_map(|table| table.as_table().cloned()).collect(),
        _ => Vec::new(),
    }
}

/// Arguments by name, one scalar each.
pub(super) fn flattened(operation: &Table) -> Result<Vec<(String, Value)>> {
    let mut all = Vec::new();
    for argument in operation.get("arguments").and_then(Value::as_array).context("an operation without arguments")? {
        let table = argument.as_table().context("an argument that is no table")?;
        if let Some(names) = table.get("scalars").and_then(Value::as_array) {
            for name in names.iter().filter_map(Value::as_str) {
                let mut one = Table::from_iter([("scalar".to_owned(), Value::from(name))]);
                one.extend(
                    table.iter().filter(|(key, _)| *key != "scalars").map(|(key, value)| (key.clone(), value.clone())),
                );
                all.push((name.to_owned(), Value::Table(one)));
            }
            continue;
        }
        let name = ["tensor", "scalar"].iter().find_map(|key| table.get(*key)?.as_str());
        let name = name.unwrap_or(if table.contains_key("stream") { "stream" } else { "dtype" });
        all.push((name.to_owned(), argument.clone()));
    }
    Ok(all)
}

/// Arguments, some of which are references to the base: `"x"` or `"x..eps"`.
fn spliced(given: &[Value], base: &[(String, Value)]) -> Result<Vec<(String, Value)>> {
    let mut all = Vec::new();
    for argument in given {
        let Some(range) = argument.as_str() else {
            let one = Table::from_iter([("arguments".to_owned(), Value::Array(vec![argument.clone()]))]);
            all.extend(flattened(&one)?);
            continue;
        };
        let (first, last) = range.split_once("..").unwrap_or((range, range));
        let find = |name: &str| base.iter().position(|(own, _)| own == name);
        let (first, last) = find(first).zip(find(last)).with_context(|| format!("there is no argument {range}"))?;
        all.extend_from_slice(&base[first..=last]);
    }
    Ok(all)
}

/// The text of an operation with `like`, without it.
fn written_out(block: &str, operation: &Table) -> String {
    let has = |key: &str| block.lines().any(|line| line.starts_with(&format!("{key} = ")));
    let mut text = String::new();
    for (key, value) in operation {
        match (key.as_str(), value) {
            ("arguments", Value::Array(arguments)) => {
                let _ = write!(text, "arguments = [\n{}]\n", lines(arguments));
            }
            ("defaults", Value::Array(tables)) => {
                let _ = match &tables[..] {
                    [one] => writeln!(text, "defaults = {}", inline(one)),
                    all => writeln!(text, "defaults = [\n{}]", lines(all)),
                };
            }
            ("name" | "at" | "standard" | "verify" | "bench" | "reject", _) => {}
            (key, _) if has(key) => {}
            (key, _) => {
                let _ = writeln!(text, "{key} = {}", inline(value));
            }
        }
    }
    replaced(block, &["like", "without", "arguments", "defaults"], &text)
}

/// Arguments, one per line, with scalars of the same type side by side.
fn lines(arguments: &[Value]) -> String {
    let (mut text, mut scalars, mut of) = (String::new(), Vec::new(), None);
    let plain = |argument: &Value| {
        let table = argument.as_table().filter(|table| table.len() == 2)?;
        Some((table.get("scalar")?.clone(), table.get("type")?.clone()))
    };
    for argument in arguments.iter().map(Some).chain([None]) {
        let next = argument.and_then(plain);
        if of.is_some() && of != next.as_ref().map(|(_, kind)| kind.clone()) {
            let kind = of.take().map_or_else(String::new, |kind: Value| inline(&kind));
            let _ = writeln!(
                text,
                "  {{ scalars = {}, type = {kind} }},",
                inline(&Value::Array(std::mem::take(&mut scalars)))
            );
        }
        match (next, argument) {
            (Some((name, kind)), _) => {
                scalars.push(name);
                of = Some(kind);
            }
            (None, Some(argument)) => {
                let _ = writeln!(text, "  {},", inline(argument));
            }
            (None, None) => {}
        }
    }
    text
}

/// A block in which a text replaces some keys with their values, at the place of the first one.
fn replaced(block: &str, keys: &[&str], by: &str) -> String {
    let (mut out, mut depth, mut by) = (String::new(), 0, Some(by));
    for line in block.split_inclusive('\n') {
        let begins = keys.iter().any(|key| line.strip_prefix(key).is_some_and(|rest| rest.starts_with(" = ")));
        if depth == 0 && !begins {
            out.push_str(line);
            continue;
        }
        out.push_str(by.take().unwrap_or_default());
        let code = line.split(" # ").next().unwrap_or(line).trim_start();
        if !code.starts_with('#') {
            let count = |brackets: [char; 2]| i32::try_from(code.matches(brackets).count()).unwrap_or(0);
            depth += count(['[', '{']) - count([']', '}']);
        }
    }
    out
}

/// The order in which keys of an argument are written.
const ORDER: [&str; 8] = ["tensor", "scalar", "dtype", "role", "type", "shape", "strides", "present"];

fn inline(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("[{}]", items.iter().map(inline).collect::<Vec<_>>().join(", ")),
        Value::Table(table) => {
            let mut keys: Vec<&String> = table.keys().collect();
            keys.sort_by_key(|key| ORDER.iter().position(|known| known == *key).unwrap_or(ORDER.len()));
            let pairs: Vec<String> = keys.iter().map(|key| format!("{key} = {}", inline(&table[*key]))).collect();
            format!("{{ {} }}", pairs.join(", "))
        }
        other => other.to_string(),
    }
}
