//! Parses Python blocks and files, and looks up their imports in the given Python.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::path::Path;
use std::process::Command as Program;

use anyhow::Result;
use serde::Deserialize;
use serde_json::json;

use super::Options;
use super::document::Document;
use super::fence::Language;
use super::layout::Work;
use super::process;
use super::report::Gathered;
use super::shell::Command;
use crate::base::text::nearest;
use crate::check;
use crate::skill::Tree;

const PROGRAM: &str = include_str!("python/look.py");
/// Time limit: importing torch, transformers or diffusers takes seconds each.
const SECONDS: u64 = 300;

/// Command-line flags of the skill's scripts.
#[derive(Default)]
pub(super) struct Scripts {
    scripts: BTreeMap<String, Script>,
    reason: String,
}

pub(super) struct Script {
    flags: BTreeSet<String>,
    /// The source does not show all flags.
    pub(super) is_open: bool,
}

impl Scripts {
    pub(super) fn of(&self, path: &str) -> Option<&Script> {
        self.scripts.get(path)
    }

    /// Why a flag is not known.
    pub(super) fn reason(&self) -> &str {
        if self.reason.is_empty() { "the script does not parse" } else { &self.reason }
    }
}

impl Script {
    pub(super) fn has(&self, flag: &str) -> bool {
        self.flags.contains(flag)
    }

    /// A hint at a similar flag: `; there is --warmup`.
    pub(super) fn near(&self, flag: &str) -> String {
        nearest(flag, self.flags.iter().map(String::as_str))
            .map_or(String::new(), |known| format!("; there is {known}"))
    }
}

/// A Python source and its location.
struct Item {
    file: String,
    /// Number of lines before its first.
    before: usize,
    text: String,
    /// The name in findings.
    name: String,
    is_file: bool,
    /// A script of the skill, whose flags are collected.
    is_script: bool,
    kind: &'static str,
}

#[derive(Deserialize)]
struct Answer {
    id: Option<usize>,
    line: Option<usize>,
    state: String,
    #[serde(default)]
    message: String,
    #[serde(default)]
    module: String,
    #[serde(default)]
    version: String,
    #[serde(default)]
    flags: BTreeSet<String>,
    /// About an attribute of a module, not an import.
    #[serde(default)]
    is_use: bool,
    #[serde(default)]
    open: bool,
    #[serde(default)]
    imports: Vec<String>,
}

/// Parses all Python of the skill; returns the flags of its scripts.
pub(super) fn check(
    tree: &Tree,
    root: Option<&Path>,
    documents: &[Document],
    commands: &[Command],
    work: &Work,
    options: &Options,
    gathered: &mut Gathered,
) -> Result<Scripts> {
    let items = items(tree, documents, commands);
    let mut scripts = Scripts::default();
    if items.is_empty() {
        return Ok(scripts);
    }
    let python = &options.python;
    let request = request(tree, root, &items);
    let (answers, failure) = match process::run(&mut program(python, work)?, &request, SECONDS) {
        Err(_) => (Vec::new(), format!("there is no {}", python.display())),
        Ok(ran) => {
            let read = |line: &str| serde_json::from_str::<Answer>(line).ok();
            let failure = if ran.is_late {
                format!("{} was not done after {SECONDS} s", python.display())
            } else {
                let last = ran.err.trim().lines().last().unwrap_or_default();
                format!("{} ended early ({}) {last}", python.display(), ran.status)
            };
            (ran.out.lines().filter_map(read).collect(), failure)
        }
    };
    let parsed = answers.iter().any(|answer| answer.state == "parsing done");
    if !parsed {
        scripts.reason.clone_from(&failure);
    }
    let notes = Notes { items: &items, python, failure: &failure, gathered };
    notes.note(&answers);
    collect(&items, &answers, &mut scripts);
    Ok(scripts)
}

/// The JSON request to look.py.
fn request(tree: &Tree, root: Option<&Path>, items: &[Item]) -> Vec<u8> {
    let asked = items.iter().enumerate().map(|(id, item)| {
        json!({
            "id": id,
            "name": item.file,
            "text": item.text,
            "kind": if item.is_file { "file" } else { "block" },
            "script": item.is_script,
        })
    });
    let request = json!({
        "skill": root,
        "modules": modules(tree, items),
        "stdlib": check::stdlib_modules().collect::<Vec<_>>(),
        "items": asked.collect::<Vec<_>>(),
    });
    request.to_string().into_bytes()
}

