//! Checks calls of the skill's scripts: the script exists and its source defines the flags.

use super::python::Scripts;
use super::report::Gathered;
use super::shell::Command;
use crate::skill::Tree;

const FOLDER: &str = "scripts/";
/// Programs that run a script and pass it the remaining arguments.
const RUNNERS: [&str; 7] = ["python", "python3", "torchrun", "run", "launch", "pypy3", "ipython"];

pub(super) fn check(tree: &Tree, commands: &[Command], scripts: &Scripts, gathered: &mut Gathered) {
    for command in commands {
        let Some(at) = position(command) else {
            continue;
        };
        let (line, word) = &command.words[at];
        let Some(path) = find(tree, word) else {
            // Only paths that clearly mean a file of the skill.
            if word.starts_with(FOLDER) && !command.is_span && has_scripts(tree) {
                let message = format!("there is no {word} in the skill");
                gathered.find("script", &command.file, *line, message);
            }
            continue;
        };
        let flags = command.words[at + 1..].iter().take_while(|(_, word)| word != "--").filter_map(|(line, word)| {
            let word = word.trim_matches(['[', ']']);
            let is_number = word[1.min(word.len())..].starts_with(|c: char| c.is_ascii_digit() || c == '.');
            let is_flag = word.starts_with('-') && word.len() > 1 && !is_number;
            is_flag.then(|| (*line, word.split('=').next().unwrap_or(word)))
        });
        match scripts.of(&path) {
            None => gathered.unchecked("run of a script", scripts.reason(), &command.file, *line),
            Some(script) => {
                gathered.checked("script run", 1);
                for (line, flag) in flags {
                    if script.has(flag) {
                        continue;
                    }
                    if script.is_open {
                        gathered.unchecked(
                            "flag of a script",
                            "its source does not tell which it takes",
                            &command.file,
                            line,
                        );
                        continue;
                    }
                    let near = script.near(flag);
                    let message = format!("{path} has no {flag}{near}");
                    gathered.find("script", &command.file, line, message);
                }
            }
        }
    }
}

/// The index of the script in a command.
fn position(command: &Command) -> Option<usize> {
    let mut runs = false;
    for (at, (_, word)) in command.words.iter().enumerate() {
        let name = word.rsplit('/').next().unwrap_or(word);
        if word.ends_with(".py") && (runs || at == 0) {
            return Some(at);
        }
        if runs && matches!(word.as_str(), "-m" | "-c" | "-") {
            return None;
        }
        runs |= RUNNERS.contains(&name) || name.starts_with("python3.") || name.contains("PYTHON");
    }
    None
}

/// The skill's script for a path: `scripts/x.py`, `../scripts/x.py`, `.claude/skills/NAME/scripts/x.py`.
fn find(tree: &Tree, word: &str) -> Option<String> {
    let ends = |path: &&str| {
        word == *path
            || word.ends_with(&format!("/{path}"))
            || word.trim_start_matches("./") == path.rsplit('/').next().unwrap_or(path)
    };
    let paths = tree.iter().map(|(path, _)| path.as_str());
    paths.filter(|path| path.ends_with(".py")).find(ends).map(str::to_owned)
}

fn has_scripts(tree: &Tree) -> bool {
    tree.iter().any(|(path, _)| path.as_str().starts_with(FOLDER))
}
