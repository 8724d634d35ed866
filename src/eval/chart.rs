//! The picture as SVG: three panels, one below the other. Colours follow the reader's light or dark theme.

use std::fmt::Write as _;

use super::report::Report;
use super::summary::{Cell, Lift};
use super::tables::points;
use crate::report::figure::NONE;
use crate::report::statistics::mean;
use crate::report::svg::{end, fit, line, middle, page, text};
use crate::report::xml::escape;

const WIDTH: f64 = 900.0;
const MARGIN: f64 = 28.0;
const ROW: f64 = 26.0;
/// Where the scales begin and end.
const LEFT: f64 = 310.0;
const RIGHT: f64 = 660.0;
/// The right edges of the figures of a lift.
const LIFT_AT: f64 = 738.0;
const P_AT: f64 = 806.0;
const N_AT: f64 = WIDTH - MARGIN;
/// Where the columns of the map begin.
const FIRST: f64 = 230.0;
/// The height of the panel of tokens.
const PLOT: f64 = 220.0;

/// The whole picture of a run.
pub(crate) fn chart(report: &Report) -> String {
    let Report { header, summary, .. } = report;
    let mut body = String::new();
    let (title, agents, tasks) = (header.title(), header.agents.join(", "), header.digests.len());
    let about = format!("{agents}: {tasks} tasks, {} runs of each, seed {}", header.runs, header.seed);
    text(&mut body, MARGIN, 40.0, "h1", &fit(&title, 560.0));
    text(&mut body, MARGIN, 61.0, "m", &fit(&about, WIDTH - 2.0 * MARGIN));
    let mut y = 78.0;
    if !summary.lifts.is_empty() {
        forest(&mut body, report, &mut y);
    }
    let arrows: Vec<_> = summary.lifts.iter().filter_map(|lift| arrow(report, lift)).collect();
    if !arrows.is_empty() {
        tokens(&mut body, &arrows, &mut y);
    }
    if !header.digests.is_empty() {
        map(&mut body, report, &mut y);
    }
    page(WIDTH, y + 16.0, &format!("{title}: lift, tokens, tasks"), include_str!("chart.css"), &body)
}

fn heading(body: &mut String, y: &mut f64, words: &str) {
    text(body, MARGIN, *y + 22.0, "h2", words);
    *y += 36.0;
}

fn class(change: f64) -> &'static str {
    match change {
        change if change > 0.0 => "up",
        change if change < 0.0 => "down",
        _ => "even",
    }
}

/// One line a lift, on a scale from −100 to 100 points.
fn forest(body: &mut String, report: &Report, y: &mut f64) {
    let lifts = &report.summary.lifts;
    heading(body, y, "Lift: pass rate with less pass rate without, 95 % interval over tasks");
    let x = |lift: f64| LEFT + lift.clamp(-1.0, 1.0).midpoint(1.0) * (RIGHT - LEFT);
    #[allow(clippy::cast_precision_loss, reason = "a few rows")]
    let bottom = *y + lifts.len() as f64 * ROW;
    for lift in [-1.0, -0.5, 0.0, 0.5, 1.0] {
        line(body, if lift == 0.0 { "z" } else { "g" }, (x(lift), *y), (x(lift), bottom));
        middle(body, x(lift), bottom + 15.0, "m s", &points(lift));
    }
    for (words, at) in [("points", LIFT_AT), ("p", P_AT), ("n", N_AT)] {
        end(body, at, *y - 3.0, "m s", words);
    }
    for lift in lifts {
        let middle = *y + ROW / 2.0;
        let label = report.header.label(&lift.agent, lift.cli, &lift.arm);
        let _ = writeln!(body, "<g><title>{}</title>", escape(&label));
        text(body, MARGIN, middle + 4.5, "", &fit(&label, LEFT - MARGIN - 12.0));
        if let Some(change) = lift.lift {
            let class = class(change);
            if let Some((low, high)) = lift.interval {
                line(body, class, (x(low), middle), (x(high), middle));
            }
            let _ = writeln!(body, "<circle class=\"{class}\" cx=\"{:.1}\" cy=\"{middle:.1}\" r=\"4.5\"/>", x(change));
            end(body, LIFT_AT, middle + 4.5, "b", &points(change));
            end(body, P_AT, middle + 4.5, "", &format!("{:.3}", lift.p));
        } else {
            end(body, LIFT_AT, middle + 4.5, "m", NONE);
        }
        end(body, N_AT, middle + 4.5, "m", &format!("{}/{}", lift.tasks, lift.pairs));
        body.push_str("</g>\n");
        *y += ROW;
    }
    *y += 22.0;
    text(body, MARGIN, *y + 6.0, "m s", "n: tasks / pairs of runs; p: exact sign test on the tasks that differ");
    *y += 14.0;
}

/// Tokens, pass rate and runs of an arm, where they are known.
type Point = (f64, f64, usize);

/// From the arm without the skill to another.
fn arrow(report: &Report, lift: &Lift) -> Option<(String, Point, Point)> {
    let point = |arm: &str| {
        let is = |cell: &&Cell| cell.agent == lift.agent && cell.cli == lift.cli && cell.arm == arm;
        let cell = report.summary.cells.iter().find(is)?;
        Some((cell.tokens?, cell.pass?, cell.runs))
    };
    Some((report.header.label(&lift.agent, lift.cli, &lift.arm), point(&lift.against)?, point(&lift.arm)?))
}

