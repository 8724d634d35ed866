//! A run as one HTML page that works from disk: no script, nothing from elsewhere. Everything that a candidate or a proposer
//! wrote is a stranger's: it passes [`text`], and nothing else writes it.

mod chart;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};
use std::path::Path;

use anyhow::Result;

use super::Sources;
use super::event::{Outcome, Summary};
use super::state::{Candidate, Standing, State};
use crate::base::text::is_invisible;
use crate::journal::Journal;
use crate::report::figure::{NONE, micros, percent, times};
use crate::report::unified;
use crate::report::xml::escape;

/// How many candidates the leaderboard shows at first, and how many that were timed once it has.
const SHOWN: usize = 20;
/// The most bytes of a difference, of a candidate that holds a cell or led to the best, and of others.
const DIFF: (usize, usize) = (64 << 10, 8 << 10);
/// The most lines of two sources that are compared: the time grows with the product of lines and differences.
const LINES: usize = 8000;

/// A text as HTML shows it. Characters that nobody sees, or that reorder a line, are named.
fn text(raw: &str) -> String {
    if !raw.chars().any(is_invisible) {
        return escape(raw);
    }
    let named = |c: char| if is_invisible(c) { c.escape_unicode().to_string() } else { c.to_string() };
    escape(&raw.chars().map(named).collect::<String>())
}

/// A table; cells are HTML. Columns that begin with `#` are figures.
fn table(html: &mut String, heads: &[&str], rows: impl IntoIterator<Item = Vec<String>>) {
    let class = |head: &str| if head.starts_with('#') { " class=\"n\"" } else { "" };
    html.push_str("<div class=\"scroll\"><table><thead><tr>");
    for head in heads {
        let _ = write!(html, "<th{}>{}</th>", class(head), text(head.trim_start_matches('#')));
    }
    html.push_str("</tr></thead><tbody>\n");
    for row in rows {
        html.push_str("<tr>");
        for (head, cell) in heads.iter().zip(row) {
            let _ = write!(html, "<td{}>{cell}</td>", class(head));
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</tbody></table></div>\n");
}

fn link(id: u32) -> String {
    format!("<a href=\"#c{id}\">{id}</a>")
}

fn links<'a>(ids: impl IntoIterator<Item = &'a u32>) -> String {
    ids.into_iter().map(|id| link(*id)).collect::<Vec<_>>().join(", ")
}

fn shown(value: Option<impl fmt::Display>) -> String {
    value.map_or_else(|| NONE.to_owned(), |value| value.to_string())
}

fn usd(value: Option<f64>) -> String {
    shown(value.map(|usd| format!("{usd:.4}")))
}

/// A candidate in one line, not yet as HTML.
fn line(one: &Candidate) -> String {
    let kinds: BTreeSet<&str> =
        one.failure().iter().flat_map(|failed| &failed.findings).map(|found| found.kind.as_str()).collect();
    let outcome = match (one.standing(), one.summary()) {
        (Standing::Caught | Standing::Same, _) => {
            let stage = one.failure().map_or("identity", |failed| failed.stage.name());
            format!("{} at {stage}", kinds.into_iter().collect::<Vec<_>>().join(", "))
        }
        (Standing::NotJudged, _) => "not judged".to_owned(),
        (Standing::Open, _) => "open".to_owned(),
        (Standing::Timed | Standing::Confirmed, None) => NONE.to_owned(),
        (Standing::Timed, Some(summary)) => {
            format!("{} µs, {} % of the roof", micros(summary.us), percent(summary.roof))
        }
        (Standing::Confirmed, Some(summary)) => {
            let speedup =
                one.speedup().map_or_else(String::new, |speedup| format!(", {} × the best peer", times(speedup)));
            format!("confirmed {} µs, {} % of the roof{speedup}", micros(summary.us), percent(summary.roof))
        }
    };
    format!("{} {} by {}: {outcome}", one.id(), one.plan.operator, one.plan.proposer)
}

/// The page.
pub(crate) fn page(state: &State, run: &Path) -> Result<String> {
    let name = text(&state.run.project);
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>Search: {name}</title>\n\
         <style>{}</style>\n</head>\n<body>\n<h1>Search: {name}</h1>\n",
        include_str!("style.css")
    );
    let ancestry = chart::ancestry(state);
    let elites = elites(state);
    heading(&mut html, state);
    leaderboard(&mut html, state);
    html.push_str("<h2 id=\"roof\">Time against the roof</h2>\n");
    match chart::roof(state) {
        Some(svg) => {
            html.push_str("<p class=\"faint\">The time of a copy of the same bytes over the kernel's, by candidate. Green: confirmed; grey: timed once; the line: the best so far.</p>\n");
            html.push_str(&svg);
        }
        None => html.push_str("<p>Nothing was timed.</p>\n"),
    }
    grid(&mut html, state, &elites);
    html.push_str("<h2 id=\"lineage\">Lineage</h2>\n<p class=\"faint\">A column a generation, a line to each parent. Blue: what led to the best candidate. Red: caught; hollow: an earlier one again, or not judged.</p>\n");
    html.push_str(&chart::lineage(state, &ancestry));
    caught(&mut html, state);
    cost(&mut html, state);
    html.push_str("<h2 id=\"candidates\">Candidates</h2>\n");
    let held: BTreeSet<u32> = elites.values().flat_map(BTreeMap::values).chain(&ancestry).copied().collect();
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for one in &state.candidates {
        one.plan.parents.iter().for_each(|parent| children.entry(*parent).or_default().push(one.id()));
    }
    for one in &state.candidates {
        let most = if held.contains(&one.id()) { DIFF.0 } else { DIFF.1 };
        let diff = match one.plan.parents.first().and_then(|parent| state.candidate(*parent)) {
            Some(parent) => difference(run, parent, one)?,
            None => String::new(),
        };
        candidate(&mut html, one, children.get(&one.id()), &diff, most);
    }
    Ok(html + "</body>\n</html>\n")
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
        (state.unpriced().to_string(), "answers of unknown price"),
        (format!("{:.0}", state.seconds / 60.0), "minutes"),
    ] {
        let _ = write!(html, "<div><b>{figure}</b><span>{words}</span></div>");
    }
    html.push_str("</div>\n");
}

