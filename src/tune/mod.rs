//! Tuning tables: every row that a project's `[[tuning]]` can express is tried for the user's card and shapes, and the best
//! one is written into the project.
//!
//! `lex.rs`, `numbers.rs` and `table.rs` read a table, `rows.rs` finds the row of a case and what may stand in its place,
//! `trial.rs` builds, verifies and times candidates through child processes (`child.rs`), `tuned.rs` decides, `record.rs` keeps what was written,
//! `measured.rs` says which rows nobody measured.

pub(crate) mod child;
mod lex;
pub(crate) mod measured;
mod numbers;
pub(crate) mod record;
pub(crate) mod rows;
mod table;
pub(crate) mod trial;
mod tuned;

use anyhow::{Context as _, Result, ensure};

use crate::gpu::Card;
use crate::oracle;
use crate::project::{DType, Operation, Project};
use crate::worker::TuneCase;
use rows::{Change, Place, Seen, Texts};
use table::Table;
use trial::{Bench, Outcome, Trial};
pub(crate) use tuned::{Tuned, edited, summary, write};
use tuned::{judged, label};

/// A case of no more bytes is small enough.
const SMALL: u64 = 8 << 20;

/// The most cases of kernel.toml that a candidate is verified with besides those that are timed, and their most bytes.
const VERIFIED: usize = 24;
const LARGE: u64 = 32 << 20;

/// Candidates that are verified at once, and memory for each, in sizes of the largest case.
const MOST_BESIDE: usize = 4;
const SLOTS: u64 = 24;

/// What is to be tuned.
#[derive(Default)]
pub(crate) struct Wanted {
    /// Empty: all with a table.
    pub(crate) operations: Vec<String>,
    /// Empty: the bench cases of kernel.toml.
    pub(crate) shapes: Vec<String>,
    pub(crate) ordinal: usize,
}

/// Tells the progress: how many are done, of how many, and what is being done.
pub(crate) type Tell<'a> = &'a (dyn Fn(usize, usize, &str) + Sync);

/// Tries all rows for all cases, one group of cases with the same row after the other. Nothing of the project is written.
pub(crate) fn run(
    project: &Project,
    wanted: &Wanted,
    card: &Card,
    tell: Tell,
    ended: &dyn Fn(&Tuned),
) -> Result<Vec<Tuned>> {
    oracle::check_names(project)?;
    let mut texts = rows::texts(project)?;
    let mut left = targets(project, wanted, card.arch)?;
    let mut all = Vec::new();
    while let Some((place, group)) = next(&rows::tables(project, &texts)?, &texts, &mut left)? {
        let tuned = tune(project, (wanted.ordinal, card), &texts, place, &group, tell)?;
        ended(&tuned);
        if let Some((change, comment)) = &tuned.change {
            let text = change.apply(&texts[&change.file], comment)?.text;
            texts.insert(change.file.clone(), text);
        }
        all.push(tuned);
    }
    ensure!(!all.is_empty(), "no table of kernel.toml has a row, and something to try in it, for any of these cases");
    Ok(all)
}

/// Every change that may be tried for the bench cases of kernel.toml, in a fixed order.
pub(crate) fn sweep(project: &Project, arch: u32) -> Result<Vec<Change>> {
    let texts = rows::texts(project)?;
    let tables = rows::tables(project, &texts)?;
    let mut left = targets(project, &Wanted::default(), arch)?;
    let mut all = Vec::new();
    while let Some((place, group)) = next(&tables, &texts, &mut left)? {
        all.extend(rows::changes(place, &texts[&place.tuning.file], &group.iter().collect::<Vec<_>>())?);
    }
    Ok(all)
}

/// The row of the first case that is left, and all that take it.
fn next<'p>(tables: &[Table<'p>], texts: &Texts, left: &mut Vec<Seen>) -> Result<Option<(Place<'p>, Vec<Seen>)>> {
    let mut found: Option<(Place, Vec<Seen>)> = None;
    for seen in std::mem::take(left) {
        match (place(tables, texts, &seen)?, &mut found) {
            (None, _) => {}
            (Some(place), None) => found = Some((place, vec![seen])),
            (Some(place), Some((first, group)))
                if std::ptr::eq(first.tuning, place.tuning) && first.row == place.row =>
            {
                group.push(seen);
            }
            _ => left.push(seen),
        }
    }
    Ok(found)
}

