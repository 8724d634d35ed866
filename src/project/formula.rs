//! Arithmetic over named sizes: `2 * rows * width * size(T)`.
//!
//! A formula is kept as a postfix program: evaluating, cloning and dropping it never recurses, so a text of any
//! length is safe.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::{Serialize, Serializer};
use thiserror::Error;

use super::DType;
use super::dtype::is_type_name;

/// The largest magnitude up to which every integer is exact in a double: 2^53.
pub(crate) const EXACT: f64 = 9_007_199_254_740_992.0;

/// What a name may not be.
const FUNCTIONS: [&str; 4] = ["min", "max", "ceil_div", "size"];

/// Parentheses and signs inside one another; far more than anybody writes.
const DEEPEST: u32 = 64;

/// An expression of `kernel.toml`.
///
/// Two formulas are equal when they differ in white space alone.
#[derive(Clone, Debug)]
pub struct Formula {
    /// As written.
    pub text: String,
    program: Vec<(Step, Range<usize>)>,
}

/// Why a formula cannot be read or has no value.
#[derive(Clone, Debug, Error)]
#[error("formula `{text}`, column {}: {message}", self.column())]
pub struct FormulaError {
    /// The formula as written.
    pub(crate) text: String,
    /// The bytes of `text` at fault.
    pub(crate) span: Range<usize>,
    /// What is wrong, and what is allowed.
    pub(crate) message: String,
}

