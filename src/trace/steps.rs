//! The steps of a trace as they are gathered: redacted, clipped, each result with its call.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::redact::redact;
use super::{Action, Call, Edit, Step, Trace, head};

/// What is kept of one text, its beginning and its end; of a file's contents more.
const TEXT: usize = 16 << 10;
const CONTENTS: usize = 64 << 10;
/// What is kept of each text once the texts have [`PLENTY`].
const SHORT: usize = 256;
const PLENTY: usize = 256 << 20;
/// The most steps.
const STEPS: usize = 1_000_000;

#[derive(Default)]
pub(super) struct Steps {
    pub(super) kind: Option<&'static str>,
    steps: Vec<Step>,
    changes: Vec<Edit>,
    /// The step of each call that may still get a result.
    calls: HashMap<String, usize>,
    /// Records that are written again when something is added to them.
    seen: HashSet<String>,
    remarks: Vec<String>,
    ignored: usize,
    kept: usize,
    redacted: usize,
}

impl Steps {
    pub(super) fn said(&mut self, user: bool, text: &str) {
        let text = if user { without_reminders(text) } else { text.to_owned() };
        if !text.trim().is_empty() {
            let text = self.clean(text.trim(), TEXT);
            self.steps.push(Step { user, text, call: None });
        }
    }

    pub(super) fn called(&mut self, id: &str, tool: &str, arguments: &Value) {
        let action = match action(arguments) {
            Action::Command(command) => Action::Command(self.clean(&command, TEXT)),
            Action::Edit(edits) => Action::Edit(edits.into_iter().map(|edit| self.clean_edit(&edit)).collect()),
            Action::Other(text) => Action::Other(self.clean(&text, TEXT)),
        };
        let call = Call { tool: self.clean(tool, SHORT), action, result: String::new(), failed: None };
        self.calls.insert(id.to_owned(), self.steps.len());
        self.steps.push(Step { user: false, text: String::new(), call: Some(call) });
    }

    pub(super) fn answered(&mut self, id: &str, text: &str, failed: Option<bool>) {
        let Some(at) = self.calls.remove(id) else {
            self.ignored += 1;
            return;
        };
        let failed = failed.or_else(|| exit_code(text).map(|code| code != 0));
        let text = self.clean(text, TEXT);
        if let Some(call) = self.steps[at].call.as_mut() {
            (call.result, call.failed) = (text, failed);
        }
    }

    /// What an agent itself noted as a difference.
    pub(super) fn changed(&mut self, patch: &str) {
        let edits = edits_of(patch);
        let edits: Vec<Edit> = edits.iter().map(|edit| self.clean_edit(edit)).collect();
        self.changes.extend(edits);
    }

    /// Whether a record of this name comes for the first time.
    pub(super) fn is_new(&mut self, id: String) -> bool {
        self.seen.insert(id)
    }

    /// Counts a record of a kind that is not known or not needed.
    pub(super) fn ignore(&mut self) {
        self.ignored += 1;
    }

