//! The picture as SVG: three panels, one below the other. Colours follow the reader's light or dark theme.

use std::fmt::Write as _;

use super::{Arrow, Bar, Picture, Point};
use crate::report::svg::{end, fit, middle, page, text};
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
/// The height of the panel of tokens.
const PLOT: f64 = 220.0;

const STYLE: &str = "\
.k text{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif;font-size:12.5px;fill:#1f2328;font-variant-numeric:tabular-nums}\n\
.k .bg{fill:#fff;stroke:#d1d9e0}.k .h1{font-size:19px;font-weight:650}.k .h2{font-size:14px;font-weight:650}.k .m{fill:#59636e}\
.k .s{font-size:11.5px}.k .b{font-weight:650}.k .g{stroke:#e4e8ec}.k .z{stroke:#59636e}\n\
.k .up{stroke:#1a7f37;fill:#1a7f37}.k .down{stroke:#cf222e;fill:#cf222e}.k .even{stroke:#59636e;fill:#59636e}\
.k line{stroke-width:1.5}.k .cell{fill:#1a56c4}.k .no{fill:#eff2f5}.k .harm{fill:#cf222e}.k text.on{fill:#fff}\n\
@media(prefers-color-scheme:dark){.k text{fill:#f0f6fc}.k .bg{fill:#0d1117;stroke:#3d444d}.k .m{fill:#9198a1}.k .g{stroke:#262c34}\
.k .z{stroke:#9198a1}.k .up{stroke:#3fb950;fill:#3fb950}.k .down{stroke:#ff7b72;fill:#ff7b72}.k .even{stroke:#9198a1;fill:#9198a1}\
.k .cell{fill:#4c8dff}.k .no{fill:#1a2029}.k .harm{fill:#ff7b72}}\n";

