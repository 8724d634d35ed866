//! The loop: plans a generation, has its candidates made, compiled and judged at the same time, and writes what became of
//! them to the journal in the order of their numbers. Elites are confirmed at the end of a generation.
//!
//! Each candidate has a thread ([`slot`]) that goes through its stages as fast as compilers and cards are free. What it
//! finds is a file of the run's folder first. One thread, this one, writes events.

use std::path::Path;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use anyhow::{Context, Result, bail};

use super::commit;
use super::confirm;
use super::engine;
use super::event::{self, Ended, Generation, Plan, Resumed, Run};
use super::job;
use super::ledger::Ledger;
use super::machine::Machine;
use super::places::Places;
use super::proposer::{self, Desk, Proposer};
use super::select::{self, Donor, Source};
use super::settings::Settings;
use super::slot;
use super::state::{Candidate, State};
use super::task::Task;
use crate::base::arch;
use crate::base::bundle;
use crate::journal::Journal;
use crate::project::Project;

/// A best candidate at this part of the roof ends a run.
const ROOF: f64 = 0.97;

/// A run under way.
pub(crate) struct Search {
    ledger: Ledger,
    proposers: Vec<(String, Proposer)>,
    started: Instant,
    /// Seconds of earlier processes.
    before: f64,
}

impl Search {
    /// Starts a run of a project in a new folder.
    pub(crate) fn start(project: &Path, folder: &Path, settings: Settings) -> Result<Self> {
        let proposers = parsed(&settings)?;
        engine::named(&settings.engine)?;
        // Errors of a proposer's folder, before anything is written.
        let newest = arch::defaults().last().copied().unwrap_or(90);
        sources(&proposers, &Project::open(project)?, newest)?;
        proposers.iter().try_for_each(|(_, proposer)| proposer::ready(proposer, &settings))?;
        donors(&settings)?;
        let journal = Journal::create(folder, &serde_json::json!({"kind": "kernels search"}))?;
        let begun = Self::begin(project, folder, settings, proposers, journal);
        if begun.is_err() {
            // It has no run that could go on, and would be in the way of the next try.
            job::remove_all(folder);
        }
        begun
    }

    fn begin(
        project: &Path,
        folder: &Path,
        settings: Settings,
        proposers: Vec<(String, Proposer)>,
        mut journal: Journal,
    ) -> Result<Self> {
        let folder = folder.canonicalize().with_context(|| format!("cannot read {}", folder.display()))?;
        job::make_folders(&folder)?;
        let task = Task::freeze(project, &folder)?;
        // Wherever the run goes on, an agent is kept from it.
        let origin = project.canonicalize().with_context(|| format!("cannot read {}", project.display()))?;
        let engine = engine::of(&settings.engine, &folder, settings.cards)?;
        let machine = engine.machine(&folder)?;
        let run = Run {
            project: task.project.name.clone(),
            folder: origin.display().to_string(),
            task: task.digest.clone(),
            editable: task.editable.clone(),
            arch: machine.arch(),
            card: machine.card,
            compiler: machine.compiler,
            version: bundle::version().to_owned(),
            settings,
        };
        journal.append(event::RUN, &run)?;
        let state = State { run, generations: 0, candidates: Vec::new(), ended: None, seconds: 0.0 };
        let places = Places::new(engine, state.run.card.is_ok());
        let ledger = Ledger { folder, task, state, journal: Arc::new(Mutex::new(journal)), places: Arc::new(places) };
        Ok(Self { ledger, proposers, started: Instant::now(), before: 0.0 })
    }

    /// Goes on with a run. `budget` takes the place of the earlier one.
    pub(crate) fn resume(folder: &Path, change: impl FnOnce(&mut Settings)) -> Result<Self> {
        let folder = folder.canonicalize().with_context(|| format!("there is no run at {}", folder.display()))?;
        let (journal, events) = Journal::open(&folder)?;
        let state = State::of(&events).with_context(|| format!("cannot resume {}", folder.display()))?;
        job::make_folders(&folder)?;
        let task = Task::open(&folder)?;
        if task.digest != state.run.task || task.editable != state.run.editable {
            bail!(
                "{} is not the task that the run began with: its files were changed. Copy them back, or start a new run",
                task.root.display()
            );
        }
        let engine = engine::of(&state.run.settings.engine, &folder, state.run.settings.cards)?;
        is_as_before(&state.run, &engine.machine(&folder)?)?;
        let mut settings = state.run.settings.clone();
        change(&mut settings);
        let proposers = parsed(&settings)?;
        proposers.iter().try_for_each(|(_, proposer)| proposer::ready(proposer, &settings))?;
        let before = state.seconds;
        let places = Places::new(engine, state.run.card.is_ok());
        let (journal, places) = (Arc::new(Mutex::new(journal)), Arc::new(places));
        let mut ledger = Ledger { folder, task, state, journal, places };
        if ledger.state.ended.is_some() || settings != ledger.state.run.settings {
            ledger.write(event::RESUMED, &Resumed { version: bundle::version().to_owned(), settings })?;
        }
        Ok(Self { ledger, proposers, started: Instant::now(), before })
    }

