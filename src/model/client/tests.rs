//! The client and kept answers against a server of scripted answers, which may be cut off.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use serde_json::json;

use super::*;
use crate::model::question::{Part, Role, Tool, Turn};
use crate::model::{Kept, Usage};

const PATIENCE: Duration = Duration::from_secs(20);

/// An answer with this status line, these headers and this body; `cut` leaves out its end.
fn answer(status: &str, headers: &str, body: &str, cut: usize) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n{headers}\r\n{}", &body[..length - cut])
}

/// Gives each request the next answer, and sends on what it was asked. It is gone after the last one.
fn serve(answers: Vec<String>) -> (String, Receiver<(String, Value)>) {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", server.local_addr().unwrap());
    let (send, asked) = channel();
    thread::spawn(move || {
        for answer in answers {
            let mut stream = server.accept().unwrap().0;
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let (mut head, mut line) = (String::new(), String::new());
            while reader.read_line(&mut line).unwrap() > 2 {
                head += &std::mem::take(&mut line);
            }
            let lower = head.to_lowercase();
            let length = lower.split("content-length: ").nth(1).map_or("0", |rest| rest.lines().next().unwrap());
            let mut body = vec![0; length.trim().parse().unwrap()];
            reader.read_exact(&mut body).unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
            let _ = send.send((head, serde_json::from_slice(&body).unwrap()));
        }
    });
    (address, asked)
}

fn client(address: &str) -> Client {
    Client::new(address.parse().unwrap(), PATIENCE)
}

/// A conversation with a call that failed, and a tool.
fn question() -> Question {
    let call = Part::Call { id: "c1".to_owned(), name: "run".to_owned(), arguments: json!({ "command": "ls" }) };
    let result = Part::Result { id: "c1".to_owned(), text: "no".to_owned(), failed: true };
    let mut question = Question::new("Be brief.", "Go", 64);
    question.turns.push(Turn { role: Role::Assistant, parts: vec![Part::Text("Well".to_owned()), call] });
    question.turns.push(Turn { role: Role::User, parts: vec![result, Part::Text("On".to_owned())] });
    question.tools.push(Tool {
        name: "run".to_owned(),
        description: "Runs".to_owned(),
        parameters: json!({ "type": "object" }),
    });
    question.temperature = Some(0.5);
    question.seed = Some(7);
    question
}

fn text(answer: &Answer) -> &str {
    match answer.parts.as_slice() {
        [Part::Text(text)] => text,
        _ => panic!("{answer:?}"),
    }
}

fn chat(text: &str) -> String {
    let message = json!({ "content": text });
    json!({ "choices": [{ "message": message, "finish_reason": "stop" }], "model": "m" }).to_string()
}

