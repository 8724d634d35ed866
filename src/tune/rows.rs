//! Which row a case takes, what may stand in its place, and the edit that puts it there.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};

use super::table::Table;
use crate::project::tuning::{Relation, Vary};
use crate::project::{Bound, Case, CaseSet, DType, Formula, Operation, Project, Refusal, Tuning, Values};

/// The most candidates for one row.
const MOST: usize = 512;

/// Texts of the files with tables, by their path in the project.
pub(crate) type Texts = BTreeMap<PathBuf, String>;

/// A case and what the keys of tables see of it.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) operation: String,
    pub(crate) case: Case,
    pub(crate) bytes: u64,
    names: BTreeMap<String, f64>,
}

impl Seen {
    pub(crate) fn new(operation: &Operation, case: Case, arch: u32) -> Result<Self> {
        let Bound { values: mut names, bytes, .. } = operation.bind(&case)?;
        names.insert("arch".to_owned(), arch.into());
        #[allow(clippy::cast_precision_loss, reason = "a size")]
        names.insert("bytes".to_owned(), bytes as f64);
        Ok(Self { operation: operation.name.clone(), case, bytes, names })
    }

    fn eval(&self, formula: &Formula) -> Result<f64> {
        let value = formula.eval(&self.names, self.case.dtype);
        value.with_context(|| format!("[[tuning]] of kernel.toml, case `{}`", self.case.label))
    }
}

/// A table of the one case with these numbers.
pub(crate) fn set(dtype: DType, values: &BTreeMap<String, f64>) -> CaseSet {
    CaseSet {
        name: None,
        values: values.iter().map(|(name, value)| (name.clone(), Values::List(vec![*value]))).collect(),
        dtypes: vec![dtype],
        offsets: BTreeMap::new(),
        inputs: Vec::new(),
        draw: None,
        refused: false,
        refusal: Refusal::default(),
    }
}

/// The row that a case takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'p> {
    pub(crate) tuning: &'p Tuning,
    pub(crate) row: usize,
}

impl Place<'_> {
    pub(crate) fn is_same_row(&self, other: &Self) -> bool {
        (&self.tuning.file, &self.tuning.table, self.row) == (&other.tuning.file, &other.tuning.table, other.row)
    }
}

/// The texts of all files that a project's `[[tuning]]` names.
pub(crate) fn texts(project: &Project) -> Result<Texts> {
    let read = |tuning: &Tuning| {
        let path = project.root.join(&tuning.file);
        let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        Ok((tuning.file.clone(), text))
    };
    project.spec.tunings.iter().map(read).collect()
}

/// The tables of a project, in the order of kernel.toml.
pub(crate) fn tables<'p>(project: &'p Project, texts: &'p Texts) -> Result<Vec<Table<'p>>> {
    project.spec.tunings.iter().map(|tuning| Table::read(tuning, &texts[&tuning.file])).collect()
}

/// The rows that a case may take, the likeliest first: a launcher looks into one table after the other.
pub(crate) fn places<'p>(tables: &[Table<'p>], seen: &Seen) -> Result<Vec<Place<'p>>> {
    let mut places = Vec::new();
    for table in tables.iter().filter(|table| table.tuning.operations.contains(&seen.operation)) {
        if table.tuning.when.as_ref().map_or(Ok(1.0), |when| seen.eval(when))? == 0.0 {
            continue;
        }
        for row in 0..table.rows.len() {
            if fits(table, row, seen)? {
                places.push(Place { tuning: table.tuning, row });
                break;
            }
        }
    }
    Ok(places)
}

fn column(tuning: &Tuning, field: &str) -> usize {
    tuning.fields().iter().position(|name| *name == field).unwrap_or(0)
}

