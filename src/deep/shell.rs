//! Splits command lines into words as a shell does, with line numbers.

use std::process::Command as Program;

use super::document::Document;
use super::fence::{Block, Language};
use super::process;
use super::report::Gathered;

/// A simple command of a block or a code span.
#[derive(Debug)]
pub(super) struct Command {
    pub(super) file: String,
    /// Words with their lines, without redirections and leading assignments.
    pub(super) words: Vec<(usize, String)>,
    /// The text of its heredoc and that text's first line.
    pub(super) input: Option<(usize, String)>,
    /// From a code span, which may be only the name of a command.
    pub(super) is_span: bool,
}

impl Command {
    /// The program's name without folders.
    pub(super) fn program(&self) -> &str {
        let word = self.words.first().map_or("", |(_, word)| word);
        word.rsplit('/').next().unwrap_or(word)
    }

    pub(super) fn line(&self) -> usize {
        self.words.first().map_or(1, |(line, _)| *line)
    }
}

/// Checks blocks with `bash -n`, and returns every command in blocks and code spans.
pub(super) fn check(documents: &[Document], gathered: &mut Gathered) -> Vec<Command> {
    let mut commands = Vec::new();
    for document in documents {
        for block in &document.blocks {
            let text = match Language::of(block) {
                Some(Language::Shell) => block.text.clone(),
                Some(Language::Console) => typed(&block.text),
                _ => continue,
            };
            let text = mark_placeholders(&text);
            parse(block, &text, gathered);
            for mut command in split(&text) {
                for (line, _) in &mut command.words {
                    *line += block.line;
                }
                if let Some((line, _)) = &mut command.input {
                    *line += block.line;
                }
                command.file.clone_from(&block.file);
                commands.push(command);
            }
        }
        for (line, span) in &document.spans {
            // `kernels init → build` names steps; only the first is a command.
            let text = mark_placeholders(span.split('→').next().unwrap_or_default());
            if let Some(mut command) = split(&text).into_iter().next() {
                for (at, _) in &mut command.words {
                    *at += line - 1;
                }
                command.file.clone_from(&document.path);
                command.is_span = true;
                command.input = None;
                commands.push(command);
            }
        }
    }
    commands
}

/// `bash -n` parses without executing.
fn parse(block: &Block, text: &str, gathered: &mut Gathered) {
    let mut bash = Program::new("bash");
    bash.arg("-n").env_remove("BASH_ENV").env("LC_ALL", "C");
    for (name, _) in std::env::vars_os() {
        // Exported functions would be evaluated at start-up.
        if name.to_string_lossy().starts_with("BASH_FUNC_") {
            bash.env_remove(name);
        }
    }
    match process::run(&mut bash, text.as_bytes(), 10) {
        Ok(ran) if ran.status.success() => gathered.checked("shell block", 1),
        Ok(ran) => {
            gathered.checked("shell block", 1);
            let said = ran.err.lines().next().unwrap_or_default();
            let (line, message) = said
                .split_once("line ")
                .and_then(|(_, rest)| {
                    let (line, message) = rest.split_once(": ")?;
                    Some((line.parse().ok()?, message))
                })
                .unwrap_or((1, said));
            let message = format!("{} does not parse: {message}", block.name());
            gathered.find("shell", &block.file, block.at(line), message);
        }
        Err(_) => gathered.unchecked("shell block", "there is no bash", &block.file, block.line),
    }
}

/// The commands after prompts. Output lines become empty, so that line numbers stay.
fn typed(text: &str) -> String {
    let mut continues = false;
    let mut all = String::new();
    for line in text.lines() {
        let trimmed = line.trim_start();
        let typed = match trimmed.strip_prefix("$ ").or(trimmed.strip_prefix("% ")) {
            Some(typed) => Some(typed),
            None if continues => Some(trimmed.strip_prefix("> ").unwrap_or(trimmed)),
            None => None,
        };
        let typed = typed.unwrap_or_default();
        continues = typed.ends_with('\\');
        all.push_str(typed);
        all.push('\n');
    }
    all
}

/// Replaces placeholders, `<PATH>` and `…`, so that a shell does not take `<` for a redirection.
fn mark_placeholders(text: &str) -> String {
    let mut marked = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        marked.push_str(&rest[..at]);
        let inside = &rest[at + 1..];
        let end = inside.find(['<', '>', '\n']).unwrap_or(inside.len());
        let name = &inside[..end];
        let is_one = inside[end..].starts_with('>')
            && name.starts_with(|c: char| c.is_ascii_alphabetic())
            && !name.ends_with(char::is_whitespace)
            && !name.contains(['/', '&', '|', ';']);
        if is_one {
            marked.push_str(PLACEHOLDER);
            rest = &inside[end + 1..];
        } else {
            marked.push('<');
            rest = inside;
        }
    }
    marked.push_str(rest);
    marked
}

const PLACEHOLDER: &str = "PLACEHOLDER";

