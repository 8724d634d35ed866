//! Between a coding agent and the server of its model: a port on the loopback. What the agent asks is asked there with the
//! user's key, which the agent does not have, and the tokens of the answers are read.

use std::fs;
use std::io::{BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::Child;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::Price;
use super::message::{Asked, BODY, head_of, read, refuse, usage};
use crate::base::http::{self, Body, Bounds, Method, Request};
use crate::base::{disk, scratch::Scratch};
use crate::model::{self, Usage};

/// What requests for an answer end with; the others cost nothing.
const ANSWERS: [&str; 5] =
    ["/messages", "/responses", "/chat/completions", ":generateContent", ":streamGenerateContent"];
/// What else is passed on with POST.
const COUNTS: [&str; 2] = ["/count_tokens", ":countTokens"];
/// The headers in which the key stands for the token. A server may quote any other in its answer.
const KEYS: [&str; 4] = ["authorization", "x-api-key", "x-goog-api-key", "api-key"];
/// The most connections at once.
const CONNECTIONS: usize = 16;
/// How long an agent may be silent in the middle of a request.
const SILENCE: Duration = Duration::from_secs(60);

/// The server behind the port, and what the agent has for the key.
pub(super) struct Upstream {
    pub(super) url: String,
    pub(super) key: Option<String>,
    pub(super) token: String,
    /// How many answers are asked for.
    pub(super) most: u32,
    pub(super) patience: Duration,
}

/// What went over the wire.
#[derive(Clone, Debug, Default)]
pub(super) struct Heard {
    usage: Usage,
    /// Answers that did not say what they cost.
    uncounted: u32,
    usd: f64,
    /// Answers of models without a known price.
    unpriced: u32,
    /// Requests that were passed on, and ended before an answer began: a server may count them.
    cut: u32,
    /// The status of the last answer; 0 where none came.
    pub(super) last: Option<u16>,
    /// What the agent calls itself.
    pub(super) client: Option<String>,
}

pub(super) struct Wire {
    pub(super) port: u16,
    shared: Arc<Shared>,
}

struct Shared {
    upstream: Upstream,
    scratch: Scratch,
    begun: Instant,
    closed: AtomicBool,
    open: AtomicUsize,
    asked: AtomicUsize,
    children: Mutex<Vec<Child>>,
    heard: Mutex<Heard>,
}

impl Heard {
    /// Of all answers; none where one was not counted.
    pub(super) fn usage(&self) -> Option<Usage> {
        (self.uncounted == 0).then_some(self.usage)
    }

    pub(super) fn usd(&self) -> Option<f64> {
        (self.uncounted + self.unpriced == 0 && self.usage.requests > 0).then_some(self.usd)
    }

    pub(super) fn price(&self) -> Price {
        Price { usd: self.usd, unknown: self.uncounted + self.unpriced + self.cut }
    }

    pub(super) fn answers(&self) -> u32 {
        u32::try_from(self.usage.requests).unwrap_or(u32::MAX).saturating_add(self.uncounted)
    }
}

impl Wire {
    pub(super) fn open(upstream: Upstream) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("cannot listen on the loopback")?;
        let port = listener.local_addr()?.port();
        let shared = Arc::new(Shared {
            upstream,
            scratch: Scratch::new()?,
            begun: Instant::now(),
            closed: AtomicBool::new(false),
            open: AtomicUsize::new(0),
            asked: AtomicUsize::new(0),
            children: Mutex::default(),
            heard: Mutex::default(),
        });
        let serving = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if serving.closed.load(Ordering::SeqCst) {
                    break;
                }
                if serving.open.fetch_add(1, Ordering::SeqCst) >= CONNECTIONS {
                    serving.open.fetch_sub(1, Ordering::SeqCst);
                    continue;
                }
                let shared = Arc::clone(&serving);
                thread::spawn(move || {
                    // An agent that hangs up is not answered.
                    let _ = shared.serve(&stream);
                    shared.open.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        Ok(Self { port, shared })
    }

    /// Ends what is under way, and says what was heard.
    pub(super) fn close(self) -> Heard {
        self.shared.closed.store(true, Ordering::SeqCst);
        let begun = Instant::now();
        while self.shared.open.load(Ordering::SeqCst) > 0 && begun.elapsed() < Duration::from_secs(5) {
            self.shared.end();
            thread::sleep(Duration::from_millis(5));
        }
        locked(&self.shared.heard).clone()
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::SeqCst);
        self.shared.end();
        // Whoever waits for connections looks only after one.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
    }
}

impl Shared {
    fn end(&self) {
        for child in locked(&self.children).iter_mut() {
            let _ = child.kill();
        }
    }

    fn serve(&self, stream: &TcpStream) -> Result<()> {
        stream.set_read_timeout(Some(SILENCE))?;
        let asked = read(stream)?;
        let path = asked.path.split('?').next().unwrap_or_default();
        let answers = asked.method == "POST" && ANSWERS.iter().any(|end| path.ends_with(end));
        let known = answers
            || asked.method == "POST" && COUNTS.iter().any(|end| path.ends_with(end))
            || asked.method == "GET" && path.split('/').any(|part| part == "models");
        if !asked.headers.iter().any(|header| self.is_key(header)) {
            return refuse(stream, "401 Unauthorized", "the key is missing");
        }
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/:?&=,+@%".contains(&byte);
        let leads = path.contains("..") || path.to_lowercase().contains("%2e") || !path.starts_with('/');
        if !known || leads || !asked.path.bytes().all(plain) {
            return refuse(stream, "404 Not Found", "only answers of a model are asked for here");
        }
        let before = if answers { self.asked.fetch_add(1, Ordering::SeqCst) } else { 0 };
        if answers && before >= self.upstream.most as usize {
            return refuse(stream, "400 Bad Request", "the agent has had its turns");
        }
        let said = self.pass_on(&asked, stream);
        if answers {
            let client = asked.headers.iter().find(|(name, _)| name == "user-agent");
            locked(&self.heard).client = client.map(|(_, value)| value.chars().take(100).collect());
            self.count(said.as_ref().map_or((0, &[][..]), |(status, bytes)| (*status, bytes)));
        }
        said.map(drop)
    }

    fn is_key(&self, (name, value): &(String, String)) -> bool {
        KEYS.contains(&name.as_str()) && value.strip_prefix("Bearer ").unwrap_or(value) == self.upstream.token
    }

    /// Asks the server, hands its answer on as it comes, and returns its status and its body.
    fn pass_on(&self, asked: &Asked, to: &TcpStream) -> Result<(u16, Vec<u8>)> {
        let Upstream { url, key, token, patience, .. } = &self.upstream;
        let file = self.scratch.path().join(disk::unique());
        fs::write(&file, &asked.body)?;
        let left = patience.saturating_sub(self.begun.elapsed()).max(Duration::from_secs(1));
        let bounds = Bounds { bytes: BODY, time: left, attempts: 1 };
        let method = if asked.method == "POST" { Method::Post } else { Method::Get };
        let mut request = Request::new(method, format!("{}{}", url.trim_end_matches('/'), asked.path)).within(bounds);
        for header @ (name, value) in &asked.headers {
            match key {
                _ if !self.is_key(header) => request = request.header(name, value),
                Some(key) => request = request.header(name, &value.replace(token.as_str(), key)),
                // A server that wants none.
                None => {}
            }
        }
        if method == Method::Post {
            request = request.body(Body::File(&file));
        }
        let mut child = http::stream(&request)?;
        let answer = child.stdout.take().context("curl has no output")?;
        let id = child.id();
        locked(&self.children).push(child);
        let said = Self::hand_on(answer, to);
        let mut children = locked(&self.children);
        if let Some(at) = children.iter().position(|child| child.id() == id) {
            let mut child = children.swap_remove(at);
            let _ = child.kill().and_then(|()| child.wait());
        }
        let _ = fs::remove_file(&file);
        said
    }

    fn hand_on(answer: impl Read, mut to: &TcpStream) -> Result<(u16, Vec<u8>)> {
        let mut answer = BufReader::new(answer);
        let (status, head) = head_of(&mut answer)?;
        to.write_all(head.as_bytes())?;
        let (mut kept, mut part) = (Vec::new(), vec![0; 64 << 10]);
        while let Ok(count @ 1..) = answer.read(&mut part) {
            if kept.len() as u64 <= BODY {
                kept.extend_from_slice(&part[..count]);
            }
            // The agent has hung up.
            if to.write_all(&part[..count]).is_err() {
                break;
            }
        }
        Ok((status, kept))
    }

    fn count(&self, (status, body): (u16, &[u8])) {
        let mut heard = locked(&self.heard);
        heard.last = Some(status);
        match usage(body) {
            Some((usage, model)) => {
                heard.usage = heard.usage + usage;
                match model.and_then(|model| model::usd(&model, &usage)) {
                    Some(usd) => heard.usd += usd,
                    None => heard.unpriced += 1,
                }
            }
            None if (200..300).contains(&status) => heard.uncounted += 1,
            None => heard.cut += u32::from(status == 0),
        }
    }
}

fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