/// Pass rate against tokens, an arrow from without to with.
fn tokens(body: &mut String, arrows: &[(String, Point, Point)], y: &mut f64) {
    heading(body, y, "Pass rate against tokens of a run: without → with");
    let most = arrows.iter().flat_map(|(_, from, to)| [from.0, to.0]).fold(1.0, f64::max) * 1.05;
    let (left, right, bottom) = (MARGIN + 44.0, WIDTH - MARGIN, *y + PLOT);
    let at = |(tokens, pass, _): Point| (left + tokens / most * (right - left), bottom - pass.clamp(0.0, 1.0) * PLOT);
    for share in [0.0, 0.25, 0.5, 0.75, 1.0] {
        let (level, column) = (bottom - share * PLOT, left + share * (right - left));
        line(body, "g", (left, level), (right, level));
        end(body, left - 8.0, level + 4.0, "m s", &format!("{:.0} %", share * 100.0));
        middle(body, column.clamp(left, right - 22.0), bottom + 16.0, "m s", &amount(share * most));
    }
    for (label, from, to) in arrows {
        let class = class(to.1 - from.1);
        let [before, after] = [from, to].map(|(_, pass, _)| pass * 100.0);
        let words = format!("{label}: {before:.0} % of {} runs → {after:.0} % of {}", from.2, to.2);
        let (from, to) = (at(*from), at(*to));
        let _ = writeln!(body, "<g><title>{}</title>", escape(&words));
        line(body, class, from, to);
        let _ = writeln!(
            body,
            "<circle class=\"{class}\" fill-opacity=\"0\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"4\"/>\
             <circle class=\"{class}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"4.5\"/>",
            from.0, from.1, to.0, to.1
        );
        let label = fit(label, 220.0);
        if to.0 > left.midpoint(right) {
            end(body, to.0 - 9.0, to.1 + 4.0, "s", &label);
        } else {
            text(body, to.0 + 9.0, to.1 + 4.0, "s", &label);
        }
        body.push_str("</g>\n");
    }
    *y = bottom + 26.0;
}

fn amount(tokens: f64) -> String {
    match tokens {
        tokens if tokens >= 1e6 => format!("{:.1} M", tokens / 1e6),
        tokens if tokens >= 1e3 => format!("{:.0} k", tokens / 1e3),
        tokens => format!("{tokens:.0}"),
    }
}

/// Task by arm: the darker, the more runs passed.
fn map(body: &mut String, report: &Report, y: &mut f64) {
    heading(body, y, "Tasks by arms: share of runs that passed (runs)");
    let cells = &report.summary.cells;
    #[allow(clippy::cast_precision_loss, reason = "a few columns")]
    let width = ((WIDTH - MARGIN - FIRST) / cells.len().max(1) as f64).min(150.0);
    let mut x = FIRST;
    for cell in cells {
        let head = report.header.label(&cell.agent, cell.cli, &cell.arm);
        let _ = writeln!(body, "<g><title>{}</title>", escape(&head));
        middle(body, x + width / 2.0, *y + 10.0, "m s", &fit(&head, width - 6.0));
        body.push_str("</g>\n");
        x += width;
    }
    *y += 18.0;
    for task in report.header.digests.keys() {
        text(body, MARGIN, *y + 15.0, "", &fit(task, 196.0));
        let mut left = FIRST + 2.0 - width;
        for cell in cells {
            left += width;
            let inner = width - 4.0;
            let rect = |class: &str, opacity: f64| {
                format!(
                    "<rect class=\"{class}\" fill-opacity=\"{opacity:.2}\" x=\"{left:.1}\" y=\"{:.1}\" width=\"{inner:.1}\" \
                     height=\"20\" rx=\"3\"/>\n",
                    *y
                )
            };
            body.push_str(&rect("no", 1.0));
            let centre = left + inner / 2.0;
            let Some((pass, runs, harm)) = square(report, task, cell) else {
                middle(body, centre, *y + 14.5, "m s", NONE);
                continue;
            };
            body.push_str(&rect("cell", pass));
            let on = if pass > 0.55 { "s on" } else { "s" };
            middle(body, centre, *y + 14.5, on, &format!("{:.0} % ({runs})", pass * 100.0));
            if harm > 0 {
                let _ = writeln!(
                    body,
                    "<circle class=\"harm\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"4\"><title>harm in {harm} of {runs}</title></circle>",
                    left + inner - 8.0,
                    *y + 10.0
                );
            }
        }
        *y += 24.0;
    }
    text(body, MARGIN, *y + 14.0, "m s", "A red dot: a run with harm. –: nothing was judged.");
    *y += 18.0;
}

/// The pass rate of a task in an arm, the number of runs, and how many had harm; none where nothing was judged.
fn square(report: &Report, task: &str, cell: &Cell) -> Option<(f64, usize, usize)> {
    let rows = report.rows.iter().filter(|row| row.is_of(&cell.agent, cell.cli, &cell.arm) && row.task == task);
    let rows: Vec<_> = rows.filter(|row| row.outcome().counts()).collect();
    let pass = mean(&rows.iter().map(|row| row.passed()).collect::<Vec<_>>())?;
    Some((pass, rows.len(), rows.iter().filter(|row| !row.verdict.harm.is_empty()).count()))
}
