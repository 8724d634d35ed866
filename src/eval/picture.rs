//! From a summary to what is drawn and tabled of it.

use super::plan::Header;
use super::row::Row;
use super::summary::{Cell, Summary};
use crate::report::lift::{Arrow, Bar, Grid, Line, Picture, Point};
use crate::report::statistics::mean;

/// The picture of a run.
pub(crate) fn picture(header: &Header, rows: &[Row], summary: &Summary) -> Picture {
    let bars = summary.lifts.iter().map(|lift| Bar {
        label: label(header, &lift.agent, lift.cli, &lift.arm),
        lift: lift.lift,
        interval: lift.interval,
        p: lift.p,
        tasks: lift.tasks,
        pairs: lift.pairs,
    });
    let point = |cell: &Cell| Some(Point { tokens: cell.tokens?, pass: cell.pass?, runs: cell.runs });
    let arrows = summary.lifts.iter().filter_map(|lift| {
        let of = |arm: &str| {
            let is = |cell: &&Cell| cell.agent == lift.agent && cell.cli == lift.cli && cell.arm == arm;
            summary.cells.iter().find(is).and_then(point)
        };
        let label = label(header, &lift.agent, lift.cli, &lift.arm);
        Some(Arrow { label, from: of(&lift.against)?, to: of(&lift.arm)? })
    });
    let columns: Vec<&Cell> = summary.cells.iter().collect();
    let line = |task: &String| Line {
        task: task.clone(),
        cells: columns.iter().map(|cell| square(rows, task, cell)).collect(),
    };
    Picture {
        title: title(header),
        about: format!(
            "{}: {} tasks, {} runs of each, seed {}",
            header.agents.join(", "),
            header.digests.len(),
            header.runs,
            header.seed
        ),
        bars: bars.collect(),
        arrows: arrows.collect(),
        columns: columns.iter().map(|cell| label(header, &cell.agent, cell.cli, &cell.arm)).collect(),
        map: header.digests.keys().map(line).collect(),
    }
}

/// What the run is of.
pub(crate) fn title(header: &Header) -> String {
    let pin = header.skills.get("with").or_else(|| header.skills.values().next());
    match pin {
        Some(pin) => format!("{} {}", pin.name, pin.version.as_deref().unwrap_or("without a version")),
        None => "no skill".to_owned(),
    }
}

/// An arm, whether it had the command where that is a factor, and the agent where there are several: a long name is cut at its end.
fn label(header: &Header, agent: &str, cli: bool, arm: &str) -> String {
    let cli = match (header.cli.len() > 1, cli) {
        (false, _) => "",
        (true, true) => ", kernels on PATH",
        (true, false) => ", kernels not on PATH",
    };
    if header.agents.len() > 1 { format!("{arm}{cli}: {agent}") } else { format!("{arm}{cli}") }
}

fn square(rows: &[Row], task: &str, cell: &Cell) -> Option<(f64, usize, usize)> {
    let own = |row: &&Row| {
        row.task == task
            && row.agent == cell.agent
            && row.cli == cell.cli
            && row.arm == cell.arm
            && row.outcome().counts()
    };
    let rows: Vec<&Row> = rows.iter().filter(own).collect();
    let pass = mean(&rows.iter().map(|row| row.passed()).collect::<Vec<_>>())?;
    Some((pass, rows.len(), rows.iter().filter(|row| !row.verdict.harm.is_empty()).count()))
}

/// The tables of the page: figures first, then every row.
pub(crate) fn tables(summary: &Summary, rows: &[Row]) -> Vec<Grid> {
    let lifts = Grid {
        title: "Lift: 95 % interval by bootstrap over tasks, exact sign test".to_owned(),
        heads: vec![
            "agent",
            "kernels",
            "arm",
            "against",
            "lift",
            "interval",
            "better : worse",
            "p",
            "tasks",
            "pairs",
            "dropped",
            "harm",
        ],
        rows: summary
            .lifts
            .iter()
            .map(|lift| {
                let interval =
                    lift.interval.map_or_else(none, |(low, high)| format!("{} to {}", points(low), points(high)));
                vec![
                    lift.agent.clone(),
                    on(lift.cli),
                    lift.arm.clone(),
                    lift.against.clone(),
                    lift.lift.map_or_else(none, points),
                    interval,
                    format!("{} : {}", lift.better, lift.worse),
                    format!("{:.4}", lift.p),
                    lift.tasks.to_string(),
                    lift.pairs.to_string(),
                    lift.dropped.to_string(),
                    format!("{:+}", lift.harm),
                ]
            })
            .collect(),
    };
    let cells = Grid {
        title: "Arms: means over tasks; tokens, turns, seconds and price are means over runs; – was not counted"
            .to_owned(),
        heads: CELLS.to_vec(),
        rows: summary.cells.iter().map(cells).collect(),
    };
    let all = Grid {
        title: "Every run".to_owned(),
        heads: vec![
            "agent", "kernels", "arm", "task", "run", "outcome", "score", "reason", "harm", "skill", "tokens", "turns",
        ],
        rows: rows.iter().map(of_row).collect(),
    };
    vec![lifts, cells, all]
}

/// The heads of the table of arms.
pub(crate) const CELLS: [&str; 12] =
    ["agent", "kernels", "arm", "pass", "credit", "tasks", "runs", "harm", "tokens", "turns", "seconds", "usd"];

/// A row of the table of arms.
pub(crate) fn cells(cell: &Cell) -> Vec<String> {
    let percent = |value: Option<f64>| value.map_or_else(none, |value| format!("{:.0} %", value * 100.0));
    vec![
        cell.agent.clone(),
        on(cell.cli),
        cell.arm.clone(),
        percent(cell.pass),
        percent(cell.score),
        cell.tasks.to_string(),
        cell.runs.to_string(),
        cell.harm.to_string(),
        cell.tokens.map_or_else(none, |tokens| format!("{tokens:.0}")),
        cell.turns.map_or_else(none, |turns| format!("{turns:.1}")),
        cell.seconds.map_or_else(none, |seconds| format!("{seconds:.1}")),
        cell.usd.map_or_else(none, |usd| format!("{usd:.4}")),
    ]
}

fn of_row(row: &Row) -> Vec<String> {
    vec![
        row.agent.clone(),
        on(row.cli),
        row.arm.clone(),
        row.task.clone(),
        row.run.to_string(),
        row.outcome().word().to_owned(),
        format!("{:.2}", row.verdict.score),
        row.verdict.why.clone(),
        row.verdict.harm.join("; "),
        match row.loaded {
            Some(true) => "loaded".to_owned(),
            Some(false) => "not loaded".to_owned(),
            None => none(),
        },
        row.tokens().map_or_else(none, |tokens| format!("{tokens:.0}")),
        row.turns.map_or_else(none, |turns| turns.to_string()),
    ]
}

fn on(cli: bool) -> String {
    if cli { "on" } else { "off" }.to_owned()
}

/// A difference of rates in points.
pub(crate) fn points(lift: f64) -> String {
    format!("{:+.0}", lift * 100.0)
}

fn none() -> String {
    "–".to_owned()
}
