//! Reading TOML key by key, collecting problems instead of stopping at the first.

use std::cell::RefCell;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::Formula;
use super::diagnostic::{Document, Problem};
use super::formula::{EXACT, FormulaError, listed};

/// A value with the bytes where it stands.
pub(super) type Value<'t> = Spanned<DeValue<'t>>;

/// A file being read, with the problems found so far.
pub(super) struct Reader<'d> {
    pub(super) document: &'d Document,
    problems: RefCell<Vec<Problem>>,
}

impl<'d> Reader<'d> {
    pub(super) fn new(document: &'d Document) -> Self {
        Self { document, problems: RefCell::default() }
    }

    /// The whole file; none when it is no TOML, which is then among the problems.
    pub(super) fn parse(&self) -> Option<Spanned<DeTable<'d>>> {
        let (table, errors) = DeTable::parse_recoverable(&self.document.text);
        for error in &errors {
            self.fail(error.span().unwrap_or(0..0), format!("no TOML: {}", error.message()), []);
        }
        errors.is_empty().then_some(table)
    }

    /// Keeps a problem.
    pub(super) fn fail<H: Into<Vec<String>>>(&self, span: Range<usize>, message: impl Into<String>, help: H) {
        self.problems.borrow_mut().push(Problem { span, message: message.into(), help: help.into() });
    }

    /// Whether nothing is wrong so far.
    pub(super) fn is_sound(&self) -> bool {
        self.problems.borrow().is_empty()
    }

    /// How many problems there are so far.
    pub(super) fn count(&self) -> usize {
        self.problems.borrow().len()
    }

    /// The problems, and no more of them.
    pub(super) fn into_problems(self) -> Vec<Problem> {
        self.problems.into_inner()
    }

    fn unexpected(&self, value: &Value<'_>, expected: &str) {
        self.fail(value.span(), format!("expected {expected}, found {}", described(value.get_ref())), []);
    }

    pub(super) fn string<'v>(&self, value: &'v Value<'_>, expected: &str) -> Option<&'v str> {
        let text = value.get_ref().as_str();
        if text.is_none() {
            self.unexpected(value, expected);
        }
        text
    }

    pub(super) fn boolean(&self, value: &Value<'_>) -> Option<bool> {
        let truth = value.get_ref().as_bool();
        if truth.is_none() {
            self.unexpected(value, "true or false");
        }
        truth
    }

    /// An integer within bounds, both included.
    pub(super) fn integer(&self, value: &Value<'_>, least: i64, most: i64) -> Option<i64> {
        let DeValue::Integer(integer) = value.get_ref() else {
            self.unexpected(value, "an integer");
            return None;
        };
        let number = i64::from_str_radix(integer.as_str(), integer.radix()).ok();
        if let Some(number) = number.filter(|number| (least..=most).contains(number)) {
            return Some(number);
        }
        self.fail(value.span(), format!("expected an integer from {least} to {most}"), []);
        None
    }

    /// A finite number, exact where it is an integer.
    pub(super) fn number(&self, value: &Value<'_>, expected: &str) -> Option<f64> {
        match value.get_ref() {
            DeValue::Integer(integer) => {
                let number = i64::from_str_radix(integer.as_str(), integer.radix()).ok();
                #[allow(clippy::cast_precision_loss, reason = "checked by the filter")]
                let number = number.filter(|number| number.unsigned_abs() <= 1 << 53).map(|number| number as f64);
                if number.is_none() {
                    self.fail(value.span(), "an integer beyond 2^53, which this format does not hold exactly", []);
                }
                number
            }
            DeValue::Float(float) => {
                let number = float.as_str().parse::<f64>().ok().filter(|number| number.is_finite());
                if number.is_none() {
                    self.fail(value.span(), "expected a finite number", []);
                }
                number
            }
            DeValue::Boolean(_) => {
                self.fail(
                    value.span(),
                    format!("expected {expected}, found a boolean"),
                    ["write 1 for true and 0 for false".to_owned()],
                );
                None
            }
            _ => {
                self.unexpected(value, expected);
                None
            }
        }
    }

    pub(super) fn list<'v, 't>(&self, value: &'v Value<'t>, expected: &str) -> Option<Vec<&'v Value<'t>>> {
        if let DeValue::Array(array) = value.get_ref() {
            return Some(array.iter().collect());
        }
        self.unexpected(value, expected);
        None
    }

    pub(super) fn table<'v, 't>(&self, value: &'v Value<'t>, expected: &str) -> Option<&'v DeTable<'t>> {
        let table = value.get_ref().as_table();
        if table.is_none() {
            self.unexpected(value, expected);
        }
        table
    }

    /// A formula or a number.
    pub(super) fn formula(&self, value: &Value<'_>) -> Option<Formula> {
        match value.get_ref() {
            DeValue::String(text) => match Formula::parse(text) {
                Ok(formula) => Some(formula),
                Err(error) => {
                    self.bad_formula(value, &error);
                    None
                }
            },
            _ => self.number(value, "a number or a formula in quotes").map(Formula::number),
        }
    }

    /// Keeps a problem of a formula, marked inside its string.
    pub(super) fn bad_formula(&self, value: &Value<'_>, error: &FormulaError) {
        self.fail(self.within(&value.span(), &error.text, &error.span), format!("formula: {}", error.message), []);
    }

    /// Where a part of a string stands in the file; the whole value where escapes make that unknown.
    pub(super) fn within(&self, value: &Range<usize>, text: &str, part: &Range<usize>) -> Range<usize> {
        let raw = self.document.text.get(value.clone()).unwrap_or_default();
        let has_no_escapes = raw.len() == text.len() + 2 && raw.get(1..=text.len()) == Some(text);
        if has_no_escapes {
            let start = value.start + 1 + part.start;
            start..(value.start + 1 + part.end).max(start + 1)
        } else {
            value.clone()
        }
    }
}

