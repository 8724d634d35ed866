//! From an error to a message and an exit code.

use std::process::ExitCode;

use anyhow::Error;
use serde_json::{Value, json};
use thiserror::Error;

use crate::against::UnknownPeer;
use crate::base::plural;
use crate::cli::skills::Looking;
use crate::install::Refusal;
use crate::install::refusal::Refused;
use crate::report::export::UnknownEnding;
use crate::report::{Output, style};

/// A wrong command line that clap cannot see.
#[derive(Debug, Error)]
#[error("{0}")]
pub(crate) struct Usage(pub String);

/// An error with its causes, each once: some name their cause themselves.
pub(crate) fn message(error: &Error) -> String {
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

/// Ends a command that may have done only a part: prints the report of what it did, with what was refused and what
/// failed, and returns the exit code.
pub(crate) fn end(mut report: Value, refused: Vec<Refused>, failed: &[String], output: Output) -> ExitCode {
    let refusal = (!refused.is_empty()).then_some(Refusal(refused));
    let code = if refusal.is_some() { 3 } else { u8::from(!failed.is_empty()) };
    if code != 0 {
        let said: Vec<String> = failed.iter().cloned().chain(refusal.as_ref().map(Refusal::to_string)).collect();
        report["error"] = said.join("\n").into();
        report["exit_code"] = code.into();
        report["refused"] = json!(refusal.as_ref().map(|refusal| &refusal.0));
    }
    output.json(&report);
    for why in failed {
        output.error(format!("{} {why}", style::bad("error:")));
    }
    if let Some(refusal) = refusal {
        output.error(format!("{} {refusal}", style::bad("refused:")));
    }
    ExitCode::from(code)
}

/// With `--check`, that something would change, for [`end`].
pub(crate) fn pending(changes: usize, looking: Looking) -> Vec<String> {
    let some = looking.check && changes > 0;
    some.then(|| format!("{} would change", plural(changes, "install"))).into_iter().collect()
}

/// With `--quiet`, prints what made a command fail, because its report is not printed.
pub(crate) fn quietly(problems: &[String], output: Output) {
    for problem in problems.iter().filter(|_| output.is_quiet()) {
        output.error(format!("{} {problem}", style::bad("error:")));
    }
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
