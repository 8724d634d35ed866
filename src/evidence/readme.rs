//! The tables of a page that are rendered from evidence: what stands between
//! `<!-- evidence:OPERATION -->` and `<!-- /evidence -->`. `summary` in an operation's place is a table over all of
//! them, `all` every operation with a heading; `e2e-NAME` is a whole model.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Result, ensure};

use super::end_to_end::{EndToEndEvidence, PREFIX};
use super::summary::{BLOG, COMPILED, note, times};
use super::{Evidence, Peers, brief, summary};
use crate::bench::Residency;
use crate::report::end_to_end::markdown;
use crate::report::export::cell;
use crate::report::figure;

const OPEN: &str = "<!-- evidence:";
const OPEN_END: &str = " -->";
const CLOSE: &str = "<!-- /evidence -->";
/// The blocks that are no operation's.
const SUMMARY: &str = "summary";
const ALL: &str = "all";
/// Followed by what is in it: operations, or a whole model.
const BRIEF: &str = "brief ";
/// Followed by operations that arithmetic binds.
const COMPUTE: &str = "compute ";
/// Followed by a datasheet's GB/s and operations.
const ESTIMATE: &str = "estimate ";

/// The page with every block rendered from the evidence in `dir`. Markers stand alone on their lines.
/// Errors name the line of a block that is not closed, or the file that cannot be read.
pub fn render(page: &str, dir: &Path) -> Result<String> {
    let evidence: Vec<Evidence> = Evidence::read_all(dir)?
        .into_iter()
        .map(|(_, evidence)| evidence)
        .collect();
    let mut text = String::with_capacity(page.len());
    let mut inside: Option<usize> = None;
    for (at, line) in page.split_inclusive('\n').enumerate() {
        let marker = line.trim();
        let opened = marker
            .strip_prefix(OPEN)
            .and_then(|rest| rest.strip_suffix(OPEN_END));
        match (inside, opened) {
            (Some(since), Some(_)) => {
                anyhow::bail!(
                    "line {}: the evidence of line {since} is not closed",
                    at + 1
                )
            }
            (Some(_), None) if marker == CLOSE => {
                text.push_str(line);
                inside = None;
            }
            (Some(_), None) => {}
            (None, Some(operation)) => {
                text.push_str(line);
                text.push_str(&match operation.trim() {
                    SUMMARY => summarized(&evidence, dir)?,
                    ALL => sections(&evidence, dir)?,
                    names if names.starts_with(BRIEF) => {
                        brief::table(&names[BRIEF.len()..], &evidence, dir)?
                    }
                    names if names.starts_with(COMPUTE) => {
                        brief::compute(&names[COMPUTE.len()..], &evidence, dir)?
                    }
                    words if words.starts_with(ESTIMATE) => {
                        brief::estimate(&words[ESTIMATE.len()..], &evidence)
                    }
                    model if model.starts_with(PREFIX) => whole(model, dir)?,
                    operation => block(operation, &evidence, dir)?,
                });
                inside = Some(at + 1);
            }
            (None, None) => {
                ensure!(marker != CLOSE, "line {}: {CLOSE} closes nothing", at + 1);
                text.push_str(line);
            }
        }
    }
    match inside {
        Some(since) => anyhow::bail!("line {since}: the evidence is not closed with {CLOSE}"),
        None => Ok(text),
    }
}

/// The tables of a whole model, one set a card; `model` is the block's name, `e2e-ltx_video`.
fn whole(model: &str, dir: &Path) -> Result<String> {
    let mut text = String::new();
    for (_, evidence) in EndToEndEvidence::read_all(dir)? {
        if model.strip_prefix(PREFIX) == Some(&evidence.result.name) {
            text.push('\n');
            text.push_str(&markdown::tables(&evidence.result));
        }
    }
    if text.is_empty() {
        let _ = writeln!(
            text,
            "\nNothing is recorded of `{model}` yet: on a card, `kernels bench --e2e --record` in its project does it."
        );
    }
    text.push('\n');
    Ok(text)
}

/// The table over all operations, one a card.
fn summarized(evidence: &[Evidence], dir: &Path) -> Result<String> {
    let cards: BTreeSet<String> = evidence.iter().map(|one| one.card.slug()).collect();
    let mut text = String::new();
    for card in cards {
        let of_card: Vec<&Evidence> = by_project(evidence)
            .into_iter()
            .filter(|one| one.card.slug() == card)
            .collect();
        let table = summary::table(&of_card, Peers::of_card(dir, &card)?.as_ref());
        if !table.is_empty() {
            text.push('\n');
            text.push_str(&table);
        }
    }
    if text.is_empty() {
        text.push_str("\nNothing is recorded yet: on a card, benches/gpu/prove does it.\n");
    }
    text.push('\n');
    Ok(text)
}

