//! A tuning table in a C++ file: rows of numbers, with the bytes where each stands. An edit changes those bytes and no
//! others; what is not understood is an error with its line.

use std::ops::Range;

use anyhow::{Error, Result, anyhow, bail, ensure};

use super::lex::{self, Kind, Token};
use super::numbers::Numbers;
use crate::project::Tuning;
use crate::project::tuning::Field;

pub(crate) struct Table<'t> {
    pub(crate) tuning: &'t Tuning,
    pub(crate) text: &'t str,
    pub(crate) rows: Vec<Row>,
    tokens: Vec<Token>,
    numbers: Numbers,
}

/// A row, from its opening brace to behind its closing one; a cell for each field of [`Tuning::fields`].
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) at: Range<usize>,
    pub(crate) cells: Vec<Cell>,
}

/// A number of a row. One that is left out stands nowhere: it would follow behind `end`.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    pub(crate) value: f64,
    there: bool,
    start: usize,
    end: usize,
}

/// An argument of a macro's entry: a number, where it is one.
type Entry = Vec<Option<f64>>;

impl<'t> Table<'t> {
    /// Reads the table of a file's text.
    pub(crate) fn read(tuning: &'t Tuning, text: &'t str) -> Result<Self> {
        let tokens = lex::tokens(text, 0..text.len());
        let numbers = Numbers::of(text, &tokens, &tuning.constants);
        let mut table = Self { tuning, text, rows: Vec::new(), tokens, numbers };
        let mut at = table.opening()?;
        while table.word(at) != "}" {
            let start = table.place(at)?;
            ensure!(
                table.word(at) == "{",
                table.fault(start, "a row begins with `{`, and its fields follow one by one")
            );
            let mut cells = Vec::new();
            at = table.group(&tuning.row, at + 1, &mut cells)?;
            table.rows.push(Row { at: start..table.place(at - 1)? + 1, cells });
            at += usize::from(table.word(at) == ",");
        }
        ensure!(!table.rows.is_empty(), table.fault(table.place(at)?, "the table has no rows"));
        Ok(table)
    }

