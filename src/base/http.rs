//! HTTP through the `curl` program. Whatever is secret or long goes to it through files and stdin, never through its
//! arguments, where other users of the machine would see it.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde::de::DeserializeOwned;
use thiserror::Error;

use super::disk;
use super::scratch::Scratch;

/// How often a request is made before its failure is final.
const ATTEMPTS: u32 = 5;
/// How many redirections are followed.
const REDIRECTIONS: usize = 5;
/// The first pause; each one after it is twice as long.
const PAUSE: Duration = Duration::from_millis(250);
/// A longer `Retry-After` is left to the user.
const MOST_PATIENCE: Duration = Duration::from_secs(120);
/// How long a transfer may bring nothing.
const STALLED: Duration = Duration::from_secs(120);
/// Of an answer that is read into memory.
const LARGEST: u64 = 64 << 20;
/// Of an answer's headers.
const HEADERS: u64 = 1 << 20;

/// A client. Its scratch files are removed with it.
pub(crate) struct Http {
    scratch: Scratch,
}

/// What is asked.
#[derive(Default)]
pub(crate) struct Request<'a> {
    pub(crate) method: Method,
    pub(crate) url: String,
    /// Each `Name: value`.
    pub(crate) headers: Vec<String>,
    pub(crate) body: Body<'a>,
    /// Whether it may be made again after an answer that may have been lost.
    pub(crate) once: bool,
    /// The most bytes of the answer, where more are expected, or fewer, than fit into memory.
    pub(crate) most: Option<u64>,
    /// For an answer of somebody unknown. Redirections are then left to the caller.
    bounds: Option<Bounds>,
}

/// The most that an answer may have and take.
#[derive(Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) bytes: u64,
    pub(crate) time: Duration,
    /// How often the request is made before its failure is final.
    pub(crate) attempts: u32,
}

#[derive(Clone, Copy, Default, PartialEq)]
pub(crate) enum Method {
    #[default]
    Get,
    Post,
    Put,
    Delete,
}

