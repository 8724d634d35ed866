//! `http:URL#MODEL`: a language model, asked the operators' questions. Its answer is a text with edits, kept by the content of
//! the question, so that a run goes on, or is made again, without the network.

use std::path::PathBuf;

use anyhow::{Result, bail};

use super::{Answer, Asked};
use crate::model::{self, Client, Endpoint, Kept, Model as _, NoContent, Question, Stop, Unanswered, Usage};
use crate::search::edit;
use crate::search::event::{Caught, Cost};
use crate::search::operator;
use crate::search::settings::Settings;
use crate::search::sources::Sources;

/// The folder of answers in a run's folder.
const ANSWERS: &str = "answers";
/// Enough for whole files, and for the reasoning before them.
const TOKENS: u32 = 16_384;
/// The most characters of an answer in the candidate's record; the kept answer has them all.
const RECORDED: usize = 1 << 20;

/// Refuses what would end a run at its first question.
pub(super) fn ready(endpoint: &Endpoint, settings: &Settings) -> Result<()> {
    let name = &endpoint.model;
    if settings.budget.usd.is_some() && model::usd(name, &Usage::default()).is_none() {
        bail!("the price of {name} is not known, so a budget in US dollars cannot be held: give evals=N or minutes=N");
    }
    // Kept answers need no key.
    if settings.answers.is_none() { endpoint.secret().map(drop) } else { Ok(()) }
}

/// Asks; an error is one that every other question would meet as well, and ends the run until it is resumed.
pub(super) fn answer(endpoint: &Endpoint, asked: &Asked) -> Result<Answer> {
    let settings = &asked.desk.state.run.settings;
    let folder = settings.answers.as_ref().map_or_else(|| asked.desk.run.join(ANSWERS), PathBuf::from);
    let model = Kept::new(Client::new(endpoint.clone(), asked.patience), &folder);
    let system = operator::system();
    let question = Question { sample: asked.plan.sample, ..Question::new(system, &asked.question, TOKENS) };
    let (sources, text, cost) = match model.ask(&question) {
        Ok(said) => {
            let text = text(&said);
            (edited(asked, said.stop, &text), text, cost(endpoint, said.usage, &said.model))
        }
        Err(error) => match error.downcast::<NoContent>() {
            Ok(none) => {
                let caught = Caught::public("no-content", none.to_string());
                (Err(vec![caught]), String::new(), cost(endpoint, none.usage, &none.model))
            }
            Err(error) if error.is::<Unanswered>() => {
                let caught = Caught::public("no-answer", format!("{error:#}"));
                (Err(vec![caught]), String::new(), Cost { requests: 1, unpriced: 1, ..Cost::default() })
            }
            Err(error) => return Err(error),
        },
    };
    let text: String = text.chars().take(RECORDED).collect();
    Ok(Answer { sources, thought: edit::thought(&text), question: asked.question.clone(), text, cost })
}

/// The text of an answer, without the reasoning that some servers leave before it.
fn text(answer: &model::Answer) -> String {
    let text = answer.text();
    match text.trim_start().strip_prefix("<think>").and_then(|rest| rest.split_once("</think>")) {
        Some((_, after)) => after.trim_start().to_owned(),
        None => text,
    }
}

fn edited(asked: &Asked, stop: Stop, text: &str) -> Result<Sources, Vec<Caught>> {
    match stop {
        // Edits that came before the cut are a part of what was meant.
        Stop::Length => Err(vec![Caught::public(
            "cut-off",
            format!("the answer was cut off at the model's limit or {TOKENS} tokens; make smaller edits"),
        )]),
        Stop::Refusal => Err(vec![Caught::public("refused", "the model or its provider refuses to answer")]),
        Stop::End | Stop::Calls => edit::apply(&asked.parent, text),
    }
}

/// What an answer cost: by the name that its server gives the model, or else by the one that was asked for.
fn cost(endpoint: &Endpoint, usage: Option<Usage>, model: &str) -> Cost {
    let priced = |usage: &Usage| model::usd(model, usage).or_else(|| model::usd(&endpoint.model, usage));
    let usd = usage.as_ref().and_then(priced);
    let usage = usage.unwrap_or_default();
    let tokens_in = usage.fresh + usage.cached + usage.written;
    let model = model.chars().take(200).collect();
    let unpriced = u32::from(usd.is_none());
    Cost { usd, tokens_in, tokens_out: usage.out, requests: 1, unpriced, model, seconds: 0.0 }
}
