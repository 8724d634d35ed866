//! All measured cases of an operation, with spread.

use std::fmt::Write as _;

use super::records::{Records, nothing_yet};
use super::summary::{BLOG, COMPILED, note, times};
use super::{Evidence, Peers};
use crate::base::plural;
use crate::bench::Residency;
use crate::report::figure;
use crate::report::markdown::{cell, row, titles};
use crate::verify::OperationReport;

/// Every operation's table below its name.
pub(super) fn sections(records: &Records) -> String {
    let mut text = String::new();
    for one in records.by_project() {
        let table = table(one, records.peers.as_ref());
        let _ = write!(text, "## `{}`\n\n{table}\n", one.operation);
    }
    if text.is_empty() { nothing_yet() } else { text }
}

/// The table of one operation.
pub(super) fn table(evidence: &Evidence, peers: Option<&Peers>) -> String {
    // Peers are named only if one of them has this operation.
    let peers = peers.filter(|peers| {
        let mut cases = evidence.cases.iter();
        cases.any(|case| peers.row(case).is_some())
    });
    let mut heads = vec!["operation", "shape", "dtype", ">µs (p10–p90)", ">% of roof"];
    if peers.is_some() {
        heads.extend([">× torch.compile", ">× the blog's kernel"]);
    }
    let mut text = titles(heads);
    let mut others = Vec::new();
    for case in &evidence.cases {
        let cold = case.residency == Residency::Cold;
        let mut cells = vec![
            cell(&case.operation),
            format!("{}{}", cell(figure::shape(case)), if cold { "" } else { ", hot" }),
            case.dtype.name().to_owned(),
            figure::spread(case.kernel, '(', ')'),
            figure::percent(case.of_roof()),
        ];
        if let Some(peers) = peers {
            // Peers are timed cold.
            let row = Some(peers).filter(|_| cold).and_then(|peers| peers.row(case));
            others.extend(row.map(|row| row.other.clone()).unwrap_or_default());
            cells.extend([times(row, &COMPILED), times(row, &BLOG)]);
        }
        text += &row(cells);
    }
    let _ = write!(text, "\n{}. Roof: a copy of the same bytes, alternated with the kernel.", evidence.made_on());
    if let Some(peers) = peers {
        let _ = write!(
            text,
            " Peers, timed in one run with the kernel: torch {}, the faster of torch.compile and its max-autotune.",
            cell(&peers.torch)
        );
    }
    let verified = &evidence.verification;
    let _ = writeln!(
        text,
        " Verified before: {} launches, {} elements on {}, the worst error {} of its budget.",
        verified.launches,
        verified.elements,
        plural(verified.paths.len(), "code path"),
        figure::times(verified.worst),
    );
    let own = verified.operation.as_ref().map(OperationReport::own).unwrap_or_default();
    if let Some(operation) = &verified.operation {
        let _ = writeln!(text, "Of this operation: {}.", cell(&operation.words()));
    }
    for own in &own {
        let _ = writeln!(text, "\n**{}.**", cell(own.trim_end_matches('.')));
    }
    text += &note(&others);
    for remark in evidence.remarks.iter().filter(|remark| !own.contains(remark)) {
        let _ = writeln!(text, "\nRemark: {}.", cell(remark.trim_end_matches('.')));
    }
    text
}
