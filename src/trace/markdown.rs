//! A conversation as Markdown: a heading or a bold word for each role; what the agent fences as shell is a command, and the
//! next fence without a language its output.

use std::io::{self, BufRead};

use serde_json::json;

use super::line::next_line;
use super::steps::Steps;

/// Who speaks, by the words of a heading, and what follows them on the line: `## User`, `**User:** do it`, `Assistant (2):`.
fn role(line: &str) -> Option<(bool, &str)> {
    let marked = line.starts_with(['#', '*']) || line.ends_with(':');
    let words = line.trim_start_matches(['#', '*', ' ']);
    let end = words.find(|c: char| !c.is_alphanumeric()).unwrap_or(words.len());
    let user = match words[..end].to_lowercase().as_str() {
        "user" | "human" | "me" | "you" | "prompt" => true,
        "assistant" | "agent" | "claude" | "codex" | "copilot" | "gemini" | "opencode" | "ai" | "model" => false,
        _ => return None,
    };
    let rest = words[end..].trim();
    let (remark, after) = rest.split_once(":**").or_else(|| rest.split_once("**")).unwrap_or((rest, ""));
    let bare = remark.is_empty() || remark.starts_with(['(', ':', '[']);
    (marked && bare).then_some((user, after.trim_start_matches([':', ' '])))
}

const SHELL: [&str; 6] = ["bash", "sh", "shell", "console", "zsh", "terminal"];

#[derive(Default)]
struct Reading {
    user: bool,
    text: String,
    /// The fence that is open: its mark, its language and what it holds so far.
    fence: Option<(String, String, String)>,
    command: Option<usize>,
    count: usize,
}

impl Reading {
    fn line(&mut self, line: &str, steps: &mut Steps) {
        let bare = line.trim_start();
        let mark: String = bare.chars().take_while(|c| matches!(c, '`' | '~')).collect();
        let rest = bare[mark.len()..].trim();
        if let Some((open, _, held)) = &mut self.fence {
            if rest.is_empty() && mark.starts_with(open.as_str()) {
                self.close(steps);
            } else {
                held.push_str(line);
                held.push('\n');
            }
        } else if mark.len() >= 3 {
            self.fence = Some((mark, rest.split([' ', '{']).next().unwrap_or_default().to_lowercase(), String::new()));
        } else if let Some((user, after)) = role(line.trim_end()) {
            self.say(steps);
            (self.user, self.command) = (user, None);
            self.text = format!("{after}\n");
            steps.kind.get_or_insert("Markdown");
        } else {
            self.text.push_str(line);
            self.text.push('\n');
        }
    }

    fn close(&mut self, steps: &mut Steps) {
        let Some((_, language, held)) = self.fence.take() else { return };
        if !self.user && SHELL.contains(&language.as_str()) {
            self.say(steps);
            self.count += 1;
            let command: Vec<&str> = held.lines().map(|line| line.strip_prefix("$ ").unwrap_or(line)).collect();
            steps.called(&self.count.to_string(), "shell", &json!({ "command": command.join("\n") }));
            self.command = Some(self.count);
        } else if let Some(count) = self.command.take_if(|_| matches!(&*language, "" | "text" | "output" | "log")) {
            steps.answered(&count.to_string(), &held, None);
        } else {
            self.text.push_str(&held);
        }
    }

    fn say(&mut self, steps: &mut Steps) {
        // Text before the first heading is nobody's.
        if steps.kind.is_some() {
            steps.said(self.user, &self.text);
        }
        self.text.clear();
    }
}

pub(super) fn read(mut input: impl BufRead, most: usize, steps: &mut Steps) -> io::Result<()> {
    let mut reading = Reading::default();
    let mut line = Vec::new();
    while let Some(length) = next_line(&mut input, &mut line, most)? {
        let held = reading.text.len() + reading.fence.as_ref().map_or(0, |(_, _, held)| held.len());
        if length > most || held > most {
            steps.remark(format!("a text of more than {} MB is left out in part", most >> 20));
            reading.text.clear();
            reading.fence = None;
            continue;
        }
        if steps.is_full() {
            break;
        }
        reading.line(String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r']), steps);
    }
    reading.close(steps);
    reading.say(steps);
    Ok(())
}
