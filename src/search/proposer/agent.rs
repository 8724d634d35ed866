//! `agent:NAME[:MODEL]`: a coding agent as it is installed, headless and confined, in a copy of the project with the parent's
//! sources. What differs afterwards is its proposal; what it says is not.

use anyhow::Result;

use super::{Answer, Asked, exec};
use crate::base::scratch::Scratch;
use crate::search::event::{Caught, Cost};
use crate::search::{operator, task};
use crate::subject::{self, Agent, End, Errand, Subject};

/// More answers than a change of one kernel takes.
const TURNS: u32 = 100;

/// An agent of the table, or what is wrong with its name.
pub(super) fn parse(text: &str) -> Result<Agent, String> {
    if let Ok(Subject::Agent(agent)) = text.parse() {
        return Ok(agent);
    }
    let known: Vec<&str> = Agent::ids().collect();
    Err(format!("agent:{text}: the agents are {}, each with :MODEL or without", known.join(", ")))
}

pub(super) fn answer(agent: &Agent, asked: &Asked) -> Result<Answer> {
    let frozen = asked.desk.task;
    let (_copy, project) = task::materialise(&frozen.root, &asked.parent)?;
    let own = Scratch::new()?;
    let (home, log) = (own.path().join("home"), own.path().join("log"));
    std::fs::create_dir(&home)?;
    std::fs::create_dir(&log)?;
    let question = format!(
        "{}\n\nThe current folder is a copy of the project. Edit these files in it, and no other: {}. What you answer is not \
         read; in place of edits in an answer, the files as you leave them are your proposal.\n\n{}",
        operator::system(),
        frozen.editable.join(", "),
        asked.question
    );
    let did = agent.run(&Errand {
        workspace: &project,
        home: &home,
        log: &log,
        answers: own.path(),
        sample: asked.plan.sample,
        prompt: &question,
        timeout: asked.patience,
        max_turns: TURNS,
        max_tokens: 0,
        path: subject::path(),
        hidden: vec![frozen.root.clone(), asked.desk.run.to_owned(), asked.desk.state.run.folder.clone().into()],
    })?;
    let sources = match &did.end {
        End::Finished => exec::edited(&project, asked),
        End::TimedOut => {
            Err(vec![Caught::public("timed-out", format!("not done after {} s", asked.patience.as_secs()))])
        }
        End::Failed(why) => Err(vec![Caught::public("no-answer", why.clone())]),
    };
    let text = did.said().to_owned();
    let thought = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().chars().take(200).collect();
    let usage = did.took.usage.unwrap_or_default();
    let cost = Cost {
        usd: did.took.usd.or((did.price.usd > 0.0).then_some(did.price.usd)),
        tokens_in: usage.fresh + usage.cached + usage.written,
        tokens_out: usage.out,
        requests: did.took.turns.unwrap_or_default().into(),
        unpriced: did.price.unknown,
        model: agent.model.clone().unwrap_or_default(),
        seconds: did.took.seconds,
    };
    Ok(Answer { sources, thought, question, text, cost })
}
