//! Parts of the page: tables, links, and a candidate in one line.

use std::fmt;

use super::super::state::{Candidate, Standing};
use crate::report::figure::{NONE, micros, percent, times};

/// A table; cells are HTML. Columns that begin with `#` are figures.
pub(super) fn table(html: &mut String, heads: &[&str], rows: impl IntoIterator<Item = Vec<String>>) {
    let mut rows = rows.into_iter().peekable();
    if rows.peek().is_none() {
        html.push_str("<p>None.</p>\n");
    } else {
        crate::report::html::table(html, None, heads, rows);
    }
}

pub(super) fn link(id: u32) -> String {
    format!("<a href=\"#c{id}\">{id}</a>")
}

/// Links to candidates, or that there are none.
pub(super) fn links(ids: &[u32]) -> String {
    let all: Vec<String> = ids.iter().map(|id| link(*id)).collect();
    if all.is_empty() { NONE.to_owned() } else { all.join(", ") }
}

pub(super) fn shown(value: Option<impl fmt::Display>) -> String {
    value.map_or_else(|| NONE.to_owned(), |value| value.to_string())
}

pub(super) fn usd(value: Option<f64>) -> String {
    shown(value.map(|usd| format!("{usd:.4}")))
}

/// A candidate in one line, not yet as HTML.
pub(super) fn line(one: &Candidate) -> String {
    let outcome = match (one.standing(), one.summary()) {
        (Standing::Caught | Standing::Same, _) => {
            let stage = one.failure().map_or("identity", |failed| failed.stage.name());
            format!("{} at {stage}", one.kinds().into_iter().collect::<Vec<_>>().join(", "))
        }
        (Standing::NotJudged, _) => "not judged".to_owned(),
        (Standing::Open, _) => "open".to_owned(),
        (Standing::Timed | Standing::Confirmed, None) => NONE.to_owned(),
        (Standing::Timed, Some(summary)) => {
            format!("{} µs, {} % of the roof", micros(summary.us), percent(summary.roof))
        }
        (Standing::Confirmed, Some(summary)) => {
            let words = |speedup| format!(", {} × the best peer{}", times(speedup), one.without());
            let speedup = one.speedup().map_or_else(String::new, words);
            format!("confirmed {} µs, {} % of the roof{speedup}", micros(summary.us), percent(summary.roof))
        }
    };
    format!("{} {} by {}: {outcome}", one.id(), one.plan.operator, one.plan.proposer)
}
