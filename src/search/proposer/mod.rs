//! Proposers: who writes the sources of a candidate. Each answers a plan; what it says is kept in the run's folder before
//! anything is done with it, so that no answer is paid twice.

mod agent;
mod dir;
mod exec;
mod http;
mod sweep;

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Mutex;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Serialize};

use super::event::{Caught, Cost, Plan};
use super::feedback;
use super::job::{self, Done};
use super::operator::{self, Material};
use super::select::Source;
use super::settings::Settings;
use super::sources::Sources;
use super::state::State;
use super::task::Task;
use crate::base::plural;
use crate::base::text::for_shell;
use crate::journal::Journal;
use crate::model::Endpoint;
use crate::project::Project;
use crate::subject::{self, Agent};
use crate::tune;

/// A proposer, as the command line names it.
#[derive(Clone, Debug)]
pub(crate) enum Proposer {
    /// Sources that somebody wrote: each entry of a folder is a proposal.
    Dir(PathBuf),
    /// A program, run in a copy of the project.
    Exec(String),
    /// A coding agent, run in a copy of the project.
    Agent(Agent),
    /// A language model.
    Http(Endpoint),
    /// The rows that the project's tuning tables can express.
    Sweep,
}

impl FromStr for Proposer {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "sweep" {
            return Ok(Self::Sweep);
        }
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        if rest.is_empty() {
            return Err(format!("`{text}`: a proposer is {FORMS}"));
        }
        match kind {
            "dir" => Ok(Self::Dir(rest.into())),
            "exec" => Ok(Self::Exec(rest.to_owned())),
            "agent" => agent::parse(rest).map(Self::Agent),
            // What is wrong with an address may be a secret in it: the error does not repeat it.
            "http" => rest.parse().map(Self::Http).map_err(|error: anyhow::Error| format!("http:URL#MODEL: {error}")),
            _ => Err(format!("`{text}`: a proposer is {FORMS}")),
        }
    }
}

impl Proposer {
    /// The proposer that was written so in this folder.
    pub(super) fn written(text: &str, base: &Path) -> Result<Self, String> {
        Ok(match text.parse()? {
            Self::Dir(folder) => Self::Dir(base.join(folder)),
            other => other,
        })
    }
}

/// How proposers are written.
const FORMS: &str = "dir:PATH, exec:COMMAND, sweep, agent:NAME[:MODEL] or http:URL#MODEL";

/// What a proposer answered.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Answer {
    pub(crate) sources: Result<Sources, Vec<Caught>>,
    /// In one line, what it says of it.
    pub(crate) thought: String,
    pub(crate) question: String,
    /// As it came.
    pub(crate) text: String,
    pub(crate) cost: Cost,
}

impl Answer {
    /// An answer that cost nothing.
    fn free(sources: Result<Sources, Vec<Caught>>, thought: String) -> Self {
        Self { sources, thought, question: String::new(), text: String::new(), cost: Cost::default() }
    }
}

/// What all proposers of a run share.
pub(crate) struct Desk<'a> {
    pub(crate) run: &'a Path,
    pub(crate) task: &'a Task,
    /// As it was when the plans were made.
    pub(crate) state: &'a State,
    /// With their names.
    pub(crate) proposers: &'a [(String, Proposer)],
    pub(crate) journal: &'a Mutex<Journal>,
}

/// What a proposer is given.
pub(super) struct Asked<'a> {
    pub(super) desk: &'a Desk<'a>,
    pub(super) plan: &'a Plan,
    pub(super) parent: Sources,
    pub(super) feedback: Vec<String>,
    pub(super) question: String,
    pub(super) patience: Duration,
}

/// A proposer as the choice of the next one sees it.
pub(crate) fn source(name: &str, proposer: &Proposer, project: &Project, arch: u32) -> Result<Source> {
    let list = match proposer {
        Proposer::Dir(folder) => Some(u32::try_from(dir::entries(folder)?.len()).unwrap_or(u32::MAX)),
        Proposer::Exec(_) | Proposer::Http(_) => None,
        Proposer::Agent(agent) => agent.ready(&subject::path()).map(|()| None)?,
        Proposer::Sweep => Some(u32::try_from(tune::sweep(project, arch)?.len()).unwrap_or(u32::MAX)),
    };
    Ok(Source { name: name.to_owned(), list, is_paid: matches!(proposer, Proposer::Http(_) | Proposer::Agent(_)) })
}

