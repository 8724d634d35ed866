//! OpenAI's chat completions, which most servers speak.

use serde_json::{Value, json};

use super::endpoint::Endpoint;
use super::question::{Part, Question, Reply, Role, Stop, Turn};
use crate::base::http::origin;

pub(super) fn request(endpoint: &Endpoint, question: &Question) -> Value {
    let mut messages = Vec::new();
    if !question.system.is_empty() {
        messages.push(json!({ "role": "system", "content": question.system }));
    }
    messages.extend(question.turns.iter().flat_map(turn));
    let mut body = json!({ "model": endpoint.model, "messages": messages });
    // OpenAI's newer models refuse the one name, and many servers know only it.
    let ours = origin(&endpoint.url) == "https://api.openai.com";
    body[if ours { "max_completion_tokens" } else { "max_tokens" }] = json!(question.max_tokens);
    if let Some(temperature) = question.temperature {
        body["temperature"] = json!(temperature);
    }
    if let Some(seed) = question.seed {
        body["seed"] = json!(seed);
    }
    if !question.tools.is_empty() {
        body["tools"] = question.tools.iter().map(|tool| json!({ "type": "function", "function": tool })).collect();
    }
    body
}

/// The messages of a turn: each result is one of its own.
fn turn(turn: &Turn) -> Vec<Value> {
    let (mut text, mut calls, mut messages) = (String::new(), Vec::new(), Vec::new());
    for part in &turn.parts {
        match part {
            Part::Text(more) => text += more,
            Part::Call { id, name, arguments } => calls.push(json!({
                "id": id, "type": "function", "function": { "name": name, "arguments": arguments.to_string() }
            })),
            Part::Result { id, text, .. } => {
                messages.push(json!({ "role": "tool", "tool_call_id": id, "content": text }));
            }
        }
    }
    match turn.role {
        Role::User if text.is_empty() => {}
        Role::User => messages.push(json!({ "role": "user", "content": text })),
        Role::Assistant if calls.is_empty() => messages.push(json!({ "role": "assistant", "content": text })),
        Role::Assistant => {
            let content = if text.is_empty() { Value::Null } else { json!(text) };
            messages.push(json!({ "role": "assistant", "content": content, "tool_calls": calls }));
        }
    }
    messages
}

/// `None` where it has another form.
pub(super) fn reply(answer: &Value) -> Option<Reply> {
    let choice = answer.pointer("/choices/0")?;
    let message = choice.get("message")?;
    let refusal = message["refusal"].as_str().filter(|text| !text.is_empty());
    let mut parts: Vec<Part> =
        texts(&message["content"]).chain(refusal).map(|text| Part::Text(text.to_owned())).collect();
    for call in message["tool_calls"].as_array().into_iter().flatten() {
        let function = &call["function"];
        parts.push(Part::call(call["id"].as_str()?, function["name"].as_str()?, &function["arguments"]));
    }
    let stop = match choice["finish_reason"].as_str() {
        Some("length") => Stop::Length,
        Some("content_filter") => Stop::Refusal,
        _ if refusal.is_some() => Stop::Refusal,
        // Some servers say `stop` all the same.
        _ if parts.iter().any(|part| matches!(part, Part::Call { .. })) => Stop::Calls,
        _ => Stop::End,
    };
    Some(Reply { parts, stop })
}

/// Content is a text, or a list of texts.
fn texts(content: &Value) -> impl Iterator<Item = &str> {
    let listed = content.as_array().into_iter().flatten().filter_map(|part| part["text"].as_str());
    content.as_str().into_iter().chain(listed).filter(|text| !text.is_empty())
}