/// Runs look.py in an empty folder without network access.
fn program(python: &Path, work: &Work) -> Result<Program> {
    let mut program = Program::new(python);
    program
        .args(["-B", "-c", PROGRAM])
        .current_dir(work.folder("empty")?)
        .env("HF_HUB_OFFLINE", "1")
        .env("TRANSFORMERS_OFFLINE", "1")
        .env("PYTHONIOENCODING", "utf-8")
        .env_remove("PYTHONINSPECT");
    if let Some(paths) = env::var_os("PYTHONPATH").filter(|paths| !paths.is_empty()) {
        // Made absolute, because the working folder changes.
        let paths = env::split_paths(&paths)
            .filter(|path| !path.as_os_str().is_empty())
            .map(|path| std::path::absolute(&path).unwrap_or(path));
        program.env("PYTHONPATH", env::join_paths(paths)?);
    }
    Ok(program)
}

/// Turns look.py's answers into findings, counts and unchecked items.
struct Notes<'a> {
    items: &'a [Item],
    python: &'a Path,
    /// Why answers are missing.
    failure: &'a str,
    gathered: &'a mut Gathered,
}

impl Notes<'_> {
    fn note(mut self, answers: &[Answer]) {
        let mut answered: BTreeSet<usize> = BTreeSet::new();
        // A line that imports several names counts as one import.
        let mut lines: BTreeMap<(usize, usize), Vec<&Answer>> = BTreeMap::new();
        for answer in answers {
            let Some(id) = answer.id else { continue };
            match answer.state.as_str() {
                "syntax" | "parsed" => {
                    answered.insert(id);
                    self.parsed(&self.items[id], answer);
                }
                "flags" => {}
                _ if answer.is_use => self.used(&self.items[id], answer),
                _ => {
                    let key = (id, answer.line.unwrap_or(1));
                    lines.entry(key).or_default().push(answer);
                }
            }
        }
        for ((id, line), answers) in lines {
            self.import(&self.items[id], line, &answers);
        }
        for (id, item) in self.items.iter().enumerate() {
            if !answered.contains(&id) {
                self.unanswered(item.kind, item);
            }
        }
        let parsed = answers.iter().find(|answer| answer.state == "parsing done");
        if let Some(parsed) = parsed {
            self.gathered.tool("Python", &parsed.version);
            if answers.iter().all(|answer| answer.state != "done") {
                self.unanswered("rest of the imports", &self.items[0]);
            }
        }
    }

    fn unanswered(&mut self, what: &str, item: &Item) {
        let line = item.before.max(1);
        self.gathered.unchecked(what, self.failure, &item.file, line);
    }

    fn parsed(&mut self, item: &Item, answer: &Answer) {
        self.gathered.checked(item.kind, 1);
        if answer.state == "syntax" {
            let line = item.before + answer.line.unwrap_or(1);
            let message = format!("{} does not parse: {}", item.name, answer.message);
            self.gathered.find("python", &item.file, line, message);
        }
    }

    /// Checks a used attribute: `F.rms_norm`.
    fn used(&mut self, item: &Item, answer: &Answer) {
        let at = item.before + answer.line.unwrap_or(1);
        match answer.state.as_str() {
            "wrong" => {
                let message = format!("{} uses what is not there: {}", item.name, answer.message);
                self.gathered.find("import", &item.file, at, message);
            }
            "unsure" => {
                let what = format!("use of {}", answer.module);
                self.gathered.unchecked(&what, &answer.message, &item.file, at);
            }
            _ => self.gathered.checked("name of a module", 1),
        }
    }

    /// Checks the imports of one line.
    fn import(&mut self, item: &Item, line: usize, answers: &[&Answer]) {
        let at = item.before + line;
        let mut said: BTreeSet<&str> = BTreeSet::new();
        let mut is_checked = true;
        for answer in answers {
            let what = format!("import of {}", answer.module);
            match answer.state.as_str() {
                "wrong" if said.insert(&answer.message) => {
                    let message = format!("{} imports what is not there: {}", item.name, answer.message);
                    self.gathered.find("import", &item.file, at, message);
                }
                "missing" if said.insert(&answer.module) => {
                    is_checked = false;
                    let reason = format!("{} has no such module", self.python.display());
                    self.gathered.unchecked(&what, &reason, &item.file, at);
                }
                "unsure" if said.insert(&answer.message) => {
                    is_checked = false;
                    self.gathered.unchecked(&what, &answer.message, &item.file, at);
                }
                _ => {}
            }
        }
        if is_checked {
            self.gathered.checked("import", 1);
        }
    }
}