impl FormulaError {
    /// The column in the formula, counted in characters from 1.
    pub(crate) fn column(&self) -> usize {
        self.text.get(..self.span.start).map_or(1, |before| before.chars().count() + 1)
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Number(f64),
    Name(String),
    /// Of the case's `T` when none.
    SizeOf(Option<DType>),
    /// Of what the case says of a type parameter.
    SizeOfParameter(String),
    Negate,
    Binary(Operator),
    CeilDiv,
    Least(usize),
    Most(usize),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

impl Formula {
    /// Reads a formula. The error names the column and what is allowed there.
    pub fn parse(text: &str) -> Result<Self, FormulaError> {
        let mut parser = Parser { text, at: 0, depth: 0, program: Vec::new() };
        parser.comparison()?;
        parser.skip_space();
        if parser.at < text.len() {
            let span = parser.here();
            let message = if text[parser.at..].starts_with(['^', '&', '|', '!', '?', '=']) {
                "there is no such operator; allowed: + - * / % == != < <= > >=".to_owned()
            } else {
                format!("expected an operator or the end, found `{}`", &text[span.clone()])
            };
            return Err(parser.error(span, message));
        }
        Ok(Self { text: text.to_owned(), program: parser.program })
    }

    /// A formula that is one number.
    pub(crate) fn number(value: f64) -> Self {
        Self { text: value.to_string(), program: vec![(Step::Number(value), 0..0)] }
    }

    /// The names it uses, in order, with the bytes of the text where they stand; repeated ones too.
    pub fn names(&self) -> impl Iterator<Item = (&str, Range<usize>)> {
        self.program.iter().filter_map(|(step, span)| match step {
            Step::Name(name) | Step::SizeOfParameter(name) => Some((name.as_str(), span.clone())),
            _ => None,
        })
    }

    /// Whether it is just this name.
    pub(crate) fn is_name(&self, name: &str) -> bool {
        matches!(self.program.as_slice(), [(Step::Name(only), _)] if only == name)
    }

    /// The name that it consists of, if it is one.
    pub(crate) fn as_name(&self) -> Option<&str> {
        match self.program.as_slice() {
            [(Step::Name(only), _)] => Some(only),
            _ => None,
        }
    }

    /// Its value, always finite. A comparison gives 1 or 0; `/` is a division of real numbers.
    ///
    /// Errors: a name without a value (the known ones are listed), a division by zero, a value beyond a double.
    pub(crate) fn eval(&self, names: &BTreeMap<String, f64>, t: DType) -> Result<f64, FormulaError> {
        let mut stack: Vec<f64> = Vec::new();
        for (step, span) in &self.program {
            let value = match step {
                Step::Number(value) => *value,
                Step::Name(name) => self.named(names, name, span)?,
                Step::SizeOf(dtype) => size(dtype.unwrap_or(t)),
                Step::SizeOfParameter(name) => size(DType::from_code(self.named(names, name, span)?).unwrap_or(t)),
                Step::Negate => -self.pop(&mut stack, span)?,
                Step::Binary(operator) => {
                    let right = self.pop(&mut stack, span)?;
                    let left = self.pop(&mut stack, span)?;
                    if right == 0.0 && matches!(operator, Operator::Divide | Operator::Remainder) {
                        return Err(self.error(span, "division by zero".to_owned()));
                    }
                    operator.apply(left, right)
                }
                Step::CeilDiv => {
                    let right = self.pop(&mut stack, span)?;
                    let left = self.pop(&mut stack, span)?;
                    if right <= 0.0 {
                        let message = format!("ceil_div by {right}, which is not positive");
                        return Err(self.error(span, message));
                    }
                    // Through the remainder: the quotient alone can round up to the next integer.
                    let rest = left.rem_euclid(right);
                    ((left - rest) / right).round() + f64::from(u8::from(rest != 0.0))
                }
                Step::Least(count) | Step::Most(count) => {
                    let mut value = self.pop(&mut stack, span)?;
                    for _ in 1..*count {
                        let other = self.pop(&mut stack, span)?;
                        value = if matches!(step, Step::Least(_)) { value.min(other) } else { value.max(other) };
                    }
                    value
                }
            };
            if !value.is_finite() {
                return Err(self.error(span, "the value overflows a double".to_owned()));
            }
            stack.push(value);
        }
        self.pop(&mut stack, &(0..self.text.len()))
    }

    fn named(&self, names: &BTreeMap<String, f64>, name: &str, span: &Range<usize>) -> Result<f64, FormulaError> {
        names.get(name).copied().ok_or_else(|| {
            let known = listed(names.keys());
            self.error(span, format!("unknown name `{name}`; known: {known}"))
        })
    }

    /// Its value as an integer. Refuses fractions, and magnitudes above 2^53, where doubles skip integers.
    pub(crate) fn eval_integer(&self, names: &BTreeMap<String, f64>, t: DType) -> Result<i64, FormulaError> {
        let value = self.eval(names, t)?;
        let whole = 0..self.text.len();
        if value.fract() != 0.0 {
            return Err(self.error(&whole, format!("gives {value}, which is not an integer")));
        }
        if value.abs() > EXACT {
            return Err(self.error(&whole, format!("gives {value:e}, more than 2^53: integers are not exact there")));
        }
        #[allow(clippy::cast_possible_truncation, reason = "checked above")]
        Ok(value as i64)
    }

    /// Its value as a size: an integer that is not negative.
    pub(crate) fn eval_size(&self, names: &BTreeMap<String, f64>, t: DType) -> Result<u64, FormulaError> {
        let value = self.eval_integer(names, t)?;
        u64::try_from(value)
            .map_err(|_| self.error(&(0..self.text.len()), format!("gives {value}; a size is not negative")))
    }

    /// Without white space, which means nothing in a formula.
    fn canonical(&self) -> String {
        self.text.chars().filter(|character| !character.is_whitespace()).collect()
    }

    fn pop(&self, stack: &mut Vec<f64>, span: &Range<usize>) -> Result<f64, FormulaError> {
        stack.pop().ok_or_else(|| self.error(span, "has no value".to_owned()))
    }

    fn error(&self, span: &Range<usize>, message: String) -> FormulaError {
        FormulaError { text: self.text.clone(), span: span.clone(), message }
    }
}

impl PartialEq for Formula {
    fn eq(&self, other: &Self) -> bool {
        self.canonical() == other.canonical()
    }
}

impl Serialize for Formula {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.canonical())
    }
}

