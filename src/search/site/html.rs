//! Parts of the page: tables, links, and a candidate in one line.

use std::collections::BTreeSet;
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

pub(super) fn links<'a>(ids: impl IntoIterator<Item = &'a u32>) -> String {
    ids.into_iter().map(|id| link(*id)).collect::<Vec<_>>().join(", ")
}

pub(super) fn shown(value: Option<impl fmt::Display>) -> String {
    value.map_or_else(|| NONE.to_owned(), |value| value.to_string())
}

pub(super) fn usd(value: Option<f64>) -> String {
    shown(value.map(|usd| format!("{usd:.4}")))
}

/// A candidate in one line, not yet as HTML.
pub(super) fn line(one: &Candidate) -> String {
    let kinds: BTreeSet<&str> =
        one.failure().iter().flat_map(|failed| &failed.findings).map(|found| found.kind.as_str()).collect();
    let outcome = match (one.standing(), one.summary()) {
        (Standing::Caught | Standing::Same, _) => {
            let stage = one.failure().map_or("identity", |failed| failed.stage.name());
            format!("{} at {stage}", kinds.into_iter().collect::<Vec<_>>().join(", "))
        }
        (Standing::NotJudged, _) => "not judged".to_owned(),
        (Standing::Open, _) => "open".to_owned(),
        (Standing::Timed | Standing::Confirmed, None) => NONE.to_owned(),
        (Standing::Timed, Some(summary)) => {
            format!("{} µs, {} % of the roof", micros(summary.us), percent(summary.roof))
        }
        (Standing::Confirmed, Some(summary)) => {
            let speedup =
                one.speedup().map_or_else(String::new, |speedup| format!(", {} × the best peer", times(speedup)));
            format!("confirmed {} µs, {} % of the roof{speedup}", micros(summary.us), percent(summary.roof))
        }
    };
    format!("{} {} by {}: {outcome}", one.id(), one.plan.operator, one.plan.proposer)
}
