//! Parts of the page: texts, tables, links, and a candidate in one line.

use std::collections::BTreeSet;
use std::fmt::{self, Write as _};

use super::super::state::{Candidate, Standing};
use crate::base::text::is_invisible;
use crate::report::figure::{NONE, micros, percent, times};
use crate::report::xml::escape;

/// A text as HTML shows it. Characters that nobody sees, or that reorder a line, are named.
pub(super) fn text(raw: &str) -> String {
    if !raw.chars().any(is_invisible) {
        return escape(raw);
    }
    let named = |c: char| if is_invisible(c) { c.escape_unicode().to_string() } else { c.to_string() };
    escape(&raw.chars().map(named).collect::<String>())
}

/// A table; cells are HTML. Columns that begin with `#` are figures.
pub(super) fn table(html: &mut String, heads: &[&str], rows: impl IntoIterator<Item = Vec<String>>) {
    let mut rows = rows.into_iter().peekable();
    if rows.peek().is_none() {
        html.push_str("<p>None.</p>\n");
        return;
    }
    let class = |head: &str| if head.starts_with('#') { " class=\"n\"" } else { "" };
    html.push_str("<div class=\"scroll\"><table><thead><tr>");
    for head in heads {
        let _ = write!(html, "<th{}>{}</th>", class(head), text(head.trim_start_matches('#')));
    }
    html.push_str("</tr></thead><tbody>\n");
    for row in rows {
        html.push_str("<tr>");
        for (head, cell) in heads.iter().zip(row) {
            let _ = write!(html, "<td{}>{cell}</td>", class(head));
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</tbody></table></div>\n");
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
