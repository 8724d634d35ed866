//! A question to a model and its answer, in none of the APIs' own forms.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::usage::Usage;

/// What is asked.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(crate) struct Question {
    pub(crate) system: String,
    pub(crate) turns: Vec<Turn>,
    pub(crate) tools: Vec<Tool>,
    pub(crate) max_tokens: u32,
    pub(crate) temperature: Option<f64>,
    /// Sent to the APIs that take one.
    pub(crate) seed: Option<u64>,
    /// Which of several answers to the same question this is to be; not sent.
    pub(crate) sample: u32,
}

#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Role {
    User,
    Assistant,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct Turn {
    pub(crate) role: Role,
    pub(crate) parts: Vec<Part>,
}

/// A part of a turn: of the model's its text and calls, of the user's text and what calls returned.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Part {
    Text(String),
    Call { id: String, name: String, arguments: Value },
    Result { id: String, text: String, failed: bool },
}

/// A tool that the model may call.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct Tool {
    pub(crate) name: String,
    pub(crate) description: String,
    /// A JSON schema of its arguments.
    pub(crate) parameters: Value,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct Answer {
    pub(crate) parts: Vec<Part>,
    pub(crate) stop: Stop,
    /// None where the server does not count.
    pub(crate) usage: Option<Usage>,
    /// As the server names it.
    pub(crate) model: String,
    /// How long it took when it was asked.
    pub(crate) seconds: f64,
}

impl Answer {
    /// Its text, without calls.
    pub(crate) fn text(&self) -> String {
        let texts = self.parts.iter().filter_map(|part| match part {
            Part::Text(text) => Some(text.as_str()),
            Part::Call { .. } | Part::Result { .. } => None,
        });
        texts.collect()
    }
}

/// An answer as one of the APIs gives it.
pub(super) struct Reply {
    pub(super) parts: Vec<Part>,
    pub(super) stop: Stop,
}

impl Part {
    /// A call whose arguments are a text. What is no JSON stays a text, and is refused by whoever carries it out.
    pub(super) fn call(id: &str, name: &str, arguments: &Value) -> Self {
        let arguments = match arguments {
            Value::String(text) if text.trim().is_empty() => Value::Object(serde_json::Map::new()),
            Value::String(text) => serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.clone())),
            Value::Null => Value::Object(serde_json::Map::new()),
            other => other.clone(),
        };
        Self::Call { id: id.to_owned(), name: name.to_owned(), arguments }
    }
}

/// Why an answer ends.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Stop {
    /// It is whole.
    End,
    /// Its calls are to be made.
    Calls,
    /// `max_tokens`, or the model's own limit.
    Length,
    /// The model or its provider refuses to answer.
    Refusal,
}

impl Question {
    /// One turn of a user.
    pub(crate) fn new(system: &str, text: &str, max_tokens: u32) -> Self {
        let turns = vec![Turn::user(text)];
        Self { system: system.to_owned(), turns, max_tokens, ..Self::default() }
    }
}

impl Turn {
    pub(crate) fn user(text: &str) -> Self {
        Self { role: Role::User, parts: vec![Part::Text(text.to_owned())] }
    }
}
