//! `each`: a table of cases that stands for several, which have its other keys in common.

use toml::Spanned;
use toml::de::DeValue;

use super::super::table::{Reader, Value};

/// The tables that a table of cases stands for: itself, or for each of `each` its keys and those of the inner one, which
/// take precedence.
pub(super) fn expand<'t>(reader: &Reader<'_>, value: &Value<'t>) -> Vec<Value<'t>> {
    let Some((table, each)) = value.get_ref().as_table().and_then(|table| Some((table, table.get("each")?))) else {
        return vec![value.clone()];
    };
    let Some(list) = reader.list(each, "tables, each = [{ rows = 1 }, { rows = 2 }]") else {
        return Vec::new();
    };
    if list.is_empty() {
        reader.fail(each.span(), "an empty list gives no case", []);
    }
    let mut common = table.clone();
    common.remove("each");
    let mut tables = Vec::new();
    for item in list {
        let Some(inner) = reader.table(item, "a table, { rows = 1 }") else {
            continue;
        };
        let mut merged = common.clone();
        for (key, value) in inner {
            // A map keeps the key that it has, which stands elsewhere in the file.
            merged.remove(key.get_ref().as_ref());
            merged.insert(key.clone(), value.clone());
        }
        tables.extend(expand(reader, &Spanned::new(item.span(), DeValue::Table(merged))));
    }
    tables
}
