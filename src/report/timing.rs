//! A benchmark as a table for the terminal.

use super::figure;
use super::table::{Cell, Column, Table};
use crate::bench::{BenchReport, Residency};

/// From this share of the roof on, a case cannot get much better.
const AT_THE_ROOF: f64 = 0.97;
/// Below this share, there is room to improve.
const FAR_BELOW: f64 = 0.80;

/// One row per case: MB, µs, spread, GB/s, shares of the roof and of the datasheet's peak, cold or hot; and TFLOP/s if
/// a case is bound by arithmetic.
pub fn table(report: &BenchReport) -> Table {
    let mut columns = vec![
        Column::text("operation"),
        Column::name("case"),
        Column::text("dtype"),
        Column::figure("MB"),
        Column::figure("µs"),
        Column::figure("p10–p90"),
        Column::figure("GB/s"),
        Column::figure("% roof"),
        Column::figure("% peak"),
        Column::text("data"),
    ];
    // Cases bound by arithmetic are measured in TFLOP/s.
    if report.cases.iter().any(|case| case.tflops().is_some()) {
        columns.push(Column::figure("TFLOP/s"));
    }
    let mut table = Table::new(columns);
    for case in &report.cases {
        let share = case.of_roof();
        let roof = match figure::percent(share) {
            text if share >= AT_THE_ROOF => Cell::good(text),
            text if share >= FAR_BELOW => Cell::plain(text),
            text => Cell::warning(text),
        };
        let peak = figure::of_peak(case, report.card.peak_gbs);
        table.row([
            Cell::plain(&case.operation),
            Cell::plain(figure::shape(case)),
            Cell::plain(case.dtype.name()),
            Cell::plain(figure::megabytes(case.bytes)),
            Cell::strong(figure::micros(case.kernel.median)),
            Cell::faint(format!("{}–{}", figure::micros(case.kernel.p10), figure::micros(case.kernel.p90))),
            Cell::plain(figure::gbs(case.gbs())),
            roof,
            Cell::plain(peak.map_or_else(|| figure::NONE.to_owned(), figure::percent)),
            match case.residency {
                Residency::Cold => Cell::faint(figure::residency(case)),
                Residency::Hot => Cell::warning(figure::residency(case)),
            },
            Cell::strong(case.tflops().map_or_else(String::new, figure::gbs)),
        ]);
    }
    table
}
