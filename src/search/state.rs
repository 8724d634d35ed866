//! The state of a run: a fold over its events.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::event::{
    self, Attempt, Compiled, Confirmed, Ended, Generation, Judged, Outcome, Plan, Proposed, Resumed, Run, Stage,
    Summary,
};
use super::facts::{Facts, Features};
use super::sources::Sources;
use crate::journal::{self, Journal};
use crate::report::unified;

/// An event of a run; its data is read once, as what its kind has.
pub(crate) type Event = journal::Event<Box<RawValue>>;

/// Everything that is known of a run.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(crate) run: Run,
    pub(crate) generations: u32,
    /// By number, without gaps.
    pub(crate) candidates: Vec<Candidate>,
    pub(crate) ended: Option<String>,
    /// Seconds that the run took, as far as its events say.
    pub(crate) seconds: f64,
}

/// One candidate, as far as it got.
#[derive(Clone, Debug, Default)]
pub(crate) struct Candidate {
    pub(crate) plan: Plan,
    pub(crate) generation: u32,
    pub(crate) proposed: Option<Proposed>,
    pub(crate) compiled: Option<Compiled>,
    pub(crate) judged: Option<Judged>,
    pub(crate) confirmed: Option<Confirmed>,
}

/// How far a candidate got.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Standing {
    /// Its proposal or evaluation has not ended.
    Open,
    /// A stage failed.
    Caught,
    /// It is an earlier candidate again.
    Same,
    /// Nothing that was judged failed, and something was not judged.
    NotJudged,
    /// It was verified and timed.
    Timed,
    /// It was confirmed.
    Confirmed,
}

impl Candidate {
    pub(crate) fn id(&self) -> u32 {
        self.plan.candidate
    }

    /// All stages, in order.
    pub(crate) fn attempts(&self) -> impl Iterator<Item = &Attempt> {
        let proposed = self.proposed.iter().flat_map(|event| &event.attempts);
        let compiled = self.compiled.iter().flat_map(|event| &event.attempts);
        let judged = self.judged.iter().flat_map(|event| &event.attempts);
        proposed.chain(compiled).chain(judged).chain(self.confirmed.iter().flat_map(|event| &event.attempts))
    }

    /// The stage that failed.
    pub(crate) fn failure(&self) -> Option<&Attempt> {
        self.attempts().find(|attempt| attempt.outcome == Outcome::Failed)
    }

    /// The names of what was found in the stage that failed.
    pub(crate) fn kinds(&self) -> BTreeSet<&str> {
        self.failure().into_iter().flat_map(|attempt| &attempt.findings).map(|caught| caught.kind.as_str()).collect()
    }

    pub(crate) fn standing(&self) -> Standing {
        if self.compiled.as_ref().is_some_and(|compiled| compiled.same_as.is_some()) {
            return Standing::Same;
        }
        match self.failure() {
            Some(attempt) if attempt.stage == Stage::Novelty => return Standing::Same,
            Some(_) => return Standing::Caught,
            None => {}
        }
        if self.confirmed.as_ref().is_some_and(|confirmed| confirmed.summary.is_some()) {
            return Standing::Confirmed;
        }
        if self.attempts().any(|attempt| attempt.outcome == Outcome::NotJudged) {
            return Standing::NotJudged;
        }
        if self.judged.as_ref().is_some_and(|judged| judged.summary.is_some()) {
            Standing::Timed
        } else {
            Standing::Open
        }
    }

    /// Its times, the confirmed ones where it was confirmed; none where anything was caught.
    pub(crate) fn summary(&self) -> Option<Summary> {
        if self.failure().is_some() {
            return None;
        }
        let confirmed = self.confirmed.as_ref().and_then(|confirmed| confirmed.summary);
        confirmed.or_else(|| self.judged.as_ref()?.summary)
    }

    pub(crate) fn speedup(&self) -> Option<f64> {
        self.failure().is_none().then(|| self.confirmed.as_ref()?.speedup)?
    }

    /// The peers that the speed-up leaves out, in words.
    pub(crate) fn without(&self) -> String {
        let missing = self.confirmed.iter().flat_map(|confirmed| &confirmed.missing);
        let names: Vec<&str> = missing.map(String::as_str).collect();
        if names.is_empty() { String::new() } else { format!(", without {}", names.join(", ")) }
    }

    pub(crate) fn tree(&self) -> Option<&str> {
        self.proposed.as_ref()?.tree.as_deref()
    }

