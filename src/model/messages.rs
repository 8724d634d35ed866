//! Anthropic's messages.

use serde_json::{Value, json};

use super::endpoint::Endpoint;
use super::question::{Part, Question, Reply, Role, Stop};

/// The version of the API that requests and answers are in.
pub(super) const VERSION: &str = "2023-06-01";

pub(super) fn request(endpoint: &Endpoint, question: &Question) -> Value {
    let mut messages = Vec::new();
    for turn in &question.turns {
        let role = match turn.role {
            Role::User => "user",
            Role::Assistant => "assistant",
        };
        // Empty texts are refused.
        let parts = turn.parts.iter().filter(|part| !matches!(part, Part::Text(text) if text.is_empty()));
        messages.push(json!({ "role": role, "content": parts.map(block).collect::<Vec<_>>() }));
    }
    let mut body = json!({ "model": endpoint.model, "messages": messages, "max_tokens": question.max_tokens });
    if !question.system.is_empty() {
        body["system"] = json!(question.system);
    }
    if let Some(temperature) = question.temperature {
        body["temperature"] = json!(temperature);
    }
    if !question.tools.is_empty() {
        let tools = question
            .tools
            .iter()
            .map(|tool| json!({ "name": tool.name, "description": tool.description, "input_schema": tool.parameters }));
        body["tools"] = tools.collect();
    }
    body
}

fn block(part: &Part) -> Value {
    match part {
        Part::Text(text) => json!({ "type": "text", "text": text }),
        Part::Call { id, name, arguments } => {
            // It must be an object, also where the model wrote something else.
            let input = if arguments.is_object() { arguments.clone() } else { json!({ "text": arguments }) };
            json!({ "type": "tool_use", "id": id, "name": name, "input": input })
        }
        Part::Result { id, text, failed } => {
            json!({ "type": "tool_result", "tool_use_id": id, "content": text, "is_error": failed })
        }
    }
}

/// `None` where it has another form.
pub(super) fn reply(answer: &Value) -> Option<Reply> {
    let mut parts = Vec::new();
    for block in answer["content"].as_array()? {
        match block["type"].as_str() {
            Some("text") => {
                let text = block["text"].as_str()?;
                parts.extend(Some(text).filter(|text| !text.is_empty()).map(|text| Part::Text(text.to_owned())));
            }
            Some("tool_use") => parts.push(Part::call(block["id"].as_str()?, block["name"].as_str()?, &block["input"])),
            _ => {}
        }
    }
    let stop = match answer["stop_reason"].as_str() {
        Some("max_tokens" | "model_context_window_exceeded") => Stop::Length,
        Some("refusal") => Stop::Refusal,
        _ if parts.iter().any(|part| matches!(part, Part::Call { .. })) => Stop::Calls,
        _ => Stop::End,
    };
    Some(Reply { parts, stop })
}