/// A table of which every key must be known.
pub(super) struct Fields<'r, 'd, 'v, 't> {
    reader: &'r Reader<'d>,
    what: String,
    table: &'v DeTable<'t>,
    span: Range<usize>,
    known: RefCell<Vec<&'static str>>,
}

impl<'r, 'd, 'v, 't> Fields<'r, 'd, 'v, 't> {
    /// `what` names the table for people: `[[operation]]`.
    pub(super) fn new(
        reader: &'r Reader<'d>,
        what: impl Into<String>,
        table: &'v DeTable<'t>,
        span: Range<usize>,
    ) -> Self {
        Self { reader, what: what.into(), table, span, known: RefCell::default() }
    }

    pub(super) fn get(&self, key: &'static str) -> Option<&'v Value<'t>> {
        let mut known = self.known.borrow_mut();
        if !known.contains(&key) {
            known.push(key);
        }
        self.table.get(key)
    }

    pub(super) fn required(&self, key: &'static str, example: &str) -> Option<&'v Value<'t>> {
        let value = self.get(key);
        if value.is_none() {
            self.reader.fail(
                self.span.clone(),
                format!("{} lacks `{key}`", self.what),
                [format!("add, for example: {example}")],
            );
        }
        value
    }

    /// The keys that nothing asked for, in the order of the file.
    pub(super) fn rest(&self) -> Vec<(&'v str, Range<usize>, &'v Value<'t>)> {
        let known = self.known.borrow();
        let mut rest: Vec<_> = self
            .table
            .iter()
            .filter(|(key, _)| !known.contains(&key.get_ref().as_ref()))
            .map(|(key, value)| (key.get_ref().as_ref(), key.span(), value))
            .collect();
        rest.sort_by_key(|(_, span, _)| span.start);
        rest
    }

    /// Makes every key that nothing asked for a problem.
    pub(super) fn finish(self) {
        for (key, span, _) in self.rest() {
            self.reader.fail(
                span,
                format!("unknown field `{key}` in {}", self.what),
                [format!("allowed: {}", listed(self.known.borrow().iter()))],
            );
        }
    }
}

/// The elements of an array, or the one value where no array is written.
pub(super) fn one_or_list<'v, 't>(value: &'v Value<'t>) -> Vec<&'v Value<'t>> {
    match value.get_ref() {
        DeValue::Array(array) => array.iter().collect(),
        _ => vec![value],
    }
}

fn described(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "an integer",
        DeValue::Float(_) => "a float",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

/// The bounds of integers that a case may hold.
#[allow(clippy::cast_possible_truncation, reason = "2^53")]
pub(super) const EXACT_INTEGER: i64 = EXACT as i64;
