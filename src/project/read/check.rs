//! What only a whole operation shows: names without a value, and cases that cannot be.

use std::ops::Range;

use super::super::formula::listed;
use super::super::table::Reader;
use super::super::{CaseSet, Operation, Values};
use super::cases::{Kind, Located as LocatedSet};
use super::{Draft, Located, check_name, is_case_key};

/// Checks an operation with all of its cases, and gives it to those who asked for it.
pub(super) fn finish(reader: &Reader<'_>, draft: Draft) -> Operation {
    let Draft { mut operation, span, formulas, sets, .. } = draft;
    if !sets.iter().any(|set| set.kind == Kind::Verify) {
        reader.fail(
            span,
            "[[operation]] lacks `verify`",
            ["add, for example: [[operation.verify]], or name the operation in [[cases]]".to_owned()],
        );
    }
    check_names(reader, &operation, &sets, &formulas);
    if reader.is_sound() {
        check_cases(reader, &operation, &sets);
    }
    for located in sets {
        match located.kind {
            Kind::Verify => operation.verify.push(located.set),
            Kind::Bench => operation.bench.push(located.set),
            Kind::Reject => operation.reject.push(located.set),
        }
    }
    operation
}

/// Every name of a formula needs a value from somewhere, and every table of cases must give those without default.
fn check_names(reader: &Reader<'_>, operation: &Operation, sets: &[LocatedSet], formulas: &[Located]) {
    let has_default = |name: &str| operation.defaults.contains_key(name) || operation.types.contains_key(name);
    let has_value = |name: &str| {
        operation.computed(name).is_some()
            || has_default(name)
            || sets.iter().any(|located| located.set.values.contains_key(name))
    };
    let names = operation.names();
    for located in formulas {
        for (name, part) in located.formula.names() {
            let span = reader.within(&located.span, &located.formula.text, &part);
            if is_case_key(name) {
                check_name(reader, name, span);
            } else if !has_value(name) {
                let known = names.iter().filter(|name| has_value(name));
                reader.fail(
                    span,
                    format!("unknown name `{name}`"),
                    [
                        format!("names with a value: {}", listed(known)),
                        "a name gets its value in [operation.defaults] or in a table of cases".to_owned(),
                    ],
                );
            }
        }
    }
    for located in sets {
        let missing: Vec<&String> = names
            .iter()
            .filter(|name| !located.set.values.contains_key(*name) && !has_default(name) && has_value(name))
            .collect();
        if !missing.is_empty() {
            reader.fail(
                located.span.clone(),
                format!("[[operation.{}]] gives no value to {}", located.kind.name(), listed(missing)),
                ["give it one here or in [operation.defaults]".to_owned()],
            );
        }
    }
}

/// Makes every case once: sizes, strides and scalars must come out.
fn check_cases(reader: &Reader<'_>, operation: &Operation, sets: &[LocatedSet]) {
    for kind in Kind::ALL {
        let of_kind: Vec<&LocatedSet> = sets.iter().filter(|set| set.kind == kind).collect();
        let all: Vec<CaseSet> = of_kind.iter().map(|located| located.set.clone()).collect();
        let Some(first) = of_kind.first() else {
            continue;
        };
        // The guard on the number of cases is on all tables of a kind together.
        if let Err(error) = operation.check_count(&all) {
            reader.fail(first.span.clone(), error.to_string(), []);
            continue;
        }
        let mut failed: Option<Range<usize>> = None;
        for located in of_kind {
            let made = both_ends(&located.set).iter().try_for_each(|set| {
                operation
                    .cases(std::slice::from_ref(set), 0)?
                    .iter()
                    .try_for_each(|case| operation.bind(case).map(drop))
            });
            // Of a standard set that gives several tables, one problem is enough.
            if let Err(error) = made
                && failed.as_ref() != Some(&located.span)
            {
                failed = Some(located.span.clone());
                reader.fail(
                    located.span.clone(),
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