/// Every operation's tables below its name.
fn sections(evidence: &[Evidence], dir: &Path) -> Result<String> {
    let mut text = String::new();
    let mut last = "";
    for one in by_project(evidence) {
        if one.operation != last {
            let _ = write!(
                text,
                "\n## `{}`\n{}",
                one.operation,
                block(&one.operation, evidence, dir)?
            );
            text.truncate(text.trim_end().len());
            text.push('\n');
            last = &one.operation;
        }
    }
    if text.is_empty() {
        text.push_str("\nNothing is recorded yet: on a card, benches/gpu/prove does it.\n");
    }
    text.push('\n');
    Ok(text)
}

/// Projects together, and their operations by name.
fn by_project(evidence: &[Evidence]) -> Vec<&Evidence> {
    let mut all: Vec<&Evidence> = evidence.iter().collect();
    all.sort_by_key(|one| (&one.project, &one.operation));
    all
}

/// The tables of one operation, one a card.
fn block(operation: &str, evidence: &[Evidence], dir: &Path) -> Result<String> {
    let mut text = String::new();
    for evidence in evidence
        .iter()
        .filter(|evidence| evidence.operation == operation)
    {
        let peers = Peers::of_card(dir, &evidence.card.slug())?;
        text.push('\n');
        text.push_str(&table(evidence, peers.as_ref()));
    }
    if text.is_empty() {
        let _ = writeln!(
            text,
            "\nNothing is recorded of `{operation}` yet: on a card, `kernels bench --record` in its project does it."
        );
    }
    text.push('\n');
    Ok(text)
}

fn table(evidence: &Evidence, peers: Option<&Peers>) -> String {
    // Who timed nothing of this operation is not spoken of.
    let peers = peers.filter(|peers| {
        let mut cases = evidence.cases.iter();
        cases.any(|case| peers.row(case).is_some())
    });
    let (titles, rules) = match peers {
        Some(_) => (" × torch.compile | × the blog's kernel |", "--:|--:|"),
        None => ("", ""),
    };
    let mut text = format!(
        "| operation | shape | dtype | µs (p10–p90) | % of roof |{titles}\n|---|---|---|--:|--:|{rules}\n"
    );
    let mut others = Vec::new();
    for case in &evidence.cases {
        let hot = match case.residency {
            Residency::Cold => "",
            Residency::Hot => ", hot",
        };
        let _ = write!(
            text,
            "| {} | {}{hot} | {} | {} ({}–{}) | {} |",
            cell(&case.operation),
            cell(figure::shape(case)),
            case.dtype.name(),
            figure::micros(case.kernel.median),
            figure::micros(case.kernel.p10),
            figure::micros(case.kernel.p90),
            figure::percent(case.of_roof()),
        );
        if let Some(peers) = peers {
            // Peers are timed cold.
            let row = Some(peers).filter(|_| case.residency == Residency::Cold);
            let row = row.and_then(|peers| peers.row(case));
            others.extend(row.map(|row| row.other.clone()).unwrap_or_default());
            let _ = write!(text, " {} | {} |", times(row, &COMPILED), times(row, &BLOG));
        }
        text.push('\n');
    }
    let _ = write!(
        text,
        "\n{}, driver {}, nvcc {}. Roof: a copy of the same bytes, alternated with the kernel.",
        cell(&evidence.card.name),
        cell(evidence.card.driver.as_deref().unwrap_or("unknown")),
        cell(&evidence.toolchain),
    );
    if let Some(peers) = peers {
        let _ = write!(
            text,
            " Peers, timed in one run with the kernel: torch {}, the faster of torch.compile and its max-autotune.",
            cell(&peers.torch)
        );
    }
    let _ = writeln!(
        text,
        " Verified before: {} launches, {} elements on {} code path{}, the worst error {} of its budget.",
        evidence.verification.launches,
        evidence.verification.elements,
        evidence.verification.paths.len(),
        if evidence.verification.paths.len() == 1 {
            ""
        } else {
            "s"
        },
        figure::times(evidence.verification.worst),
    );
    text.push_str(&note(&others));
    for remark in &evidence.remarks {
        let _ = writeln!(text, "\nRemark: {}.", cell(remark.trim_end_matches('.')));
    }
    text
}
