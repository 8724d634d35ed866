//! The text of a record: JSON with a case, a row or a list of rounds on each line, so that a diff names what changed.

use std::io;

use anyhow::Result;
use serde::Serialize;
use serde_json::Value;
use serde_json::ser::{Formatter, Serializer};

/// An object longer than this has one line per field.
const LINE: usize = 1500;
/// The same of a record's cases, which hold every round.
const CASE: usize = 4000;

/// The text of a record. `benches/gpu/evidence_form.py` writes the same form.
pub fn text(record: &impl Serialize) -> Result<String> {
    let mut text = String::new();
    put(&mut text, &serde_json::to_value(record)?, 0)?;
    text.push('\n');
    Ok(text)
}

/// Writes the record and every value that does not fit on a line field by field, lists of objects element by
/// element, everything else on one line.
fn put(text: &mut String, value: &Value, depth: usize) -> Result<()> {
    let line = on_a_line(value)?;
    match value {
        Value::Object(fields)
            if !fields.is_empty() && (depth == 0 || line.chars().count() > if depth <= 2 { CASE } else { LINE }) =>
        {
            text.push('{');
            for (at, (name, value)) in fields.iter().enumerate() {
                start(text, at, depth + 1);
                text.push_str(&on_a_line(&Value::from(name.as_str()))?);
                text.push_str(": ");
                put(text, value, depth + 1)?;
            }
            start(text, 0, depth);
            text.push('}');
        }
        Value::Array(values) if values.first().is_some_and(Value::is_object) => {
            text.push('[');
            for (at, value) in values.iter().enumerate() {
                start(text, at, depth + 1);
                put(text, value, depth + 1)?;
            }
            start(text, 0, depth);
            text.push(']');
        }
        _ => text.push_str(&line),
    }
    Ok(())
}

/// Starts a new line, after a comma unless it is the first.
fn start(text: &mut String, at: usize, depth: usize) {
    text.push_str(if at > 0 { ",\n" } else { "\n" });
    text.push_str(&" ".repeat(depth));
}

fn on_a_line(value: &Value) -> Result<String> {
    let mut bytes = Vec::new();
    value.serialize(&mut Serializer::with_formatter(&mut bytes, Spaced))?;
    Ok(String::from_utf8(bytes)?)
}

/// A formatter for one line, with a space after commas and colons.
struct Spaced;

impl Spaced {
    fn separate<W: ?Sized + io::Write>(writer: &mut W, first: bool) -> io::Result<()> {
        writer.write_all(if first { b"" } else { b", " })
    }
}

impl Formatter for Spaced {
    fn begin_array_value<W: ?Sized + io::Write>(&mut self, to: &mut W, first: bool) -> io::Result<()> {
        Self::separate(to, first)
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, to: &mut W, first: bool) -> io::Result<()> {
        Self::separate(to, first)
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, to: &mut W) -> io::Result<()> {
        to.write_all(b": ")
    }
}
