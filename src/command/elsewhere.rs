//! Skills from elsewhere: fetching them, showing what comes, and asking before anything is installed.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::thread;

use anyhow::{Result, bail};
use serde_json::{Value, json};

use crate::agent::{Machine, Scope};
use crate::base::plural;
use crate::cli::skills::Looking;
use crate::install::State;
use crate::install::base::Base;
use crate::install::discover::{self, Install};
use crate::install::receipt::Receipt;
use crate::install::refusal::{Refusal, Refused};
use crate::remote::Fetcher;
use crate::report::{Output, prompt, style, unified};
use crate::skill::address::Address;
use crate::skill::frontmatter::{Document, Value as Yaml};
use crate::skill::source::{Skill, Source};
use crate::skill::tokens;
use crate::skill::tree::{Entry, SKILL_MD, Tree, has_shebang};

/// The extensions of files that can be run.
const SCRIPTS: [&str; 16] = [
    ".sh", ".bash", ".zsh", ".fish", ".py", ".js", ".mjs", ".cjs", ".ts", ".rb", ".pl", ".php", ".lua", ".ps1", ".bat",
    ".cmd",
];

/// Fetches skills, and prints that it does, because this opens a connection. With `counted`, tokens will be counted to show the
/// skills.
pub(super) fn fetch(from: &Address, names: &[String], counted: bool, output: Output) -> Result<Vec<Skill>> {
    output.note(style::faint(format!("fetching {from}")));
    if output.is_talkative() && counted {
        // Unpacking the table of tokens takes as long as fetching a small repository, so both are done at once.
        thread::spawn(|| tokens::count(""));
    }
    Fetcher::default().open(from, names, None)
}

/// Shows what comes from elsewhere for the first time, and asks.
pub(super) fn ask(machine: &Machine, skills: &[&Skill], yes: bool, looking: Looking, output: Output) -> Result<()> {
    let new: Vec<&Skill> = skills.iter().copied().filter(|skill| !is_known(machine, skill)).collect();
    if new.is_empty() {
        return Ok(());
    }
    for skill in &new {
        show(skill, !yes, output);
    }
    let what = new.iter().map(|skill| PathBuf::from(&skill.name)).collect();
    let question = format!("Install {}?", plural(new.len(), "skill"));
    agree(what, "comes from elsewhere, and nobody has agreed to it", &question, yes || looking.is_only(), output)
}

/// Shows how a skill differs from what is installed, and asks.
pub(super) fn ask_to_update(install: &Install, skill: &Skill, yes: bool, output: Output) -> Result<()> {
    // A file's own colours could hide a part of it.
    let text = changes(&as_installed(install), skill).replace('\u{1b}', "\\u{1b}");
    output.line(unified::colour(text.trim_end()));
    let what = vec![install.path.clone()];
    agree(what, "has another state where it came from", &format!("Update {}?", skill.name), yes, output)
}

fn agree(what: Vec<PathBuf>, reason: &str, question: &str, yes: bool, output: Output) -> Result<()> {
    if !yes && !output.is_interactive() {
        let advice = vec!["look at it with --dry-run; --yes agrees".to_owned()];
        let refused = |path| Refused { path, reason: reason.to_owned(), changes: Vec::new(), advice: advice.clone() };
        return Err(Refusal(what.into_iter().map(refused).collect()).into());
    }
    if !yes && !prompt::confirm(question)? {
        bail!("you declined; nothing was changed");
    }
    Ok(())
}

/// Whether the same files are installed already, or the skill comes from this machine.
fn is_known(machine: &Machine, skill: &Skill) -> bool {
    let places = discover::all_places(machine, &[Scope::Project, Scope::User]);
    let same = |install: &Install| matches!(install.judge(Some(skill)).state, State::Current { receipt: true });
    skill.source.address().is_none() || discover::installs(&places, std::slice::from_ref(&skill.name)).iter().any(same)
}

