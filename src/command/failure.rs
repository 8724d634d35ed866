//! From an error to a message and an exit code.

use std::process::ExitCode;

use anyhow::Error;
use serde_json::json;
use thiserror::Error;

use crate::against::UnknownPeer;
use crate::install::Refusal;
use crate::report::export::UnknownEnding;
use crate::report::{Output, style};

/// A wrong command line that clap cannot see.
#[derive(Debug, Error)]
#[error("{0}")]
pub(crate) struct Usage(pub String);

/// An error with its causes, each once: some name their cause themselves.
fn message(error: &Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.ends_with(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// Prints an error and returns its exit code: 3 for a refusal, 2 for wrong usage, 1 otherwise.
pub(crate) fn report(error: &Error, output: Output) -> ExitCode {
    let refusal = error.downcast_ref::<Refusal>();
    let (word, code) = match refusal {
        Some(_) => ("refused", 3),
        None if error.is::<Usage>() || error.is::<UnknownEnding>() || error.is::<UnknownPeer>() => ("error", 2),
        None => ("error", 1),
    };
    let message = message(error);
    output.json(&json!({
        "error": message,
        "exit_code": code,
        "refused": refusal.map(|refusal| &refusal.0),
    }));
    output.error(format!("{} {message}", style::bad(format!("{word}:"))));
    ExitCode::from(code)
}
