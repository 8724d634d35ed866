//! `[[tuning]]` of kernel.toml: a table of the sources from which a launcher takes the first row that fits, and what may be
//! tried in its rows.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;

use super::Formula;

/// One table of a project.
#[derive(Clone, Debug, Serialize)]
pub struct Tuning {
    /// The file with the table, relative to the project.
    pub(crate) file: PathBuf,
    /// The array's name.
    pub(crate) table: String,
    /// The operations whose launchers look here.
    pub(crate) operations: Vec<String>,
    /// For cases in which this is not zero; none: for all.
    pub(crate) when: Option<Formula>,
    /// The fields of a row, as its braces nest them.
    pub(crate) row: Vec<Field>,
    /// Fields that a row may leave out, and what is meant then.
    pub(crate) optional: BTreeMap<String, f64>,
    /// What a row fits by.
    pub(crate) keys: Vec<Key>,
    /// What may be tried.
    pub(crate) vary: Vec<Vary>,
    /// Numbers of names that the file does not define.
    pub(crate) constants: BTreeMap<String, f64>,
}

/// A field of a row, or fields in braces of their own.
#[derive(Clone, Debug, Serialize)]
pub(crate) enum Field {
    One(String),
    Group(Vec<Field>),
}

/// How a field decides whether a row fits a case.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Key {
    pub(crate) field: String,
    pub(crate) relation: Relation,
    /// Of the case's names, and of [`CASE_NAMES`].
    pub(crate) formula: Formula,
}

/// What a key's formula may use besides the names of the operation: the architecture of the card's code, and the bytes that
/// the case moves.
pub(crate) const CASE_NAMES: [&str; 2] = ["arch", "bytes"];

/// The row's value stands on the left.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub(crate) enum Relation {
    AtMost,
    AtLeast,
    Equal,
}

impl Relation {
    pub(crate) fn holds(self, row: f64, case: f64) -> bool {
        match self {
            Self::AtMost => row <= case,
            Self::AtLeast => row >= case,
            Self::Equal => (row - case).abs() < 0.5,
        }
    }
}

/// Values to try together: the entries of a macro, with each of the product of the values.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Vary {
    /// A macro of the table's file whose entries `X(…)` are tried, and a name for each of their arguments. Those that are
    /// fields of the row are set.
    pub(crate) entries: Option<(String, Vec<String>)>,
    pub(crate) values: Vec<(String, Vec<f64>)>,
    /// Not zero for what can be a row; of the fields of the new row, and of the names of the entries.
    pub(crate) condition: Option<Formula>,
}

impl Tuning {
    /// The names of the fields, in the row's order.
    pub(crate) fn fields(&self) -> Vec<&str> {
        fn collect<'a>(fields: &'a [Field], all: &mut Vec<&'a str>) {
            for field in fields {
                match field {
                    Field::One(name) => all.push(name),
                    Field::Group(inner) => collect(inner, all),
                }
            }
        }
        let mut all = Vec::new();
        collect(&self.row, &mut all);
        all
    }
}
