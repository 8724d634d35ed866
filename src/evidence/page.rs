//! The tables of a page that are rendered from evidence: the text between `<!-- evidence:CARD BLOCK -->` and
//! `<!-- /evidence -->`, each alone on its line. CARD is the short name in the records' file names; a block has
//! figures of this card only. docs/evidence.md lists the blocks.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};

use super::end_to_end::PREFIX;
use super::records::Records;
use super::{brief, headline, operation, summary};
use crate::report::end_to_end::markdown;

const OPEN: &str = "<!-- evidence:";
const OPEN_END: &str = " -->";
const CLOSE: &str = "<!-- /evidence -->";

/// The page with every block rendered from the evidence in `dir`. Errors name the line of a block, or the file that
/// cannot be read.
pub fn render(page: &str, dir: &Path) -> Result<String> {
    let mut text = String::with_capacity(page.len());
    let mut inside: Option<usize> = None;
    for (number, line) in (1..).zip(page.split_inclusive('\n')) {
        let marker = line.trim();
        let opened = marker.strip_prefix(OPEN).and_then(|rest| rest.strip_suffix(OPEN_END));
        match (inside, opened) {
            (Some(since), Some(_)) => {
                bail!("line {number}: the evidence block of line {since} is not closed")
            }
            (Some(_), None) if marker == CLOSE => {
                text.push_str(line);
                inside = None;
            }
            (Some(_), None) => {}
            (None, Some(words)) => {
                text.push_str(line);
                let (card, block) = words.split_once(' ').with_context(|| {
                    format!("line {number}: {marker} names no card: write `{OPEN}CARD BLOCK{OPEN_END}`")
                })?;
                let block =
                    rendered(&Records::of(dir, card)?, block.trim()).with_context(|| format!("line {number}"))?;
                let _ = write!(text, "\n{}\n\n", block.trim_end());
                inside = Some(number);
            }
            (None, None) => {
                ensure!(marker != CLOSE, "line {number}: {CLOSE} closes no block");
                text.push_str(line);
            }
        }
    }
    match inside {
        Some(since) => bail!("line {since}: the evidence block is not closed with {CLOSE}"),
        None => Ok(text),
    }
}

fn rendered(records: &Records, block: &str) -> Result<String> {
    let (kind, words) = block.split_once(' ').unwrap_or((block, ""));
    let names: Vec<&str> = words.split_whitespace().collect();
    Ok(match kind {
        "summary" => summary::table(records),
        "all" => operation::sections(records),
        "headline" => headline::table(records, &names)?,
        "brief" => brief::table(records, &names),
        "compute" => brief::compute(records, &names),
        model if model.starts_with(PREFIX) => records.model(model).map_or_else(
            || format!("Nothing is recorded of `{model}` yet: on a card, `kernels bench --e2e --record` in its project does it."),
            markdown::tables,
        ),
        name => records.operation(name).map_or_else(
            || format!("Nothing is recorded of `{name}` yet: on a card, `kernels bench --record` in its project does it."),
            |one| operation::table(one, records.peers.as_ref()),
        ),
    })
}
