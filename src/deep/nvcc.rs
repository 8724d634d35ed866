//! Checks lines that begin with `nvcc` against `nvcc --help`. The skill's words are never passed to nvcc, since its
//! options can run programs and write files.

use std::collections::BTreeMap;
use std::process::Command as Program;

use super::process;
use super::report::Gathered;
use super::shell::{Command, is_placeholder};
use crate::toolchain::{Toolchain, clean};

/// Options whose value may follow without a space.
const JOINED: [&str; 9] = ["-O", "-I", "-L", "-l", "-D", "-U", "-x", "-t", "-isystem"];

pub(super) fn check(commands: &[Command], toolchain: Option<&Toolchain>, gathered: &mut Gathered) {
    let mut options: Option<Options> = None;
    for command in commands {
        let is_one = command.program() == "nvcc" && command.words.len() > 1;
        if !is_one || command.is_span && !command.words[1].1.starts_with('-') {
            continue;
        }
        let Some(toolchain) = toolchain else {
            gathered.unchecked("nvcc command", "there is no nvcc", &command.file, command.line());
            continue;
        };
        if options.is_none() {
            options = Options::read(toolchain);
        }
        let Some(options) = &options else {
            gathered.unchecked("nvcc command", "`nvcc --help` says nothing", &command.file, command.line());
            continue;
        };
        gathered.checked("nvcc command", 1);
        for (line, message) in options.wrong(&command.words[1..]) {
            let message = format!("nvcc {} {message}", toolchain.version);
            gathered.find("command", &command.file, line, message);
        }
    }
}

struct Options {
    /// Long and short names: whether a value follows.
    known: BTreeMap<String, bool>,
    /// The help text, which lists every architecture.
    help: String,
}

impl Options {
    fn read(toolchain: &Toolchain) -> Option<Self> {
        let ran = process::run(clean(&mut Program::new(&toolchain.nvcc)).arg("--help"), &[], 30).ok()?;
        let known = known(&ran.out);
        (known.len() > 20).then_some(Self { known, help: ran.out })
    }

    fn wrong(&self, words: &[(usize, String)]) -> Vec<(usize, String)> {
        let mut wrong = Vec::new();
        let mut words = words.iter();
        while let Some((line, word)) = words.next() {
            let name = word.split('=').next().unwrap_or(word);
            if !word.starts_with('-')
                || word == "-"
                || is_placeholder(name) && !self.known.contains_key(name) && !is_joined(word)
            {
                continue;
            }
            let value = match self.known.get(name) {
                Some(true) if word.len() == name.len() => words.next().cloned(),
                Some(_) => Some((*line, word[name.len()..].to_owned())),
                None if is_joined(word) => None,
                None => {
                    wrong.push((*line, format!("has no option {name}")));
                    None
                }
            };
            if !matches!(name, "-arch" | "-code" | "-gencode" | "--gpu-architecture" | "--gpu-code" | "--generate-code")
            {
                continue;
            }
            let Some((line, value)) = value else { continue };
            let pieces = value.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            for arch in pieces.filter(|piece| is_arch(piece)) {
                if !self.help.contains(&format!("'{arch}'")) {
                    wrong.push((line, format!("does not know {arch}")));
                }
            }
        }
        wrong
    }
}

fn is_joined(word: &str) -> bool {
    JOINED.iter().any(|option| word.starts_with(option) && word.len() > option.len())
}

/// `sm_90a`, `compute_80`
fn is_arch(piece: &str) -> bool {
    ["sm_", "compute_", "lto_"]
        .iter()
        .any(|prefix| piece.strip_prefix(prefix).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit())))
}

/// `--output-file <file>     (-o)`
fn known(help: &str) -> BTreeMap<String, bool> {
    let mut known = BTreeMap::new();
    for line in help.lines().filter(|line| line.starts_with("--")) {
        let mut words = line.split_whitespace();
        let Some(long) = words.next() else { continue };
        let short = words.next_back().map(|word| word.trim_matches(['(', ')']));
        let has_value = words.next().is_some();
        known.insert(long.to_owned(), has_value);
        if let Some(short) = short.filter(|short| short.starts_with('-')) {
            known.insert(short.to_owned(), has_value);
        }
    }
    known
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_those_of_the_help() {
        let help = "--compile                   (-c)      \n        text\n--output-file <file>      (-o)  \n\
                    --generate-code <specification>,...    (-gencode)  \n 'sm_90','compute_90'\n--std {c++17}  (-std)\n";
        let options = Options { known: known(help), help: help.to_owned() };
        let wrong = |text: &str| {
            let words: Vec<_> = text.split(' ').map(|word| (1, word.to_owned())).collect();
            options.wrong(&words).into_iter().map(|(_, message)| message).collect::<Vec<_>>()
        };
        assert_eq!(wrong("-c -O3 -std=c++17 -Iinclude -o -x a.cu"), [""; 0]);
        assert_eq!(wrong("-gencode arch=compute_90,code=sm_90"), [""; 0]);
        assert_eq!(wrong("-gencode arch=compute_70,code=sm_90"), ["does not know compute_70"]);
        assert_eq!(wrong("--no-such a.cu"), ["has no option --no-such"]);
    }
}