    /// Its sources; none where its proposal was refused.
    pub(crate) fn sources(&self, run: &Path) -> Result<Option<Sources>> {
        blob(run, self.tree())
    }

    /// What its compiled code says of itself.
    pub(crate) fn facts(&self, run: &Path) -> Result<Option<Facts>> {
        blob(run, self.compiled.as_ref().and_then(|compiled| compiled.facts.as_deref()))
    }

    /// What it changes of another one's sources. Files that have more lines than `most` are not compared.
    pub(crate) fn difference(&self, run: &Path, from: Option<&Self>, most: usize) -> Result<String> {
        let old = from.map(|from| from.sources(run)).transpose()?.flatten();
        let (Some(old), Some(new)) = (old, self.sources(run)?) else { return Ok(String::new()) };
        let of = |path: String| {
            let (old, new) = (old.get(&path).unwrap_or_default(), new.get(&path).unwrap_or_default());
            if old.lines().count() + new.lines().count() > most {
                let id = self.id();
                return format!("{path}\n{path}: more than {most} lines; `kernels search show {id}` compares them\n");
            }
            unified::of_file(&path, &path, Some(old.into()), Some(new.into()))
        };
        Ok(new.changed(&old).into_iter().map(of).collect())
    }

    pub(crate) fn features(&self) -> Option<Features> {
        self.compiled.as_ref()?.features
    }

    pub(crate) fn usd(&self) -> f64 {
        self.proposed.as_ref().and_then(|proposed| proposed.cost.usd).unwrap_or(0.0)
    }
}

/// Whether a time is better than another by more than both scatter.
pub(crate) fn is_better(new: &Summary, old: &Summary) -> bool {
    new.us * (1.0 + new.spread.max(old.spread)) < old.us
}

impl State {
    /// Reads a run's events.
    pub(crate) fn of(events: &[Event]) -> Result<Self> {
        let mut events = events.iter().skip_while(|event| event.kind != event::RUN);
        let first = events.next().context("the journal has no event `run`: the run was killed before it began")?;
        let mut state = Self { run: data(first)?, generations: 0, candidates: Vec::new(), ended: None, seconds: 0.0 };
        for event in events {
            state.apply(event)?;
        }
        Ok(state)
    }

    pub(crate) fn apply(&mut self, event: &Event) -> Result<()> {
        match event.kind.as_str() {
            event::GENERATION => self.plan(data(event)?)?,
            event::PROPOSED => self.keep(event, |new: &Proposed| new.candidate, |one| &mut one.proposed)?,
            event::COMPILED => self.keep(event, |new: &Compiled| new.candidate, |one| &mut one.compiled)?,
            event::JUDGED => self.keep(event, |new: &Judged| new.candidate, |one| &mut one.judged)?,
            event::CONFIRMED => self.keep(event, |new: &Confirmed| new.candidate, |one| &mut one.confirmed)?,
            event::RESUMED => {
                self.run.settings = data::<Resumed>(event)?.settings;
                self.ended = None;
            }
            event::ENDED => {
                let ended: Ended = data(event)?;
                self.seconds = self.seconds.max(ended.seconds);
                self.ended = Some(ended.why);
            }
            // Of a later version, and no part of this one's state.
            _ => {}
        }
        Ok(())
    }

    fn plan(&mut self, generation: Generation) -> Result<()> {
        self.generations = generation.number + 1;
        self.seconds = self.seconds.max(generation.seconds);
        for plan in generation.plans {
            if plan.candidate as usize != self.candidates.len() {
                bail!("the journal plans candidate {} after {}", plan.candidate, self.candidates.len());
            }
            self.candidates.push(Candidate { plan, generation: generation.number, ..Candidate::default() });
        }
        Ok(())
    }

    /// Keeps what an event says of the candidate that it names.
    fn keep<T: DeserializeOwned>(
        &mut self,
        event: &Event,
        id: fn(&T) -> u32,
        place: fn(&mut Candidate) -> &mut Option<T>,
    ) -> Result<()> {
        let new: T = data(event)?;
        let id = id(&new);
        let candidate = self.candidates.get_mut(id as usize);
        let unplanned = || format!("event {} is about candidate {id}, which nobody planned", event.seq);
        *place(candidate.with_context(unplanned)?) = Some(new);
        Ok(())
    }

    pub(crate) fn candidate(&self, id: u32) -> Option<&Candidate> {
        self.candidates.get(id as usize)
    }

    /// The first parent of a candidate.
    pub(crate) fn parent(&self, one: &Candidate) -> Option<&Candidate> {
        self.candidate(*one.plan.parents.first()?)
    }