/// Whether a word is a placeholder: `PATH`, `$HOME/x`, `…`.
pub(super) fn is_placeholder(word: &str) -> bool {
    let has = |test: fn(&char) -> bool| word.chars().any(|c| test(&c));
    word.contains(['$', '…', '<'])
        || word.contains("...")
        || has(char::is_ascii_uppercase) && !has(char::is_ascii_lowercase)
}

struct Splitter<'t> {
    chars: std::iter::Peekable<std::str::Chars<'t>>,
    line: usize,
    word: Option<(usize, String)>,
    words: Vec<(usize, String)>,
    /// The next word is a redirection's target.
    redirects: bool,
    /// Heredocs that begin after this line: delimiter, whether tabs are stripped, index of the command.
    pending: Vec<(String, bool, usize)>,
    /// The next word is a heredoc's delimiter; `true` if tabs are stripped.
    delimiter: Option<bool>,
    found: Vec<Command>,
    nested: Vec<(usize, String)>,
}

/// The simple commands of a text, with lines from 1.
fn split(text: &str) -> Vec<Command> {
    let mut all = Vec::new();
    let mut queue = vec![(1, text.to_owned())];
    while let Some((line, text)) = queue.pop() {
        let mut splitter = Splitter {
            chars: text.chars().peekable(),
            line,
            word: None,
            words: Vec::new(),
            redirects: false,
            pending: Vec::new(),
            delimiter: None,
            found: Vec::new(),
            nested: Vec::new(),
        };
        splitter.run();
        all.extend(splitter.found);
        queue.extend(splitter.nested);
    }
    all.sort_by_key(Command::line);
    all
}

impl Splitter<'_> {
    fn run(&mut self) {
        while let Some(c) = self.next() {
            match c {
                '\n' => {
                    self.end_command();
                    self.heredocs();
                }
                c if c.is_whitespace() => self.end_word(),
                '\\' => match self.next() {
                    Some('\n') | None => {}
                    Some(c) => self.push(c),
                },
                '\'' => self.quoted(),
                '"' => self.double_quoted(),
                '`' => self.backticks(),
                '$' => self.dollar(),
                '#' if self.word.is_none() => {
                    while self.chars.peek().is_some_and(|c| *c != '\n') {
                        self.next();
                    }
                }
                '&' if self.chars.peek() == Some(&'>') => {
                    self.next();
                    self.redirection();
                }
                ';' | '&' | '|' | '(' | ')' => self.end_command(),
                '<' | '>' => {
                    // A file descriptor's number.
                    if self.word.as_ref().is_some_and(|(_, word)| word.bytes().all(|b| b.is_ascii_digit())) {
                        self.word = None;
                    }
                    self.end_word();
                    if self.chars.peek() == Some(&'(') {
                        self.next();
                        self.substitution();
                    } else if c == '<' && self.chars.peek() == Some(&'<') {
                        self.next();
                        if self.chars.peek() == Some(&'<') {
                            self.next();
                            self.redirects = true;
                        } else {
                            let tabs = self.chars.peek() == Some(&'-');
                            if tabs {
                                self.next();
                            }
                            self.delimiter = Some(tabs);
                        }
                    } else {
                        self.redirection();
                    }
                }
                c => self.push(c),
            }
        }
        self.end_command();
    }

    fn next(&mut self) -> Option<char> {
        let c = self.chars.next();
        if c == Some('\n') {
            self.line += 1;
        }
        c
    }

    fn push(&mut self, c: char) {
        let line = self.line;
        self.word.get_or_insert_with(|| (line, String::new())).1.push(c);
    }

    fn push_all(&mut self, text: &str) {
        let line = self.line;
        self.word.get_or_insert_with(|| (line, String::new())).1.push_str(text);
    }

    fn redirection(&mut self) {
        self.end_word();
        while self.chars.peek().is_some_and(|c| matches!(c, '>' | '&' | '|')) {
            self.next();
        }
        self.redirects = true;
    }

    fn quoted(&mut self) {
        self.push_all("");
        while let Some(c) = self.next() {
            if c == '\'' {
                break;
            }
            self.push(c);
        }
    }

    fn double_quoted(&mut self) {
        self.push_all("");
        while let Some(c) = self.next() {
            match c {
                '"' => break,
                '\\' => match self.next() {
                    Some('\n') | None => {}
                    Some(c @ ('"' | '\\' | '$' | '`')) => self.push(c),
                    Some(c) => {
                        self.push('\\');
                        self.push(c);
                    }
                },
                '`' => self.backticks(),
                '$' => self.dollar(),
                c => self.push(c),
            }
        }
    }

    fn backticks(&mut self) {
        let line = self.line;
        let mut inside = String::new();
        while let Some(c) = self.next() {
            if c == '`' {
                break;
            }
            inside.push(c);
        }
        self.nested.push((line, inside));
        self.push_all("$(…)");
    }

    fn dollar(&mut self) {
        match self.chars.peek() {
            Some('(') => {
                self.next();
                self.substitution();
            }
            Some('{') => {
                self.push('$');
                while let Some(c) = self.next() {
                    self.push(c);
                    if c == '}' {
                        break;
                    }
                }
            }
            _ => self.push('$'),
        }
    }

    /// Skips to the parenthesis that closes the current one.
    fn substitution(&mut self) {
        let line = self.line;
        let mut inside = String::new();
        let mut depth = 1;
        let mut quote = None;
        while let Some(c) = self.next() {
            match (quote, c) {
                (Some(open), c) if c == open => quote = None,
                (None, '\'' | '"') => quote = Some(c),
                (None, '(') => depth += 1,
                (None, ')') => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                break;
            }
            inside.push(c);
        }
        self.nested.push((line, inside));
        self.push_all("$(…)");
    }

    fn end_word(&mut self) {
        let Some((line, word)) = self.word.take() else {
            return;
        };
        if let Some(tabs) = self.delimiter.take() {
            self.pending.push((word, tabs, self.found.len()));
        } else if self.redirects {
            self.redirects = false;
        } else {
            self.words.push((line, word));
        }
    }

    fn end_command(&mut self) {
        self.end_word();
        self.redirects = false;
        self.delimiter = None;
        let mut words = std::mem::take(&mut self.words);
        let is_front = |word: &str| {
            let is_assignment = word.split_once('=').is_some_and(|(name, _)| {
                !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
            });
            is_assignment || FRONT.contains(&word)
        };
        let front = words.iter().take_while(|(_, word)| is_front(word)).count();
        words.drain(..front);
        // An empty command is kept if a heredoc refers to its index.
        if !words.is_empty() || !self.pending.is_empty() {
            self.found.push(Command { file: String::new(), words, input: None, is_span: false });
        }
    }

    fn heredocs(&mut self) {
        for (delimiter, tabs, whose) in std::mem::take(&mut self.pending) {
            let first = self.line;
            let mut body = String::new();
            loop {
                let mut line = String::new();
                let mut ended = true;
                while let Some(c) = self.next() {
                    if c == '\n' {
                        ended = false;
                        break;
                    }
                    line.push(c);
                }
                let shown = if tabs { line.trim_start_matches('\t') } else { &line };
                if shown == delimiter || ended && line.is_empty() {
                    break;
                }
                body.push_str(shown);
                body.push('\n');
                if ended {
                    break;
                }
            }
            if let Some(command) = self.found.get_mut(whose) {
                command.input = Some((first, body));
            }
        }
    }
}

