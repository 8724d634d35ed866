//! Requests and answers as they go over the wire of a coding agent, in HTTP/1.1.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::model::Usage;

/// Headers that hold for one connection, or by which an answer would be compressed.
const OWN: [&str; 9] = [
    "host",
    "connection",
    "keep-alive",
    "content-length",
    "transfer-encoding",
    "accept-encoding",
    "expect",
    "te",
    "upgrade",
];
/// Of a request's head, and of a body or of what is read of an answer.
const HEAD: u64 = 256 << 10;
pub(super) const BODY: u64 = 32 << 20;

/// A request as it came.
pub(super) struct Asked {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

/// Reads a request.
pub(super) fn read(stream: &TcpStream) -> Result<Asked> {
    let mut input = BufReader::new(stream);
    let lines = head(&mut input)?;
    let mut words = lines.first().map_or("", String::as_str).split(' ');
    let (method, path) = (words.next().unwrap_or_default().to_owned(), words.next().unwrap_or_default().to_owned());
    let headers: Vec<(String, String)> = lines
        .iter()
        .skip(1)
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.trim().to_lowercase(), value.trim().to_owned()))
        .collect();
    let header = |name: &str| headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
    if header("expect").is_some() {
        (&mut &*stream).write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
    }
    let mut body = Vec::new();
    if header("transfer-encoding").is_some_and(|value| value.eq_ignore_ascii_case("chunked")) {
        loop {
            let mut line = String::new();
            input.by_ref().take(64).read_line(&mut line)?;
            let size = u64::from_str_radix(line.trim().split(';').next().unwrap_or_default(), 16)?;
            if size == 0 {
                break;
            }
            exactly(&mut input, size, &mut body)?;
            exactly(&mut input, 2, &mut Vec::new())?;
        }
    } else if let Some(length) = header("content-length") {
        exactly(&mut input, length.parse()?, &mut body)?;
    }
    let headers = headers.into_iter().filter(|(name, _)| !OWN.contains(&name.as_str())).collect();
    Ok(Asked { method, path, headers, body })
}

fn exactly(input: &mut impl Read, size: u64, to: &mut Vec<u8>) -> Result<()> {
    if size > BODY || to.len() as u64 + size > BODY {
        bail!("a request of more than {} MB", BODY >> 20);
    }
    if input.take(size).read_to_end(to)? as u64 != size {
        bail!("a request ends in its middle");
    }
    Ok(())
}

/// The lines up to an empty one.
fn head(input: &mut impl BufRead) -> io::Result<Vec<String>> {
    let (mut lines, mut input) = (Vec::new(), input.take(HEAD));
    loop {
        let mut line = String::new();
        if input.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if line.trim().is_empty() {
            return Ok(lines);
        }
        lines.push(line.trim_end().to_owned());
    }
}

/// The status of an answer, and its head for a connection that ends with it.
pub(super) fn head_of(answer: &mut impl BufRead) -> Result<(u16, String)> {
    loop {
        let lines = head(answer)?;
        let first = lines.first().context("an answer without a status")?;
        let status: u16 = first.split(' ').nth(1).unwrap_or_default().parse()?;
        if status < 200 {
            continue;
        }
        let own = |line: &&String| {
            let name = line.split(':').next().unwrap_or_default().to_lowercase();
            name == "content-length" || !OWN.contains(&name.as_str())
        };
        let rest: Vec<&str> = lines.iter().skip(1).filter(own).map(String::as_str).collect();
        return Ok((status, format!("{first}\r\n{}\r\nconnection: close\r\n\r\n", rest.join("\r\n"))));
    }
}

pub(super) fn refuse(mut stream: &TcpStream, status: &str, why: &str) -> Result<()> {
    let body = serde_json::json!({ "type": "error", "error": { "type": "invalid_request_error", "message": why } });
    let body = body.to_string();
    let head = format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n", body.len());
    Ok(write!(stream, "{head}connection: close\r\n\r\n{body}")?)
}

/// What an answer cost, and of which model: a document, or the events of a stream, of which later ones complete earlier ones.
pub(super) fn usage(body: &[u8]) -> Option<(Usage, Option<String>)> {
    let text = String::from_utf8_lossy(body);
    let whole = serde_json::from_str::<Value>(&text).ok();
    let events = text.lines().filter_map(|line| serde_json::from_str(line.strip_prefix("data:")?.trim()).ok());
    let all: Vec<Value> = match whole {
        Some(Value::Array(all)) => all,
        Some(one) => vec![one],
        None => events.collect(),
    };
    let places = ["/usage", "/message/usage", "/response/usage", "/usageMetadata"];
    let said = all.iter().flat_map(|value| places.iter().filter_map(|place| Usage::read(value.pointer(place)?)));
    let usage = said.reduce(|one, other| Usage {
        fresh: one.fresh.max(other.fresh),
        cached: one.cached.max(other.cached),
        written: one.written.max(other.written),
        out: one.out.max(other.out),
        reasoning: one.reasoning.max(other.reasoning),
        requests: 1,
    });
    let names = ["/model", "/message/model", "/response/model", "/modelVersion"];
    let model = all.iter().find_map(|value| names.iter().find_map(|name| value.pointer(name)?.as_str()));
    Some((usage?, model.map(str::to_owned)))
}
