//! Reading a trace's file, of which no more than one record is held in memory at once. Its format is told by its content.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::Path;
use std::rc::Rc;

use anyhow::{Context, Result, bail};
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::line::next_line;
use super::steps::Steps;
use super::{Trace, form, markdown};
use crate::base::plural;

/// The most bytes of a record; an agent's longest are some megabytes, images in base64.
const RECORD: usize = 16 << 20;
/// How much of a file's beginning is looked at to tell its format.
const PEEK: u64 = 1 << 20;

/// Whether a path is a file, so not a skill's folder or name.
pub(crate) fn is_trace(path: &Path) -> bool {
    path.is_file() && path.extension().is_none_or(|ending| ending != crate::skill::archive::EXTENSION)
}

/// Reads a trace whole.
pub(crate) fn read(path: &Path) -> Result<Trace> {
    let open = || -> io::Result<_> {
        let mut file = File::open(path)?;
        let mut peek = Vec::new();
        (&mut file).take(PEEK).read_to_end(&mut peek)?;
        Ok((file, peek))
    };
    let (file, peek) = open().with_context(|| format!("cannot read {}", path.display()))?;
    let start = peek.strip_prefix("\u{feff}".as_bytes()).unwrap_or(&peek).trim_ascii_start();
    if start.contains(&0) {
        bail!("{} is no trace: it is a binary file{}", path.display(), advice(start));
    }
    let first = start.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let whole = serde_json::from_slice::<Value>(first);
    let document = match &whole {
        Ok(value) => form::is_document(value),
        Err(error) => error.is_eof() && starts_document(start),
    };
    let object = start.starts_with(b"{");
    let mut begin = Cursor::new(&peek);
    begin.set_position((peek.len() - start.len()) as u64);
    let input = BufReader::new(begin.chain(file));
    let mut steps = Steps::default();
    let read = match (object, document) {
        (true, true) => {
            read_document(input, &mut steps);
            Ok(())
        }
        (true, false) => read_lines(input, &mut steps),
        (false, _) => markdown::read(input, RECORD, &mut steps).map_err(Into::into),
    };
    read.with_context(|| format!("cannot read {}", path.display()))?;
    let trace = steps.finish();
    if trace.steps.is_empty() {
        let why = [&[String::new()][..], &trace.remarks].concat().join("; ");
        bail!(
            "{} holds no step of a trace{why}. Traces of Claude Code, Codex, OpenCode (`opencode export ID`), Gemini CLI, \
             Copilot CLI, ATIF and Markdown with a heading for each role are read",
            path.display()
        );
    }
    Ok(trace)
}

fn advice(start: &[u8]) -> &'static str {
    match start {
        [b'S', b'Q', b'L', ..] => "; of OpenCode's database, `opencode export ID > FILE` writes a session",
        [0x1f, 0x8b, ..] => "; unpack it first",
        _ => "",
    }
}

/// Whether an object that does not end on its line begins as a session in one document does. An empty file begins no object.
fn starts_document(start: &[u8]) -> bool {
    let Some(inside) = start.strip_prefix(b"{") else { return false };
    let line = inside.split(|byte| *byte == b'\n').next().filter(|line| line.len() < inside.len());
    let first = String::from_utf8_lossy(&inside[..inside.len().min(199)]);
    let key = first.trim_start().trim_start_matches('"').split('"').next().unwrap_or_default();
    line.is_some_and(|line| line.trim_ascii().is_empty())
        || matches!(key, "info" | "messages" | "schema_version" | "steps")
}

/// JSON Lines. A line that cannot be read costs itself only.
fn read_lines(mut input: impl BufRead, steps: &mut Steps) -> Result<()> {
    let (mut unreadable, mut last, mut number) = (Vec::new(), false, 0);
    let mut line = Vec::new();
    while let Some(length) = next_line(&mut input, &mut line, RECORD)? {
        number += 1;
        if length > RECORD {
            steps.remark(format!("line {number} has {} MB and is left out", length >> 20));
            continue;
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        let text = String::from_utf8_lossy(&line);
        match serde_json::from_str::<Value>(text.trim_start_matches('\u{feff}')) {
            Ok(value) => form::record(&value, steps),
            Err(error) => {
                last = error.is_eof() && !line.ends_with(b"\n");
                unreadable.push(number);
            }
        }
        if steps.is_full() {
            steps.remark(format!("it is read as far as line {number}: more steps are not kept"));
            break;
        }
    }
    if last {
        unreadable.pop();
        steps.remark("its last line is cut off and left out".to_owned());
    }
    if let Some(first) = unreadable.first() {
        let lines = plural(unreadable.len(), "line");
        steps.remark(format!("{lines} left out that are no JSON or too deep, the first of them line {first}"));
    }
    Ok(())
}

/// One document, of whose `messages` or `steps` one is held at a time. One that is cut off counts as far as it goes.
fn read_document(input: impl BufRead, steps: &mut Steps) {
    let since = Rc::new(Cell::new(0));
    let metered = Metered { input, since: Rc::clone(&since) };
    let mut parser = serde_json::Deserializer::from_reader(metered);
    if let Err(error) = parser.deserialize_map(Document { since, steps }) {
        steps.remark(format!("it is read as far as it can be: {error}"));
    }
}

/// Ends with an error where one record has more than [`RECORD`] bytes.
struct Metered<R> {
    input: R,
    since: Rc<Cell<usize>>,
}

impl<R: Read> Read for Metered<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(into)?;
        self.since.set(self.since.get() + read);
        if self.since.get() > RECORD {
            return Err(io::Error::other(format!("a message has more than {} MB", RECORD >> 20)));
        }
        Ok(read)
    }
}

struct Document<'a> {
    since: Rc<Cell<usize>>,
    steps: &'a mut Steps,
}

impl<'de> Visitor<'de> for Document<'_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str("a session")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            self.since.set(0);
            if matches!(key.as_str(), "messages" | "steps") {
                map.next_value_seed(&mut self)?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Result<(), A::Error> {
        while let Some(value) = all.next_element::<Value>()? {
            self.since.set(0);
            form::record(&value, self.steps);
            if self.steps.is_full() {
                return Err(A::Error::custom("more steps are not kept"));
            }
        }
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for &mut Document<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, parser: D) -> Result<(), D::Error> {
        parser.deserialize_seq(Document { since: Rc::clone(&self.since), steps: self.steps })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    /// Whatever a trace holds, it is read or refused: a panic would end the program.
    #[test]
    fn no_beginning_of_a_trace_and_no_changed_byte_of_it_stops_the_reader() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/traces");
        let file = tempfile::NamedTempFile::new().unwrap();
        let read = |bytes: &[u8]| {
            std::fs::write(file.path(), bytes).unwrap();
            let _ = super::read(file.path()).map(|trace| crate::trace::digest::digest(&trace, "t", 1_000));
        };
        for bytes in [&b""[..], b"\n", b"\xef\xbb\xbf", b"{", b"[", b"\"", b"{\n", b"\n\n{\"", b"#", b"\0"] {
            read(bytes);
        }
        for entry in std::fs::read_dir(folder).unwrap() {
            let whole = std::fs::read(entry.unwrap().path()).unwrap();
            for at in (0..whole.len()).step_by(whole.len() / 12 + 1) {
                read(&whole[..at]);
                for byte in [b'"', b'{', b'\n', b'<', 0xc3] {
                    let mut changed = whole.clone();
                    changed[at] = byte;
                    read(&changed);
                }
            }
        }
    }
}
