//! A model on the loopback that asks for what a test wants, in the APIs of all agents. Each answer has read 1000 tokens, 400
//! of them from a cache, and written 50.

use std::fmt::Write as _;
use std::io::Write;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::support::http::{self, Request};

/// What it does.
#[derive(Clone)]
pub(crate) struct Script {
    /// The skill that it loads first, where it is offered.
    pub(crate) skill: String,
    /// The commands that it then runs, one an answer.
    pub(crate) commands: Vec<String>,
    /// The last command over and over.
    pub(crate) for_ever: bool,
    /// What it answers instead, if not 200.
    pub(crate) status: u16,
}

pub(crate) struct Model {
    pub(crate) url: String,
    asked: Arc<Mutex<Vec<Request>>>,
}

/// Tools that run a command, and the name of its argument.
const SHELLS: [(&str, &str); 5] = [
    ("Bash", "command"),
    ("bash", "command"),
    ("exec_command", "cmd"),
    ("shell_command", "command"),
    ("run_shell_command", "command"),
];

impl Model {
    pub(crate) fn new(script: Script) -> Self {
        let asked: Arc<Mutex<Vec<Request>>> = Arc::default();
        let seen = Arc::clone(&asked);
        let url = http::serve(move |request, stream| {
            let (kind, text) = reply(request.path.split('?').next().unwrap_or_default(), &request.body, &script);
            seen.lock().unwrap().push(request);
            stream.write_all(&http::answer(&format!("{} X", script.status), &format!("Content-Type: {kind}\r\n"), text))
        });
        Self { url, asked }
    }

    /// One that loads a skill, where it is offered, and does no more.
    pub(crate) fn that_loads(skill: &str) -> Self {
        Self::new(Script { skill: skill.to_owned(), commands: Vec::new(), for_ever: false, status: 200 })
    }

    pub(crate) fn asked(&self) -> Vec<Request> {
        self.asked.lock().unwrap().clone()
    }

    /// The questions in Anthropic's API, in order of arrival.
    pub(crate) fn messages(&self) -> Vec<Value> {
        let asked = self.asked().into_iter().filter(|asked| asked.path.split('?').next() == Some("/v1/messages"));
        asked.map(|asked| asked.body).filter(|body| !body.is_null()).collect()
    }
}

/// The tool to call and its arguments; none when it is done.
fn call(body: &Value, script: &Script, results: usize) -> Option<(String, Value)> {
    let tools = body["tools"].as_array()?;
    let groups = tools.iter().flat_map(|tool| match tool["functionDeclarations"].as_array() {
        Some(several) => several.iter().collect(),
        None => vec![tool],
    });
    let name = |tool: &Value| Some(tool["name"].as_str().or(tool["function"]["name"].as_str())?.to_owned());
    let names: Vec<String> = groups.filter_map(name).collect();
    let (shell, argument) = SHELLS.iter().find(|(shell, _)| names.iter().any(|name| name == shell))?;
    let run = |command: &str| {
        let mut arguments = json!({ "description": "a step" });
        if *argument == "cmd" {
            arguments = json!({});
        }
        arguments[*argument] = json!(command);
        Some(((*shell).to_owned(), arguments))
    };
    let offered = body.to_string().contains(&format!("{}: ", script.skill))
        || body.to_string().contains(&format!("<name>{}", script.skill));
    let at = results.checked_sub(usize::from(offered));
    let Some(at) = at else {
        let loader = names.iter().find(|name| ["Skill", "skill", "activate_skill"].contains(&name.as_str()));
        return match loader {
            Some(loader) if loader == "activate_skill" => Some((loader.clone(), json!({ "name": script.skill }))),
            Some(loader) if loader == "Skill" => Some((loader.clone(), json!({ "skill": script.skill }))),
            Some(loader) => Some((loader.clone(), json!({ "name": script.skill, "skill": script.skill }))),
            None => run(&format!("cat .codex/skills/{}/SKILL.md", script.skill)),
        };
    };
    let last = script.commands.last().filter(|_| script.for_ever);
    run(script.commands.get(at).or(last)?)
}

/// The content type and the text of an answer.
fn reply(path: &str, body: &Value, script: &Script) -> (&'static str, String) {
    const EVENTS: &str = "text/event-stream";
    let text = body.to_string();
    let marks = ["tool_result", "function_call_output"].map(|kind| format!("\"type\":\"{kind}\""));
    let results = marks.iter().map(|mark| text.matches(mark.as_str()).count()).sum::<usize>()
        + ["\"role\":\"tool\"", "\"functionResponse\""].map(|mark| text.matches(mark).count()).iter().sum::<usize>();
    let (model, call) = (&body["model"], || call(body, script, results));
    if script.status != 200 {
        let error = json!({ "error": { "type": "authentication_error", "message": "no" } });
        return ("application/json", error.to_string());
    }
    match path.rsplit(['/', ':']).next().unwrap_or_default() {
        "messages" => (EVENTS, messages(call(), results, model)),
        "responses" => (EVENTS, responses(call(), results, model)),
        "completions" => (EVENTS, chat(call(), results, model)),
        "streamGenerateContent" => (EVENTS, google(call())),
        _ => ("application/json", "{}".to_owned()),
    }
}