/// What each API is sent and what it answers with a call, with the path and the header of its key.
fn apis() -> [(&'static str, &'static str, &'static str, Value, Value); 3] {
    let schema = json!({ "type": "object" });
    let text = r#"{"command":"ls"}"#;
    let chat = json!({
        "model": "m", "max_tokens": 64, "temperature": 0.5, "seed": 7,
        "messages": [
            { "role": "system", "content": "Be brief." },
            { "role": "user", "content": "Go" },
            { "role": "assistant", "content": "Well", "tool_calls":
              [{ "id": "c1", "type": "function", "function": { "name": "run", "arguments": text } }] },
            { "role": "tool", "tool_call_id": "c1", "content": "no" },
            { "role": "user", "content": "On" },
        ],
        "tools": [{ "type": "function", "function": { "name": "run", "description": "Runs", "parameters": schema } }],
    });
    let chat_answer = json!({
        "model": "m-1", "usage": { "prompt_tokens": 9, "completion_tokens": 3 },
        "choices": [{ "finish_reason": "stop", "message": { "content": "Hm", "tool_calls":
            [{ "id": "c2", "function": { "name": "run", "arguments": text } }] } }],
    });
    let responses = json!({
        "model": "m", "max_output_tokens": 64, "temperature": 0.5, "store": false, "instructions": "Be brief.",
        "input": [
            { "type": "message", "role": "user", "content": [{ "type": "input_text", "text": "Go" }] },
            { "type": "message", "role": "assistant", "content": [{ "type": "output_text", "text": "Well" }] },
            { "type": "function_call", "call_id": "c1", "name": "run", "arguments": text },
            { "type": "function_call_output", "call_id": "c1", "output": "no" },
            { "type": "message", "role": "user", "content": [{ "type": "input_text", "text": "On" }] },
        ],
        "tools": [{ "type": "function", "name": "run", "description": "Runs", "parameters": schema, "strict": false }],
    });
    let responses_answer = json!({
        "model": "m-1", "usage": { "input_tokens": 9, "output_tokens": 3 },
        "output": [
            { "type": "reasoning", "summary": [] },
            { "type": "message", "content": [{ "type": "output_text", "text": "Hm" }] },
            { "type": "function_call", "call_id": "c2", "name": "run", "arguments": text },
        ],
    });
    let messages = json!({
        "model": "m", "max_tokens": 64, "temperature": 0.5, "system": "Be brief.",
        "messages": [
            { "role": "user", "content": [{ "type": "text", "text": "Go" }] },
            { "role": "assistant", "content": [
                { "type": "text", "text": "Well" },
                { "type": "tool_use", "id": "c1", "name": "run", "input": { "command": "ls" } } ] },
            { "role": "user", "content": [
                { "type": "tool_result", "tool_use_id": "c1", "content": "no", "is_error": true },
                { "type": "text", "text": "On" } ] },
        ],
        "tools": [{ "name": "run", "description": "Runs", "input_schema": schema }],
    });
    let messages_answer = json!({
        "model": "m-1", "usage": { "input_tokens": 9, "output_tokens": 3 }, "stop_reason": "tool_use",
        "content": [
            { "type": "text", "text": "Hm" },
            { "type": "tool_use", "id": "c2", "name": "run", "input": { "command": "ls" } },
        ],
    });
    [
        ("chat", "/v1/chat/completions", "authorization: bearer ", chat, chat_answer),
        ("responses", "/v1/responses", "authorization: bearer ", responses, responses_answer),
        ("messages", "/v1/messages", "x-api-key: ", messages, messages_answer),
    ]
}

#[test]
fn the_same_question_and_answer_in_each_api() {
    // A variable that is set everywhere stands for the one with the key.
    let key = std::env::var("PATH").unwrap().to_lowercase();
    for (name, path, header, sent, answered) in apis() {
        let (address, asked) = serve(vec![answer("200 OK", "", &answered.to_string(), 0)]);
        let said = client(&format!("{address}/v1?api={name}&key=PATH#m")).ask(&question()).unwrap();
        let (head, body) = asked.recv().unwrap();
        assert!(head.starts_with(&format!("POST {path} HTTP/1.1")), "{head}");
        assert!(head.to_lowercase().contains(&format!("{header}{key}")), "{head}");
        assert_eq!(head.to_lowercase().contains("anthropic-version"), name == "messages");
        assert_eq!(body, sent, "{name}");
        let call = Part::Call { id: "c2".to_owned(), name: "run".to_owned(), arguments: json!({ "command": "ls" }) };
        assert_eq!(said.parts, [Part::Text("Hm".to_owned()), call], "{name}");
        assert_eq!((said.stop, said.model.as_str()), (Stop::Calls, "m-1"));
        assert_eq!(said.usage, Some(Usage { fresh: 9, out: 3, requests: 1, ..Usage::default() }));
    }
}

#[test]
fn what_passes_is_asked_again() {
    let whole = chat("right");
    let half = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{\"choices\": [{\"mess".to_owned();
    for first in [
        answer("429 Too Many Requests", "Retry-After: 0\r\n", "{}", 0),
        answer("429 Too Many Requests", "", "{}", 0),
        answer("503 Service Unavailable", "", "busy", 0),
        answer("529 Overloaded", "", "", 0),
        // Cut off, and the server said how long it would be, or not; or nothing at all.
        answer("200 OK", "", &whole, 9),
        half,
        String::new(),
    ] {
        let (address, asked) = serve(vec![first.clone(), answer("200 OK", "", &whole, 0)]);
        let said = client(&format!("{address}#m")).ask(&Question::new("", "Go", 8));
        let said = said.unwrap_or_else(|error| panic!("{first:?}: {error:#}"));
        // This server does not count tokens, and that is not none.
        assert_eq!((text(&said), said.usage), ("right", None));
        assert_eq!(asked.iter().count(), 2, "{first:?}");
    }
}

#[test]
fn what_does_not_pass_is_an_error_with_the_next_step() {
    let key = std::env::var("PATH").unwrap();
    let echo = json!({ "error": { "message": format!("wrong key {key}") } }).to_string();
    let empty = json!({ "choices": [{ "message": { "content": "" }, "finish_reason": "length" }] }).to_string();
    for (scripted, said) in [
        (answer("401 Unauthorized", "", &echo, 0), "does not accept the key in PATH for m (wrong key …); set PATH"),
        (answer("403 Forbidden", "", "", 0), "set PATH anew"),
        (answer("404 Not Found", "", r#"{"error":"no model"}"#, 0), "no model m, or is not the right path (no model)"),
        (answer("400 Bad Request", "", r#"{"message":"too\nlong"}"#, 0), "with 400 (too long)"),
        (answer("302 Found", "Location: http://127.0.0.1:1/\r\n", "", 0), "redirects to http://127.0.0.1:1/"),
        (answer("200 OK", "", "<html>hello</html>", 0), "something else than JSON"),
        (answer("200 OK", "", "{}", 0), "in no form of its API"),
        (answer("200 OK", "", &empty, 0), "all 8 tokens went before its first word"),
        (answer("200 OK", "", &" ".repeat(17 << 20), 0), "more than 16 MB"),
    ] {
        let (address, asked) = serve(vec![scripted]);
        let error = client(&format!("{address}?key=PATH#m")).ask(&Question::new("", "Go", 8)).unwrap_err();
        let error = format!("{error:#}");
        assert!(error.contains(said) && !error.contains(&key), "{error}");
        assert!(asked.iter().count() <= 1, "{error}");
    }
    let error = client("http://127.0.0.1:9?key=KERNELS_TEST_NO_KEY#m").ask(&Question::default()).unwrap_err();
    assert!(error.to_string().contains("set the environment variable KERNELS_TEST_NO_KEY"), "{error}");
}

#[test]
fn an_answer_is_asked_for_once_and_replayed_without_its_server() {
    let folder = tempfile::tempdir().unwrap();
    let key = std::env::var("PATH").unwrap();
    let (address, asked) = serve(vec![answer("200 OK", "", &chat("one"), 0), answer("200 OK", "", &chat("two"), 0)]);
    let kept = || Kept::new(client(&format!("{address}?key=PATH#m")), folder.path());
    let (first, second) = (Question::new("", "Go", 8), Question { sample: 1, ..Question::new("", "Go", 8) });
    // Two at once are one request.
    let model = kept();
    let both = thread::scope(|scope| {
        let asks = [(); 2].map(|()| scope.spawn(|| model.ask(&first).unwrap()));
        asks.map(|ask| ask.join().unwrap())
    });
    assert_eq!(both[0], both[1]);
    assert_eq!(text(&kept().ask(&second).unwrap()), "two");
    assert_eq!(asked.iter().count(), 2);
    for (question, said) in [(&first, "one"), (&second, "two")] {
        assert_eq!(text(&kept().ask(question).unwrap()), said);
    }
    assert!(kept().ask(&Question { max_tokens: 9, ..first.clone() }).is_err());
    let files: Vec<_> =
        walkdir::WalkDir::new(folder.path()).into_iter().flatten().filter(|e| e.path().is_file()).collect();
    assert_eq!(files.len(), 2);
    for file in files {
        assert!(!std::fs::read_to_string(file.path()).unwrap().contains(&key));
        std::fs::write(file.path(), "{}").unwrap();
    }
    assert!(kept().ask(&first).unwrap_err().to_string().contains("remove it to ask again"));
}