/// The whole picture.
pub(crate) fn chart(picture: &Picture) -> String {
    let mut body = String::new();
    text(&mut body, MARGIN, 40.0, "h1", &fit(&picture.title, 560.0));
    text(&mut body, MARGIN, 61.0, "m", &fit(&picture.about, WIDTH - 2.0 * MARGIN));
    let mut y = 78.0;
    if !picture.bars.is_empty() {
        forest(&mut body, &picture.bars, &mut y);
    }
    if !picture.arrows.is_empty() {
        tokens(&mut body, &picture.arrows, &mut y);
    }
    if !picture.map.is_empty() {
        map(&mut body, picture, &mut y);
    }
    page(WIDTH, y + 16.0, &format!("{}: lift, tokens, tasks", picture.title), STYLE, &body)
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

fn line(body: &mut String, class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
    let _ = writeln!(body, "<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>");
}

/// One line per lift, on a scale from −100 to 100 points.
fn forest(body: &mut String, bars: &[Bar], y: &mut f64) {
    heading(body, y, "Lift: pass rate with less pass rate without, 95 % interval over tasks");
    let x = |lift: f64| LEFT + lift.clamp(-1.0, 1.0).midpoint(1.0) * (RIGHT - LEFT);
    #[allow(clippy::cast_precision_loss, reason = "a few rows")]
    let bottom = *y + bars.len() as f64 * ROW;
    for lift in [-1.0, -0.5, 0.0, 0.5, 1.0] {
        line(body, if lift == 0.0 { "z" } else { "g" }, (x(lift), *y), (x(lift), bottom));
        middle(body, x(lift), bottom + 15.0, "m s", &format!("{:+.0}", lift * 100.0));
    }
    for (words, at) in [("points", LIFT_AT), ("p", P_AT), ("n", N_AT)] {
        end(body, at, *y - 3.0, "m s", words);
    }
    for bar in bars {
        let middle = *y + ROW / 2.0;
        let _ = writeln!(body, "<g><title>{}</title>", escape(&bar.label));
        text(body, MARGIN, middle + 4.5, "", &fit(&bar.label, LEFT - MARGIN - 12.0));
        if let Some(lift) = bar.lift {
            let class = class(lift);
            if let Some((low, high)) = bar.interval {
                line(body, class, (x(low), middle), (x(high), middle));
            }
            let _ = writeln!(body, "<circle class=\"{class}\" cx=\"{:.1}\" cy=\"{middle:.1}\" r=\"4.5\"/>", x(lift));
            end(body, LIFT_AT, middle + 4.5, "b", &format!("{:+.0}", lift * 100.0));
            end(body, P_AT, middle + 4.5, "", &format!("{:.3}", bar.p));
        } else {
            end(body, LIFT_AT, middle + 4.5, "m", "–");
        }
        end(body, N_AT, middle + 4.5, "m", &format!("{}/{}", bar.tasks, bar.pairs));
        body.push_str("</g>\n");
        *y += ROW;
    }
    *y += 22.0;
    text(body, MARGIN, *y + 6.0, "m s", "n: tasks / pairs of runs; p: exact sign test on the tasks that differ");
    *y += 14.0;
}

/// Pass rate against tokens, with an arrow from without the skill to with it.
fn tokens(body: &mut String, arrows: &[Arrow], y: &mut f64) {
    heading(body, y, "Pass rate against tokens of a run: without → with");
    let most = arrows.iter().flat_map(|a| [a.from.tokens, a.to.tokens]).fold(1.0, f64::max) * 1.05;
    let (left, right, bottom) = (MARGIN + 44.0, WIDTH - MARGIN, *y + PLOT);
    let at = |point: Point| (left + point.tokens / most * (right - left), bottom - point.pass.clamp(0.0, 1.0) * PLOT);
    for share in [0.0, 0.25, 0.5, 0.75, 1.0] {
        let (level, column) = (bottom - share * PLOT, left + share * (right - left));
        line(body, "g", (left, level), (right, level));
        end(body, left - 8.0, level + 4.0, "m s", &format!("{:.0} %", share * 100.0));
        middle(body, column.clamp(left, right - 22.0), bottom + 16.0, "m s", &amount(share * most));
    }
    for arrow in arrows {
        let (from, to) = (at(arrow.from), at(arrow.to));
        let class = class(arrow.to.pass - arrow.from.pass);
        let words = format!(
            "{}: {:.0} % of {} runs → {:.0} % of {}",
            arrow.label,
            arrow.from.pass * 100.0,
            arrow.from.runs,
            arrow.to.pass * 100.0,
            arrow.to.runs
        );
        let _ = writeln!(body, "<g><title>{}</title>", escape(&words));
        line(body, class, from, to);
        let _ = writeln!(
            body,
            "<circle class=\"{class}\" fill-opacity=\"0\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"4\"/>\
             <circle class=\"{class}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"4.5\"/>",
            from.0, from.1, to.0, to.1
        );
        let label = fit(&arrow.label, 220.0);
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

/// A cell per task and arm; the more runs passed, the darker it is.
fn map(body: &mut String, picture: &Picture, y: &mut f64) {
    heading(body, y, "Tasks by arms: share of runs that passed (runs)");
    #[allow(clippy::cast_precision_loss, reason = "a few columns")]
    let width = ((WIDTH - MARGIN - 230.0) / picture.columns.len().max(1) as f64).min(150.0);
    #[allow(clippy::cast_precision_loss, reason = "a few columns")]
    let x = |column: usize| 230.0 + column as f64 * width;
    for (column, head) in picture.columns.iter().enumerate() {
        let _ = writeln!(body, "<g><title>{}</title>", escape(head));
        middle(body, x(column) + width / 2.0, *y + 10.0, "m s", &fit(head, width - 6.0));
        body.push_str("</g>\n");
    }
    *y += 18.0;
    for row in &picture.map {
        text(body, MARGIN, *y + 15.0, "", &fit(&row.task, 196.0));
        for (column, cell) in row.cells.iter().enumerate() {
            let (left, inner) = (x(column) + 2.0, width - 4.0);
            let rect = |class: &str, opacity: f64| {
                format!(
                    "<rect class=\"{class}\" fill-opacity=\"{opacity:.2}\" x=\"{left:.1}\" y=\"{:.1}\" width=\"{inner:.1}\" \
                     height=\"20\" rx=\"3\"/>\n",
                    *y
                )
            };
            body.push_str(&rect("no", 1.0));
            let centre = left + inner / 2.0;
            let Some((pass, runs, harm)) = *cell else {
                middle(body, centre, *y + 14.5, "m s", "–");
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
