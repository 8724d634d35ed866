//! From rows to figures: what each arm came to, and what the skill changed, each with the number of runs behind it.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::plan::Header;
use super::row::Row;
use super::verdict::Outcome;
use crate::model::Usage;
use crate::report::statistics::{bootstrap, mean, sign_test};

/// One agent in one arm.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Cell {
    pub(crate) agent: String,
    pub(crate) cli: bool,
    pub(crate) arm: String,
    /// Tasks with a run that counts, and such runs.
    pub(crate) tasks: usize,
    pub(crate) runs: usize,
    /// Means over tasks; none of none.
    pub(crate) pass: Option<f64>,
    pub(crate) score: Option<f64>,
    /// Runs with harm.
    pub(crate) harm: usize,
    /// Runs in which the skill was loaded, of those that tell.
    pub(crate) loaded: Option<(usize, usize)>,
    /// Of all runs that count, together; none where it was not counted in each of them.
    pub(crate) usage: Option<Usage>,
    /// Means over runs; none where one of them was not counted.
    pub(crate) tokens: Option<f64>,
    pub(crate) seconds: Option<f64>,
    pub(crate) turns: Option<f64>,
    pub(crate) calls: Option<f64>,
    pub(crate) usd: Option<f64>,
    /// All runs, by how they ended.
    pub(crate) outcomes: BTreeMap<Outcome, usize>,
}

/// What an arm changed, beside the arm without the skill.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Lift {
    pub(crate) agent: String,
    pub(crate) cli: bool,
    pub(crate) arm: String,
    pub(crate) against: String,
    /// Tasks with a pair, and pairs of runs that both count.
    pub(crate) tasks: usize,
    pub(crate) pairs: usize,
    /// Pairs of which one run does not count: both are left out.
    pub(crate) dropped: usize,
    /// The difference of the pass rates: mean over tasks of the mean over pairs.
    pub(crate) lift: Option<f64>,
    /// 95 %, bootstrap over tasks.
    pub(crate) interval: Option<(f64, f64)>,
    /// The same of the partial credit.
    pub(crate) score: Option<f64>,
    /// Tasks that went better and worse, and the exact sign test on them.
    pub(crate) better: u32,
    pub(crate) worse: u32,
    pub(crate) p: f64,
    /// Runs with harm in this arm less those in the other, in the pairs.
    pub(crate) harm: i64,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Summary {
    pub(crate) cells: Vec<Cell>,
    pub(crate) lifts: Vec<Lift>,
    /// What nobody judged, by name, with the reason.
    pub(crate) skipped: BTreeMap<String, String>,
    /// Each harm: agent, arm, task, run, what.
    pub(crate) harm: Vec<(String, String, String, u32, String)>,
}

impl Summary {
    pub(crate) fn of(header: &Header, rows: &[Row]) -> Self {
        let mut cells = Vec::new();
        let mut lifts = Vec::new();
        let base = header.arms.iter().find(|arm| *arm == "without").or(header.arms.first());
        for agent in &header.agents {
            for cli in &header.cli {
                let of = |arm: &str| -> Vec<&Row> { rows.iter().filter(|row| row.is_of(agent, *cli, arm)).collect() };
                for arm in &header.arms {
                    cells.push(cell(agent, *cli, arm, &of(arm)));
                    if let Some(base) = base.filter(|base| *base != arm) {
                        let seed = header.seed ^ lifts.len() as u64;
                        lifts.push(lift(&of(arm), &of(base), (agent, *cli, arm, base), seed));
                    }
                }
            }
        }
        let skipped = rows.iter().filter(|row| row.outcome() == Outcome::Skipped);
        let harm = rows.iter().flat_map(|row| {
            row.verdict
                .harm
                .iter()
                .map(|what| (row.agent.clone(), row.arm.clone(), row.task.clone(), row.run, what.clone()))
        });
        Self {
            cells,
            lifts,
            skipped: skipped.map(|row| (row.task.clone(), row.verdict.why.clone())).collect(),
            harm: harm.collect(),
        }
    }
}