#[derive(Default)]
pub(crate) enum Body<'a> {
    #[default]
    None,
    Bytes(&'a [u8]),
    File(&'a Path),
}

/// What was answered; its body is a file.
pub(crate) struct Response {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    body: PathBuf,
    scratch: bool,
}

/// No answer came.
#[derive(Debug, Error)]
pub(crate) enum HttpError {
    #[error("the program `curl` is not there; install the package curl (apt install curl, dnf install curl)")]
    NoCurl,
    #[error("{host} cannot be reached: {why}")]
    Unreachable { host: String, why: String },
    #[error("{host} sends more than {}", size(*.bytes))]
    TooLarge { host: String, bytes: u64 },
    #[error("{host}: {why}")]
    TimedOut { host: String, why: String },
    #[error("{0}")]
    Other(String),
}

impl Http {
    pub(crate) fn new() -> Result<Self> {
        Ok(Self { scratch: Scratch::new()? })
    }

    /// Gets what somebody unknown serves, within bounds, along redirections to https or to the same host and port.
    pub(crate) fn download(&self, url: &str, bounds: Bounds) -> Result<Response> {
        let mut url = url.to_owned();
        for _ in 0..=REDIRECTIONS {
            let request = Request { bounds: Some(bounds), ..Request::new(Method::Get, &url) };
            let response = self.send(&request)?;
            let Some(to) = response.header("Location").filter(|_| (300..400).contains(&response.status)) else {
                return Ok(response);
            };
            let next = joined(&url, to);
            if !may_lead(&url, &next) {
                bail!("{url} redirects to {next}; only https and the same host are followed");
            }
            url = next;
        }
        bail!("{url}: more than {REDIRECTIONS} redirections");
    }

    /// Makes a request, again after a failure that may pass, and returns the last answer, whatever its status.
    pub(crate) fn send(&self, request: &Request) -> Result<Response, HttpError> {
        self.fetch(request, None)
    }

    /// The same, with the answer's body in a file of the caller's.
    pub(crate) fn fetch(&self, request: &Request, to: Option<&Path>) -> Result<Response, HttpError> {
        let mut pause = PAUSE;
        for attempt in 1.. {
            let answer = self.attempt(request, to);
            let wait = match &answer {
                Ok(response) => response.retry_after(request.once, pause),
                Err(HttpError::Unreachable { .. }) if !request.once => Some(pause),
                Err(_) => None,
            };
            match wait {
                Some(wait) if attempt < request.bounds.map_or(ATTEMPTS, |bounds| bounds.attempts) => {
                    thread::sleep(wait);
                }
                _ => return answer,
            }
            pause *= 2;
        }
        unreachable!("the last attempt returns")
    }

    fn attempt(&self, request: &Request, to: Option<&Path>) -> Result<Response, HttpError> {
        let other = |error: std::io::Error| HttpError::Other(format!("cannot write a temporary file: {error}"));
        let path = |what: &str| self.scratch.path().join(format!("{what}-{}", disk::unique()));
        let (headers, sent) = (path("headers"), path("sent"));
        let body = to.map_or_else(|| path("body"), Path::to_owned);
        let mut config = settings(request)?;
        let mut line = |name: &str, path: &Path| -> Result<(), HttpError> {
            let text = path.to_str().ok_or_else(|| HttpError::Other(format!("{} is not UTF-8", path.display())))?;
            let _ = writeln!(config, "{name} = {}", quoted(text)?);
            Ok(())
        };
        line("dump-header", &headers)?;
        // The limit is held here: curl knows the size of an answer only where a server says it.
        line("output", Path::new("-"))?;
        match request.body {
            Body::None => {}
            // `data` would read the whole file into memory.
            Body::File(file) => line("upload-file", file)?,
            Body::Bytes(bytes) => {
                fs::write(&sent, bytes).map_err(other)?;
                line("upload-file", &sent)?;
            }
        }
        let ran = curl(&config, request, &body);
        let _ = fs::remove_file(&sent);
        let text = disk::read_plain(&headers, HEADERS).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let _ = fs::remove_file(&headers);
        let ran = ran?;
        if !ran.status.success() {
            return Err(failure(request, &ran));
        }
        let Some((status, headers)) = parse(&text) else {
            return Err(HttpError::Unreachable { host: host(&request.url), why: "no answer".to_owned() });
        };
        Ok(Response { status, headers, body, scratch: to.is_none() })
    }
}

impl<'a> Request<'a> {
    pub(crate) fn new(method: Method, url: impl Into<String>) -> Self {
        Self { method, url: url.into(), ..Self::default() }
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push(format!("{name}: {value}"));
        self
    }

    pub(crate) fn body(mut self, body: Body<'a>) -> Self {
        self.body = body;
        self
    }

    /// Answers over this size are given up.
    pub(crate) fn most(mut self, bytes: u64) -> Self {
        self.most = Some(bytes);
        self
    }

    pub(crate) fn within(mut self, bounds: Bounds) -> Self {
        self.bounds = Some(bounds);
        self
    }

    /// Not to be repeated when it is unknown whether it was carried out.
    pub(crate) fn once(mut self) -> Self {
        self.once = true;
        self
    }
}

impl Response {
    pub(crate) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The first header of this name.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    pub(crate) fn bytes(&self) -> Result<Vec<u8>> {
        disk::read_plain(&self.body, LARGEST).context("an answer cannot be read")
    }

    pub(crate) fn json<T: DeserializeOwned>(&self) -> Result<T> {
        Ok(serde_json::from_slice(&self.bytes()?)?)
    }

    /// How long to wait before the same request, if it makes sense.
    fn retry_after(&self, once: bool, pause: Duration) -> Option<Duration> {
        // 429 says that nothing was done.
        let passes = self.status == 429 || !once && (self.status >= 500 && self.status != 501);
        let asked = self.header("Retry-After").and_then(|text| text.trim().parse().ok()).map(Duration::from_secs);
        Some(asked.unwrap_or(pause)).filter(|wait| passes && *wait <= MOST_PATIENCE)
    }
}

impl Drop for Response {
    fn drop(&mut self) {
        if self.scratch {
            let _ = fs::remove_file(&self.body);
        }
    }
}

/// One segment of a path, or a value of a query.
pub(crate) fn encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut all, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            all.push(byte.into());
        } else {
            let _ = write!(all, "%{byte:02X}");
        }
        all
    })
}

/// `https://host:port` of an address.
pub(crate) fn origin(url: &str) -> &str {
    let start = url.find("://").map_or(0, |at| at + 3);
    let end = url[start..].find(['/', '?', '#']).map_or(url.len(), |at| start + at);
    &url[..end]
}

/// Whether somebody unknown at one address may send us to another: over https, or to the same host and port. Otherwise a
/// site could have requests made of what is reached from this machine alone.
pub(crate) fn may_lead(from: &str, to: &str) -> bool {
    to.starts_with("https://") || origin(to) == origin(from)
}

