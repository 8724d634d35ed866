//! The tables of a page that are rendered from evidence: what stands between
//! `<!-- evidence:OPERATION -->` and `<!-- /evidence -->`.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Result, ensure};

use super::{Evidence, Peers};
use crate::report::export::cell;
use crate::report::figure;

const OPEN: &str = "<!-- evidence:";
const OPEN_END: &str = " -->";
const CLOSE: &str = "<!-- /evidence -->";
/// Both ways that torch compiles; the faster is compared with.
const COMPILED: [&str; 2] = ["compile", "compile-max"];
/// The kernel of the article that this project's operations are measured against.
const BLOG: [&str; 1] = ["blog"];

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
                text.push_str(&block(operation.trim(), &evidence, dir)?);
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
    let mut text = String::from(
        "| operation | shape | dtype | µs (p10–p90) | % of roof | × torch.compile | × the blog's kernel |\n\
         |---|---|---|--:|--:|--:|--:|\n",
    );
    for case in &evidence.cases {
        let row = peers.and_then(|peers| peers.row(case));
        let times = |names: &[&str]| {
            row.and_then(|row| row.times_faster(names))
                .map_or_else(|| "—".to_owned(), figure::times)
        };
        let hot = match case.residency {
            crate::bench::Residency::Cold => "",
            crate::bench::Residency::Hot => ", hot",
        };
        let _ = writeln!(
            text,
            "| {} | {}{hot} | {} | {} ({}–{}) | {} | {} | {} |",
            cell(&case.operation),
            cell(figure::shape(case)),
            case.dtype.name(),
            figure::micros(case.kernel.median),
            figure::micros(case.kernel.p10),
            figure::micros(case.kernel.p90),
            figure::percent(case.of_roof()),
            times(&COMPILED),
            times(&BLOG),
        );
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
        " Verified before: {} launches, {} elements on {} code paths, the worst error {} of its budget.",
        evidence.verification.launches,
        evidence.verification.elements,
        evidence.verification.paths.len(),
        figure::times(evidence.verification.worst),
    );
    for remark in &evidence.remarks {
        let _ = writeln!(text, "\nRemark: {}.", cell(remark.trim_end_matches('.')));
    }
    text
}