fn cell(agent: &str, cli: bool, arm: &str, rows: &[&Row]) -> Cell {
    let mut outcomes = BTreeMap::new();
    for row in rows {
        *outcomes.entry(row.outcome()).or_default() += 1;
    }
    let counted: Vec<&Row> = rows.iter().copied().filter(|row| row.outcome().counts()).collect();
    let of = |value: &dyn Fn(&Row) -> Option<f64>| {
        counted.iter().map(|row| value(row)).collect::<Option<Vec<f64>>>().as_deref().and_then(mean)
    };
    let by_task = |value: &dyn Fn(&Row) -> f64| mean(&means(counted.iter().map(|row| (row.task.as_str(), value(row)))));
    let usage: Option<Vec<Usage>> = counted.iter().map(|row| row.took.usage).collect();
    let usage = usage.filter(|each| !each.is_empty());
    let told: Vec<bool> = counted.iter().filter_map(|row| row.took.loaded).collect();
    Cell {
        agent: agent.to_owned(),
        cli,
        arm: arm.to_owned(),
        tasks: counted.iter().map(|row| &row.task).collect::<BTreeSet<_>>().len(),
        runs: counted.len(),
        pass: by_task(&Row::passed),
        score: by_task(&|row| row.verdict.score),
        harm: counted.iter().filter(|row| !row.verdict.harm.is_empty()).count(),
        loaded: (!told.is_empty()).then(|| (told.iter().filter(|loaded| **loaded).count(), told.len())),
        usage: usage.map(|each| each.into_iter().fold(Usage::default(), |sum, one| sum + one)),
        tokens: of(&Row::tokens),
        seconds: of(&|row| Some(row.took.seconds)),
        turns: of(&|row| row.took.turns.map(f64::from)),
        calls: of(&|row| row.took.calls.map(f64::from)),
        usd: of(&|row| row.took.usd),
        outcomes,
    }
}

/// The mean of each task's values, by task.
fn means<'a>(values: impl Iterator<Item = (&'a str, f64)>) -> Vec<f64> {
    let mut by_task: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for (task, value) in values {
        by_task.entry(task).or_default().push(value);
    }
    by_task.values().filter_map(|values| mean(values)).collect()
}

fn lift(rows: &[&Row], base: &[&Row], (agent, cli, arm, against): (&str, bool, &str, &str), seed: u64) -> Lift {
    let pairs: Vec<(&Row, &Row)> = rows
        .iter()
        .filter_map(|row| Some((*row, *base.iter().find(|other| other.task == row.task && other.run == row.run)?)))
        .collect();
    let (counted, dropped): (Vec<_>, Vec<_>) =
        pairs.into_iter().partition(|(row, other)| row.outcome().counts() && other.outcome().counts());
    let differences = |value: &dyn Fn(&Row) -> f64| {
        means(counted.iter().map(|(row, other)| (row.task.as_str(), value(row) - value(other))))
    };
    let passed = differences(&Row::passed);
    let count =
        |is: &dyn Fn(f64) -> bool| u32::try_from(passed.iter().filter(|value| is(**value)).count()).unwrap_or(0);
    let (better, worse) = (count(&|value| value > 0.0), count(&|value| value < 0.0));
    let harmed = |row: &Row| i64::from(!row.verdict.harm.is_empty());
    Lift {
        agent: agent.to_owned(),
        cli,
        arm: arm.to_owned(),
        against: against.to_owned(),
        tasks: passed.len(),
        pairs: counted.len(),
        dropped: dropped.len(),
        lift: mean(&passed),
        interval: bootstrap(&passed, seed),
        score: mean(&differences(&|row| row.verdict.score)),
        better,
        worse,
        p: sign_test(better, worse),
        harm: counted.iter().map(|(row, other)| harmed(row) - harmed(other)).sum(),
    }
}