/// The confirmed candidates, which alone have a speed-up, then some that were timed once.
fn leaderboard(html: &mut String, state: &State) {
    html.push_str("<h2 id=\"leaderboard\">Leaderboard</h2>\n<p class=\"faint\">Only candidates that were measured again, in a fresh process and in turns with other implementations, have a speed-up: against the best of them.</p>\n");
    let ranked = |standing| {
        let mut all: Vec<_> = state
            .candidates
            .iter()
            .filter(|one| one.standing() == standing)
            .filter_map(|one| Some((one, one.summary()?)))
            .collect();
        all.sort_by(|(_, one), (_, other)| one.us.total_cmp(&other.us));
        all
    };
    let (confirmed, mut timed) = (ranked(Standing::Confirmed), ranked(Standing::Timed));
    let unlisted = timed.len().saturating_sub(SHOWN);
    timed.truncate(SHOWN);
    let row = |(one, summary): &(&Candidate, Summary)| {
        let event = one.confirmed.as_ref().filter(|_| one.standing() == Standing::Confirmed);
        let speedup = event.and_then(|_| one.speedup());
        let peers = event.map(|event| event.best.keys().map(|name| text(name)).collect::<Vec<_>>().join(", "));
        vec![
            link(one.id()),
            if event.is_some() { "<span class=\"good\">confirmed</span>".to_owned() } else { "timed".to_owned() },
            shown(speedup.map(times)),
            micros(summary.us),
            format!("{} %", percent(summary.roof)),
            format!("{} %", percent(summary.worst)),
            peers.filter(|_| speedup.is_some()).unwrap_or_else(|| NONE.to_owned()),
            text(&one.plan.operator),
            text(&one.plan.proposer),
        ]
    };
    let heads = ["#id", "standing", "#speed-up", "#µs", "#of roof", "#worst case", "best peer", "operator", "proposer"];
    let (first, more) = confirmed.split_at(confirmed.len().min(SHOWN));
    table(html, &heads, first.iter().map(row));
    for (rest, unlisted, words) in [(more, 0, "more confirmed"), (&timed, unlisted, "timed once, not confirmed")] {
        if !rest.is_empty() {
            let _ = write!(html, "<details><summary>{} {words}</summary>", rest.len() + unlisted);
            table(html, &heads, rest.iter().map(row));
            if unlisted > 0 {
                let _ = writeln!(html, "<p class=\"faint\">and {unlisted} slower ones</p>");
            }
            html.push_str("</details>\n");
        }
    }
}

type Elites = BTreeMap<super::facts::Features, BTreeMap<u32, u32>>;

/// The elites by cell and island.
fn elites(state: &State) -> Elites {
    let mut cells = Elites::new();
    for island in 0..state.run.settings.islands {
        for (cell, id) in state.elites(island) {
            cells.entry(cell).or_default().insert(island, id);
        }
    }
    cells
}