/// What a skill from elsewhere brings, for the report.
pub(super) fn contents(skill: &Skill) -> Value {
    let scripts = skill.tree.iter().filter(|(path, entry)| is_script(path.as_str(), entry));
    json!({
        "files": skill.tree.len(),
        "bytes": skill.tree.bytes(),
        "scripts": scripts.map(|(path, _)| path.as_str()).collect::<Vec<_>>(),
        "allowed_tools": tools(skill),
    })
}

/// Shows what a skill brings. Without `counted` there are no tokens, because a script need not wait for their count.
fn show(skill: &Skill, counted: bool, output: Output) {
    let Source::Remote { from, at } = &skill.source else { return };
    let at: String = at.trim_start_matches("sha256:").trim_start_matches("tree:").chars().take(12).collect();
    output.line(format!("{} {}", style::strong(&skill.name), style::faint(format!("from {from}, state {at}"))));
    if !output.is_talkative() {
        return;
    }
    let head = skill.tree.get(SKILL_MD).and_then(|entry| std::str::from_utf8(&entry.content).ok()).unwrap_or_default();
    let (files, size) = (plural(skill.tree.len(), "file"), skill.tree.bytes().div_ceil(1000));
    let counted = if counted { format!("; {SKILL_MD} has {} tokens", tokens::count(head)) } else { String::new() };
    output.line(format!("  {files}, {size} KB{counted}"));
    for (path, entry) in skill.tree.iter() {
        let mark = if is_script(path.as_str(), entry) { style::warning("script ") } else { "       ".to_owned() };
        output.line(format!("  {mark}{path}  {}", style::faint(format!("{} bytes", entry.content.len()))));
    }
    if let Some(tools) = tools(skill) {
        output.line(format!("  {} {}", style::warning("asks for tools:"), tools.escape_debug()));
    }
}

fn is_script(path: &str, entry: &Entry) -> bool {
    entry.executable
        || has_shebang(&entry.content)
        || SCRIPTS.iter().any(|ending| path.to_lowercase().ends_with(ending))
}

/// The tools that a skill asks to use without being asked each time.
fn tools(skill: &Skill) -> Option<String> {
    let head = skill.tree.get(SKILL_MD)?;
    let document = Document::parse(std::str::from_utf8(&head.content).ok()?).ok()?;
    let node = document.get("allowed-tools")?;
    match &node.value {
        Yaml::List(nodes) => Some(nodes.iter().filter_map(|node| node.text()).collect::<Vec<_>>().join(" ")),
        _ => node.text().map(str::to_owned),
    }
}

/// The files that were installed: where their text is kept, without the edits since.
fn as_installed(install: &Install) -> Tree {
    let (real, mut tree) = (install.real(), Tree::default());
    let there = Tree::read_what_is_readable(&real).0;
    let Ok(receipt) = Receipt::read(&real) else { return there };
    let base = Base::of(&real, &receipt, None);
    for path in receipt.files.keys() {
        if let Some(entry) = base.get(path.as_str()).or_else(|| there.get(path.as_str()).cloned()) {
            // A part of a valid tree is valid.
            let _ = tree.insert(path.clone(), entry);
        }
    }
    tree
}

/// The unified diff from one tree to a skill's, scripts marked.
fn changes(old: &Tree, skill: &Skill) -> String {
    let paths: BTreeSet<&str> = old.iter().chain(skill.tree.iter()).map(|(path, _)| path.as_str()).collect();
    let mut text = String::new();
    for path in paths {
        let (before, after) = (old.get(path), skill.tree.get(path));
        if before == after {
            continue;
        }
        let script = [before, after].into_iter().flatten().any(|entry| is_script(path, entry));
        let mode = |entry: Option<&Entry>| entry.map_or(0, Entry::mode);
        let mode = match (mode(before), mode(after)) {
            (old, new) if old != new && old * new > 0 => format!(", mode {old:o} → {new:o}"),
            _ => String::new(),
        };
        let heading = format!("{}/{path}{}{mode}", skill.name, if script { " (script)" } else { "" });
        let content = |entry: Option<&Entry>| entry.map(|entry| entry.content.to_vec());
        text += &unified::of_file(&heading, &format!("{}/{path}", skill.name), content(before), content(after));
    }
    text
}
