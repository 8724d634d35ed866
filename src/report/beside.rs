//! Peers' times beside ours, as a table for the terminal and as lines.

use super::figure;
use super::table::{Cell, Column, Table};
use crate::bench::{Against, BenchReport, Beside, CaseBench};

/// The cases with timed peers.
pub fn cases(report: &BenchReport) -> impl Iterator<Item = (&CaseBench, &Against)> {
    report.cases.iter().filter_map(|case| Some((case, case.against.as_ref()?)))
}

/// The peers' names, each once.
pub fn names(report: &BenchReport) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for (_, against) in cases(report) {
        for peer in &against.peers {
            if !names.contains(&peer.name.as_str()) {
                names.push(&peer.name);
            }
        }
    }
    names
}

/// Microseconds, followed by `!` if the result is wrong and by `~` if it is another function's; a dash if there is no time.
pub(crate) fn time(peer: Option<&Beside>) -> String {
    let Some((peer, time)) = peer.and_then(|peer| Some((peer, peer.time?))) else {
        return figure::NONE.to_owned();
    };
    let mark = match peer {
        _ if peer.wrong.is_some() => "!",
        _ if peer.other.is_some() => "~",
        _ => "",
    };
    format!("{}{mark}", figure::micros(time.median))
}

/// The peer with this name.
pub fn find<'a>(against: &'a Against, name: &str) -> Option<&'a Beside> {
    against.peers.iter().find(|peer| peer.name == name)
}

/// `liger, 1.04`: the fastest peer with a right result, and its time divided by ours.
pub(crate) fn best(against: &Against) -> String {
    match (against.best(), against.kernel) {
        (Some((peer, time)), Some(ours)) => {
            format!("{}, {}", peer.name, figure::times(time.median / ours.median))
        }
        _ => figure::NONE.to_owned(),
    }
}

/// One row per case: the copy, ours and theirs in microseconds, all of one run; `None` without peers.
pub fn table(report: &BenchReport) -> Option<Table> {
    cases(report).next()?;
    let names = names(report);
    let mut columns = vec![
        Column::text("operation"),
        Column::name("case"),
        Column::text("dtype"),
        Column::figure("copy"),
        Column::figure("ours"),
    ];
    columns.extend(names.iter().map(|name| Column::figure(name)));
    columns.push(Column::text("best, ×"));
    let mut table = Table::new(columns);
    for (case, against) in cases(report) {
        let mut cells = vec![
            Cell::plain(&case.operation),
            Cell::plain(figure::shape(case)),
            Cell::plain(case.dtype.name()),
            Cell::faint(figure::median(against.copy)),
            Cell::strong(figure::median(against.kernel)),
        ];
        for name in &names {
            let peer = find(against, name);
            let text = time(peer);
            cells.push(if peer.is_some_and(|peer| peer.wrong.is_some()) { Cell::bad(text) } else { Cell::plain(text) });
        }
        cells.push(Cell::plain(best(against)));
        table.row(cells);
    }
    Some(table)
}

/// Notes, each once: how peers were measured, which were left out and why, which are wrong.
pub(crate) fn notes(report: &BenchReport) -> Vec<String> {
    let mut notes = Vec::new();
    let mut add = |note: String| {
        if !notes.contains(&note) {
            notes.push(note);
        }
    };
    for (case, against) in cases(report) {
        for peer in &against.peers {
            let (name, operation) = (&peer.name, &case.operation);
            if let Some(why) = &peer.skipped {
                add(format!("skipped: {name} in {operation}: {why}"));
            }
            if let Some(why) = &peer.wrong {
                add(format!("{name} is wrong in {operation} {}: {why}", case.case));
            }
            if let Some(what) = &peer.other {
                add(format!("{name} computes something else in {operation}: {what}"));
            }
        }
        for remark in &against.remarks {
            add(format!("others in {}: {remark}", case.operation));
        }
    }
    notes
}

/// How the times were measured.
pub(crate) fn heading(report: &BenchReport) -> String {
    let clock = match cases(report).next() {
        Some((_, against)) if against.clock == "kernels" => "by this program's clock",
        _ => "by torch's clock; with the module kernels_harness in that Python, by this program's",
    };
    format!(
        "Beside others, µs a launch: everybody in CUDA graphs over the same rotating tensors, replayed in turn in one process {clock}"
    )
}
