//! `kernels search show`.

use std::process::ExitCode;

use anyhow::Result;
use serde_json::json;

use super::{candidate, sources, state, status};
use crate::cli::search::Show;
use crate::report::{Output, style, unified};
use crate::search::event::Outcome;
use crate::search::profile;
use crate::search::state::{Candidate, State};

pub(super) fn run(arguments: &Show, output: Output) -> Result<ExitCode> {
    let run = &arguments.of.run;
    let state = state(run)?;
    let shown = candidate(&state, arguments.id, run)?;
    let diff = match shown.plan.parents.first().and_then(|parent| state.candidate(*parent)) {
        Some(parent) => super::compare::difference(run, parent, shown)?,
        None => String::new(),
    };
    let plan = &shown.plan;
    output.line(format!(
        "{} {} by {}, generation {}, island {}{}",
        style::strong(shown.id()),
        plan.operator,
        plan.proposer,
        shown.generation,
        plan.island,
        if plan.parents.is_empty() { String::new() } else { format!(", of {}", listed(&plan.parents)) }
    ));
    if let Some(proposed) = shown.proposed.as_ref().filter(|proposed| !proposed.thought.is_empty()) {
        output.line(format!("  {}", proposed.thought));
    }
    for attempt in shown.attempts() {
        let word = match attempt.outcome {
            Outcome::Passed => style::good("passed"),
            Outcome::Failed => style::bad("failed"),
            Outcome::NotJudged => style::warning("not judged"),
        };
        output.line(format!(
            "  {:<10} {word} {}",
            attempt.stage.name(),
            style::faint(format!("{:.1} s", attempt.seconds))
        ));
        for caught in &attempt.findings {
            output.line(format!("    {} {}", style::bad(&caught.kind), caught.text));
        }
    }
    figures(shown, output);
    let children = children(&state, shown.id());
    if !children.is_empty() {
        output.line(format!("  children: {}", listed(&children)));
    }
    if output.is_talkative() && !diff.is_empty() {
        output.text(&diff, unified::colour);
    }
    output.json(&json!({
        "candidate": status::brief(shown),
        "attempts": shown.attempts().collect::<Vec<_>>(),
        "proposed": shown.proposed,
        "compiled": shown.compiled,
        "judged": shown.judged,
        "confirmed": shown.confirmed,
        "children": children,
        "sources": sources(run, shown)?,
        "diff": diff,
    }));
    Ok(ExitCode::SUCCESS)
}

fn figures(shown: &Candidate, output: Output) {
    if let Some(summary) = shown.summary() {
        output.line(format!(
            "  {:.3} us, {:.1} % of the roof, worst case {:.1} %, spread {:.1} %",
            summary.us,
            summary.roof * 100.0,
            summary.worst * 100.0,
            summary.spread * 100.0
        ));
    }
    if let Some(confirmed) = &shown.confirmed {
        match (confirmed.speedup, &confirmed.why) {
            (Some(speedup), _) => {
                let best: Vec<String> =
                    confirmed.best.iter().map(|(peer, count)| format!("{peer} in {count}")).collect();
                output.line(format!("  {speedup:.2} times the speed of the best peer: {}", best.join(", ")));
            }
            (None, Some(why)) => output.line(format!("  no speed-up: {why}")),
            (None, None) => {}
        }
        if let (Some(_), Some(why)) = (confirmed.speedup, &confirmed.why) {
            output.line(style::warning(format!("  {why}")));
        }
        match &confirmed.profile {
            Some(Ok(metrics)) => output.line(format!("  {}", profile::sentence(metrics))),
            Some(Err(why)) => output.line(style::faint(format!("  Nsight Compute was not run: {why}"))),
            None => {}
        }
    }
}

fn children(state: &State, id: u32) -> Vec<u32> {
    state.candidates.iter().filter(|one| one.plan.parents.contains(&id)).map(Candidate::id).collect()
}

fn listed(ids: &[u32]) -> String {
    ids.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
}
