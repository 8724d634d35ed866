//! Language models: what is asked and answered, the same for OpenAI's chat completions and responses and Anthropic's messages;
//! over HTTP ([`Client`]), with answers kept so that none is paid for twice ([`Kept`]), usage, and prices.

mod chat;
mod client;
mod endpoint;
mod kept;
mod messages;
mod price;
mod question;
mod responses;
mod usage;

pub(crate) use client::{Client, NoContent, Unanswered};
pub(crate) use endpoint::Endpoint;
pub(crate) use kept::Kept;
pub(crate) use price::usd;
pub(crate) use question::{Answer, Part, Question, Role, Stop, Tool, Turn};
pub(crate) use usage::Usage;

use anyhow::Result;

/// Something that answers questions.
pub(crate) trait Model: Send + Sync {
    fn ask(&self, question: &Question) -> Result<Answer>;

    /// What it is, without a key: two models with the same name give the same kind of answers.
    fn name(&self) -> String;
}
