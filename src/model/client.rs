//! A model over HTTP. Its key goes to curl through a pipe, to the host of its address and no other: redirections are not followed.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use serde_json::Value;
use thiserror::Error;

use super::endpoint::{Api, Endpoint};
use super::question::{Answer, Question, Stop};
use super::usage::Usage;
use super::{Model, chat, messages, responses};
use crate::base::http::{Body, Bounds, Http, HttpError, Method, Request, Response, origin};

/// More than the longest answer has.
const LARGEST: u64 = 16 << 20;
/// With pauses that double from a quarter of a second, or as long as the server says.
const ATTEMPTS: u32 = 6;
/// How often an answer that ends in its middle is asked for.
const HALVES: u32 = 3;
/// What is quoted of an answer that is an error.
const QUOTED: usize = 300;

/// A key is replaced in what a server says, from this length on: a shorter one would be found in any text.
const SECRET: usize = 8;

/// A model had nothing to say. Its tokens are paid all the same.
#[derive(Debug, Error)]
#[error("{why}")]
pub(crate) struct NoContent {
    why: String,
    pub(crate) usage: Option<Usage>,
    /// As the server names it.
    pub(crate) model: String,
}

/// This one question has no answer that can be used; another one may have. Errors of no such type are about all questions: no
/// connection, no key, no such model, a limit.
#[derive(Debug, Error)]
#[error("{0}")]
pub(crate) struct Unanswered(String);

pub(crate) struct Client {
    endpoint: Endpoint,
    /// How long one answer may take.
    patience: Duration,
}

impl Client {
    pub(crate) fn new(endpoint: Endpoint, patience: Duration) -> Self {
        Self { endpoint, patience }
    }

    fn request(&self, key: Option<&str>) -> Request<'static> {
        let bounds = Bounds { bytes: LARGEST, time: self.patience, attempts: ATTEMPTS };
        let mut request = Request::new(Method::Post, &self.endpoint.url).within(bounds);
        request = request.header("Content-Type", "application/json");
        if self.endpoint.api == Api::Messages {
            request = request.header("anthropic-version", messages::VERSION);
        }
        match (key, self.endpoint.api) {
            (Some(key), Api::Messages) => request.header("x-api-key", key),
            (Some(key), _) => request.header("Authorization", &format!("Bearer {key}")),
            (None, _) => request,
        }
    }

    /// The answer's JSON; `None` if it ends in its middle.
    fn once(&self, http: &Http, body: &[u8], key: Option<&str>) -> Result<Option<Value>> {
        let answer = http.send(&self.request(key).body(Body::Bytes(body)));
        let answer = match answer {
            Err(error @ (HttpError::TooLarge { .. } | HttpError::TimedOut { .. })) => {
                return Err(Unanswered(error.to_string()).into());
            }
            answer => {
                answer.with_context(|| format!("{} does not answer; is its server running?", self.endpoint.url))?
            }
        };
        let bytes = without(answer.bytes()?, key);
        if !answer.is_success() {
            let why = self.refused(&answer, &quoted(&bytes, key));
            return Err(match answer.status {
                300..=399 | 401..=404 | 407 | 408 | 429 | 500.. => anyhow::Error::msg(why),
                _ => Unanswered(why).into(),
            });
        }
        match serde_json::from_slice::<Value>(&bytes) {
            Ok(value) => Ok(Some(value)),
            Err(error) if error.is_eof() => Ok(None),
            Err(_) => Err(Unanswered(format!(
                "{} answers with something else than JSON: \"{}\"; see whether its address is right",
                self.endpoint.url,
                quoted(&bytes, key)
            ))
            .into()),
        }
    }

    /// Why a request was refused, and what to do.
    fn refused(&self, answer: &Response, said: &str) -> String {
        let Endpoint { url, model, key, .. } = &self.endpoint;
        let host = origin(url);
        match answer.status {
            300..=399 => {
                let to = answer.header("Location").unwrap_or("elsewhere");
                format!("{url} redirects to {to}, which is not followed with a question; give the right address")
            }
            401 | 403 => match key {
                Some(name) => format!("{host} does not accept the key in {name} for {model} ({said}); set {name} anew"),
                None => format!("{host} wants a key ({said}); name its variable: URL?key=VARIABLE#{model}"),
            },
            404 => format!("{url} has no model {model}, or is not the right path ({said}); see {host}/v1/models"),
            429 => format!("{host} lets no more requests through for now ({said}); wait, or raise the limit there"),
            500.. => format!("{host} fails with {} ({said}); try again later", answer.status),
            code => format!("{host} refuses the request with {code} ({said}); change what is asked of {model}"),
        }
    }
}