    pub(crate) fn children(&self, id: u32) -> Vec<u32> {
        self.candidates.iter().filter(|one| one.plan.parents.contains(&id)).map(Candidate::id).collect()
    }

    /// The sources of a candidate that must have some.
    pub(crate) fn sources(&self, run: &Path, id: u32) -> Result<Sources> {
        let sources = self.candidate(id).map(|one| one.sources(run)).transpose()?.flatten();
        sources.with_context(|| format!("candidate {id} of {} has no sources", run.display()))
    }

    /// The elites of an island by cell, of candidates before a number: the start belongs to all islands.
    pub(crate) fn elites_before(&self, island: u32, before: u32) -> BTreeMap<Features, u32> {
        let mut elites: BTreeMap<Features, (u32, Summary)> = BTreeMap::new();
        for candidate in self.candidates.iter().take(before as usize) {
            let here = candidate.id() == 0 || candidate.plan.island == island;
            let (Some(cell), Some(summary), true) = (candidate.features(), candidate.summary(), here) else {
                continue;
            };
            let held = elites.get(&cell);
            if held.is_none_or(|(_, old)| is_better(&summary, old)) {
                elites.insert(cell, (candidate.id(), summary));
            }
        }
        elites.into_iter().map(|(cell, (id, _))| (cell, id)).collect()
    }

    pub(crate) fn elites(&self, island: u32) -> BTreeMap<Features, u32> {
        self.elites_before(island, u32::try_from(self.candidates.len()).unwrap_or(u32::MAX))
    }

    /// Whether a candidate took a cell of its island when it was judged, and so is to be confirmed.
    pub(crate) fn took_a_cell(&self, id: u32) -> bool {
        let Some(candidate) = self.candidate(id) else { return false };
        let (Some(cell), Some(summary)) = (candidate.features(), candidate.summary()) else { return false };
        let held = self.elites_before(candidate.plan.island, id).get(&cell).copied();
        let held = held.and_then(|held| self.candidate(held)?.summary());
        held.is_none_or(|old| is_better(&summary, &old))
    }

    /// The best candidate: of the confirmed ones where there are any, else of the timed ones.
    pub(crate) fn best(&self) -> Option<&Candidate> {
        let confirmed = self.candidates.iter().any(|one| one.standing() == Standing::Confirmed);
        let wanted = if confirmed { Standing::Confirmed } else { Standing::Timed };
        let timed = self.candidates.iter().filter(|one| one.standing() == wanted);
        let timed = timed.filter_map(|one| Some((one, one.summary()?.us)));
        timed.min_by(|(_, one), (_, other)| one.total_cmp(other)).map(|(one, _)| one)
    }

    pub(crate) fn usd(&self) -> f64 {
        self.candidates.iter().map(Candidate::usd).sum()
    }

    /// How many answers were paid for at a price that is not known, or not of all their requests.
    pub(crate) fn unpriced(&self) -> usize {
        let costs = self.candidates.iter().filter_map(|one| one.proposed.as_ref()).map(|proposed| &proposed.cost);
        costs.filter(|cost| cost.is_unknown()).count()
    }

    /// How many candidates went to a compiler.
    pub(crate) fn evals(&self) -> u32 {
        let evaluated = self.candidates.iter().filter(|one| one.compiled.is_some()).count();
        u32::try_from(evaluated).unwrap_or(u32::MAX)
    }

    /// How many candidates were made since the last that took a cell.
    pub(crate) fn stalled(&self) -> u32 {
        let since = self.candidates.iter().rev().take_while(|one| one.confirmed.is_none() && one.id() != 0).count();
        u32::try_from(since).unwrap_or(u32::MAX)
    }

    /// The findings of all candidates, with how often each kind was caught.
    pub(crate) fn caught(&self) -> BTreeMap<String, u32> {
        let mut kinds = BTreeMap::new();
        for candidate in &self.candidates {
            for name in candidate.kinds() {
                *kinds.entry(name.to_owned()).or_default() += 1;
            }
        }
        kinds
    }
}

/// What a blob of a run has.
pub(crate) fn blob<T: DeserializeOwned>(run: &Path, digest: Option<&str>) -> Result<Option<T>> {
    digest.map(|digest| anyhow::Ok(serde_json::from_slice(&Journal::get(run, digest)?)?)).transpose()
}

fn data<T: DeserializeOwned>(event: &Event) -> Result<T> {
    serde_json::from_str(event.data.get())
        .with_context(|| format!("event {} ({}) of the journal cannot be read", event.seq, event.kind))
}
