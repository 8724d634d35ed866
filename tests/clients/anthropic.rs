//! A stand-in for the model's server on the loopback: it records what Claude Code sends, and answers
//! just enough for Claude Code to load one skill and stop.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::{Value, json};

/// A server that runs until it is dropped.
pub(crate) struct FakeAnthropic {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

struct Shared {
    skill: String,
    stopping: AtomicBool,
    requests: Mutex<Vec<Value>>,
}

impl FakeAnthropic {
    /// A server whose model loads `skill` once when it is offered, and then answers "pong".
    pub(crate) fn that_loads(skill: &str) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .unwrap_or_else(|error| panic!("cannot listen on the loopback: {error}"));
        let address = listener.local_addr().unwrap_or_else(|error| panic!("the listener has no address: {error}"));
        let shared =
            Arc::new(Shared { skill: skill.to_owned(), stopping: AtomicBool::new(false), requests: Mutex::default() });
        let accepting = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                for stream in listener.incoming().flatten() {
                    if shared.stopping.load(Ordering::Relaxed) {
                        break;
                    }
                    let shared = Arc::clone(&shared);
                    // Ignore a client that closes the connection early.
                    thread::spawn(move || shared.serve(stream).ok());
                }
            })
        };
        Self { address, shared, accepting: Some(accepting) }
    }

    /// The value for `ANTHROPIC_BASE_URL`.
    pub(crate) fn base_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The bodies of the message requests, in order of arrival.
    pub(crate) fn requests(&self) -> Vec<Value> {
        self.shared.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for FakeAnthropic {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::Relaxed);
        // The loop checks the flag only after a connection, so make one.
        let _ = TcpStream::connect(self.address);
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
    }
}

impl Shared {
    /// Answers one request and closes the connection.
    fn serve(&self, stream: TcpStream) -> std::io::Result<()> {
        stream.set_read_timeout(Some(Duration::from_secs(20)))?;
        let mut reader = BufReader::new(stream);
        let mut first_line = String::new();
        reader.read_line(&mut first_line)?;
        let mut length = 0;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line)? == 0 || line.trim().is_empty() {
                break;
            }
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse().unwrap_or(0);
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let mut stream = reader.into_inner();

        let path = first_line.split_whitespace().nth(1).unwrap_or_default();
        let path = path.split('?').next().unwrap_or_default();
        match serde_json::from_slice::<Value>(&body) {
            Ok(request) if path == "/v1/messages" => {
                let reply = self.reply(&request);
                self.requests.lock().unwrap_or_else(PoisonError::into_inner).push(request);
                respond(&mut stream, reply.0, &reply.1)
            }
            _ => respond(&mut stream, "application/json", "{}"),
        }
    }

    /// The content type and the body of the answer to `request`.
    fn reply(&self, request: &Value) -> (&'static str, String) {
        let text = request.to_string();
        let offered = text.contains(&format!("- {}", self.skill));
        let loaded = text.contains("tool_result");
        // Claude Code's short side requests carry no tools.
        let tools = request["tools"].as_array().map_or(&[][..], Vec::as_slice);
        let can_load = tools.iter().any(|tool| tool["name"] == "Skill");
        let (block, stop) = if offered && can_load && !loaded {
            let input = json!({ "skill": self.skill });
            let block = json!({ "type": "tool_use", "id": "toolu_1", "name": "Skill", "input": input });
            (block, "tool_use")
        } else {
            (json!({ "type": "text", "text": "pong" }), "end_turn")
        };
        if request["stream"] == true {
            ("text/event-stream", streamed(request, &block, stop))
        } else {
            ("application/json", message(request, &[block], Some(stop)).to_string())
        }
    }
}

fn message(request: &Value, content: &[Value], stop: Option<&str>) -> Value {
    json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": request["model"],
        "content": content, "stop_reason": stop, "stop_sequence": null,
        "usage": { "input_tokens": 1, "output_tokens": 1 },
    })
}

/// A one-block message as the events of a stream.
fn streamed(request: &Value, block: &Value, stop: &str) -> String {
    let (empty, delta) = if block["type"] == "text" {
        (json!({ "type": "text", "text": "" }), json!({ "type": "text_delta", "text": block["text"] }))
    } else {
        let mut empty = block.clone();
        empty["input"] = json!({});
        let input = block["input"].to_string();
        (empty, json!({ "type": "input_json_delta", "partial_json": input }))
    };
    let events = [
        json!({ "type": "message_start", "message": message(request, &[], None) }),
        json!({ "type": "content_block_start", "index": 0, "content_block": empty }),
        json!({ "type": "content_block_delta", "index": 0, "delta": delta }),
        json!({ "type": "content_block_stop", "index": 0 }),
        json!({
            "type": "message_delta",
            "delta": { "stop_reason": stop, "stop_sequence": null },
            "usage": { "output_tokens": 1 },
        }),
        json!({ "type": "message_stop" }),
    ];
    let mut text = String::new();
    for event in events {
        let kind = event["type"].as_str().unwrap_or_default();
        let _ = write!(text, "event: {kind}\ndata: {event}\n\n");
    }
    text
}

fn respond(stream: &mut TcpStream, content_type: &str, body: &str) -> std::io::Result<()> {
    write!(
        stream,
        "HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\ncontent-length: {}\r\n\
         connection: close\r\n\r\n{body}",
        body.len()
    )?;
    stream.flush()
}
