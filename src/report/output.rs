//! The one place that writes to stdout and stderr.

use std::cell::RefCell;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::sync::Mutex;

use serde::Serialize;

use crate::base::text::is_invisible;
use crate::install;

/// The output mode of a command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    json: bool,
    quiet: bool,
}

impl Output {
    /// The mode that the flags choose.
    pub(crate) fn new(json: bool, quiet: bool) -> Self {
        Self { json, quiet }
    }

    /// Whether JSON was asked for.
    pub(crate) fn is_json(self) -> bool {
        self.json
    }

    /// Whether nothing but errors is to be printed.
    pub(crate) fn is_quiet(self) -> bool {
        self.quiet && !self.json
    }

    /// Whether progress messages are to be printed.
    pub(crate) fn is_talkative(self) -> bool {
        !self.json && !self.quiet
    }

    /// Whether a user can be asked.
    pub(crate) fn is_interactive(self) -> bool {
        !self.json && !self.quiet && std::io::stdin().is_terminal() && std::io::stdout().is_terminal()
    }

    /// Whether a transient line would be seen and disturb nothing.
    pub(crate) fn shows_progress(self) -> bool {
        !self.json && !self.quiet && std::io::stderr().is_terminal()
    }

    /// Prints a line for people. A failure is that of the command, unless it changes installs: who asked for that is told by
    /// the exit code whether it was done.
    pub(crate) fn line(self, text: impl AsRef<str>) {
        if !self.json && !self.quiet {
            let written = writeln!(anstream::stdout().lock(), "{}", harmless(text.as_ref()));
            remember_in(&LOST_LINE, written);
        }
    }

    /// Prints the requested output, byte for byte, also with `--quiet`.
    pub(crate) fn content(self, bytes: &[u8]) {
        if kept(bytes) {
            return;
        }
        let mut out = std::io::stdout().lock();
        remember(out.write_all(bytes).and_then(|()| out.flush()));
    }

    /// Like [`Output::content`], without control characters on a terminal, where it is coloured, and unchanged elsewhere.
    pub(crate) fn text(self, plain: &str, colour: impl FnOnce(&str) -> String) {
        let stdout = std::io::stdout();
        let is_coloured = anstream::AutoStream::choice(&stdout) != anstream::ColorChoice::Never;
        if is_coloured {
            self.content(harmless(&colour(plain)).as_bytes());
        } else if stdout.is_terminal() {
            self.content(harmless(plain).as_bytes());
        } else {
            self.content(plain.as_bytes());
        }
    }

    /// Prints the JSON report, if requested.
    pub(crate) fn json(self, report: &impl Serialize) {
        if self.json {
            let text = serde_json::to_string_pretty(report)
                .unwrap_or_else(|error| format!("{{\"error\": {:?}}}", error.to_string()));
            if !kept(text.as_bytes()) {
                remember(writeln!(std::io::stdout().lock(), "{text}"));
            }
        }
    }

    /// Prints a remark beside the report.
    pub(crate) fn note(self, text: impl AsRef<str>) {
        if !self.json && !self.quiet {
            let _ = writeln!(anstream::stderr().lock(), "{}", harmless(text.as_ref()));
        }
    }

    /// Prints an error, always.
    pub(crate) fn error(self, text: impl AsRef<str>) {
        // The captured report contains the error.
        if kept(b"") {
            return;
        }
        let _ = writeln!(anstream::stderr().lock(), "{}", harmless(text.as_ref()));
    }
}

thread_local! {
    /// What would go to stdout, if the caller on this thread captures it.
    static KEPT: RefCell<Option<Vec<u8>>> = const { RefCell::new(None) };
}

/// Runs `work`, and returns its stdout. Nothing is printed, not even on stderr.
pub(crate) fn captured<R>(work: impl FnOnce() -> R) -> (R, Vec<u8>) {
    /// Restores the previous state, also on a panic.
    struct End(Option<Vec<u8>>);
    impl Drop for End {
        fn drop(&mut self) {
            KEPT.with_borrow_mut(|kept| *kept = self.0.take());
        }
    }
    let _end = End(KEPT.with_borrow_mut(|kept| kept.replace(Vec::new())));
    let answer = work();
    let bytes = KEPT.with_borrow_mut(|kept| kept.take().unwrap_or_default());
    (answer, bytes)
}

/// Stores the bytes if output is captured.
fn kept(bytes: &[u8]) -> bool {
    KEPT.with_borrow_mut(|kept| kept.as_mut().map(|kept| kept.extend_from_slice(bytes)).is_some())
}

/// The first failure to write requested output: a file, a script, a diff, JSON. It sets the exit code
/// at the end, so that a truncated file is never taken for a whole one.
static LOST: Mutex<Option<io::Error>> = Mutex::new(None);

/// The same of lines for people.
static LOST_LINE: Mutex<Option<io::Error>> = Mutex::new(None);

fn remember(written: io::Result<()>) {
    remember_in(&LOST, written);
}

fn remember_in(first: &Mutex<Option<io::Error>>, written: io::Result<()>) {
    match written {
        // A closed reader (`| head`) is no error.
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            if let Ok(mut lost) = first.lock() {
                lost.get_or_insert(error);
            }
        }
        _ => {}
    }
}

/// The first failure to write output that counts, if any.
pub(crate) fn lost() -> Option<io::Error> {
    let line = LOST_LINE.lock().ok()?.take().filter(|_| !install::is_change());
    LOST.lock().ok()?.take().or(line)
}

/// Escapes control characters except line ends, tabs and colours, and characters that are invisible or reorder a line: text
/// from elsewhere (a name in a repository, a version in a receipt) must not control the terminal.
fn harmless(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let colour = colour_length(rest);
        if colour > 0 {
            safe.push_str(&rest[..colour]);
            rest = &rest[colour..];
            continue;
        }
        if c.is_control() && !matches!(c, '\n' | '\t') {
            safe.extend(c.escape_debug());
        } else if is_invisible(c) {
            safe.extend(c.escape_unicode());
        } else {
            safe.push(c);
        }
        rest = &rest[c.len_utf8()..];
    }
    safe
}

/// The length of the colour sequence that `text` starts with: `ESC [ digits and ; m`. Concealment, black and backgrounds do
/// not count as colours, because they can hide text.
fn colour_length(text: &str) -> usize {
    let Some(inside) = text.strip_prefix("\u{1b}[") else {
        return 0;
    };
    let Some((codes, _)) = inside.split_once('m') else {
        return 0;
    };
    let plain = |code: &str| matches!(code.parse(), Ok(0_u8..=4 | 22..=24 | 31..=37 | 39 | 90..=97));
    if codes.is_empty() || codes.split(';').all(plain) { codes.len() + 3 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::harmless;

    #[test]
    fn colours_pass_and_everything_else_is_shown_as_text() {
        let coloured = "\u{1b}[1;32mdone\u{1b}[0m\n\ttab é";
        assert_eq!(harmless(coloured), coloured);
        for (text, shown) in [
            ("\u{1b}]0;title\u{7}", "\\u{1b}]0;title\\u{7}"),
            ("\u{1b}[2J", "\\u{1b}[2J"),
            ("\u{1b}[", "\\u{1b}["),
            ("\u{1b}[8mhidden", "\\u{1b}[8mhidden"),
            ("\u{1b}[1;30;40m", "\\u{1b}[1;30;40m"),
            ("a\rb", "a\\rb"),
            ("a\u{202e}b\u{200b}", "a\\u{202e}b\\u{200b}"),
            ("\u{9b}1m", "\\u{9b}1m"),
        ] {
            assert_eq!(harmless(text), shown);
        }
    }
}