fn grid(html: &mut String, state: &State, elites: &Elites) {
    html.push_str("<h2 id=\"elites\">Elites</h2>\n<p class=\"faint\">The best candidate of each island and cell: tensor instructions, kind of copies to shared memory, thirds of 16-byte accesses, registers, shared memory.</p>\n");
    let islands: Vec<u32> =
        elites.values().flat_map(BTreeMap::keys).copied().collect::<BTreeSet<_>>().into_iter().collect();
    let heads: Vec<String> =
        std::iter::once("cell".to_owned()).chain(islands.iter().map(|island| format!("#island {island}"))).collect();
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let rows = elites.iter().map(|(cell, held)| {
        let figure = |id: &u32| {
            let summary = state.candidate(*id).and_then(Candidate::summary);
            format!(
                "{} <span class=\"faint\">{} µs</span>",
                link(*id),
                summary.map_or_else(String::new, |one| micros(one.us))
            )
        };
        let cells = islands.iter().map(|island| held.get(island).map_or_else(|| NONE.to_owned(), figure));
        std::iter::once(text(&cell.words())).chain(cells).collect()
    });
    table(html, &heads, rows);
}

/// What was caught, by stage and name.
fn caught(html: &mut String, state: &State) {
    html.push_str("<h2 id=\"caught\">Caught</h2>\n");
    let mut kinds: BTreeMap<_, (Vec<u32>, &str)> = BTreeMap::new();
    for one in &state.candidates {
        let Some(failed) = one.failure() else { continue };
        for found in &failed.findings {
            let (ids, _) = kinds.entry((failed.stage, found.kind.as_str())).or_insert((Vec::new(), &found.text));
            if ids.last() != Some(&one.id()) {
                ids.push(one.id());
            }
        }
    }
    let rows = kinds.iter().map(|((stage, kind), (ids, example))| {
        let some = links(ids.iter().take(12));
        let more = if ids.len() > 12 { format!(" and {} more", ids.len() - 12) } else { String::new() };
        let example: String = example.chars().take(200).collect();
        vec![
            stage.name().to_owned(),
            format!("<span class=\"bad\">{}</span>", text(kind)),
            ids.len().to_string(),
            some + &more,
            text(&example),
        ]
    });
    table(html, &["stage", "finding", "#candidates", "which", "for example"], rows);
}

/// By proposer and operator.
fn cost(html: &mut String, state: &State) {
    html.push_str("<h2 id=\"cost\">Cost</h2>\n");
    let mut rows: BTreeMap<(&str, &str), Vec<&Candidate>> = BTreeMap::new();
    for one in &state.candidates {
        rows.entry((&one.plan.proposer, &one.plan.operator)).or_default().push(one);
    }
    let rows = rows.into_iter().map(|((proposer, operator), all)| {
        let costs = || all.iter().filter_map(|one| one.proposed.as_ref()).map(|proposed| &proposed.cost);
        let count = |standing| all.iter().filter(|one| one.standing() == standing).count().to_string();
        // Unknown where any that was paid for is unknown.
        let known =
            costs().any(|cost| cost.requests > 0) && costs().all(|cost| cost.requests == 0 || cost.usd.is_some());
        let tokens = |of: fn(&super::event::Cost) -> u64| costs().map(of).sum::<u64>().to_string();
        vec![
            text(proposer),
            text(operator),
            all.len().to_string(),
            count(Standing::Confirmed),
            count(Standing::Caught),
            tokens(|cost| cost.tokens_in),
            tokens(|cost| cost.tokens_out),
            usd(known.then(|| costs().filter_map(|cost| cost.usd).sum())),
            format!("{:.0}", costs().map(|cost| cost.seconds).sum::<f64>()),
        ]
    });
    table(
        html,
        &[
            "proposer",
            "operator",
            "#candidates",
            "#confirmed",
            "#caught",
            "#tokens in",
            "#tokens out",
            "#US dollars",
            "#seconds",
        ],
        rows,
    );
}

fn sources(run: &Path, one: &Candidate) -> Result<Option<Sources>> {
    let Some(tree) = one.tree() else { return Ok(None) };
    Ok(Some(serde_json::from_slice(&Journal::get(run, tree)?)?))
}

/// What a candidate changes of its first parent.
fn difference(run: &Path, parent: &Candidate, one: &Candidate) -> Result<String> {
    let (Some(old), Some(new)) = (sources(run, parent)?, sources(run, one)?) else { return Ok(String::new()) };
    let of = |path: String| {
        let (old, new) = (old.get(&path).unwrap_or_default(), new.get(&path).unwrap_or_default());
        if old.lines().count() + new.lines().count() > LINES {
            return format!(
                "{path}\n{path}: more than {LINES} lines; `kernels search show {}` compares them\n",
                one.id()
            );
        }
        unified::of_file(&path, &path, Some(old.into()), Some(new.into()))
    };
    Ok(new.changed(&old).into_iter().map(of).collect())
}

fn candidate(html: &mut String, one: &Candidate, children: Option<&Vec<u32>>, diff: &str, most: usize) {
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
        if one.plan.parents.is_empty() { NONE.to_owned() } else { links(&one.plan.parents) },
        children.map_or_else(|| NONE.to_owned(), links),
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
