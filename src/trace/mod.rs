//! A trace of an agent's work, from the format of any agent to one: what was said, what was called, what came back.
//!
//! Everything in a trace is hostile text. Secrets are replaced while it is read, so that no step holds one.

pub(crate) mod digest;
mod form;
mod line;
mod markdown;
mod read;
pub(crate) mod redact;
mod steps;
mod words;

pub(crate) use read::{is_trace, read};

/// One thing that the user or the agent said or did; its number is its place in the trace, from 1.
#[derive(Clone, Debug, Default)]
pub(crate) struct Step {
    pub(crate) user: bool,
    pub(crate) text: String,
    pub(crate) call: Option<Call>,
}

/// A call of a tool, with what came back.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) tool: String,
    pub(crate) action: Action,
    pub(crate) result: String,
    /// Not known where the agent's own count and the text of the result do not say.
    pub(crate) failed: Option<bool>,
}

#[derive(Clone, Debug)]
pub(crate) enum Action {
    Command(String),
    Edit(Vec<Edit>),
    /// The arguments as they were written.
    Other(String),
}

/// A text of a file and what took its place; a new file has no old text.
#[derive(Clone, Debug)]
pub(crate) struct Edit {
    pub(crate) path: String,
    pub(crate) old: String,
    pub(crate) new: String,
}

/// A whole trace.
#[derive(Debug)]
pub(crate) struct Trace {
    /// The agent's name, as its format shows it.
    pub(crate) kind: &'static str,
    pub(crate) steps: Vec<Step>,
    /// What the agent itself noted as changed: the files' differences after each request.
    pub(crate) changes: Vec<Edit>,
    /// What was left out, and why.
    pub(crate) remarks: Vec<String>,
    /// How many secrets were replaced.
    pub(crate) redacted: usize,
}

/// At most `most` bytes of a text's beginning.
fn head(text: &str, most: usize) -> &str {
    let mut end = most.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
