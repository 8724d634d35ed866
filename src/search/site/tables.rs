//! The tables of the page: leaderboard, elites, what was caught, cost.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::super::event::{Confirmed, Cost, Summary};
use super::super::facts::Features;
use super::super::state::{Candidate, Standing, State};
use super::html::{link, links, shown, table, usd};
use crate::report::figure::{NONE, micros, percent, times};
use crate::report::html::text;

/// How many candidates the leaderboard shows at first, and how many that were timed once it has.
const SHOWN: usize = 20;

/// The confirmed candidates, which alone have a speed-up, then some that were timed once.
pub(super) fn leaderboard(html: &mut String, state: &State) {
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
        let best = |event: &Confirmed| event.best.keys().map(|name| text(name)).collect::<Vec<_>>().join(", ");
        let peers = event.map(|event| best(event) + &text(&one.without()));
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

pub(super) type Elites = BTreeMap<Features, BTreeMap<u32, u32>>;

/// The elites by cell and island.
pub(super) fn elites(state: &State) -> Elites {
    let mut cells = Elites::new();
    for island in 0..state.run.settings.islands {
        for (cell, id) in state.elites(island) {
            cells.entry(cell).or_default().insert(island, id);
        }
    }
    cells
}

pub(super) fn grid(html: &mut String, state: &State, elites: &Elites) {
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
        std::iter::once(format!("<span class=\"cell\">{}</span>", text(&cell.words()))).chain(cells).collect()
    });
    table(html, &heads, rows);
}

/// What was caught, by stage and name.
pub(super) fn caught(html: &mut String, state: &State) {
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
        let some = links(&ids[..ids.len().min(12)]);
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
pub(super) fn cost(html: &mut String, state: &State) {
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
        let tokens = |of: fn(&Cost) -> u64| costs().map(of).sum::<u64>().to_string();
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
