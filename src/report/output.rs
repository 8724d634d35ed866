//! The one place that writes to stdout and stderr.

use std::io::{IsTerminal, Write};

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

    /// Whether a person is there to be asked.
    pub fn is_interactive(self) -> bool {
        !self.json
            && !self.quiet
            && std::io::stdin().is_terminal()
            && std::io::stdout().is_terminal()
    }

    /// A line of the report. A reader that has gone (`| head`) is no failure.
    pub fn line(self, text: impl AsRef<str>) {
        if !self.json && !self.quiet {
            let _ = writeln!(anstream::stdout().lock(), "{}", text.as_ref());
        }
    }

    /// What the command was asked to print, byte for byte, also when it is to be quiet.
    pub fn content(self, bytes: &[u8]) {
        let mut out = std::io::stdout().lock();
        let _ = out.write_all(bytes);
        let _ = out.flush();
    }

    /// Like [`Output::content`], for text with colours.
    pub fn text(self, text: impl AsRef<str>) {
        let mut out = anstream::stdout().lock();
        let _ = out.write_all(text.as_ref().as_bytes());
        let _ = out.flush();
    }

    /// The report as JSON, when that was asked for.
    pub fn json(self, report: &impl Serialize) {
        if self.json {
            let text = serde_json::to_string_pretty(report)
                .unwrap_or_else(|error| format!("{{\"error\": {:?}}}", error.to_string()));
            let _ = writeln!(std::io::stdout().lock(), "{text}");
        }
    }

    /// A remark beside the report.
    pub fn note(self, text: impl AsRef<str>) {
        if !self.json && !self.quiet {
            let _ = writeln!(anstream::stderr().lock(), "{}", text.as_ref());
        }
    }

    /// A failure, always printed.
    pub fn error(self, text: impl AsRef<str>) {
        let _ = writeln!(anstream::stderr().lock(), "{}", text.as_ref());
    }
}
