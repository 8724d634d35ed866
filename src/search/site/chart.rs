//! The pictures of a run's page: time against the roof, and the lineage.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::super::state::{Candidate, Standing, State};
use super::html;
use crate::report::html::text;
use crate::report::svg::line;

const WIDTH: f64 = 1060.0;
const HEIGHT: f64 = 300.0;
/// Left, right, top and bottom of the plot.
const FRAME: (f64, f64, f64, f64) = (46.0, WIDTH - 12.0, 14.0, HEIGHT - 30.0);
/// The lineage: the room of a generation and of a candidate, at most.
const STEP: f64 = 44.0;
const ROW: f64 = 16.0;

/// A candidate's point, which leads to it.
fn point(svg: &mut String, one: &Candidate, (x, y): (f64, f64), radius: f64) {
    let class = match one.standing() {
        Standing::Confirmed => "confirmed",
        Standing::Timed => "timed",
        Standing::Caught => "caught",
        Standing::Open | Standing::Same | Standing::NotJudged => "other",
    };
    let id = one.id();
    let _ = writeln!(
        svg,
        "<a href=\"#c{id}\"><circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\"><title>{}</title></circle></a>",
        text(&html::line(one))
    );
}

fn label(svg: &mut String, (x, y): (f64, f64), anchor: &str, words: &str) {
    let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>", text(words));
}

fn wrapped(width: f64, height: f64, name: &str, body: &str) -> String {
    format!(
        "<div class=\"scroll\"><svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\" aria-label=\"{}\">\n{body}</svg></div>\n",
        text(name)
    )
}

/// Each timed candidate's share of the roof by its number, and the best so far. None where nothing was timed.
pub(super) fn roof(state: &State) -> Option<String> {
    let timed: Vec<(&Candidate, f64)> = state
        .candidates
        .iter()
        .filter_map(|one| Some((one, one.summary()?.roof)))
        .filter(|(_, roof)| roof.is_finite())
        .collect();
    let most = timed.iter().map(|(_, roof)| *roof).reduce(f64::max)?.max(1.0) * 1.05;
    let (left, right, top, bottom) = FRAME;
    let last = f64::from(state.candidates.last()?.id().max(1));
    let x = |id: u32| left + (right - left) * f64::from(id) / last;
    let y = |roof: f64| bottom - (bottom - top) * roof / most;
    let mut svg = String::new();
    let steps = if most > 4.0 { most.ceil() / 4.0 } else { 0.25 };
    for tick in (0..=32).map(|tick| f64::from(tick) * steps).take_while(|tick| *tick <= most) {
        line(&mut svg, "axis", (left, y(tick)), (right, y(tick)));
        label(&mut svg, (left - 6.0, y(tick) + 4.0), "end", &format!("{:.0} %", tick * 100.0));
    }
    for tick in [0.0, 0.25, 0.5, 0.75, 1.0].map(|part| (last * part).round()) {
        let at = left + (right - left) * tick / last;
        label(&mut svg, (at, bottom + 18.0), if tick < last { "middle" } else { "end" }, &format!("{tick:.0}"));
    }
    line(&mut svg, "roof", (left, y(1.0)), (right, y(1.0)));
    let (mut path, mut best) = (String::new(), 0.0);
    let confirmed = state.candidates.iter().any(|one| one.standing() == Standing::Confirmed);
    for (one, roof) in timed.iter().filter(|(one, _)| one.standing() == Standing::Confirmed || !confirmed) {
        if *roof > best {
            let from = if path.is_empty() {
                format!("M{:.1},{:.1}", x(one.id()), y(*roof))
            } else {
                format!("H{:.1}V{:.1}", x(one.id()), y(*roof))
            };
            path += &from;
            best = *roof;
        }
    }
    let _ = writeln!(svg, "<path class=\"front\" d=\"{path}H{right:.1}\"/>");
    for (one, roof) in &timed {
        point(&mut svg, one, (x(one.id()), y(*roof)), if one.confirmed.is_some() { 4.0 } else { 2.5 });
    }
    Some(wrapped(WIDTH, HEIGHT, "Share of the roof by candidate", &svg))
}

/// The best candidate and what it was made of, over all generations.
pub(super) fn ancestry(state: &State) -> BTreeSet<u32> {
    let mut all = BTreeSet::new();
    let mut next: Vec<u32> = state.best().map(Candidate::id).into_iter().collect();
    while let Some(id) = next.pop() {
        if all.insert(id) {
            next.extend(state.candidate(id).map(|one| one.plan.parents.clone()).unwrap_or_default());
        }
    }
    all
}

/// Who was made of whom: a column a generation.
pub(super) fn lineage(state: &State, ancestry: &BTreeSet<u32>) -> String {
    let mut places: Vec<(f64, f64)> = Vec::new();
    let (mut row, mut generation, mut rows) = (0.0, 0, 1.0_f64);
    for one in &state.candidates {
        row = if one.generation == generation { row } else { 0.0 };
        generation = one.generation;
        places.push((STEP / 2.0 + STEP * f64::from(generation), 12.0 + ROW * row));
        row += 1.0;
        rows = rows.max(row);
    }
    let mut svg = String::new();
    let place = |id: u32| places.get(id as usize).copied();
    for bold in [false, true] {
        for one in &state.candidates {
            for parent in &one.plan.parents {
                let own = ancestry.contains(&one.id()) && ancestry.contains(parent);
                if let (Some(from), Some(to), true) = (place(*parent), place(one.id()), own == bold) {
                    line(&mut svg, if bold { "edge best" } else { "edge" }, from, to);
                }
            }
        }
    }
    for one in &state.candidates {
        if let Some(at) = place(one.id()) {
            point(&mut svg, one, at, if ancestry.contains(&one.id()) { 6.0 } else { 4.0 });
        }
    }
    wrapped(STEP * f64::from(generation + 1), 12.0 + ROW * rows, "Lineage: a column a generation", &svg)
}
