//! Colours, by meaning. They are stripped when the output is no terminal.

use std::fmt::Display;

use anstyle::{AnsiColor, Style};

fn paint(style: Style, text: impl Display) -> String {
    format!("{style}{text}{style:#}")
}

/// Done, current, added.
pub(crate) fn good(text: impl Display) -> String {
    paint(AnsiColor::Green.on_default(), text)
}

/// Needs attention.
pub(crate) fn warning(text: impl Display) -> String {
    paint(AnsiColor::Yellow.on_default(), text)
}

/// Wrong, removed.
pub(crate) fn bad(text: impl Display) -> String {
    paint(AnsiColor::Red.on_default(), text)
}

/// The subject of the line.
pub(crate) fn strong(text: impl Display) -> String {
    paint(Style::new().bold(), text)
}

/// Secondary text.
pub(crate) fn faint(text: impl Display) -> String {
    paint(Style::new().dimmed(), text)
}

/// A position in a file.
pub(crate) fn place(text: impl Display) -> String {
    paint(AnsiColor::Cyan.on_default(), text)
}
