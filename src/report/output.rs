//! The one place that writes to stdout and stderr.

use std::cell::RefCell;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::sync::Mutex;

use serde::Serialize;

/// How a command was asked to speak.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    json: bool,
    quiet: bool,
}

impl Output {
    /// As the flags say.
    pub fn new(json: bool, quiet: bool) -> Self {
        Self { json, quiet }
    }

    /// Whether JSON was asked for.
    pub fn is_json(self) -> bool {
        self.json
    }

    /// Whether people are to read of what goes on.
    pub fn is_talkative(self) -> bool {
        !self.json && !self.quiet
    }

    /// Whether a person is there to be asked.
    pub fn is_interactive(self) -> bool {
        !self.json
            && !self.quiet
            && std::io::stdin().is_terminal()
            && std::io::stdout().is_terminal()
    }

    /// Whether a line that comes and goes would be seen by a person and disturb nobody.
    pub fn shows_progress(self) -> bool {
        !self.json && !self.quiet && std::io::stderr().is_terminal()
    }

    /// A line for people. What a command does is done whether or not anybody can read of it.
    pub fn line(self, text: impl AsRef<str>) {
        if !self.json && !self.quiet {
            let _ = writeln!(anstream::stdout().lock(), "{}", harmless(text.as_ref()));
        }
    }

    /// What the command was asked to print, byte for byte, also when it is to be quiet.
    pub fn content(self, bytes: &[u8]) {
        if kept(bytes) {
            return;
        }
        let mut out = std::io::stdout().lock();
        remember(out.write_all(bytes).and_then(|()| out.flush()));
    }

    /// Like [`Output::content`], in colours on a terminal and to the letter everywhere else.
    pub fn text(self, plain: &str, colour: impl FnOnce(&str) -> String) {
        let stdout = std::io::stdout();
        if anstream::AutoStream::choice(&stdout) == anstream::ColorChoice::Never {
            self.content(plain.as_bytes());
        } else {
            self.content(harmless(&colour(plain)).as_bytes());
        }
    }

    /// The report as JSON, when that was asked for.
    pub fn json(self, report: &impl Serialize) {
        if self.json {
            let text = serde_json::to_string_pretty(report)
                .unwrap_or_else(|error| format!("{{\"error\": {:?}}}", error.to_string()));
            if !kept(text.as_bytes()) {
                remember(writeln!(std::io::stdout().lock(), "{text}"));
            }
        }
    }

    /// A remark beside the report.
    pub fn note(self, text: impl AsRef<str>) {
        if !self.json && !self.quiet {
            let _ = writeln!(anstream::stderr().lock(), "{}", harmless(text.as_ref()));
        }
    }

    /// A failure, always printed.
    pub fn error(self, text: impl AsRef<str>) {
        // Whoever keeps the report has the error in it.
        if kept(b"") {
            return;
        }
        let _ = writeln!(anstream::stderr().lock(), "{}", harmless(text.as_ref()));
    }
}

thread_local! {
    /// What would go to stdout, where this thread's caller wants it for itself.
    static KEPT: RefCell<Option<Vec<u8>>> = const { RefCell::new(None) };
}

/// Runs `work`, and answers what it would have printed on stdout. Nothing is printed, on stderr neither.
pub fn captured<R>(work: impl FnOnce() -> R) -> (R, Vec<u8>) {
    /// Puts back what was before, also when `work` panics.
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

/// Keeps the bytes, if somebody wants them.
fn kept(bytes: &[u8]) -> bool {
    KEPT.with_borrow_mut(|kept| {
        kept.as_mut()
            .map(|kept| kept.extend_from_slice(bytes))
            .is_some()
    })
}

/// The first failure to write what was asked for: a file, a script, a diff, JSON. The exit code
/// tells of it at the end, so that a cut-off file is never taken for a whole one.
static LOST: Mutex<Option<io::Error>> = Mutex::new(None);

fn remember(written: io::Result<()>) {
    match written {
        // A reader that has gone (`| head`) has what it wanted.
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            if let Ok(mut lost) = LOST.lock() {
                lost.get_or_insert(error);
            }
        }
        _ => {}
    }
}

/// Why something of the output was lost, if it was.
pub fn lost() -> Option<io::Error> {
    LOST.lock().ok()?.take()
}

/// Text from elsewhere (a name in a repository, a version in a receipt) must not act on the
/// terminal: of all control characters only line ends, tabs and colours are let through.
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
        } else {
            safe.push(c);
        }
        rest = &rest[c.len_utf8()..];
    }
    safe
}

/// The length of the colour sequence that `text` starts with: `ESC [ digits and ; m`.
fn colour_length(text: &str) -> usize {
    let Some(inside) = text.strip_prefix("\u{1b}[") else {
        return 0;
    };
    match inside.find(|c: char| !c.is_ascii_digit() && c != ';') {
        Some(end) if inside[end..].starts_with('m') => end + 3,
        _ => 0,
    }
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
            ("a\rb", "a\\rb"),
            ("\u{9b}1m", "\\u{9b}1m"),
        ] {
            assert_eq!(harmless(text), shown);
        }
    }
}
