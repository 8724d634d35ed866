//! One record of each agent's format, as seen in traces of Claude Code 2.1, Codex 0.169, `OpenCode` 1.18, Gemini CLI 0.61 and
//! Copilot CLI 1.0, and of ATIF 1.8. Records of other kinds are counted and left out.

use serde_json::Value;

use super::steps::Steps;

/// Whether a value is a whole session and not one record.
pub(super) fn is_document(value: &Value) -> bool {
    ["messages", "steps"].iter().any(|key| value.get(key).is_some_and(Value::is_array))
}

/// The name of a format, and what reads a record of it.
type Format = (&'static str, fn(&Value, &mut Steps));

/// Adds what a record says. The first one that is recognised decides which format the trace has.
pub(super) fn record(value: &Value, steps: &mut Steps) {
    match format(value) {
        Some((kind, read)) if *steps.kind.get_or_insert(kind) == kind => read(value, steps),
        _ => steps.ignore(),
    }
}

fn format(value: &Value) -> Option<Format> {
    let is = |key: &str| value[key].is_object();
    Some(match value["type"].as_str() {
        Some("user" | "assistant") if is("message") => ("Claude Code", claude),
        Some("response_item" | "session_meta" | "event_msg" | "turn_context") if is("payload") => ("Codex", codex),
        Some("item.completed") if is("item") => ("Codex", codex),
        Some(kind) if kind.contains('.') && is("data") => ("Copilot CLI", copilot),
        Some("user" | "gemini") if value["id"].is_string() => ("Gemini CLI", gemini),
        _ if is("$set") => ("Gemini CLI", gemini),
        _ if is("part") || is("info") && value["parts"].is_array() => ("OpenCode", opencode),
        _ if value["source"].is_string() && value["step_id"].is_number() => ("ATIF", atif),
        _ => return None,
    })
}

fn claude(value: &Value, steps: &mut Steps) {
    if value["isSidechain"] == true || value["isMeta"] == true || value["isCompactSummary"] == true {
        return steps.ignore();
    }
    let user = value["type"] == "user";
    let content = &value["message"]["content"];
    if let Some(text) = content.as_str() {
        return steps.said(user, text);
    }
    for block in content.as_array().into_iter().flatten() {
        match block["type"].as_str() {
            Some("text") => steps.said(user, &text(&block["text"])),
            Some("tool_use") => steps.called(&text(&block["id"]), &text(&block["name"]), &block["input"]),
            Some("tool_result") => {
                let failed = block["is_error"].as_bool();
                steps.answered(&text(&block["tool_use_id"]), &text(&block["content"]), failed);
            }
            _ => steps.ignore(),
        }
    }
}

fn codex(value: &Value, steps: &mut Steps) {
    if value["type"] == "item.completed" {
        return codex_event(&value["item"], steps);
    }
    let item = &value["payload"];
    let id = text(&item["call_id"]);
    match item["type"].as_str().filter(|_| value["type"] == "response_item") {
        Some("message") if item["role"] != "developer" && item["role"] != "system" => {
            steps.said(item["role"] == "user", &text(&item["content"]));
        }
        Some("function_call") => steps.called(&id, &text(&item["name"]), &item["arguments"]),
        Some("custom_tool_call") => steps.called(&id, &text(&item["name"]), &item["input"]),
        Some("local_shell_call") => steps.called(&id, "shell", &item["action"]),
        Some("function_call_output" | "custom_tool_call_output" | "local_shell_call_output") => {
            let output = text(&item["output"]);
            let parsed = serde_json::from_str::<Value>(&output).ok();
            let code = parsed.as_ref().and_then(|parsed| parsed["metadata"]["exit_code"].as_i64());
            let inner = parsed.as_ref().map(|parsed| text(&parsed["output"])).filter(|_| code.is_some());
            steps.answered(&id, inner.as_deref().unwrap_or(&output), code.map(|code| code != 0));
        }
        _ => steps.ignore(),
    }
}

/// What `codex exec --json` prints.
fn codex_event(item: &Value, steps: &mut Steps) {
    match item["type"].as_str() {
        Some("agent_message") => steps.said(false, &text(&item["text"])),
        Some("command_execution") => {
            let id = text(&item["id"]);
            steps.called(&id, "shell", item);
            let failed = item["exit_code"].as_i64().map(|code| code != 0);
            steps.answered(&id, &text(&item["aggregated_output"]), failed);
        }
        _ => steps.ignore(),
    }
}

fn opencode(value: &Value, steps: &mut Steps) {
    let user = value["info"]["role"] == "user";
    let one = [value["part"].clone()];
    for part in value["parts"].as_array().map_or(&one[..], Vec::as_slice) {
        match part["type"].as_str() {
            Some("text") if part["synthetic"] != true => steps.said(user, &text(&part["text"])),
            Some("tool") => {
                let (id, state) = (text(&part["callID"]), &part["state"]);
                steps.called(&id, &text(&part["tool"]), &state["input"]);
                let error = state["status"] == "error";
                let failed = state["metadata"]["exit"].as_i64().map(|code| code != 0).or(error.then_some(true));
                let result = if error { &state["error"] } else { &state["output"] };
                steps.answered(&id, &text(result), failed);
            }
            _ => steps.ignore(),
        }
    }
    for change in value["info"]["summary"]["diffs"].as_array().into_iter().flatten() {
        steps.changed(&text(&change["patch"]));
    }
}

/// A message is written again when its calls have ended.
fn gemini(value: &Value, steps: &mut Steps) {
    for message in value["$set"]["messages"].as_array().into_iter().flatten() {
        gemini(message, steps);
    }
    let id = text(&value["id"]);
    let user = value["type"] == "user";
    let mut parts = value["content"].as_array().into_iter().flatten();
    let answers = parts.any(|part| part["functionResponse"].is_object());
    let said = if answers { String::new() } else { text(&value["content"]) };
    if !said.is_empty() && steps.is_new(id) {
        steps.said(user, &said);
    }
    for call in value["toolCalls"].as_array().into_iter().flatten() {
        let id = text(&call["id"]);
        if steps.is_new(format!("call {id}")) {
            let result: String = call["result"].as_array().into_iter().flatten().map(text).collect();
            steps.called(&id, &text(&call["name"]), &call["args"]);
            steps.answered(&id, &result, (call["status"] == "error").then_some(true));
        }
    }
}

fn copilot(value: &Value, steps: &mut Steps) {
    let data = &value["data"];
    match value["type"].as_str() {
        Some("user.message") => steps.said(true, &text(&data["content"])),
        Some("assistant.message") => {
            steps.said(false, &text(&data["content"]));
            for call in data["toolRequests"].as_array().into_iter().flatten() {
                steps.called(&text(&call["toolCallId"]), &text(&call["name"]), &call["arguments"]);
            }
        }
        Some("tool.execution_complete") => {
            let code = data["shellExecution"]["exitCode"].as_i64().map(|code| code != 0);
            let failed = code.or_else(|| data["success"].as_bool().map(|success| !success));
            let result = if data["result"].is_null() { &data["error"] } else { &data["result"] };
            steps.answered(&text(&data["toolCallId"]), &text(result), failed);
        }
        _ => steps.ignore(),
    }
}

fn atif(value: &Value, steps: &mut Steps) {
    match value["source"].as_str() {
        Some(source @ ("user" | "agent")) => steps.said(source == "user", &text(&value["message"])),
        _ => steps.ignore(),
    }
    for call in value["tool_calls"].as_array().into_iter().flatten() {
        steps.called(&text(&call["tool_call_id"]), &text(&call["function_name"]), &call["arguments"]);
    }
    for result in value["observation"]["results"].as_array().into_iter().flatten() {
        steps.answered(&text(&result["source_call_id"]), &text(&result["content"]), None);
    }
}

/// The text of a value: its own, that of its parts, or of the first key that holds one.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let parts: Vec<String> = parts.iter().map(text).filter(|text| !text.is_empty()).collect();
            parts.join("\n")
        }
        Value::Object(fields) => {
            let keys = ["text", "content", "output", "error", "message", "functionResponse", "response"];
            keys.iter().find_map(|key| fields.get(*key)).map(text).unwrap_or_default()
        }
        _ => String::new(),
    }
}
