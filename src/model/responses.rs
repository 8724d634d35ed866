//! OpenAI's responses. Nothing is stored with the provider: each request has the whole conversation.

use serde_json::{Value, json};

use super::endpoint::Endpoint;
use super::question::{Part, Question, Reply, Role, Stop, Turn};

pub(super) fn request(endpoint: &Endpoint, question: &Question) -> Value {
    let input: Vec<Value> =
        question.turns.iter().flat_map(|turn| turn.parts.iter().map(|part| item(turn, part))).collect();
    let mut body = json!({
        "model": endpoint.model,
        "input": input,
        "max_output_tokens": question.max_tokens,
        "store": false,
    });
    if !question.system.is_empty() {
        body["instructions"] = json!(question.system);
    }
    if let Some(temperature) = question.temperature {
        body["temperature"] = json!(temperature);
    }
    let tools = question.tools.iter().map(|tool| {
        json!({
            "type": "function", "name": tool.name, "description": tool.description, "parameters": tool.parameters,
            // Otherwise the schema is made strict, and what is optional required.
            "strict": false,
        })
    });
    if !question.tools.is_empty() {
        body["tools"] = tools.collect();
    }
    body
}

fn item(turn: &Turn, part: &Part) -> Value {
    let (role, kind) = match turn.role {
        Role::User => ("user", "input_text"),
        Role::Assistant => ("assistant", "output_text"),
    };
    match part {
        Part::Text(text) => json!({ "type": "message", "role": role, "content": [{ "type": kind, "text": text }] }),
        Part::Call { id, name, arguments } => {
            json!({ "type": "function_call", "call_id": id, "name": name, "arguments": arguments.to_string() })
        }
        Part::Result { id, text, .. } => json!({ "type": "function_call_output", "call_id": id, "output": text }),
    }
}

/// `None` where it has another form.
pub(super) fn reply(answer: &Value) -> Option<Reply> {
    let (mut parts, mut refused) = (Vec::new(), false);
    for item in answer["output"].as_array()? {
        match item["type"].as_str() {
            Some("message") => {
                for content in item["content"].as_array().into_iter().flatten() {
                    refused |= content["type"] == "refusal";
                    let text = content["text"].as_str().or_else(|| content["refusal"].as_str());
                    parts.extend(text.filter(|text| !text.is_empty()).map(|text| Part::Text(text.to_owned())));
                }
            }
            Some("function_call") => {
                parts.push(Part::call(item["call_id"].as_str()?, item["name"].as_str()?, &item["arguments"]));
            }
            // Reasoning, and what the provider's own tools did.
            _ => {}
        }
    }
    let stop = match answer.pointer("/incomplete_details/reason").and_then(Value::as_str) {
        Some("content_filter") => Stop::Refusal,
        Some(_) => Stop::Length,
        None if refused => Stop::Refusal,
        None if parts.iter().any(|part| matches!(part, Part::Call { .. })) => Stop::Calls,
        None => Stop::End,
    };
    Some(Reply { parts, stop })
}
