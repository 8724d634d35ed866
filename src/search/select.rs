//! What is tried next: which proposer makes which operator's candidate of which parents. A function of the seed and the
//! state: the same events give the same plans.
//!
//! Proposers with a fixed list (`dir:`) go first. Of the others a bandit (UCB1) chooses proposer and operator together, by
//! gain per cost. Parents are drawn from the cells of the candidate's island, the better the likelier, and the less the more
//! children they have; one time in ten of another island.

use std::collections::{BTreeMap, BTreeSet};

use super::event::{Plan, Stage, Summary};
use super::operator::{self, Needs};
use super::state::{Candidate, Standing, State, is_better};
use crate::base::SplitMix64;

/// What a trial costs besides its answer, in US dollars: what some minutes of a processor and a card are worth.
const TRIAL: f64 = 0.01;
/// The gain of a timed candidate that was made of one that could not be timed, where a factor of e counts 1.
const FIRST: f64 = 0.5;
/// Repairs of the same finding in a row.
const REPAIRS: usize = 3;
/// One parent in this many is of another island.
const MIGRATES: u64 = 10;

/// A proposer as the choice sees it.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) name: String,
    /// How many candidates it has, where it has a fixed list.
    pub(crate) list: Option<u32>,
    /// Whether its answers may cost something.
    pub(crate) is_paid: bool,
}

/// The best candidate of another run: its folder, and the candidate's number.
pub(crate) type Donor = (String, u32);

/// The plans of the next generation; empty where no proposer can make anything.
pub(crate) fn plans(state: &State, sources: &[Source], donors: &[Donor]) -> Vec<Plan> {
    let first = u32::try_from(state.candidates.len()).unwrap_or(u32::MAX);
    if first == 0 {
        return vec![Plan { proposer: "start".to_owned(), operator: given(), ..Plan::default() }];
    }
    let settings = &state.run.settings;
    let left = settings.budget.evals.map_or(u32::MAX, |evals| evals.saturating_sub(state.evals()));
    let left = left.min(affordable(state, sources));
    let mut chooser = Chooser::new(state, sources, donors);
    (0..settings.flight.max(1).min(left)).map_while(|slot| chooser.plan(first + slot)).collect()
}

/// How many answers the rest of the budget pays for, as much as those so far cost: a budget is looked at between generations.
/// At first one, which tells the price.
fn affordable(state: &State, sources: &[Source]) -> u32 {
    let Some(limit) = state.run.settings.budget.usd.filter(|_| sources.iter().any(|source| source.is_paid)) else {
        return u32::MAX;
    };
    let costs: Vec<f64> = state.candidates.iter().map(Candidate::usd).filter(|usd| *usd > 0.0).collect();
    let Some(mean) = crate::report::statistics::mean(&costs) else { return 1 };
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
    let count = ((limit - state.usd()) / mean).ceil() as u32;
    count.max(1)
}

fn given() -> String {
    "given".to_owned()
}

struct Chooser<'a> {
    state: &'a State,
    sources: &'a [Source],
    donors: &'a [Donor],
    /// How many plans each proposer has.
    samples: BTreeMap<String, u32>,
    arms: BTreeMap<(String, String), Arm>,
    /// What is repaired by plans of this generation.
    taken: BTreeSet<u32>,
}

/// A proposer with an operator.
#[derive(Clone, Copy, Debug, Default)]
struct Arm {
    pulls: f64,
    gain: f64,
    cost: f64,
}

impl<'a> Chooser<'a> {
    fn new(state: &'a State, sources: &'a [Source], donors: &'a [Donor]) -> Self {
        let mut samples = BTreeMap::new();
        let mut arms: BTreeMap<(String, String), Arm> = BTreeMap::new();
        for candidate in &state.candidates {
            let plan = &candidate.plan;
            *samples.entry(plan.proposer.clone()).or_default() += 1;
            let arm = arms.entry((plan.proposer.clone(), plan.operator.clone())).or_default();
            arm.pulls += 1.0;
            arm.cost += candidate.usd() + TRIAL;
            arm.gain += gain(state, candidate);
        }
        Self { state, sources, donors, samples, arms, taken: BTreeSet::new() }
    }

