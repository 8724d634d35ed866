//! What a trace teaches, in few tokens: what was asked, what the user said to it, what failed and then passed and by which
//! change, what was changed in the end, and what was measured. The same trace gives the same text.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use similar::{ChangeTag, TextDiff};

use super::words::WORDS;
use super::{Action, Call, Edit, Trace, head};
use crate::base::text::is_invisible;
use crate::skill::tokens;

/// The most characters of one quotation.
const QUOTE: usize = 1_200;
/// The most lines of a difference of one file, and of a failure's message.
const LINES: usize = 80;
const MESSAGE: usize = 12;
/// The most lines of each side that are compared: the time grows with their square.
const COMPARED: usize = 2_000;

/// A trace of this name, in at most about `budget` tokens.
pub(crate) fn digest(trace: &Trace, name: &str, budget: usize) -> String {
    let mut page = Page { text: format!("# Trace {name}: {}, {} steps\n", trace.kind, trace.steps.len()), left: 0 };
    let said: Vec<(usize, &str)> = numbered(trace).filter(|(_, s)| s.user).map(|(n, s)| (n, s.text.as_str())).collect();
    let (first, later) = said.split_at(said.len().min(1));
    page.section("Asked", first.iter().map(|(n, text)| quote(*n, text)), budget / 6);
    page.section("Said by the user afterwards", corrections(trace, later), budget / 5);
    let (passed, never) = failures(trace);
    page.section("Failed, then passed", passed.into_iter(), budget / 4);
    page.section("Failed and did not pass", never.into_iter(), budget / 10);
    page.section("Changed in the end", changes(trace).into_iter(), budget / 4);
    page.section("Measured (from the output of commands)", measured(trace).into_iter(), budget / 8);
    page.text
}

struct Page {
    text: String,
    /// Tokens that earlier sections had and did not use.
    left: usize,
}

impl Page {
    fn section(&mut self, title: &str, entries: impl Iterator<Item = String>, share: usize) {
        let mut entries = entries.peekable();
        if entries.peek().is_none() {
            self.left += share;
            return;
        }
        let _ = write!(self.text, "\n## {title}\n\n");
        let mut room = self.left + share;
        while let Some(entry) = entries.next() {
            let cost = tokens::count_up_to(&entry, room + 1);
            if cost > room {
                let _ = writeln!(self.text, "[{} more entries are left out]", 1 + entries.count());
                room = 0;
                break;
            }
            room -= cost;
            self.text.push_str(&entry);
        }
        self.left = room;
    }
}

fn numbered(trace: &Trace) -> impl Iterator<Item = (usize, &super::Step)> {
    trace.steps.iter().enumerate().map(|(at, step)| (at + 1, step))
}

fn calls(trace: &Trace) -> impl Iterator<Item = (usize, &Call)> {
    numbered(trace).filter_map(|(number, step)| Some((number, step.call.as_ref()?)))
}

/// A text as a quotation: each line marked, nothing in it that controls a terminal or is not seen.
fn quote(number: usize, text: &str) -> String {
    format!("step {number}:\n{}", quoted(text, usize::MAX))
}

fn quoted(text: &str, last_lines: usize) -> String {
    let visible: String = without_colours(text).chars().filter(|c| !is_invisible(*c)).collect();
    let lines: Vec<&str> = visible.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    let skipped = lines.len().saturating_sub(last_lines);
    let mut out = String::new();
    for line in &lines[skipped..] {
        let line = head(line, 400);
        if out.len() + line.len() > QUOTE {
            out.push_str("> […]\n");
            break;
        }
        let _ = writeln!(out, "> {line}");
    }
    out
}

/// Without control characters but for line ends and tabs, and without the sequences that colour.
fn without_colours(text: &str) -> String {
    let stripped = anstream::adapter::strip_str(text).to_string();
    stripped.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect()
}

/// What the user said after the first request: objections first, each with what the agent had done before it.
fn corrections(trace: &Trace, later: &[(usize, &str)]) -> impl Iterator<Item = String> {
    let mut all: Vec<(bool, String)> = Vec::new();
    for (number, text) in later {
        let lower = text.to_lowercase();
        let words = || lower.split(|c: char| !c.is_alphanumeric() && c != '\'');
        let objection = words().any(|word| WORDS.objections.iter().any(|one| one == word));
        let before = trace.steps[..number - 1].iter().rev().find_map(|step| step.call.as_ref());
        let mut entry = quote(*number, text);
        if let Some(call) = before {
            let _ = writeln!(entry, "  after {}", shown(call));
        }
        all.push((!objection, entry));
    }
    all.sort_by_key(|(mild, _)| *mild);
    all.into_iter().map(|(_, entry)| entry)
}

fn shown(call: &Call) -> String {
    let line = |text: &str| {
        let line = without_colours(text).split_whitespace().collect::<Vec<_>>().join(" ").replace('`', "'");
        head(&line, 300).to_owned()
    };
    match &call.action {
        Action::Command(command) => format!("`{}`", line(command)),
        Action::Edit(edits) => {
            let mut paths: Vec<&str> = edits.iter().map(|edit| edit.path.as_str()).collect();
            paths.dedup();
            format!("an edit of {}", line(&paths.join(", ")))
        }
        Action::Other(arguments) => format!("{} {}", line(&call.tool), line(arguments)),
    }
}

/// What makes two commands the same check: the program and its first argument, without `cd`, variables and limits of time.
fn check(command: &str) -> String {
    let parts = command.split("&&").flat_map(|part| part.split(';')).map(str::trim);
    let own = parts.filter(|part| !part.starts_with("cd ") && !part.starts_with("export ") && !part.is_empty());
    let last = own.last().unwrap_or(command).split('|').next().unwrap_or_default();
    let words = last.split_whitespace().skip_while(|word| {
        word.contains('=')
            || matches!(*word, "timeout" | "time" | "sudo" | "env")
            || word.starts_with(|c: char| c.is_ascii_digit())
    });
    let options = |word: &&str| !word.starts_with('-');
    words.filter(options).take(2).collect::<Vec<_>>().join(" ")
}