    pub(super) fn remark(&mut self, remark: String) {
        if self.remarks.len() < 20 {
            self.remarks.push(remark);
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.steps.len() >= STEPS
    }

    pub(super) fn finish(mut self) -> Trace {
        if self.ignored > 0 {
            let all = self.ignored;
            self.remarks.push(format!("{all} records of other kinds (state, usage, repetitions) are left out"));
        }
        Trace {
            kind: self.kind.unwrap_or("nothing known"),
            steps: self.steps,
            changes: self.changes,
            remarks: self.remarks,
            redacted: self.redacted,
        }
    }

    fn clean_edit(&mut self, edit: &Edit) -> Edit {
        let mut clean = |text: &str| self.clean(text, CONTENTS);
        Edit { path: clean(&edit.path), old: clean(&edit.old), new: clean(&edit.new) }
    }

    fn clean(&mut self, text: &str, most: usize) -> String {
        let most = if self.kept > PLENTY { SHORT } else { most };
        let (text, count) = redact(&clipped(text, most));
        self.redacted += count;
        self.kept += text.len();
        text
    }
}

/// The beginning and the end of a text. It is cut between words, so that no half of a secret is left.
pub(super) fn clipped(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let head = head(text, most / 2);
    let head = &head[..head.rfind(char::is_whitespace).unwrap_or(0)];
    let tail = &text[super::head(text, text.len() - most / 2).len()..];
    let tail = &tail[tail.find(char::is_whitespace).unwrap_or(tail.len())..];
    format!("{head}\n[{} bytes left out]{tail}", text.len() - head.len() - tail.len())
}

/// What the user typed, without what the agent's program puts between: `<system-reminder>…</system-reminder>`.
fn without_reminders(text: &str) -> String {
    let (mut left, mut rest) = (String::new(), text);
    while let Some(at) = rest.find('<') {
        let (before, tagged) = rest.split_at(at);
        left.push_str(before);
        let name = tagged[1..].split(['>', ' ', '<', '\n']).next().unwrap_or_default();
        let own = name.contains(['-', '_']) && name.bytes().all(|b| b.is_ascii_lowercase() || matches!(b, b'-' | b'_'));
        let close = format!("</{name}>");
        if let Some(end) = tagged.find(&close).filter(|_| own) {
            rest = &tagged[end + close.len()..];
        } else {
            left.push('<');
            rest = &tagged[1..];
        }
    }
    left.push_str(rest);
    if left.trim_start().starts_with("# AGENTS.md instructions") { String::new() } else { left }
}

/// What a call does, whichever names an agent gives to the arguments.
fn action(arguments: &Value) -> Action {
    let parsed = arguments.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok()).filter(Value::is_object);
    let arguments = parsed.as_ref().unwrap_or(arguments);
    let text = |keys: &[&str]| keys.iter().find_map(|key| arguments.get(key)?.as_str());
    let command = ["command", "cmd", "script"].iter().find_map(|key| match arguments.get(key)? {
        Value::String(command) => Some(command.clone()),
        Value::Array(words) => {
            let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
            Some(match words[..] {
                [_, "-c" | "-lc", command] => command.to_owned(),
                _ => words.join(" "),
            })
        }
        _ => None,
    });
    let patch = text(&["patch", "patchText", "input"]).or_else(|| arguments.as_str()).or(command.as_deref());
    if let Some(patch) = patch.filter(|patch| patch.contains("*** Begin Patch")) {
        return Action::Edit(edits_of(patch));
    }
    let file = text(&["file_path", "filePath", "path", "filename"]);
    let new = ["new_string", "newString", "new_str", "content", "file_text", "contents"];
    let edit = |path: &str, value: &Value| {
        let text = |keys: &[&str]| keys.iter().find_map(|key| value.get(key)?.as_str()).map(str::to_owned);
        let old = text(&["old_string", "oldString", "old_str"]).unwrap_or_default();
        Some(Edit { path: path.to_owned(), old, new: text(&new)? })
    };
    if let Some(path) = file {
        let several = arguments.get("edits").and_then(Value::as_array);
        let edits: Vec<Edit> = match several {
            Some(all) => all.iter().filter_map(|value| edit(path, value)).collect(),
            None => edit(path, arguments).into_iter().collect(),
        };
        if !edits.is_empty() {
            return Action::Edit(edits);
        }
    }
    command.map_or_else(|| Action::Other(arguments.to_string()), Action::Command)
}

/// The edits of a patch, of `apply_patch` or of diff, one for each hunk.
fn edits_of(text: &str) -> Vec<Edit> {
    let mut edits: Vec<Edit> = Vec::new();
    let mut path = String::new();
    for line in text.lines() {
        let named = ["*** Update File: ", "*** Add File: ", "*** Delete File: ", "+++ b/", "+++ "];
        if let Some(name) = named.iter().find_map(|start| line.strip_prefix(start)) {
            name.trim().clone_into(&mut path);
            edits.push(Edit { path: path.clone(), old: String::new(), new: String::new() });
        } else if line.starts_with("@@") {
            edits.push(Edit { path: path.clone(), old: String::new(), new: String::new() });
        } else if let Some(edit) = edits.last_mut().filter(|_| !line.starts_with("--- ") && !line.starts_with("***")) {
            let (sign, rest) = line.split_at_checked(1).unwrap_or((" ", ""));
            if !matches!(sign, "+" | "-" | " ") {
                continue;
            }
            for (side, other) in [(&mut edit.old, "+"), (&mut edit.new, "-")] {
                if sign != other {
                    side.push_str(rest);
                    side.push('\n');
                }
            }
        }
    }
    edits.retain(|edit| edit.old != edit.new);
    edits
}

/// The exit code that an agent wrote into a result: `Exit code 1`, `Process exited with code 1`, `"exit_code":1`.
fn exit_code(text: &str) -> Option<i64> {
    let lines = text.lines();
    let near: Vec<&str> = lines.clone().take(8).chain(lines.rev().take(4)).collect();
    near.iter().find_map(|line| {
        let line = line.to_ascii_lowercase();
        ["exit code", "exited with code", "exit_code\""].iter().find_map(|words| {
            let after = line.split_once(words)?.1.trim_start_matches([':', ' ', '=']);
            let digits = after.find(|c: char| !c.is_ascii_digit() && c != '-').unwrap_or(after.len());
            after[..digits].parse().ok()
        })
    })
}
