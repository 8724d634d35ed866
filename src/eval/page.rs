//! One page of runs, which a browser shows from disk: their pictures, then figures and every row.

use super::chart::chart;
use super::report::Report;
use super::tables::{CELLS, Column, LIFTS, ROWS};
use crate::report::html;

/// The page. Names, answers and what tests print are a stranger's.
pub(crate) fn page(reports: &[Report]) -> String {
    let mut body = String::new();
    for report in reports {
        body.extend(["<div class=\"scroll\">", &chart(report), "</div>\n"]);
    }
    for Report { rows, summary, .. } in reports {
        table(&mut body, "Lift: 95 % interval by bootstrap over tasks, exact sign test", &LIFTS, &summary.lifts);
        let arms = "Arms: means over tasks; tokens, turns, seconds and price are means over runs; – was not counted";
        table(&mut body, arms, &CELLS, &summary.cells);
        table(&mut body, "Every run", &ROWS, rows);
    }
    let title = reports.first().map_or_else(|| "no run".to_owned(), |report| report.header.title());
    html::page(&html::text(&title), include_str!("page.css"), &body)
}

fn table<T>(body: &mut String, caption: &str, columns: &[Column<T>], rows: &[T]) {
    let heads: Vec<&str> = columns.iter().map(|(head, _)| *head).collect();
    let cells = |row: &T| columns.iter().map(|(_, cell)| html::text(&cell(row))).collect();
    html::table(body, Some(caption), &heads, rows.iter().map(cells));
}