    fn plan(&mut self, id: u32) -> Option<Plan> {
        let island = id % self.state.run.settings.islands.max(1);
        let mut random = SplitMix64(SplitMix64::mix(self.state.run.settings.seed) ^ SplitMix64::mix(u64::from(id)));
        let listed =
            self.sources.iter().find(|source| source.list.is_some_and(|list| self.sample(&source.name) < list));
        if let Some(source) = listed {
            return Some(self.planned(id, island, &source.name, &given(), vec![0], None));
        }
        let open = self.sources.iter().filter(|source| source.list.is_none());
        let mut best: Option<(f64, &Source, &operator::Operator)> = None;
        for source in open {
            for operator in operator::all().iter().filter(|operator| self.is_possible(operator.needs, island)) {
                let score = self.score(&source.name, &operator.name);
                if best.is_none_or(|(known, ..)| score > known) {
                    best = Some((score, source, operator));
                }
            }
        }
        let (_, source, operator) = best?;
        let parents = self.parents(operator.needs, island, &mut random)?;
        let donor = match operator.needs {
            Needs::Donor => Some(pick(self.donors, &mut random)?.clone()),
            _ => None,
        };
        if operator.needs == Needs::Broken {
            self.taken.extend(&parents);
        }
        Some(self.planned(id, island, &source.name, &operator.name, parents, donor))
    }

    fn planned(
        &mut self,
        id: u32,
        island: u32,
        proposer: &str,
        operator: &str,
        parents: Vec<u32>,
        donor: Option<Donor>,
    ) -> Plan {
        let sample = self.sample(proposer);
        *self.samples.entry(proposer.to_owned()).or_default() += 1;
        // What is under way counts as tried, so that a generation spreads.
        let arm = self.arms.entry((proposer.to_owned(), operator.to_owned())).or_default();
        arm.pulls += 1.0;
        arm.cost += TRIAL;
        let (proposer, operator) = (proposer.to_owned(), operator.to_owned());
        Plan { candidate: id, island, proposer, operator, parents, sample, donor }
    }

    fn sample(&self, proposer: &str) -> u32 {
        self.samples.get(proposer).copied().unwrap_or(0)
    }

    /// The upper confidence bound of an arm, of gain per cost as a part of the best arm's.
    fn score(&self, proposer: &str, operator: &str) -> f64 {
        let Some(arm) = self.arms.get(&(proposer.to_owned(), operator.to_owned())) else { return f64::INFINITY };
        let rate = |arm: &Arm| arm.gain / arm.cost.max(TRIAL);
        let most = self.arms.values().map(rate).fold(0.0, f64::max);
        let value = if most > 0.0 { rate(arm) / most } else { 0.0 };
        let all: f64 = self.arms.values().map(|arm| arm.pulls).sum();
        value + (2.0 * all.max(1.0).ln() / arm.pulls).sqrt()
    }

    fn is_possible(&self, needs: Needs, island: u32) -> bool {
        match needs {
            Needs::Start => self.start_is_open(),
            Needs::Broken => !self.broken(island).is_empty(),
            Needs::Elite => !self.pool(island).is_empty(),
            Needs::Launches => self.pool(island).iter().any(|(_, summary)| several(summary.as_ref())),
            Needs::Two => self.pool(island).len() > 1,
            Needs::Donor => !self.donors.is_empty() && !self.pool(island).is_empty(),
        }
    }

    fn parents(&self, needs: Needs, island: u32, random: &mut SplitMix64) -> Option<Vec<u32>> {
        match needs {
            Needs::Start => Some(vec![0]),
            Needs::Broken => Some(vec![*pick(&self.broken(island), random)?]),
            Needs::Elite | Needs::Donor | Needs::Launches | Needs::Two => {
                let islands = u64::from(self.state.run.settings.islands.max(1));
                let migrates = random.bits().is_multiple_of(MIGRATES);
                let from = if migrates { u32::try_from(random.bits() % islands).unwrap_or(island) } else { island };
                let mut pool = self.pool(from);
                if pool.is_empty() || needs == Needs::Two && pool.len() < 2 {
                    pool = self.pool(island);
                }
                pool.retain(|(_, summary)| needs != Needs::Launches || several(summary.as_ref()));
                let first = self.weighted(&pool, random)?;
                if needs != Needs::Two {
                    return Some(vec![first]);
                }
                pool.retain(|(id, _)| *id != first);
                Some(vec![first, self.weighted(&pool, random)?])
            }
        }
    }

    fn start_is_open(&self) -> bool {
        let failed = self.state.candidate(0).is_some_and(|start| start.failure().is_some());
        failed && self.state.best().is_none()
    }