/// Checks that failed and passed later, with what was done between; and those that never passed.
fn failures(trace: &Trace) -> (Vec<String>, Vec<String>) {
    let mut open: BTreeMap<String, (usize, &Call)> = BTreeMap::new();
    let (mut passed, mut never) = (Vec::new(), Vec::new());
    for (number, call) in calls(trace) {
        let Action::Command(command) = &call.action else { continue };
        let key = check(command);
        if call.failed == Some(true) {
            // The last failure is the one whose cause was mended.
            open.insert(key, (number, call));
        } else if (call.failed == Some(false) || !call.result.is_empty())
            && let Some(first) = open.remove(&key)
        {
            passed.push(mended(trace, first, (number, call)));
        }
    }
    let mut open: Vec<_> = open.into_values().collect();
    open.sort_by_key(|(number, _)| *number);
    for (number, call) in open {
        never.push(format!("step {number}: {} failed:\n{}", shown(call), quoted(&call.result, MESSAGE)));
    }
    (passed, never)
}

fn mended(trace: &Trace, (failed, first): (usize, &Call), (number, call): (usize, &Call)) -> String {
    let mut entry = format!("step {failed}: {} failed:\n{}", shown(first), quoted(&first.result, MESSAGE));
    let between: Vec<(usize, &Call)> = calls(trace).filter(|(n, _)| (failed + 1..number).contains(n)).collect();
    let done = between.iter().filter(|(_, call)| call.failed != Some(true));
    for (n, call) in done.rev().take(6).collect::<Vec<_>>().into_iter().rev() {
        match &call.action {
            Action::Edit(edits) => edits.iter().for_each(|edit| entry.push_str(&difference(*n, edit, MESSAGE))),
            Action::Command(_) => drop(writeln!(entry, "step {n}: {}", shown(call))),
            Action::Other(_) => {}
        }
    }
    let _ = write!(entry, "step {number}: {} passed:\n{}", shown(call), quoted(&call.result, 3));
    entry
}

/// An edit as its lines that differ.
fn difference(number: usize, edit: &Edit, most: usize) -> String {
    let mut out = if number == 0 { format!("{}:\n", edit.path) } else { format!("step {number}: {}:\n", edit.path) };
    let short = |text: &str| without_colours(text).split_inclusive('\n').take(COMPARED).collect::<String>();
    let (old, new) = (short(&edit.old), short(&edit.new));
    let diff = TextDiff::from_lines(&*old, &*new);
    let changed = diff.iter_all_changes().filter(|change| change.tag() != ChangeTag::Equal);
    for (count, change) in changed.enumerate() {
        if count == most {
            out.push_str("[…]\n");
            break;
        }
        let line = change.value().trim_end();
        let _ = writeln!(out, "{}{}", change.tag(), head(line, 400));
    }
    out
}

/// What the agent noted as changed, or else its edits put together: an edit of what an earlier one wrote becomes part of it.
fn changes(trace: &Trace) -> Vec<String> {
    if !trace.changes.is_empty() {
        return trace.changes.iter().map(|edit| difference(0, edit, LINES)).collect();
    }
    let mut files: Vec<Edit> = Vec::new();
    for (_, call) in calls(trace).filter(|(_, call)| call.failed != Some(true)) {
        let Action::Edit(edits) = &call.action else { continue };
        for edit in edits {
            let same = |one: &&mut Edit| one.path == edit.path && !edit.old.is_empty() && one.new.contains(&edit.old);
            if let Some(earlier) = files.iter_mut().find(same) {
                earlier.new = earlier.new.replacen(&edit.old, &edit.new, 1);
            } else {
                // A file that is written whole has no more of what was written before.
                files.retain(|one| !(edit.old.is_empty() && one.path == edit.path));
                files.push(edit.clone());
            }
        }
    }
    files.iter().filter(|edit| edit.old != edit.new).map(|edit| difference(0, edit, LINES)).collect()
}

/// Lines with a number and a unit that a command printed which did not fail; the last of several of one command.
fn measured(trace: &Trace) -> Vec<String> {
    let mut facts: BTreeMap<String, (usize, Vec<String>)> = BTreeMap::new();
    for (number, call) in calls(trace).filter(|(_, call)| call.failed != Some(true)) {
        let Action::Command(command) = &call.action else { continue };
        let text = without_colours(&call.result);
        let lines: Vec<String> =
            text.lines().filter(|line| has_figure(line)).take(MESSAGE).map(str::to_owned).collect();
        if !lines.is_empty() {
            facts.insert(check(command), (number, lines));
        }
    }
    let mut facts: Vec<_> = facts.into_values().collect();
    facts.sort_by_key(|(number, _)| std::cmp::Reverse(*number));
    facts.iter().map(|(number, lines)| quote(*number, &lines.join("\n"))).collect()
}

fn has_figure(line: &str) -> bool {
    let mut words = line.split([' ', '\t', ',', '(', ')', ':', '|', '=']).filter(|word| !word.is_empty()).peekable();
    while let Some(word) = words.next() {
        let end = word.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(word.len());
        let unit = if end == word.len() { words.peek().copied().unwrap_or_default() } else { &word[end..] };
        let known = || WORDS.units.iter().any(|one| one == unit.trim_end_matches('.'));
        if end > 0 && word[..end].parse::<f64>().is_ok() && known() {
            return true;
        }
    }
    false
}