/// Whether a proposer can be asked at all with these settings, before a run is begun.
pub(crate) fn ready(proposer: &Proposer, settings: &Settings) -> Result<()> {
    // What an agent needs was looked for by `source`.
    if let Proposer::Http(endpoint) = proposer { http::ready(endpoint, settings) } else { Ok(()) }
}

impl Desk<'_> {
    /// The answer to a plan: the one that is kept, or a new one.
    pub(crate) fn answer(&self, plan: &Plan) -> Result<Done<Answer>> {
        let key = format!("answer-{}", plan.candidate);
        if job::known::<Answer>(self.run, &key).is_none() {
            let started = job::now();
            let mut answer = self.asked(plan)?;
            answer.cost.seconds = job::now() - started;
            job::publish(self.run, &key, &Done::now(answer, started))?;
        }
        let done = job::known(self.run, &key).context("an answer that was just written cannot be read")?;
        self.holds_the_budget(plan, &done)?;
        Ok(done)
    }

    /// An error where a budget in US dollars is set and what was spent is not known. The answer is kept: with another budget the
    /// run goes on from it.
    fn holds_the_budget(&self, plan: &Plan, done: &Done<Answer>) -> Result<()> {
        let Some(Answer { cost, sources, .. }) = &done.result else { return Ok(()) };
        let before = self.state.unpriced();
        if self.state.run.settings.budget.usd.is_none() || !cost.is_unknown() && (cost.requests == 0 || before == 0) {
            return Ok(());
        }
        let caught = sources.as_ref().err().and_then(|caught| caught.first());
        let which = match caught {
            _ if !cost.is_unknown() => plural(before, "earlier answer"),
            Some(caught) => format!("candidate {} by {} ({})", plan.candidate, plan.proposer, caught.text),
            None => format!("candidate {} by {}", plan.candidate, plan.proposer),
        };
        bail!(
            "the cost of {which} is not known, so a budget in US dollars cannot be held: a server does not count tokens, a \
             model has no known price, or an answer was cut off or refused. `kernels search resume {} --budget evals=N` goes \
             on with another one",
            for_shell(self.run)
        )
    }

    fn asked(&self, plan: &Plan) -> Result<Answer> {
        if plan.parents.is_empty() {
            return Ok(Answer::free(Ok(self.task.start.clone()), "the project as it is".to_owned()));
        }
        let known = self.proposers.iter().find(|(name, _)| *name == plan.proposer);
        let (_, proposer) = known.with_context(|| format!("the run has no proposer {}", plan.proposer))?;
        let parent = self.state.sources(self.run, plan.parents[0])?;
        let feedback = self.feedback(plan.parents[0])?;
        let second = match (&plan.donor, plan.parents.get(1)) {
            (Some((run, id)), _) => Some(State::of(&Journal::read(Path::new(run))?)?.sources(Path::new(run), *id)?),
            (None, Some(id)) => Some(self.state.sources(self.run, *id)?),
            (None, None) => None,
        };
        let second_feedback = plan.parents.get(1).map(|id| self.feedback(*id)).transpose()?.unwrap_or_default();
        let material = Material {
            task: self.task,
            parent: &parent,
            second: second.as_ref(),
            feedback: &feedback,
            second_feedback: &second_feedback,
        };
        let question = operator::question(&plan.operator, &material);
        let patience = Duration::from_secs(self.state.run.settings.patience.into());
        let asked = Asked { desk: self, plan, parent, feedback, question, patience };
        match proposer {
            Proposer::Dir(folder) => Ok(dir::answer(folder, &asked)),
            Proposer::Exec(command) => exec::answer(command, &asked),
            Proposer::Agent(agent) => agent::answer(agent, &asked),
            Proposer::Http(endpoint) => http::answer(endpoint, &asked),
            Proposer::Sweep => sweep::answer(&asked),
        }
    }

    fn feedback(&self, id: u32) -> Result<Vec<String>> {
        let Some(candidate) = self.state.candidate(id) else { return Ok(Vec::new()) };
        Ok(feedback::of(candidate, candidate.facts(self.run)?.as_ref()))
    }
}
