//! Which rows of a project's tables were measured on a card.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result};

use super::record::Record;
use super::rows::{self, Seen};
use super::table::Table;
use crate::bench::CaseBench;
use crate::evidence::{self, Evidence};
use crate::gpu::Card;
use crate::project::Project;

/// What is said of timed cases that run on rows which nobody measured on this card: neither `kernels tune`, nor a record of the
/// sources as they are. A line a row.
pub(crate) fn missing(project: &Project, card: &Card, cases: &[CaseBench]) -> Result<Vec<String>> {
    let texts = rows::texts(project)?;
    let tables = rows::tables(project, &texts)?;
    let row = |case: &CaseBench| row_of(project, &tables, card.arch, case);
    let mut measured: BTreeSet<(String, String)> = BTreeSet::new();
    for (_, record) in Evidence::read_all(&evidence::folder(&project.root, None))? {
        if record.project == project.name
            && record.card.name == card.name
            && record.source_digest == project.source_digest
        {
            for case in &record.cases {
                measured.extend(row(case)?);
            }
        }
    }
    let tuned = Record::read(&project.root)?.rows.into_iter().filter(|tuned| tuned.card == card.name);
    measured.extend(tuned.map(|tuned| (tuned.table, tuned.row)));
    let mut said = BTreeMap::new();
    for case in cases {
        if let Some(row) = row(case)?.filter(|row| !measured.contains(row)) {
            said.entry(row).or_insert_with(|| format!("{} {}", case.operation, case.case));
        }
    }
    let line = |((table, row), case): ((String, String), String)| {
        format!(
            "{case} runs on the row {row} of {table}, of which there is no measurement on this card: `kernels tune` makes one"
        )
    };
    Ok(said.into_iter().map(line).collect())
}

/// The table and the text of the row that a timed case takes.
fn row_of(project: &Project, tables: &[Table], arch: u32, case: &CaseBench) -> Result<Option<(String, String)>> {
    let Some(operation) = project.spec.operations.iter().find(|operation| operation.name == case.operation) else {
        return Ok(None);
    };
    // A record of other names than the operation has now is of no case of it.
    let found = operation.cases(&[rows::set(case.dtype, &case.values)], 0).unwrap_or_default().pop();
    let Some(found) = found else { return Ok(None) };
    let seen = Seen::new(operation, found, arch)?;
    let Some(place) = rows::places(tables, &seen)?.first().copied() else { return Ok(None) };
    let table =
        tables.iter().find(|table| std::ptr::eq(table.tuning, place.tuning)).context("a place without its table")?;
    Ok(Some((place.tuning.table.clone(), table.row(place.row).to_owned())))
}