    /// The elites of an island; where nothing can be timed, what compiled, one a cell.
    fn pool(&self, island: u32) -> Vec<(u32, Option<Summary>)> {
        let elites = self.state.elites(island);
        if !elites.is_empty() {
            return elites
                .into_values()
                .map(|id| (id, self.state.candidate(id).and_then(Candidate::summary)))
                .collect();
        }
        let compiled = self.state.candidates.iter().filter(|one| one.standing() == Standing::NotJudged);
        let here = compiled.filter(|one| one.id() == 0 || one.plan.island == island);
        let cells: BTreeMap<_, _> = here.map(|one| (one.features().unwrap_or_default(), one.id())).collect();
        cells.into_values().map(|id| (id, None)).collect()
    }

    /// Candidates in which something was caught that may still be repaired.
    fn broken(&self, island: u32) -> Vec<u32> {
        let kind = |one: &Candidate| one.failure().and_then(|attempt| Some(attempt.findings.first()?.kind.clone()));
        let repairs = |of: &Candidate| {
            let same = |one: &&Candidate| {
                let parent = self.state.parent(one).filter(|_| one.plan.operator == "repair");
                parent.is_some_and(|parent| self.root(parent) == self.root(of) && kind(parent) == kind(of))
            };
            self.state.candidates.iter().filter(same).count()
        };
        let parents: BTreeSet<u32> = self.state.candidates.iter().flat_map(|one| one.plan.parents.clone()).collect();
        let candidates = self.state.candidates.iter().filter(|one| one.id() == 0 || one.plan.island == island);
        candidates
            .filter(|one| one.standing() == Standing::Caught && one.tree().is_some())
            .filter(|one| one.failure().is_some_and(|attempt| attempt.stage >= Stage::Check))
            .filter(|one| one.id() == 0 || !parents.contains(&one.id()) && !self.taken.contains(&one.id()))
            .filter(|one| repairs(one) < REPAIRS)
            .map(Candidate::id)
            .collect()
    }

    /// The candidate with which a chain of repairs began.
    fn root(&self, candidate: &Candidate) -> u32 {
        let mut at = candidate;
        while at.plan.operator == "repair" {
            let Some(parent) = self.state.parent(at) else { break };
            at = parent;
        }
        at.id()
    }

    /// One of a pool: sigmoid of how far its time lies under the median, over one more than its children.
    fn weighted(&self, pool: &[(u32, Option<Summary>)], random: &mut SplitMix64) -> Option<u32> {
        let score = |summary: &Option<Summary>| summary.map_or(0.0, |summary| -summary.us.ln());
        let mut scores: Vec<f64> = pool.iter().map(|(_, summary)| score(summary)).collect();
        scores.sort_by(f64::total_cmp);
        let median = *scores.get(scores.len() / 2)?;
        let mut away: Vec<f64> = scores.iter().map(|score| (score - median).abs()).collect();
        away.sort_by(f64::total_cmp);
        let scale = away[away.len() / 2].max(1e-3);
        let weight = |(id, summary): &(u32, Option<Summary>)| {
            let children = f64::from(u32::try_from(self.state.children(*id).len()).unwrap_or(u32::MAX));
            1.0 / (1.0 + (-10.0 * (score(summary) - median) / scale).exp()) / (1.0 + children)
        };
        let weights: Vec<f64> = pool.iter().map(weight).collect();
        let mut left = unit(random) * weights.iter().sum::<f64>();
        for ((id, _), weight) in pool.iter().zip(&weights) {
            left -= weight;
            if left <= 0.0 {
                return Some(*id);
            }
        }
        pool.last().map(|(id, _)| *id)
    }
}

fn several(summary: Option<&Summary>) -> bool {
    summary.is_some_and(|summary| summary.launches > 1)
}

/// What a candidate gained over its best parent.
fn gain(state: &State, candidate: &Candidate) -> f64 {
    let Some(own) = candidate.summary() else { return 0.0 };
    let parents = candidate.plan.parents.iter().filter_map(|id| state.candidate(*id)?.summary());
    match parents.min_by(|one, other| one.us.total_cmp(&other.us)) {
        Some(best) if is_better(&own, &best) => (best.us / own.us).ln(),
        Some(_) => 0.0,
        None => FIRST,
    }
}

fn pick<'a, T>(all: &'a [T], random: &mut SplitMix64) -> Option<&'a T> {
    let at = random.bits() % (all.len() as u64).max(1);
    all.get(usize::try_from(at).unwrap_or(0))
}

/// From 0 to 1.
fn unit(random: &mut SplitMix64) -> f64 {
    #[allow(clippy::cast_precision_loss, reason = "53 bits are what a double holds")]
    let bits = (random.bits() >> 11) as f64;
    bits / 9_007_199_254_740_992.0
}
