//! Colours, by meaning. Where the reader is no terminal they are stripped on the way out.

use std::fmt::Display;

use anstyle::{AnsiColor, Style};

fn paint(style: Style, text: impl Display) -> String {
    format!("{style}{text}{style:#}")
}

/// Done, current, added.
pub fn good(text: impl Display) -> String {
    paint(AnsiColor::Green.on_default(), text)
}

/// Worth a look.
pub fn warning(text: impl Display) -> String {
    paint(AnsiColor::Yellow.on_default(), text)
}

/// Wrong, removed.
pub fn bad(text: impl Display) -> String {
    paint(AnsiColor::Red.on_default(), text)
}

/// What the line is about.
pub fn strong(text: impl Display) -> String {
    paint(Style::new().bold(), text)
}

/// What can be skipped.
pub fn faint(text: impl Display) -> String {
    paint(Style::new().dimmed(), text)
}

/// Where in a file.
pub fn place(text: impl Display) -> String {
    paint(AnsiColor::Cyan.on_default(), text)
}