impl Operator {
    #[allow(clippy::float_cmp, reason = "== means the same double; sizes are exact integers")]
    fn apply(self, left: f64, right: f64) -> f64 {
        let truth = |truth: bool| f64::from(u8::from(truth));
        match self {
            Self::Add => left + right,
            Self::Subtract => left - right,
            Self::Multiply => left * right,
            Self::Divide => left / right,
            Self::Remainder => left % right,
            Self::Equal => truth(left == right),
            Self::NotEqual => truth(left != right),
            Self::Less => truth(left < right),
            Self::LessEqual => truth(left <= right),
            Self::Greater => truth(left > right),
            Self::GreaterEqual => truth(left >= right),
        }
    }
}

#[allow(clippy::cast_precision_loss, reason = "at most 8")]
fn size(dtype: DType) -> f64 {
    dtype.size() as f64
}

/// Whether a name may stand in a formula: a letter or `_` first, then digits too, and none of the functions.
pub(crate) fn is_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.bytes().all(is_word)
        && name != "T"
        && !FUNCTIONS.contains(&name)
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// `a, b, c`, or `none`.
pub(super) fn listed<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> String {
    let names: Vec<String> = names.into_iter().map(|name| name.as_ref().to_owned()).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
    depth: u32,
    program: Vec<(Step, Range<usize>)>,
}

