//! What runs came to, as tables: of each column its head and its cells.

use super::row::Row;
use super::summary::{Cell, Lift};
use crate::report::figure::NONE;

pub(crate) type Column<T> = (&'static str, fn(&T) -> String);

pub(super) const LIFTS: [Column<Lift>; 12] = [
    ("agent", |lift| lift.agent.clone()),
    ("kernels", |lift| on(lift.cli).to_owned()),
    ("arm", |lift| lift.arm.clone()),
    ("against", |lift| lift.against.clone()),
    ("lift", |lift| or_none(lift.lift.map(points))),
    ("interval", interval),
    ("better : worse", |lift| format!("{} : {}", lift.better, lift.worse)),
    ("p", |lift| format!("{:.4}", lift.p)),
    ("tasks", |lift| lift.tasks.to_string()),
    ("pairs", |lift| lift.pairs.to_string()),
    ("dropped", |lift| lift.dropped.to_string()),
    ("harm", |lift| format!("{:+}", lift.harm)),
];

pub(crate) const CELLS: [Column<Cell>; 12] = [
    ("agent", |cell| cell.agent.clone()),
    ("kernels", |cell| on(cell.cli).to_owned()),
    ("arm", |cell| cell.arm.clone()),
    ("pass", |cell| percent(cell.pass)),
    ("credit", |cell| percent(cell.score)),
    ("tasks", |cell| cell.tasks.to_string()),
    ("runs", |cell| cell.runs.to_string()),
    ("harm", |cell| cell.harm.to_string()),
    ("tokens", |cell| or_none(cell.tokens.map(|tokens| format!("{tokens:.0}")))),
    ("turns", |cell| or_none(cell.turns.map(|turns| format!("{turns:.1}")))),
    ("seconds", |cell| or_none(cell.seconds.map(|seconds| format!("{seconds:.1}")))),
    ("usd", |cell| or_none(cell.usd.map(|usd| format!("{usd:.4}")))),
];

pub(super) const ROWS: [Column<Row>; 12] = [
    ("agent", |row| row.agent.clone()),
    ("kernels", |row| on(row.cli).to_owned()),
    ("arm", |row| row.arm.clone()),
    ("task", |row| row.task.clone()),
    ("run", |row| row.run.to_string()),
    ("outcome", |row| row.outcome().word().to_owned()),
    ("score", |row| format!("{:.2}", row.verdict.score)),
    ("reason", |row| row.verdict.why.clone()),
    ("harm", |row| row.verdict.harm.join("; ")),
    ("skill", |row| or_none(row.took.loaded.map(|loaded| if loaded { "loaded" } else { "not loaded" }.to_owned()))),
    ("tokens", |row| or_none(row.tokens().map(|tokens| format!("{tokens:.0}")))),
    ("turns", |row| or_none(row.took.turns.map(|turns| turns.to_string()))),
];

/// Whether agents had the command `kernels`.
pub(crate) fn on(cli: bool) -> &'static str {
    if cli { "on" } else { "off" }
}

/// A difference of rates in points.
pub(crate) fn points(lift: f64) -> String {
    format!("{:+.0}", lift * 100.0)
}

pub(crate) fn interval(lift: &Lift) -> String {
    or_none(lift.interval.map(|(low, high)| format!("{} to {}", points(low), points(high))))
}

fn percent(share: Option<f64>) -> String {
    or_none(share.map(|share| format!("{:.0} %", share * 100.0)))
}

pub(crate) fn or_none(figure: Option<String>) -> String {
    figure.unwrap_or_else(|| NONE.to_owned())
}