/// The cases to tune for.
fn targets(project: &Project, wanted: &Wanted, arch: u32) -> Result<Vec<Seen>> {
    ensure!(
        !project.spec.tunings.is_empty(),
        "{} has no table to tune: kernel.toml names it with [[tuning]], docs/kernel-toml.md says how",
        project.root.display()
    );
    let mut all: Vec<Seen> = Vec::new();
    let mut refused = None;
    let listed = |operation: &&Operation| {
        let tuned = project.spec.tunings.iter().any(|tuning| tuning.operations.contains(&operation.name));
        tuned && (wanted.operations.is_empty() || wanted.operations.contains(&operation.name))
    };
    for operation in project.spec.operations.iter().filter(listed) {
        if wanted.shapes.is_empty() {
            for case in operation.cases(&operation.bench, 0)? {
                all.push(Seen::new(operation, case, arch)?);
            }
        }
        for shape in &wanted.shapes {
            let (sizes, dtypes): (Vec<&str>, Vec<&str>) = shape
                .split(',')
                .partition(|part| part.trim_start().split('=').next().is_none_or(|key| key.trim() != "dtype"));
            let named =
                dtypes.iter().filter_map(|part| DType::from_name(part.split_once('=')?.1.trim())).collect::<Vec<_>>();
            ensure!(named.len() == dtypes.len(), "--shape {shape}: dtype is one of {}", DType::NAMES.join(", "));
            for dtype in operation.dtypes.iter().filter(|dtype| named.is_empty() || named.contains(dtype)) {
                match operation
                    .case_of_shape(&sizes.join(","), *dtype)
                    .and_then(|case| Seen::new(operation, case, arch))
                {
                    Ok(seen) => all.push(seen),
                    Err(error) => refused = Some(error),
                }
            }
        }
    }
    match refused {
        Some(error) if all.is_empty() => Err(error),
        _ if all.is_empty() => anyhow::bail!("no case to tune for: name an operation with a table, and --shape"),
        _ => {
            all.sort_by_key(|seen| seen.bytes);
            Ok(all)
        }
    }
}

/// The row of a case: of the first table that has one in which something may be tried.
fn place<'p>(tables: &[Table<'p>], texts: &Texts, seen: &Seen) -> Result<Option<Place<'p>>> {
    for place in rows::places(tables, seen)? {
        if !rows::changes(place, &texts[&place.tuning.file], &[seen])?.is_empty() {
            return Ok(Some(place));
        }
    }
    Ok(None)
}

/// Cases of kernel.toml that take the new row of a change: those of the bench, and some that are verified.
fn affected(
    project: &Project,
    texts: &Texts,
    place: Place,
    change: &Change,
    group: &[Seen],
    arch: u32,
) -> Result<[Vec<Seen>; 2]> {
    let mut after = texts.clone();
    after.insert(change.file.clone(), change.apply(&texts[&change.file], &[])?.text);
    let tables = rows::tables(project, &after)?;
    let mut found = [Vec::new(), Vec::new()];
    for operation in &project.spec.operations {
        for (sets, found) in [&operation.bench, &operation.verify].into_iter().zip(&mut found) {
            for case in operation.cases(sets, 0)? {
                let seen = Seen::new(operation, case, arch)?;
                let known = |one: &Seen| {
                    (&one.operation, one.case.dtype, &one.case.values)
                        == (&seen.operation, seen.case.dtype, &seen.case.values)
                };
                if !group.iter().any(known) && rows::places(&tables, &seen)?.iter().any(|one| one.is_same_row(&place)) {
                    found.push(seen);
                }
            }
        }
    }
    found[1].retain(|seen| (1..LARGE).contains(&seen.bytes));
    found[1].sort_by_key(|seen| seen.bytes);
    let step = found[1].len().div_ceil(VERIFIED).max(1);
    found[1] = std::mem::take(&mut found[1]).into_iter().step_by(step).collect();
    Ok(found)
}

/// The smallest case that takes the same row of both tables as this one, before and after a change, and differs from it in one
/// size: what that row's launches have in common is seen there first, in less time.
fn smaller(operation: &Operation, tables: [&[Table]; 2], place: &Place, seen: &Seen, arch: u32) -> Seen {
    let takes = |one: &Seen| {
        tables
            .iter()
            .all(|tables| rows::places(tables, one).is_ok_and(|found| found.iter().any(|one| one.is_same_row(place))))
    };
    let with = |one: &Seen, name: &str, value: f64| -> Option<Seen> {
        let mut values = one.case.values.clone();
        values.insert(name.to_owned(), value);
        let cases = operation.cases(&[rows::set(one.case.dtype, &values)], 0).ok()?;
        let case = cases.into_iter().next()?;
        let case = crate::project::Case { offsets: one.case.offsets.clone(), inputs: one.case.inputs, ..case };
        Seen::new(operation, case, arch).ok().filter(|less| (1..one.bytes).contains(&less.bytes) && takes(less))
    };
    let mut best = seen.clone();
    for (name, value) in &seen.case.values {
        let (mut one, mut value) = (seen.clone(), *value);
        for factor in [0.5, 0.75] {
            while one.bytes > SMALL && value > 1.0 {
                let Some(less) = with(&one, name, (value * factor).floor()) else { break };
                (one, value) = (less, (value * factor).floor());
            }
        }
        if one.bytes < best.bytes {
            best = one;
        }
    }
    best
}