/// Words that may precede a command.
const FRONT: [&str; 14] =
    ["if", "then", "else", "elif", "do", "while", "until", "!", "{", "time", "exec", "env", "sudo", "nohup"];

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<(usize, String)> {
        let commands = split(text);
        let joined = |command: &Command| {
            let words: Vec<&str> = command.words.iter().map(|(_, word)| word.as_str()).collect();
            (command.line(), words.join("|"))
        };
        commands.iter().map(joined).collect()
    }

    #[test]
    fn commands_are_split_as_a_shell_splits_them() {
        for (text, found) in [
            ("a 'b c' \"d $e\" f\\ g\n", vec![(1, "a|b c|d $e|f g")]),
            ("a \\\n  --b # c\nd; e && f | g\n", vec![(1, "a|--b"), (3, "d"), (3, "e"), (3, "f"), (3, "g")]),
            ("X=1 Y=2 a > out 2>&1 <in b\n", vec![(1, "a|b")]),
            ("a $(b --c) d\n", vec![(1, "a|$(…)|d"), (1, "b|--c")]),
            ("if a --b; then c; fi\n", vec![(1, "a|--b"), (1, "c"), (1, "fi")]),
        ] {
            let found: Vec<(usize, String)> = found.into_iter().map(|(line, words)| (line, words.to_owned())).collect();
            assert_eq!(words(text), found, "{text}");
        }
    }

    #[test]
    fn heredocs_belong_to_their_command() {
        let commands = split("python3 - x <<'EOF'\nimport y\nEOF\nb\n");
        assert_eq!(commands[0].input, Some((2, "import y\n".to_owned())));
        assert_eq!(commands[1].line(), 4);
        assert_eq!(commands.len(), 2);
    }

    #[test]
    fn words_in_angle_brackets_are_values() {
        assert_eq!(mark_placeholders("a <PATH> b <in >out"), "a PLACEHOLDER b <in >out");
        assert!(!is_placeholder("rows=N,width=N") && is_placeholder("PATH") && is_placeholder("$X/y"));
        assert!(!is_placeholder("kernels/rmsnorm"));
    }

    #[test]
    fn only_what_is_typed_is_taken_of_a_session() {
        assert_eq!(typed("$ a \\\n> b\nsays c\n$ d\n"), "a \\\nb\n\nd\n");
    }
}