/// Collects the flags of each script, including those that the skill's modules add.
fn collect(items: &[Item], answers: &[Answer], scripts: &mut Scripts) {
    let own: BTreeMap<String, &Answer> = answers
        .iter()
        .filter(|answer| answer.state == "flags")
        .filter_map(|answer| Some((module_name(&items[answer.id?].file), answer)))
        .collect();
    for answer in own.values() {
        let Some(item) = answer.id.map(|id| &items[id]) else {
            continue;
        };
        let mut script = Script { flags: answer.flags.clone(), is_open: answer.open };
        for module in &answer.imports {
            if let Some(other) = own.get(module) {
                script.flags.extend(other.flags.iter().cloned());
            }
        }
        scripts.scripts.insert(item.file.clone(), script);
    }
}

/// `norm` for `scripts/norm.py`
fn module_name(path: &str) -> String {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.strip_suffix(".py").unwrap_or(name).to_owned()
}

fn items(tree: &Tree, documents: &[Document], commands: &[Command]) -> Vec<Item> {
    let mut items = Vec::new();
    for (path, entry) in tree.iter() {
        let path = path.as_str();
        if path.ends_with(".py") {
            items.push(Item {
                file: path.to_owned(),
                before: 0,
                text: String::from_utf8_lossy(&entry.content).into_owned(),
                name: "the file".to_owned(),
                is_file: true,
                is_script: true,
                kind: "Python file",
            });
        }
    }
    for block in documents.iter().flat_map(|document| &document.blocks) {
        if Language::of(block) == Some(Language::Python) {
            items.push(Item {
                file: block.file.clone(),
                before: block.line,
                text: block.text.clone(),
                name: block.name(),
                is_file: block.path().is_some(),
                is_script: false,
                kind: "python block",
            });
        }
    }
    for command in commands {
        let Some((line, text)) = &command.input else {
            continue;
        };
        let takes_stdin = command.words.get(1).is_none_or(|(_, word)| word == "-");
        if command.program().starts_with("python") && takes_stdin {
            items.push(Item {
                file: command.file.clone(),
                before: line - 1,
                text: text.clone(),
                name: "the Python for stdin".to_owned(),
                is_file: true,
                is_script: false,
                kind: "python block",
            });
        }
    }
    items
}

/// The skill's own modules: its files by name, and files that `# file:` blocks define.
fn modules(tree: &Tree, items: &[Item]) -> BTreeMap<String, Option<String>> {
    let mut modules: BTreeMap<String, Option<String>> = BTreeMap::new();
    let mut add = |path: &str, text: &str| {
        let name = module_name(path);
        if name != "__init__" && name != "__main__" {
            modules.insert(name, Some(text.to_owned()));
        }
        // Names re-exported by a package are not followed.
        if let Some((folders, "__init__.py")) = path.rsplit_once('/') {
            modules.insert(module_name(folders), None);
        }
    };
    for (path, entry) in tree.iter() {
        if path.as_str().ends_with(".py") {
            add(path.as_str(), &String::from_utf8_lossy(&entry.content));
        }
    }
    for item in items.iter().filter(|item| item.kind == "python block") {
        let first = item.text.lines().next().unwrap_or_default();
        let path = first
            .strip_prefix('#')
            .and_then(|rest| rest.trim_start().strip_prefix("file:"))
            .and_then(|rest| rest.split_whitespace().next());
        if let Some(path) = path {
            add(path, &item.text);
        }
    }
    modules
}
