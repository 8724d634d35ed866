//! Terminal tables.

use super::{CATEGORIES, gib, part};
use crate::end_to_end::EndToEnd;
use crate::report::figure::{self, NONE};
use crate::report::table::{Cell, Column, Table};

/// One row per contender and case.
pub(crate) fn times(result: &EndToEnd) -> Table {
    let mut table = Table::new([
        Column::name("case"),
        Column::text("contender"),
        Column::figure("ms (p10–p90)"),
        Column::figure("× eager"),
        Column::figure("× compile"),
        Column::figure("GiB"),
        Column::figure("launches"),
        Column::figure("busy ms"),
        Column::figure("idle %"),
        Column::figure("error"),
        Column::figure("first s"),
    ]);
    for (case, one) in result.contenders() {
        let time = one.time_ms.map_or_else(
            || Cell::bad(if one.wrong.is_some() { "wrong" } else { NONE }),
            |time| {
                Cell::strong(format!(
                    "{} ({}–{})",
                    figure::micros(time.median),
                    figure::micros(time.p10),
                    figure::micros(time.p90)
                ))
            },
        );
        let against = |base: &str| {
            let times = case.times_faster(&one.name, base).map(figure::times);
            Cell::plain(times.unwrap_or_else(|| NONE.to_owned()))
        };
        let profile = one.profile.as_ref();
        let of_profile = |show: &dyn Fn(&crate::end_to_end::Profile) -> String| {
            Cell::plain(profile.map_or_else(|| NONE.to_owned(), show))
        };
        table.row([
            Cell::plain(&case.name),
            Cell::plain(&one.name),
            time,
            against("eager"),
            against("compile"),
            Cell::plain(gib(one.peak_bytes)),
            of_profile(&|profile| format!("{:.0}", profile.launches)),
            of_profile(&|profile| figure::micros(profile.busy_ms)),
            of_profile(&|profile| figure::percent(profile.host_bound)),
            Cell::plain(one.errors.get("of_fp32").map_or_else(|| NONE.to_owned(), |error| format!("{error:.1e}"))),
            Cell::plain(format!("{:.1}", one.first_call_s)),
        ]);
    }
    table
}

/// Milliseconds by category; `None` if nothing was profiled.
pub(crate) fn profiles(result: &EndToEnd) -> Option<Table> {
    let mut columns = vec![Column::name("case"), Column::text("contender")];
    columns.extend(CATEGORIES.map(|(_, label)| Column::figure(label)));
    let mut table = Table::new(columns);
    for (case, one) in result.contenders() {
        if one.profile.is_some() {
            let mut row = vec![Cell::plain(&case.name), Cell::plain(&one.name)];
            row.extend(CATEGORIES.map(|(name, _)| Cell::plain(figure::micros(part(one, name).unwrap_or(0.0)))));
            table.row(row);
        }
    }
    (!table.is_empty()).then_some(table)
}