fn tune(
    project: &Project,
    (ordinal, card): (usize, &Card),
    texts: &Texts,
    place: Place,
    group: &[Seen],
    tell: Tell,
) -> Result<Tuned> {
    let text = &texts[&place.tuning.file];
    let changes = rows::changes(place, text, &group.iter().collect::<Vec<_>>())?;
    let first = changes.first().context("no row may be tried")?;
    let present = first.present.clone();
    let [guards, verified] = affected(project, texts, place, first, group, card.arch)?;
    let cases = |of: &[Seen], timed| -> Vec<TuneCase> { of.iter().map(|seen| child::case(seen, timed)).collect() };
    let (deciding, guarded, others) = (cases(group, true), cases(&guards, true), cases(&verified, false));
    let mut edited = texts.clone();
    edited.insert(first.file.clone(), first.apply(text, &[])?.text);
    let (before, after) = (rows::tables(project, texts)?, rows::tables(project, &edited)?);
    let less = |seen: &Seen| {
        let operation = project.spec.operations.iter().find(|operation| operation.name == seen.operation);
        operation
            .map_or_else(|| seen.clone(), |operation| smaller(operation, [&before, &after], &place, seen, card.arch))
    };
    let smaller = cases(&group.iter().map(less).collect::<Vec<_>>(), true);
    let mut trials = vec![Trial::new(project, texts, present.clone(), None)?];
    for change in changes {
        trials.push(Trial::new(project, texts, change.row.clone(), Some(change))?);
    }
    let largest = group.iter().chain(&guards).map(|seen| seen.bytes).max().unwrap_or(0);
    let beside =
        usize::try_from(card.memory_bytes / (SLOTS * largest).max(1)).unwrap_or(MOST_BESIDE).clamp(1, MOST_BESIDE);
    let bench = Bench {
        ordinal,
        arch: card.arch,
        beside,
        deciding: &deciding,
        smaller: &smaller,
        guards: &guarded,
        others: &others,
        tell,
    };
    bench.prove(&mut trials)?;
    ensure!(
        trials[0].is_alive(),
        "nothing was timed: the project as it is fails with row {present}; `kernels verify` says more\n{}",
        trials[0].why.as_deref().unwrap_or_default()
    );
    bench.time(&mut trials)?;
    let [other, same] = [false, true].map(|is_same| {
        trials[1..].iter().any(|trial| trial.rounds() > 0 && (trial.outcome == Outcome::SameLaunch) == is_same)
    });
    ensure!(
        other || !same,
        "no row in the place of {present} changes a launch of {}: kernel.toml says that it takes this row of {}, and the \
         launcher takes another one; mend `keys` or `when` of [[tuning]]",
        label(&group[0]),
        place.tuning.table
    );
    Ok(judged(&trials, (place, card), group, &guards))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use std::path::Path;

    use super::*;

    /// The numbers of a table's rows.
    fn numbers(table: &Table) -> Vec<Vec<f64>> {
        table.rows.iter().map(|row| row.cells.iter().map(|cell| cell.value).collect()).collect()
    }

    #[test]
    fn a_row_of_a_bundled_table_changes_and_every_other_byte_stays() {
        let kernels = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels");
        let mut count = 0;
        for folder in std::fs::read_dir(kernels).unwrap().map(|entry| entry.unwrap().path()) {
            let Some(project) = Project::open(&folder).ok().filter(|project| !project.spec.tunings.is_empty()) else {
                continue;
            };
            let texts = rows::texts(&project).unwrap();
            for arch in [75, 90] {
                let changes = sweep(&project, arch).unwrap();
                // A transpose has one layout.
                assert_eq!(changes.is_empty(), project.name.contains("transpose"), "{} {arch}", project.name);
                for change in &changes {
                    let old = &texts[&change.file];
                    let applied = change.apply(old, &["of a test { }".to_owned()]).unwrap();
                    let new = applied.text.as_str();
                    let at = new.find(&applied.is).unwrap();
                    assert_eq!(format!("{}{}{}", &new[..at], applied.was, &new[at + applied.is.len()..]), *old);
                    let [before, mut after] =
                        [old.as_str(), new].map(|text| numbers(&Table::read(&change.tuning, text).unwrap()));
                    let row = (0..after.len()).find(|row| before.get(*row) != after.get(*row)).unwrap();
                    let mut before = before;
                    after.remove(row);
                    if !change.insert {
                        before.remove(row);
                    }
                    assert_eq!(before, after, "{}", change.row);
                    count += 1;
                }
            }
        }
        assert!(count > 300, "{count}");
    }

    /// Braces whose fields are all left out get them without a comma in front, and keep nothing else.
    #[test]
    fn a_row_with_empty_braces_is_read_and_written() {
        let project = Project::open(&Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels/adaln")).unwrap();
        let texts = rows::texts(&project).unwrap();
        let tuning = project.spec.tunings.iter().find(|tuning| tuning.table == "kGroupTuning").unwrap();
        let table = Table::read(tuning, &texts[&tuning.file]).unwrap();
        let empty = (0..table.rows.len()).find(|row| table.row(*row).ends_with("{}}")).unwrap();
        let before = table.row(empty);
        let mut values = numbers(&table)[empty].clone();
        assert_eq!(values[values.len() - 3..], [0.0; 3], "{before}");
        assert_eq!(table.written(empty, &values), before);
        let end = values.len() - 3;
        values[end..].copy_from_slice(&[128.0, 1.0, 2.0]);
        assert_eq!(table.written(empty, &values), before.replace("{}}", "{128, 1, 2}}"));
    }
}