/// An answer as it may be kept: a server that repeats the key is not to have it written.
fn without(bytes: Vec<u8>, key: Option<&str>) -> Vec<u8> {
    let Some(key) = key.filter(|key| key.len() >= SECRET) else { return bytes };
    if !bytes.windows(key.len()).any(|part| part == key.as_bytes()) {
        return bytes;
    }
    String::from_utf8_lossy(&bytes).replace(key, "…").into_bytes()
}

/// What a server says of an error, on one line and without the key.
fn quoted(bytes: &[u8], key: Option<&str>) -> String {
    let said = serde_json::from_slice::<Value>(bytes).ok().and_then(|value| {
        let mut at = ["/error/message", "/error", "/message", "/detail"].into_iter();
        at.find_map(|path| value.pointer(path)?.as_str().map(str::to_owned))
    });
    let mut said = said.unwrap_or_else(|| String::from_utf8_lossy(bytes).into_owned());
    if let Some(key) = key {
        said = said.replace(key, "…");
    }
    let line = said.split_whitespace().collect::<Vec<_>>().join(" ");
    let line: String = line.chars().filter(|c| !c.is_control()).take(QUOTED).collect();
    if line.is_empty() { "without a reason".to_owned() } else { line }
}

impl Model for Client {
    fn ask(&self, question: &Question) -> Result<Answer> {
        let key = self.endpoint.secret()?;
        let key = key.as_deref();
        let body = match self.endpoint.api {
            Api::Chat => chat::request(&self.endpoint, question),
            Api::Responses => responses::request(&self.endpoint, question),
            Api::Messages => messages::request(&self.endpoint, question),
        };
        let body = serde_json::to_vec(&body)?;
        let (http, begun) = (Http::new()?, Instant::now());
        let url = &self.endpoint.url;
        let whole = (0..HALVES).find_map(|_| self.once(&http, &body, key).transpose());
        let Some(value) = whole.transpose()? else {
            let why = format!("{url}: each of {HALVES} answers ended in its middle; see the server's log");
            return Err(Unanswered(why).into());
        };
        let reply = match self.endpoint.api {
            Api::Chat => chat::reply(&value),
            Api::Responses => responses::reply(&value),
            Api::Messages => messages::reply(&value),
        };
        let Some(reply) = reply else {
            let said = quoted(value.to_string().as_bytes(), key);
            let forms = "name the right one: ?api=chat, responses or messages";
            return Err(Unanswered(format!("{url} answers in no form of its API: \"{said}\"; {forms}")).into());
        };
        let usage = Usage::read(&value["usage"]);
        let model = value["model"].as_str().unwrap_or(&self.endpoint.model).to_owned();
        if reply.parts.is_empty() {
            let why = match reply.stop {
                Stop::Length => format!("all {} tokens went before its first word; allow more", question.max_tokens),
                Stop::Refusal => "it refuses the question".to_owned(),
                Stop::End | Stop::Calls => "neither text nor a call".to_owned(),
            };
            let why = format!("{} at {} answers without content: {why}", self.endpoint.model, origin(url));
            return Err(NoContent { why, usage, model }.into());
        }
        let seconds = begun.elapsed().as_secs_f64();
        Ok(Answer { parts: reply.parts, stop: reply.stop, usage, model, seconds })
    }

    fn name(&self) -> String {
        self.endpoint.to_string()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests;