/// An address as a page at `base` names it. curl resolves the dots.
pub(crate) fn joined(base: &str, to: &str) -> String {
    let folder = || &base[..base.rfind('/').filter(|at| *at >= origin(base).len()).unwrap_or(base.len())];
    match to {
        _ if to.contains("://") => to.to_owned(),
        _ if to.starts_with("//") => format!("{}:{to}", base.split("://").next().unwrap_or_default()),
        _ if to.starts_with('/') => format!("{}{to}", origin(base)),
        _ => format!("{}/{to}", folder()),
    }
}

/// Whether what is sent to this address stays secret: it is encrypted, or does not leave the machine.
pub(crate) fn is_private(url: &str) -> bool {
    let host = host(url);
    let name = host.strip_prefix('[').and_then(|rest| rest.split(']').next());
    let name = name.unwrap_or_else(|| host.split(':').next().unwrap_or_default());
    url.starts_with("https://") || url.starts_with("http://") && ["localhost", "127.0.0.1", "::1"].contains(&name)
}

/// The host and port of an address, without a user's name and password.
fn host(url: &str) -> String {
    let origin = origin(url);
    let host = origin.split_once("://").map_or(origin, |(_, host)| host);
    host.rsplit('@').next().unwrap_or_default().to_owned()
}

fn size(bytes: u64) -> String {
    if bytes < 1_000_000 { format!("{bytes} bytes") } else { format!("{} MB", bytes / 1_000_000) }
}

fn settings(request: &Request) -> Result<String, HttpError> {
    let protocols = if request.url.starts_with("https://") { "=https" } else { "=http,https" };
    let method = match request.method {
        Method::Get => "GET",
        Method::Post => "POST",
        Method::Put => "PUT",
        Method::Delete => "DELETE",
    };
    // A stalled transfer is given up after two minutes; a slow one is not, nor an answer that is given longer.
    let stalled = request.bounds.map_or(STALLED, |bounds| bounds.time.max(STALLED)).as_secs();
    let mut config = format!(
        "silent\nshow-error\ngloboff\nconnect-timeout = 30\nspeed-limit = 1\nspeed-time = {stalled}\nproto = \"{protocols}\"\n\
         proto-redir = \"{protocols}\"\nrequest = {method}\nurl = {}\nheader = \"Expect:\"\nuser-agent = \"kernels/{}\"\n",
        quoted(&request.url)?,
        env!("CARGO_PKG_VERSION"),
    );
    match request.bounds {
        Some(Bounds { time, .. }) => drop(writeln!(config, "max-time = {}", time.as_secs_f64())),
        // curl keeps `Authorization` from other hosts.
        None if request.method == Method::Get => config += "location\nmax-redirs = 5\n",
        None => {}
    }
    for header in &request.headers {
        let name = header.split(':').next().unwrap_or_default();
        // curl would read a file that is named behind `@`; a server names headers as well.
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)) {
            return Err(HttpError::Other(format!("{name:?} is no name of a header")));
        }
        let _ = writeln!(config, "header = {}", quoted(header)?);
    }
    Ok(config)
}

/// A value of curl's configuration. A line end in it would be another setting, or another header.
fn quoted(value: &str) -> Result<String, HttpError> {
    if value.chars().any(char::is_control) {
        return Err(HttpError::Other("an address, a header or a path has a control character".to_owned()));
    }
    Ok(format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\"")))
}

