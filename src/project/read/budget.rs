//! `[[budget]]` and `[check]`.

use std::path::{Path, PathBuf};

use super::super::Budget;
use super::super::path::{Wanted, inside};
use super::super::table::{Fields, Reader, Value, one_or_list};
use super::tables;

/// One `[[budget]]`: a limit with the kernels that it is for, or a list of such limits.
pub(super) fn read(reader: &Reader<'_>, value: &Value<'_>, root: &Path) -> Vec<Budget> {
    let Some(table) = reader.table(value, "a table") else {
        return Vec::new();
    };
    let fields = Fields::new(reader, "[[budget]]", table, value.span());
    let source = fields.get("source").and_then(|value| read_source(reader, value, root));
    let Some(list) = fields.get("limits") else {
        return read_limit(reader, fields, source.as_ref());
    };
    fields.finish();
    tables(reader, Some(list), "a list of limits, { kernel = \"*\", spill_bytes = 0 }")
        .flat_map(|value| match reader.table(value, "a limit") {
            Some(table) => {
                let fields = Fields::new(reader, "`limits`", table, value.span());
                read_limit(reader, fields, source.as_ref())
            }
            None => Vec::new(),
        })
        .collect()
}

/// A budget for each pattern of `kernel`.
fn read_limit(reader: &Reader<'_>, fields: Fields<'_, '_, '_, '_>, source: Option<&PathBuf>) -> Vec<Budget> {
    let kernels: Vec<&str> = fields
        .required("kernel", "kernel = \"*\"")
        .map(one_or_list)
        .into_iter()
        .flatten()
        .filter_map(|value| reader.string(value, "a pattern over kernels' names"))
        .collect();
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
        kernel: String::new(),
        source: source.cloned(),
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
        wide_access: fields.get("wide_access").and_then(|value| reader.boolean(value)),
    };
    fields.finish();
    kernels.into_iter().map(|kernel| Budget { kernel: kernel.to_owned(), ..budget.clone() }).collect()
}

/// A `.cu` file or a folder of the project.
fn read_source(reader: &Reader<'_>, value: &Value<'_>, root: &Path) -> Option<PathBuf> {
    let text = reader.string(value, "a .cu file, or a folder of them")?;
    let wanted = if text.ends_with(".cu") { Wanted::File } else { Wanted::Folder };
    inside(root, text, wanted)
        .map_err(|message| {
            reader.fail(
                value.span(),
                message,
                ["a budget with `source` is for the kernels of that file or folder alone".to_owned()],
            );
        })
        .ok()
}

/// `[[check.allow]]` is for `kernels check`, which reads it itself; here only its form is looked at.
pub(super) fn read_check(reader: &Reader<'_>, value: &Value<'_>) {
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
        for (key, example) in
            [("rule", "rule = \"cuda/launch-unchecked\""), ("reason", "reason = \"the caller looks at errors\"")]
        {
            allow.required(key, example).map(|value| reader.string(value, "a string"));
        }
        allow.get("path").map(|value| reader.string(value, "a path"));
        allow.finish();
    }
    fields.finish();
}
