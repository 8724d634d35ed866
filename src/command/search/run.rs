//! `kernels search run` and `kernels search resume`.

use std::process::ExitCode;

use anyhow::Result;

use super::status;
use crate::against::Peer;
use crate::cli::search::{Resume, Run};
use crate::command::failure::Usage;
use crate::command::prepare;
use crate::report::{Output, Progress, style};
use crate::search::Search;
use crate::search::event::Outcome;
use crate::search::proposer::Proposer;
use crate::search::settings::{Budget, Settings};
use crate::search::state::{Candidate, Standing, State};
use crate::subject::shell;

/// Starts a run. Exit 0 if it ended normally, whatever was found.
pub(super) fn run(arguments: &Run, output: Output) -> Result<ExitCode> {
    let absolute = |path: &std::path::PathBuf| Ok(std::path::absolute(path)?.to_string_lossy().into_owned());
    let against: Vec<String> = arguments.against.iter().filter(|peer| !peer.is_empty()).cloned().collect();
    for proposer in &arguments.proposer {
        proposer.parse::<Proposer>().map_err(|why| Usage(format!("--proposer {why}")))?;
    }
    super::super::is_free(&arguments.out, "go on with it: `kernels search resume RUN`")?;
    // They are timed at the end, when the budget is spent.
    Peer::parse_all(&against)?;
    let settings = Settings {
        seed: arguments.seed,
        proposers: arguments.proposer.clone(),
        base: std::env::current_dir()?.to_string_lossy().into_owned(),
        budget: budget(&arguments.budget)?,
        flight: arguments.flight,
        islands: arguments.islands,
        stall: arguments.stall,
        patience: arguments.patience,
        against,
        donors: arguments.donor.iter().map(absolute).collect::<Result<_>>()?,
        answers: arguments.answers.as_ref().map(absolute).transpose()?,
        engine: arguments.engine.clone(),
        cards: arguments.cards,
    };
    let search = Search::start(&arguments.dir, &arguments.out, settings)?;
    let state = search.state();
    if let Err(why) = &state.run.compiler {
        output.note(format!("{} nothing is compiled: {why}", style::warning("note:")));
    } else if let Err(why) = &state.run.card {
        output.note(format!("{} nothing is verified or timed: {why}", style::warning("note:")));
    }
    carry_on(search, &arguments.out, output)
}

/// Continues a run.
pub(super) fn resume(arguments: &Resume, output: Output) -> Result<ExitCode> {
    let budget = arguments.budget.as_deref().map(budget).transpose()?;
    let search = Search::resume(&arguments.of.run, |settings| {
        if let Some(budget) = budget {
            settings.budget = budget;
        }
    })?;
    carry_on(search, &arguments.of.run, output)
}

fn budget(text: &str) -> Result<Budget> {
    text.parse().map_err(|why| Usage(format!("--budget {text}: {why}")).into())
}

fn carry_on(mut search: Search, run: &std::path::Path, output: Output) -> Result<ExitCode> {
    if search.state().run.card.is_ok() {
        prepare::say_if_slow(output);
    }
    shell::end_with_signals()?;
    let progress = Progress::new(output);
    let why = search
        .run(&|state, candidate| progress.above(|| output.line(line(state, candidate))), &|what| progress.tell(what))?;
    progress.done();
    output.line(format!("ended: {why}"));
    status::show(search.state(), run, output);
    Ok(ExitCode::SUCCESS)
}

/// A finished candidate, in one line.
fn line(state: &State, candidate: &Candidate) -> String {
    let id = format!("{:>4}", candidate.id());
    let author = format!("{} {}", candidate.plan.operator, candidate.plan.proposer);
    let outcome = match candidate.standing() {
        Standing::Open => "open".to_owned(),
        Standing::Same | Standing::Caught => {
            let place = candidate.failure().map_or("", |attempt| attempt.stage.name());
            let kinds: Vec<&str> = candidate.kinds().into_iter().collect();
            format!("{} at {place}", style::bad(kinds.join(", ")))
        }
        Standing::NotJudged => {
            let first = candidate.attempts().find(|attempt| attempt.outcome == Outcome::NotJudged);
            style::warning(format!("not judged from {} on", first.map_or("", |attempt| attempt.stage.name())))
        }
        Standing::Timed | Standing::Confirmed => {
            let figures = candidate.summary().map_or_else(String::new, |summary| {
                format!("{:.3} us, {:.1} % of the roof", summary.us, summary.roof * 100.0)
            });
            let best = state.best().is_some_and(|best| best.id() == candidate.id());
            let figures = if best { style::good(figures) } else { figures };
            match candidate.speedup() {
                Some(speedup) => {
                    let without = candidate.without();
                    format!("{figures}, confirmed, {speedup:.2} times the best peer's speed{without}")
                }
                None if candidate.standing() == Standing::Confirmed => format!("{figures}, confirmed"),
                None => figures,
            }
        }
    };
    format!("{id} {author}: {outcome}")
}