fn events(all: &[Value]) -> String {
    all.iter().fold(String::new(), |mut text, event| {
        if let Some(kind) = event["type"].as_str() {
            let _ = writeln!(text, "event: {kind}");
        }
        let _ = write!(text, "data: {event}\n\n");
        text
    })
}

fn messages(call: Option<(String, Value)>, results: usize, model: &Value) -> String {
    let usage = json!({ "input_tokens": 500, "cache_read_input_tokens": 400, "cache_creation_input_tokens": 100,
                        "output_tokens": 1 });
    let (block, delta, stop) = match call {
        Some((name, input)) => (
            json!({ "type": "tool_use", "id": format!("toolu_{results}"), "name": name, "input": {} }),
            json!({ "type": "input_json_delta", "partial_json": input.to_string() }),
            "tool_use",
        ),
        None => (json!({ "type": "text", "text": "" }), json!({ "type": "text_delta", "text": "done" }), "end_turn"),
    };
    let message = json!({ "id": "msg_1", "type": "message", "role": "assistant", "model": model, "content": [],
                          "stop_reason": null, "stop_sequence": null, "usage": usage });
    events(&[
        json!({ "type": "message_start", "message": message }),
        json!({ "type": "content_block_start", "index": 0, "content_block": block }),
        json!({ "type": "content_block_delta", "index": 0, "delta": delta }),
        json!({ "type": "content_block_stop", "index": 0 }),
        json!({ "type": "message_delta", "delta": { "stop_reason": stop, "stop_sequence": null },
                "usage": { "output_tokens": 50 } }),
        json!({ "type": "message_stop" }),
    ])
}

fn responses(call: Option<(String, Value)>, results: usize, model: &Value) -> String {
    let item = match call {
        Some((name, arguments)) => {
            json!({ "type": "function_call", "id": format!("fc_{results}"), "call_id": format!("call_{results}"), "name": name,
                                           "arguments": arguments.to_string(), "status": "completed" })
        }
        None => json!({ "type": "message", "id": "m_1", "role": "assistant", "status": "completed",
                        "content": [{ "type": "output_text", "text": "done", "annotations": [] }] }),
    };
    let usage = json!({ "input_tokens": 1000, "output_tokens": 50, "total_tokens": 1050,
                        "input_tokens_details": { "cached_tokens": 400 },
                        "output_tokens_details": { "reasoning_tokens": 10 } });
    let response = json!({ "id": "resp_1", "object": "response", "model": model, "status": "completed",
                           "output": [item], "usage": usage });
    events(&[
        json!({ "type": "response.created", "response": { "id": "resp_1" } }),
        json!({ "type": "response.output_item.done", "output_index": 0, "item": item }),
        json!({ "type": "response.completed", "response": response }),
    ])
}

fn chat(call: Option<(String, Value)>, results: usize, model: &Value) -> String {
    let chunk = |choices: Value| {
        json!({ "id": "c", "object": "chat.completion.chunk", "created": 1, "model": model,
                                         "choices": choices })
    };
    let (delta, reason) = match call {
        Some((name, arguments)) => {
            let function = json!({ "name": name, "arguments": arguments.to_string() });
            let call = json!({ "index": 0, "id": format!("call_{results}"), "type": "function", "function": function });
            (json!({ "role": "assistant", "content": null, "tool_calls": [call] }), "tool_calls")
        }
        None => (json!({ "role": "assistant", "content": "done" }), "stop"),
    };
    let mut last = chunk(json!([]));
    last["usage"] = json!({ "prompt_tokens": 1000, "completion_tokens": 50, "total_tokens": 1050,
                            "prompt_tokens_details": { "cached_tokens": 400 },
                            "completion_tokens_details": { "reasoning_tokens": 10 } });
    let first = chunk(json!([{ "index": 0, "delta": delta, "finish_reason": null }]));
    let end = chunk(json!([{ "index": 0, "delta": {}, "finish_reason": reason }]));
    events(&[first, end, last]) + "data: [DONE]\n\n"
}

fn google(call: Option<(String, Value)>) -> String {
    let part = match call {
        Some((name, arguments)) => json!({ "functionCall": { "name": name, "args": arguments } }),
        None => json!({ "text": "done" }),
    };
    let content = json!({ "role": "model", "parts": [part] });
    events(&[json!({
        "candidates": [{ "content": content, "finishReason": "STOP", "index": 0 }], "modelVersion": "m",
        "usageMetadata": { "promptTokenCount": 1000, "candidatesTokenCount": 40, "thoughtsTokenCount": 10,
                           "cachedContentTokenCount": 400, "totalTokenCount": 1050 },
    })])
}