fn curl(config: &str, request: &Request, body: &Path) -> Result<Output, HttpError> {
    let failed = |error: io::Error| HttpError::Other(format!("curl: {error}"));
    let mut file = fs::File::create(body).map_err(failed)?;
    // --disable: a user's .curlrc might print what is secret.
    let mut command = Command::new("curl");
    command.args(["--disable", "--config", "-"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| match error.kind() {
        ErrorKind::NotFound => HttpError::NoCurl,
        _ => HttpError::Other(format!("cannot start curl: {error}")),
    })?;
    if let Some(mut stdin) = child.stdin.take() {
        // It has ended early if this fails, and says why.
        let _ = stdin.write_all(config.as_bytes());
    }
    if let Some(stdout) = child.stdout.take() {
        let bytes = request.bounds.map(|bounds| bounds.bytes).or(request.most).unwrap_or(LARGEST);
        let copied = io::copy(&mut stdout.take(bytes + 1), &mut file);
        if !copied.as_ref().is_ok_and(|copied| *copied <= bytes) {
            let _ = child.kill().and_then(|()| child.wait());
            return Err(copied.err().map_or(HttpError::TooLarge { host: host(&request.url), bytes }, failed));
        }
    }
    child.wait_with_output().map_err(failed)
}

/// Starts a request once and leaves its answer as it comes, headers and body, in the standard output of the child.
pub(crate) fn stream(request: &Request) -> Result<Child, HttpError> {
    let mut config = settings(request)? + "include\nno-buffer\nhttp1.1\nsuppress-connect-headers\n";
    if let Body::File(file) = request.body {
        let _ = writeln!(config, "upload-file = {}", quoted(&file.to_string_lossy())?);
    }
    let failed = |error| HttpError::Other(format!("cannot start curl: {error}"));
    let mut command = Command::new("curl");
    command.args(["--disable", "--config", "-"]);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().map_err(failed)?;
    if let Some(mut stdin) = child.stdin.take() {
        let _ = stdin.write_all(config.as_bytes());
    }
    Ok(child)
}

/// Codes of curl that stay the same however often it is tried: a wrong address, no such option, a circle of redirections, a
/// certificate.
const FINAL: [i32; 9] = [1, 2, 3, 4, 23, 26, 47, 60, 77];
const TIMED_OUT: i32 = 28;

fn failure(request: &Request, ran: &Output) -> HttpError {
    let said = String::from_utf8_lossy(&ran.stderr);
    let mut why = said.trim().strip_prefix("curl: ").unwrap_or(said.trim()).to_owned();
    for header in &request.headers {
        let value = header.split_once(": ").map_or(header.as_str(), |(_, value)| value);
        why = why.replace(value, "…");
    }
    // A query may hold a signature.
    if let Some((_, query)) = request.url.split_once('?') {
        why = why.replace(query, "…");
    }
    let host = host(&request.url);
    match ran.status.code() {
        // To have run out of time once is enough.
        Some(TIMED_OUT) if request.bounds.is_some() => HttpError::TimedOut { host, why },
        Some(code) if FINAL.contains(&code) => HttpError::Other(format!("{host}: curl failed: {why}")),
        _ => HttpError::Unreachable { host, why },
    }
}

/// Status and headers of the last answer: those of redirections come before it.
fn parse(text: &str) -> Option<(u16, Vec<(String, String)>)> {
    let last = text.split("\r\n\r\n").filter(|block| block.trim_start().starts_with("HTTP/")).last()?;
    let mut lines = last.trim_start().lines();
    let status = lines.next()?.split_whitespace().nth(1)?.parse().ok()?;
    let headers = lines.filter_map(|line| line.split_once(':'));
    Some((status, headers.map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned())).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_leaves_the_machine_encrypted_or_not_at_all() {
        for (url, private) in [
            ("https://huggingface.co/api", true),
            ("http://127.0.0.1:8000", true),
            ("http://localhost/x", true),
            ("http://[::1]:80/", true),
            ("http://huggingface.co", false),
            ("http://127.0.0.1.evil.org/", false),
            ("http://evil.org/@localhost", false),
            ("http://localhost@evil.org/", false),
            ("ftp://localhost/", false),
        ] {
            assert_eq!(is_private(url), private, "{url}");
        }
    }

    #[test]
    fn a_header_that_a_server_names_is_no_file_and_no_second_header() {
        for (header, wrong) in [
            ("X-Amz-Date: 1", false),
            ("Authorization: Bearer x", false),
            ("@/etc/passwd: x", true),
            ("A b: c", true),
            (": c", true),
            ("A: b\r\nC: d", true),
        ] {
            let request = Request { headers: vec![header.to_owned()], ..Request::new(Method::Get, "https://a/") };
            assert_eq!(settings(&request).is_err(), wrong, "{header:?}");
        }
    }

    #[test]
    fn the_last_answer_counts_and_a_line_end_is_no_value() {
        let text = "HTTP/1.1 302 Found\r\nLocation: /x\r\n\r\nHTTP/2 200 \r\nX-A:  b:c \r\n\r\n";
        assert_eq!(parse(text), Some((200, vec![("X-A".to_owned(), "b:c".to_owned())])));
        assert_eq!(parse(""), None);
        assert!(quoted("a\r\nX: y").is_err());
        assert_eq!(quoted("a \"b\\").unwrap(), "\"a \\\"b\\\\\"");
        assert_eq!(encoded("refs/pr/3 ü"), "refs%2Fpr%2F3%20%C3%BC");
    }
}