impl Parser<'_> {
    fn comparison(&mut self) -> Result<(), FormulaError> {
        const OPERATORS: [(&str, Operator); 6] = [
            ("==", Operator::Equal),
            ("!=", Operator::NotEqual),
            ("<=", Operator::LessEqual),
            (">=", Operator::GreaterEqual),
            ("<", Operator::Less),
            (">", Operator::Greater),
        ];
        self.sum()?;
        if let Some((operator, span)) = self.operator(&OPERATORS) {
            self.sum()?;
            self.push(Step::Binary(operator), span);
            if let Some((_, span)) = self.operator(&OPERATORS) {
                return Err(self.error(span, "comparisons do not chain; write parentheses".to_owned()));
            }
        }
        Ok(())
    }

    fn sum(&mut self) -> Result<(), FormulaError> {
        self.product()?;
        while let Some((operator, span)) = self.operator(&[("+", Operator::Add), ("-", Operator::Subtract)]) {
            self.product()?;
            self.push(Step::Binary(operator), span);
        }
        Ok(())
    }

    fn product(&mut self) -> Result<(), FormulaError> {
        self.signed()?;
        while let Some((operator, span)) =
            self.operator(&[("*", Operator::Multiply), ("/", Operator::Divide), ("%", Operator::Remainder)])
        {
            self.signed()?;
            self.push(Step::Binary(operator), span);
        }
        Ok(())
    }

    fn signed(&mut self) -> Result<(), FormulaError> {
        let mut minus = Vec::new();
        while let Some(span) = self.take("-") {
            minus.push(span);
        }
        self.operand()?;
        for span in minus {
            self.push(Step::Negate, span);
        }
        Ok(())
    }

    fn operand(&mut self) -> Result<(), FormulaError> {
        self.skip_space();
        let span = self.here();
        match self.text.as_bytes().get(self.at) {
            Some(b'(') => {
                self.at += 1;
                self.deeper(&span)?;
                self.comparison()?;
                self.depth -= 1;
                self.expect(")")
            }
            Some(byte) if byte.is_ascii_digit() || *byte == b'.' => self.literal(),
            Some(byte) if is_word(*byte) => self.word(),
            Some(_) => Err(self.error(
                span.clone(),
                format!("expected a number, a name, a function or `(`, found `{}`", &self.text[span]),
            )),
            None => Err(self.error(span, "ends where a number, a name, a function or `(` should stand".to_owned())),
        }
    }

    fn literal(&mut self) -> Result<(), FormulaError> {
        let start = self.at;
        let bytes = self.text.as_bytes();
        let digits = |mut at: usize| {
            while bytes.get(at).is_some_and(u8::is_ascii_digit) {
                at += 1;
            }
            at
        };
        let mut end = digits(start);
        if bytes.get(end) == Some(&b'.') {
            end = digits(end + 1);
        }
        if matches!(bytes.get(end), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
            let after = digits(end + 1 + sign);
            if after > end + 1 + sign {
                end = after;
            }
        }
        let span = start..end;
        // `12x` is a slip, not 12 followed by a name.
        if bytes.get(end).is_some_and(|byte| is_word(*byte)) {
            return Err(
                self.error(start..end + 1, "a number cannot be followed by a letter; multiply with `*`".to_owned())
            );
        }
        match self.text[span.clone()].parse::<f64>() {
            Ok(value) if value.is_finite() => {
                self.at = end;
                self.push(Step::Number(value), span);
                Ok(())
            }
            _ => Err(self.error(span, "is not a number that a double can hold".to_owned())),
        }
    }

    fn word(&mut self) -> Result<(), FormulaError> {
        let start = self.at;
        let (word, span) = self.take_word();
        self.skip_space();
        let called = self.text[self.at..].starts_with('(');
        match word.as_str() {
            "size" if called => self.size_of(start),
            "min" | "max" | "ceil_div" if called => self.call(&word, span),
            _ if called => Err(self.error(span, format!("unknown function `{word}`; known: {}", FUNCTIONS.join(", ")))),
            "T" => Err(self.error(span, "T is a type; its size in bytes is size(T)".to_owned())),
            _ if FUNCTIONS.contains(&word.as_str()) => {
                Err(self.error(span, format!("`{word}` is a function: write `{word}(…)`")))
            }
            _ => {
                self.push(Step::Name(word), span);
                Ok(())
            }
        }
    }

    /// What follows `size`, which began at `start`.
    fn size_of(&mut self, start: usize) -> Result<(), FormulaError> {
        self.expect("(")?;
        self.skip_space();
        let (name, inner) = self.take_word();
        let step = match name.as_str() {
            "T" => Step::SizeOf(None),
            // Only the names of kernel.toml, not all that torch uses.
            _ if DType::NAMES.contains(&name.as_str()) => Step::SizeOf(DType::from_name(&name)),
            _ if is_type_name(&name) => Step::SizeOfParameter(name),
            _ => {
                let names = DType::NAMES.join(", ");
                return Err(self.error(inner, format!("size() takes one of T, {names}, or a type parameter")));
            }
        };
        self.expect(")")?;
        // An unknown parameter is marked by itself, not with the whole call.
        let span = match step {
            Step::SizeOfParameter(_) => inner,
            _ => start..self.at,
        };
        self.push(step, span);
        Ok(())
    }

    /// What follows the name of a function of several arguments.
    fn call(&mut self, word: &str, span: Range<usize>) -> Result<(), FormulaError> {
        self.expect("(")?;
        self.deeper(&span)?;
        self.comparison()?;
        let mut count = 1;
        while self.take(",").is_some() {
            self.comparison()?;
            count += 1;
        }
        self.depth -= 1;
        self.expect(")")?;
        let step = match (word, count) {
            ("ceil_div", 2) => Step::CeilDiv,
            ("ceil_div", _) => {
                let message = format!("ceil_div takes 2 arguments, not {count}");
                return Err(self.error(span, message));
            }
            (_, 1) => {
                return Err(self.error(span, format!("{word} takes at least 2 arguments")));
            }
            ("min", _) => Step::Least(count),
            _ => Step::Most(count),
        };
        self.push(step, span.start..self.at);
        Ok(())
    }

    fn take_word(&mut self) -> (String, Range<usize>) {
        let start = self.at;
        while self.text.as_bytes().get(self.at).is_some_and(|byte| is_word(*byte)) {
            self.at += 1;
        }
        let span = if self.at == start { self.here() } else { start..self.at };
        (self.text[start..self.at].to_owned(), span)
    }

    fn operator(&mut self, operators: &[(&str, Operator)]) -> Option<(Operator, Range<usize>)> {
        operators.iter().find_map(|(sign, operator)| self.take(sign).map(|span| (*operator, span)))
    }

    fn take(&mut self, sign: &str) -> Option<Range<usize>> {
        self.skip_space();
        self.text[self.at..].starts_with(sign).then(|| {
            let start = self.at;
            self.at += sign.len();
            start..self.at
        })
    }

    fn expect(&mut self, sign: &str) -> Result<(), FormulaError> {
        if self.take(sign).is_some() {
            return Ok(());
        }
        let span = self.here();
        let found = match &self.text[span.clone()] {
            "" => "the end".to_owned(),
            found => format!("`{found}`"),
        };
        Err(self.error(span, format!("expected `{sign}`, found {found}")))
    }

    fn deeper(&mut self, span: &Range<usize>) -> Result<(), FormulaError> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(self.error(span.clone(), format!("more than {DEEPEST} parentheses inside one another")));
        }
        Ok(())
    }

    fn push(&mut self, step: Step, span: Range<usize>) {
        self.program.push((step, span));
    }

    fn skip_space(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
    }

    /// The next character, nothing at the end.
    fn here(&self) -> Range<usize> {
        let width = self.text[self.at..].chars().next().map_or(0, char::len_utf8);
        self.at..self.at + width
    }

    fn error(&self, span: Range<usize>, message: String) -> FormulaError {
        FormulaError { text: self.text.to_owned(), span, message }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::float_cmp, reason = "a test")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn names() -> BTreeMap<String, f64> {
        [("rows", 3.0), ("width", 4096.0), ("zero", 0.0)].map(|(name, value)| (name.to_owned(), value)).into()
    }

    fn value(text: &str) -> f64 {
        Formula::parse(text).unwrap().eval(&names(), DType::BF16).unwrap()
    }

    fn error(text: &str) -> String {
        Formula::parse(text).and_then(|formula| formula.eval(&names(), DType::BF16)).unwrap_err().to_string()
    }

    #[test]
    fn operators_bind_as_in_c() {
        for (text, expected) in [
            ("1 + 2 * 3", 7.0),
            ("(1 + 2) * 3", 9.0),
            ("8 - 3 - 2", 3.0),
            ("16 / 4 / 2", 2.0),
            ("7 % 4 * 2", 6.0),
            ("2 * -3", -6.0),
            ("--3", 3.0),
            ("-rows + 1", -2.0),
            ("1 + 1 == 2", 1.0),
            ("2 < 1", 0.0),
            ("2 <= 2", 1.0),
            ("rows != 3", 0.0),
            ("(rows > 2) * 5 + (rows >= 4)", 5.0),
            ("7 / 2", 3.5),
            ("1e-6 * 1.5e+6", 1.5),
            (".5", 0.5),
        ] {
            assert_eq!(value(text), expected, "{text}");
        }
    }

    #[test]
    fn functions_and_sizes_of_types() {
        for (text, expected) in [
            ("min(3, rows + 1, 2)", 2.0),
            ("max(3, width)", 4096.0),
            ("ceil_div(width, 1000)", 5.0),
            ("ceil_div(4096, 1024)", 4.0),
            ("ceil_div(0, 8)", 0.0),
            ("ceil_div(9007199254740991, 2)", 4_503_599_627_370_496.0),
            ("size(T)", 2.0),
            ("size(f32) + size( i64 )", 12.0),
            ("2 * rows * width * size(T)", 49152.0),
        ] {
            assert_eq!(value(text), expected, "{text}");
        }
    }

    #[test]
    fn errors_name_the_formula_the_column_and_what_is_known() {
        for (text, says) in [
            ("rows * widht", "formula `rows * widht`, column 8: unknown name `widht`; known: rows, width, zero"),
            ("", "column 1: ends where"),
            ("rows *", "column 7: ends where"),
            ("(rows", "column 6: expected `)`, found the end"),
            ("rows)", "column 5: expected an operator or the end, found `)`"),
            ("2 ^ 3", "column 3: there is no such operator"),
            ("a < b < c", "column 7: comparisons do not chain"),
            ("rows / zero", "column 6: division by zero"),
            ("ceil_div(1, zero)", "not positive"),
            ("ceil_div(1)", "ceil_div takes 2 arguments, not 1"),
            ("min(1)", "min takes at least 2"),
            ("size(f99)", "column 6: size() takes one of T, f32"),
            ("T", "size(T)"),
            ("min", "`min` is a function"),
            ("3rows", "multiply with `*`"),
            ("1e999", "not a number that a double can hold"),
            ("1e300 * 1e300", "overflows a double"),
            ("größe", "column 3: expected an operator"),
            ("é + 1", "column 1: expected a number"),
        ] {
            let message = error(text);
            assert!(message.contains(says), "`{text}`: {message}");
        }
    }

    #[test]
    fn sizes_are_whole_exact_and_not_negative() {
        let size = |text: &str| Formula::parse(text).unwrap().eval_size(&names(), DType::F32);
        assert_eq!(size("width / 2").unwrap(), 2048);
        assert_eq!(size("2 * 4503599627370496").unwrap(), 1 << 53);
        for (text, says) in [
            ("rows / 2", "gives 1.5, which is not an integer"),
            ("rows - 4", "gives -1; a size is not negative"),
            ("4 * 4503599627370496", "more than 2^53"),
        ] {
            let message = size(text).unwrap_err().to_string();
            assert!(message.contains(says), "`{text}`: {message}");
        }
    }

    #[test]
    fn a_long_or_deep_formula_does_not_exhaust_the_stack() {
        let long = format!("1{}", " + 1".repeat(100_000));
        assert_eq!(value(&long), 100_001.0);
        assert_eq!(value(&format!("{}1", "-".repeat(100_000))), 1.0);
        assert_eq!(value(&format!("{}1{}", "(".repeat(64), ")".repeat(64))), 1.0);
        assert!(error(&"(".repeat(100_000)).contains("inside one another"));
        assert!(error(&"min(1,".repeat(100_000)).contains("inside one another"));
    }

    /// A formula with all its parentheses, and its value.
    fn arithmetic() -> impl Strategy<Value = (String, f64)> {
        let leaf = (0_u32..100).prop_map(|number| (number.to_string(), f64::from(number)));
        leaf.prop_recursive(5, 64, 2, |inner| {
            (inner.clone(), 0_usize..4, inner).prop_map(|((left, a), operator, (right, b))| {
                let (sign, value) =
                    [("+", a + b), ("-", a - b), ("*", a * b), ("<", f64::from(u8::from(a < b)))][operator];
                (format!("({left}{sign}{right})"), value)
            })
        })
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "\\PC*") {
            let _ = Formula::parse(&text).map(|formula| formula.eval(&names(), DType::F32));
        }

        #[test]
        fn any_mixture_of_signs_is_read_or_refused(
            text in "([0-9a-z().,*/%+<>= -]|min|size\\(|ceil_div\\(|rows|T|é){0,40}"
        ) {
            match Formula::parse(&text) {
                Ok(formula) => {
                    if let Ok(value) = formula.eval(&names(), DType::F32) {
                        prop_assert!(value.is_finite());
                    }
                }
                Err(error) => {
                    prop_assert!(text.get(error.span.clone()).is_some(), "{:?}", error);
                    prop_assert!(!error.to_string().is_empty());
                }
            }
        }

        #[test]
        fn parentheses_decide((text, expected) in arithmetic()) {
            prop_assert_eq!(value(&text), expected);
        }

        #[test]
        fn products_bind_before_sums(a in 0_u32..1000, b in 0_u32..1000, c in 1_u32..1000) {
            let (x, y, z) = (f64::from(a), f64::from(b), f64::from(c));
            prop_assert_eq!(value(&format!("{a}+{b}*{c}")), x + y * z);
            prop_assert_eq!(value(&format!("{a}*{b}-{c}")), x * y - z);
            prop_assert_eq!(value(&format!("{a}-{b}-{c}")), (x - y) - z);
            prop_assert_eq!(value(&format!("{a}+{b}%{c}")), x + y % z);
            prop_assert_eq!(value(&format!("ceil_div({a}, {c})")), f64::from(a.div_ceil(c)));
            prop_assert_eq!(value(&format!("{a}+{b} < {c}*2")), f64::from(u8::from(x + y < z * 2.0)));
        }
    }
}