fn fits(table: &Table, row: usize, seen: &Seen) -> Result<bool> {
    for key in &table.tuning.keys {
        let value = table.rows[row].cells[column(table.tuning, &key.field)].value;
        if !key.relation.holds(value, seen.eval(&key.formula)?) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The numbers of a row with the keys that are no wider than these cases need, all of which take the row: only launches that
/// took it are for the new one. A threshold (`<=`) of something else than the architecture stays.
fn narrowed(table: &Table, row: usize, cases: &[&Seen]) -> Result<Vec<f64>> {
    let mut values: Vec<f64> = table.rows[row].cells.iter().map(|cell| cell.value).collect();
    for key in &table.tuning.keys {
        let wanted = cases.iter().map(|seen| seen.eval(&key.formula)).collect::<Result<Vec<f64>>>()?;
        let most = wanted.into_iter().fold(f64::NEG_INFINITY, f64::max);
        let value = &mut values[column(table.tuning, &key.field)];
        match key.relation {
            Relation::AtLeast => *value = most.ceil(),
            Relation::AtMost if key.formula.is_name("arch") => *value = most,
            Relation::AtMost | Relation::Equal => {}
        }
    }
    Ok(values)
}

/// A row to be put in the place of another, or in front of it.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) file: PathBuf,
    pub(crate) tuning: Tuning,
    /// The text of the row that the cases take now.
    pub(crate) present: String,
    pub(crate) row: String,
    /// The keys are narrower than the present row's, which stays for the rest.
    pub(crate) insert: bool,
}

/// What a change replaces at a place of a text.
pub(crate) struct Applied {
    pub(crate) text: String,
    pub(crate) was: String,
    pub(crate) is: String,
}

impl Change {
    /// The text with the row, below a comment. The present row must be there once.
    pub(crate) fn apply(&self, text: &str, comment: &[String]) -> Result<Applied> {
        let table = Table::read(&self.tuning, text)?;
        let mut found = (0..table.rows.len()).filter(|row| table.row(*row) == self.present);
        let row =
            found.next().with_context(|| format!("{} has no row {} any more", self.tuning.table, self.present))?;
        ensure!(found.next().is_none(), "{} has the row {} twice", self.tuning.table, self.present);
        let at = table.rows[row].at.clone();
        let line = text[..at.start].rfind('\n').map_or(0, |newline| newline + 1);
        let indent: String = text[line..].chars().take_while(|c| c.is_ascii_whitespace() && *c != '\n').collect();
        let comment = comment.iter().map(|line| format!("// {line}\n{indent}")).collect::<Vec<_>>().concat();
        let was = if self.insert { String::new() } else { self.present.clone() };
        let is = if self.insert { format!("{comment}{},\n{indent}", self.row) } else { comment + &self.row };
        let text = format!("{}{is}{}", &text[..at.start], &text[at.start + was.len()..]);
        Ok(Applied { text, was, is })
    }
}

/// All rows that may stand in the place of the one that these cases take, but that one.
pub(crate) fn changes(place: Place, text: &str, cases: &[&Seen]) -> Result<Vec<Change>> {
    let table = Table::read(place.tuning, text)?;
    let base = narrowed(&table, place.row, cases)?;
    let present: Vec<f64> = table.rows[place.row].cells.iter().map(|cell| cell.value).collect();
    let keys: Vec<usize> = place.tuning.keys.iter().map(|key| column(place.tuning, &key.field)).collect();
    let insert = keys.iter().any(|at| base[*at].to_bits() != present[*at].to_bits());
    let mut all: Vec<Vec<f64>> = Vec::new();
    for vary in &place.tuning.vary {
        for values in varied(&table, vary, &base)? {
            let same = |other: &Vec<f64>| {
                (0..values.len()).all(|at| keys.contains(&at) || other[at].to_bits() == values[at].to_bits())
            };
            if !same(&present) && !all.iter().any(same) {
                all.push(values);
            }
        }
    }
    ensure!(all.len() <= MOST, "{} rows of {} may be tried, more than {MOST}", all.len(), place.tuning.table);
    let change = |values: Vec<f64>| Change {
        file: place.tuning.file.clone(),
        tuning: place.tuning.clone(),
        present: table.row(place.row).to_owned(),
        row: table.written(place.row, &values),
        insert,
    };
    Ok(all.into_iter().map(change).collect())
}

/// The rows of one table of `vary`, those that its `where` excludes left out.
fn varied(table: &Table, vary: &Vary, base: &[f64]) -> Result<Vec<Vec<f64>>> {
    let fields = table.tuning.fields();
    let entries: Vec<Vec<(&str, f64)>> = match &vary.entries {
        None => vec![Vec::new()],
        Some((name, names)) => {
            let entries = table.entries(name)?.into_iter();
            entries.map(|entry| named(table, name, names, entry)).collect::<Result<_>>()?
        }
    };
    let mut all = entries;
    for (field, values) in &vary.values {
        let parts = all.iter().flat_map(|one| values.iter().map(move |value| (one, *value)));
        all = parts.map(|(one, value)| one.iter().copied().chain([(field.as_str(), value)]).collect()).collect();
    }
    let mut rows = Vec::new();
    for one in all {
        let mut row = base.to_vec();
        for (name, value) in &one {
            if let Some(at) = fields.iter().position(|field| field == name) {
                row[at] = *value;
            }
        }
        let fields = fields.iter().copied().zip(row.iter().copied());
        let names: BTreeMap<String, f64> =
            one.into_iter().chain(fields).map(|(name, value)| (name.to_owned(), value)).collect();
        let holds = vary.condition.as_ref().map_or(Ok(1.0), |formula| formula.eval(&names, DType::F32));
        if holds.context("`where` of [[tuning]] in kernel.toml")? != 0.0 {
            rows.push(row);
        }
    }
    Ok(rows)
}

/// An entry's arguments by their names. One that is no number may stand where no field of a row is.
fn named<'v>(table: &Table, name: &str, names: &'v [String], entry: Vec<Option<f64>>) -> Result<Vec<(&'v str, f64)>> {
    ensure!(
        entry.len() == names.len(),
        "macro {name} of {} has an entry of {} arguments, and `names` of [[tuning]] has {}",
        table.tuning.file.display(),
        entry.len(),
        names.len()
    );
    let value = |(name, value): (&'v String, Option<f64>)| {
        let why = || {
            format!(
                "macro {}: argument `{name}` is not a number; give it one in `constants` of [[tuning]]",
                table.tuning.table
            )
        };
        Ok((name.as_str(), value.with_context(why)?))
    };
    names.iter().zip(entry).map(value).collect()
}