    /// Runs until something ends it; returns what. `tell` is called with each candidate that has come to its end, and
    /// `doing` with what is under way.
    pub(crate) fn run(&mut self, tell: &dyn Fn(&State, &Candidate), doing: &(dyn Fn(&str) + Sync)) -> Result<String> {
        loop {
            // What a killed process left open comes before anything new is decided.
            let state = &self.ledger.state;
            let is_open = |one: &&Candidate| commit::is_open(one) || confirm::is_due(state, one.id());
            let open: Vec<Plan> = state.candidates.iter().filter(is_open).map(|one| one.plan.clone()).collect();
            let plans = if open.is_empty() {
                if let Some(why) = self.is_over() {
                    return self.end(why);
                }
                let plans = select::plans(
                    &self.ledger.state,
                    &sources(&self.proposers, &self.ledger.task.project, self.ledger.state.run.arch)?,
                    &donors(&self.ledger.state.run.settings)?,
                );
                if plans.is_empty() {
                    return self.end("no proposer has anything more to propose".to_owned());
                }
                let number = self.ledger.state.generations;
                let seconds = self.seconds();
                self.ledger.write(event::GENERATION, &Generation { number, plans: plans.clone(), seconds })?;
                plans
            } else {
                open
            };
            doing(&format!("generation {}: {} candidates", self.ledger.state.generations, plans.len()));
            self.generation(&plans, tell, doing)?;
        }
    }

    fn generation(
        &mut self,
        plans: &[Plan],
        tell: &dyn Fn(&State, &Candidate),
        doing: &(dyn Fn(&str) + Sync),
    ) -> Result<()> {
        let snapshot = self.ledger.state.clone();
        let (folder, task, proposers) = (self.ledger.folder.clone(), self.ledger.task.clone(), self.proposers.clone());
        let (places, journal) = (Arc::clone(&self.ledger.places), Arc::clone(&self.ledger.journal));
        let desk = Desk { run: &folder, task: &task, state: &snapshot, proposers: &proposers, journal: &journal };
        std::thread::scope(|scope| {
            let mut all = Vec::new();
            for plan in plans {
                let (sender, steps) = channel();
                let (places, desk) = (&places, &desk);
                scope.spawn(move || {
                    slot::run(plan, desk, places, &sender, doing).or_else(|error| sender.send(Err(error)))
                });
                all.push((plan, steps));
            }
            for (plan, steps) in all {
                commit::candidate(&mut self.ledger, plan, &steps)?;
                confirm::candidate(&mut self.ledger, plan.candidate, doing)?;
                if let Some(candidate) = self.ledger.state.candidate(plan.candidate) {
                    tell(&self.ledger.state, candidate);
                }
            }
            Ok(())
        })
    }

    /// What is known of the run.
    pub(crate) fn state(&self) -> &State {
        &self.ledger.state
    }

    /// Why the run is over, if it is.
    fn is_over(&self) -> Option<String> {
        let settings = &self.ledger.state.run.settings;
        if self.ledger.state.candidates.is_empty() {
            return None;
        }
        if let Some(why) = settings.budget.spent(self.ledger.state.usd(), self.seconds(), self.ledger.state.evals()) {
            return Some(why);
        }
        let best = self.ledger.state.best().and_then(|best| Some((best.id(), best.summary()?)));
        if let Some((id, summary)) = best.filter(|(_, summary)| summary.roof >= ROOF) {
            return Some(format!("candidate {id} is at {:.0} % of the roof", summary.roof * 100.0));
        }
        let stalled = self.ledger.state.stalled();
        (stalled >= settings.stall).then(|| format!("{stalled} candidates without a new elite (--stall)"))
    }

    fn end(&mut self, why: String) -> Result<String> {
        if self.ledger.state.ended.as_deref() != Some(&why) {
            let seconds = self.seconds();
            self.ledger.write(event::ENDED, &Ended { why: why.clone(), seconds })?;
        }
        Ok(why)
    }

    fn seconds(&self) -> f64 {
        self.before + self.started.elapsed().as_secs_f64()
    }
}

/// An error where a run would go on with something else than it began with: what is found would not be comparable.
fn is_as_before(run: &Run, machine: &Machine) -> Result<()> {
    let differs = |was: String, is: String| {
        bail!(
            "the run was made {was}, and {is}: what is found would not be comparable. Resume it as it began, or start a new run \
             (--answers takes the answers of models along)"
        )
    };
    match (&run.card, &machine.card) {
        (Ok(known), Ok(card)) if known.name != card.name => {
            return differs(format!("on {}", known.name), format!("this machine has {}", card.name));
        }
        (Ok(known), Err(why)) => bail!("the run was made on {}, and there is no card here: {why}", known.name),
        _ => {}
    }
    match (&run.compiler, &machine.compiler) {
        (Ok(known), Ok(found)) if known != found => {
            return differs(format!("with nvcc {known}"), format!("this machine has {found}"));
        }
        (Ok(known), Err(why)) => bail!("the run was made with nvcc {known}, and there is none here: {why}"),
        (Err(_), Ok(found)) => return differs("without nvcc".to_owned(), format!("this machine has {found}")),
        _ => {}
    }
    if run.version != bundle::version() {
        return differs(format!("by kernels {}", run.version), format!("this is {}", bundle::version()));
    }
    Ok(())
}

fn parsed(settings: &Settings) -> Result<Vec<(String, Proposer)>> {
    let parse = |text: &String| {
        let proposer = Proposer::written(text, Path::new(&settings.base));
        Ok((text.clone(), proposer.map_err(anyhow::Error::msg)?))
    };
    settings.proposers.iter().map(parse).collect()
}

fn sources(proposers: &[(String, Proposer)], project: &Project, arch: u32) -> Result<Vec<Source>> {
    proposers.iter().map(|(name, proposer)| proposer::source(name, proposer, project, arch)).collect()
}

/// The best candidate of each other run that was named.
fn donors(settings: &Settings) -> Result<Vec<Donor>> {
    let best = |run: &String| {
        let events = Journal::read(Path::new(run)).with_context(|| format!("--donor {run}"))?;
        let state = State::of(&events).with_context(|| format!("--donor {run}"))?;
        Ok(state.best().map(|best| (run.clone(), best.id())))
    };
    settings.donors.iter().map(best).filter_map(Result::transpose).collect()
}