    fn word(&self, at: usize) -> &'t str {
        self.tokens.get(at).map_or("", |token| &self.text[token.at.clone()])
    }

    fn place(&self, at: usize) -> Result<usize> {
        let end = || self.fault(self.text.len(), "the file ends within the table");
        self.tokens.get(at).map(|token| token.at.start).ok_or_else(end)
    }

    /// What is wrong, with its line.
    fn fault(&self, at: usize, what: &str) -> Error {
        let line = self.text[..at].matches('\n').count() + 1;
        let Tuning { file, table, .. } = self.tuning;
        anyhow!(
            "{}:{line}: {table}: {what}. `row` of [[tuning]] in kernel.toml must name the fields as they stand there; {}",
            file.display(),
            "docs/kernel-toml.md says what a table may have"
        )
    }

    /// The token behind the brace that opens the array.
    fn opening(&self) -> Result<usize> {
        let mut found = None;
        for at in 0..self.tokens.len() {
            if self.tokens[at].kind != Kind::Word || self.word(at) != self.tuning.table || self.word(at + 1) != "[" {
                continue;
            }
            let Some(close) = (at + 2..self.tokens.len().min(at + 16)).find(|at| self.word(*at) == "]") else {
                continue;
            };
            let open = close + 1 + usize::from(self.word(close + 1) == "=");
            if self.word(open) == "{" && found.replace(open + 1).is_some() {
                return Err(self.fault(self.place(at)?, "there are two arrays of this name"));
            }
        }
        found.ok_or_else(|| {
            let Tuning { file, table, .. } = self.tuning;
            anyhow!("{} has no array `{table}[] = {{ … }}`, which [[tuning]] of kernel.toml names", file.display())
        })
    }

    /// The fields between two braces, from behind the first to behind the second.
    fn group(&self, fields: &[Field], mut at: usize, cells: &mut Vec<Cell>) -> Result<usize> {
        for field in fields {
            let place = self.place(at)?;
            match field {
                Field::Group(inner) => {
                    ensure!(
                        self.word(at) == "{",
                        self.fault(place, "expected `{`, as `row` has fields in braces here")
                    );
                    at = self.group(inner, at + 1, cells)?;
                }
                Field::One(name) if self.word(at) == "}" => {
                    let value = self.tuning.optional.get(name).copied();
                    let why =
                        || self.fault(place, &format!("a row ends before its field `{name}`, which is not `optional`"));
                    let comma = self.word(at - 1) == ",";
                    ensure!(!comma, self.fault(place, &format!("field `{name}` is left out behind a `,`")));
                    let end = self.tokens[at - 1].at.end;
                    cells.push(Cell { value: value.ok_or_else(why)?, there: false, start: end, end });
                    continue;
                }
                Field::One(name) => {
                    let minus = usize::from(self.word(at) == "-");
                    let word = self.word(at + minus);
                    let value = self.numbers.value(word).map(|value| if minus == 1 { -value } else { value });
                    let whole = matches!(self.word(at + minus + 1), "," | "}");
                    let why = || {
                        let what = format!(
                            "`{word}` of field `{name}` is not one number or a name with one; for a name of another file \
                             write constants = {{ {word} = … }}"
                        );
                        self.fault(place, &what)
                    };
                    let value = value.filter(|_| whole).ok_or_else(why)?;
                    cells.push(Cell { value, there: true, start: place, end: self.tokens[at + minus].at.end });
                    at += minus + 1;
                }
            }
            at += usize::from(self.word(at) == ",");
        }
        ensure!(
            self.word(at) == "}",
            self.fault(self.place(at)?, &format!("`{}` is one field too many", self.word(at)))
        );
        Ok(at + 1)
    }

    /// The text of a row.
    pub(crate) fn row(&self, row: usize) -> &'t str {
        &self.text[self.rows[row].at.clone()]
    }

    /// The row's text with other numbers, each as its column writes it.
    pub(crate) fn written(&self, row: usize, values: &[f64]) -> String {
        let Row { at, cells } = &self.rows[row];
        let differs = |cell: &Cell, value: f64| cell.value.to_bits() != value.to_bits();
        let (mut text, mut from) = (String::new(), at.start);
        for (column, (cell, value)) in cells.iter().zip(values).enumerate() {
            // What was left out is written where it, or one behind it in the same braces, is not what is meant without it.
            let needed = cells[column..]
                .iter()
                .zip(&values[column..])
                .any(|(next, value)| !next.there && next.end == cell.end && differs(next, *value));
            if cell.there && differs(cell, *value) {
                text.push_str(&self.text[from..cell.start]);
                text.push_str(&self.spelled(column, *value));
                from = cell.end;
            } else if !cell.there && needed {
                text.push_str(&self.text[from..cell.end]);
                text.push_str(if text.ends_with('{') { "" } else { ", " });
                text.push_str(&self.spelled(column, *value));
                from = cell.end;
            }
        }
        text + &self.text[from..at.end]
    }

    /// A number as another row of the column writes it: `kAnyWidth`; else in digits.
    fn spelled(&self, column: usize, value: f64) -> String {
        let same = |row: &Row| {
            let cell = &row.cells[column];
            (cell.there && cell.value.to_bits() == value.to_bits()).then(|| self.text[cell.start..cell.end].to_owned())
        };
        self.rows.iter().find_map(same).unwrap_or_else(|| format!("{value}"))
    }

    /// The entries `X(…)` of a macro of the file.
    pub(crate) fn entries(&self, name: &str) -> Result<Vec<Entry>> {
        for token in self.tokens.iter().filter(|token| token.kind == Kind::Directive) {
            let parts = lex::tokens(self.text, token.at.start + 1..token.at.end);
            let word = |at: usize| parts.get(at).map_or("", |token| &self.text[token.at.clone()]);
            if [word(0), word(1), word(2), word(4)] != ["define", name, "(", ")"] {
                continue;
            }
            let (mut at, mut all) = (5, Vec::new());
            while at < parts.len() {
                let unknown = || {
                    let what = format!("macro {name} has `{}` where an entry `{}(…)` should stand", word(at), word(3));
                    self.fault(parts[at].at.start, &what)
                };
                ensure!(word(at) == word(3) && word(at + 1) == "(", unknown());
                let close = (at + 2..parts.len()).find(|at| word(*at) == ")").ok_or_else(unknown)?;
                let arguments: Vec<&str> = (at + 2..close).map(word).collect();
                all.push(arguments.split(|word| *word == ",").map(|words| self.argument(words)).collect());
                at = close + 1;
            }
            return Ok(all);
        }
        bail!("{} has no macro {name}(X), which `vary` of [[tuning]] names", self.tuning.file.display())
    }

    fn argument(&self, words: &[&str]) -> Option<f64> {
        match words {
            [word] => self.numbers.value(word),
            ["-", word] => self.numbers.value(word).map(|value| -value),
            _ => None,
        }
    }
}
