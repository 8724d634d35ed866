//! A run as one HTML page that works from disk: no script, nothing from elsewhere. Everything that a candidate or a proposer
//! wrote is a stranger's: it passes [`text`], and nothing else writes it.

mod chart;
mod html;
mod tables;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use anyhow::Result;

use self::html::{line, links, shown, usd};
use super::event::Outcome;
use super::state::{Candidate, Standing, State};
use crate::report::figure::percent;
use crate::report::html::{self as parts, text};

/// The most bytes of a difference, of a candidate that holds a cell or led to the best, and of others.
const DIFF: (usize, usize) = (64 << 10, 8 << 10);
/// The most lines of two sources that are compared: the time grows with the product of lines and differences.
const LINES: usize = 8000;
/// The page.
pub(crate) fn page(state: &State, run: &Path) -> Result<String> {
    let mut html = String::new();
    let ancestry = chart::ancestry(state);
    let elites = tables::elites(state);
    heading(&mut html, state);
    tables::leaderboard(&mut html, state);
    html.push_str("<h2 id=\"roof\">Time against the roof</h2>\n");
    match chart::roof(state) {
        Some(svg) => {
            html.push_str("<p class=\"faint\">The time of a copy of the same bytes over the kernel's, by candidate. Green: confirmed; grey: timed once; the line: the best so far.</p>\n");
            html.push_str(&svg);
        }
        None => html.push_str("<p>Nothing was timed.</p>\n"),
    }
    tables::grid(&mut html, state, &elites);
    html.push_str("<h2 id=\"lineage\">Lineage</h2>\n<p class=\"faint\">A column a generation, a line to each parent. Blue: what led to the best candidate. Red: caught; hollow: an earlier one again, or not judged.</p>\n");
    html.push_str(&chart::lineage(state, &ancestry));
    tables::caught(&mut html, state);
    tables::cost(&mut html, state);
    html.push_str("<h2 id=\"candidates\">Candidates</h2>\n");
    let mut held = ancestry;
    held.extend(elites.values().flat_map(BTreeMap::values));
    for one in &state.candidates {
        let most = if held.contains(&one.id()) { DIFF.0 } else { DIFF.1 };
        let diff = one.difference(run, state.parent(one), LINES)?;
        candidate(&mut html, one, &state.children(one.id()), &diff, most);
    }
    Ok(parts::page(&format!("Search: {}", text(&state.run.project)), include_str!("style.css"), &html))
}

fn heading(html: &mut String, state: &State) {
    let run = &state.run;
    let on = match &run.card {
        Ok(card) => format!("on {}, driver {}", card.name, shown(card.driver.as_ref())),
        Err(why) => format!("compiled for sm_{}, not judged: {why}", run.arch),
    };
    let compiler =
        run.compiler.as_ref().map_or_else(|why| format!("no nvcc: {why}"), |version| format!("nvcc {version}"));
    let _ = writeln!(
        html,
        "<p>{} · {} · kernels {} · seed {}</p>",
        text(&on),
        text(&compiler),
        text(&run.version),
        run.settings.seed
    );
    let _ = writeln!(html, "<p class=\"faint\">{}</p>", text(state.ended.as_deref().unwrap_or("not ended")));
    html.push_str("<nav>");
    for (id, name) in [
        ("leaderboard", "Leaderboard"),
        ("roof", "Roof"),
        ("elites", "Elites"),
        ("lineage", "Lineage"),
        ("caught", "Caught"),
        ("cost", "Cost"),
        ("candidates", "Candidates"),
    ] {
        let _ = write!(html, "<a href=\"#{id}\">{name}</a>");
    }
    html.push_str("</nav>\n<div class=\"figures\">");
    let count = |standing| state.candidates.iter().filter(|one| one.standing() == standing).count();
    let best = state.best().and_then(Candidate::summary);
    for (figure, words) in [
        (state.candidates.len().to_string(), "candidates"),
        (count(Standing::Confirmed).to_string(), "confirmed"),
        (count(Standing::Caught).to_string(), "caught"),
        (shown(best.map(|best| format!("{} %", percent(best.roof)))), "of the roof, the best"),
        (format!("{:.2}", state.usd()), "US dollars"),
        (format!("{:.0}", state.seconds / 60.0), "minutes"),
    ] {
        let _ = write!(html, "<div><b>{figure}</b><span>{words}</span></div>");
    }
    if state.unpriced() > 0 {
        let _ = write!(html, "<div><b>{}</b><span>answers of unknown price</span></div>", state.unpriced());
    }
    html.push_str("</div>\n");
}

fn candidate(html: &mut String, one: &Candidate, children: &[u32], diff: &str, most: usize) {
    let class = match one.standing() {
        Standing::Confirmed => "good",
        Standing::Caught => "bad",
        Standing::NotJudged | Standing::Open => "warn",
        Standing::Timed => "",
        Standing::Same => "faint",
    };
    let line = line(one);
    let (id, rest) = line.split_once(' ').unwrap_or((&line, ""));
    let _ = writeln!(
        html,
        "<details><summary><b>{id}</b> <span class=\"{class}\">{}</span></summary><div class=\"body\" id=\"c{id}\">",
        text(rest)
    );
    if let Some(proposed) = one.proposed.as_ref().filter(|proposed| !proposed.thought.is_empty()) {
        let _ = writeln!(html, "<p>{}</p>", text(&proposed.thought));
    }
    let _ = writeln!(
        html,
        "<p class=\"faint\">generation {}, island {}, parents {}, children {}, {} US dollars</p>",
        one.generation,
        one.plan.island,
        links(&one.plan.parents),
        links(children),
        usd(one.proposed.as_ref().and_then(|proposed| proposed.cost.usd)),
    );
    let findings = one.attempts().filter(|attempt| attempt.outcome != Outcome::Passed);
    html.push_str("<ul>");
    for (attempt, found) in findings.flat_map(|attempt| attempt.findings.iter().map(move |found| (attempt, found))) {
        let _ = writeln!(html, "<li>{}: <b>{}</b> {}</li>", attempt.stage.name(), text(&found.kind), text(&found.text));
    }
    html.push_str("</ul>\n");
    if !diff.is_empty() {
        html.push_str("<pre>");
        let mut left = most;
        for line in diff.lines().skip(1) {
            if line.len() > left {
                let _ = write!(html, "… `kernels search show {id}` shows all of it");
                break;
            }
            left -= line.len() + 1.min(left - line.len());
            match line.as_bytes().first() {
                _ if line.starts_with("+++ ") || line.starts_with("--- ") => {
                    let _ = writeln!(html, "<b>{}</b>", text(line));
                }
                Some(b'+') => drop(write!(html, "<ins>{}</ins>", text(line))),
                Some(b'-') => drop(write!(html, "<del>{}</del>", text(line))),
                _ => drop(writeln!(html, "{}", text(line))),
            }
        }
        html.push_str("</pre>");
    }
    html.push_str("</div></details>\n");
}
