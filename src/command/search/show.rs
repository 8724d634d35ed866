//! `kernels search show`.

use std::process::ExitCode;

use anyhow::Result;
use serde_json::json;

use super::{candidate, state, status};
use crate::base::text::numbers;
use crate::cli::search::Show;
use crate::report::{Output, style, unified};
use crate::search::event::Outcome;
use crate::search::profile;
use crate::search::state::Candidate;

pub(super) fn run(arguments: &Show, output: Output) -> Result<ExitCode> {
    let run = &arguments.of.run;
    let state = state(run)?;
    let shown = candidate(&state, arguments.id, run)?;
    let diff = shown.difference(run, state.parent(shown), usize::MAX)?;
    let plan = &shown.plan;
    output.line(format!(
        "{} {} by {}, generation {}, island {}{}",
        style::strong(shown.id()),
        plan.operator,
        plan.proposer,
        shown.generation,
        plan.island,
        if plan.parents.is_empty() { String::new() } else { format!(", of {}", numbers(&plan.parents)) }
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
    let children = state.children(shown.id());
    if !children.is_empty() {
        output.line(format!("  children: {}", numbers(&children)));
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
        "sources": shown.sources(run)?,
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
                let (best, without) = (best.join(", "), shown.without());
                output.line(format!("  {speedup:.2} times the speed of the best peer: {best}{without}"));
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
