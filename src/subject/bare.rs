//! A bare model in a loop: it is asked, what it calls is carried out and told to it, until it calls nothing more.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{End, Errand, Outcome, Step, tools};
use crate::model::{Answer, Client, Endpoint, Kept, Model, NoContent, Part, Question, Role, Turn, Usage};
use crate::skill::source::Skill;

/// Where skills are for whoever has no folder of its own.
const SKILLS: &str = ".agents/skills";

const SYSTEM: &str = "You do a task in a workspace, which is a git repository. Use the tools to look at its files, change them \
                      and run commands; there is no network. Nobody answers questions. When the task is done, answer with a \
                      short summary and call no tool.";

/// A conversation so far.
struct Talk<'a> {
    errand: &'a Errand<'a>,
    begun: Instant,
    /// How much longer kept answers took when they were asked for.
    replayed: f64,
    times: Times,
    done: Outcome,
}

pub(super) fn run(endpoint: &Endpoint, errand: &Errand) -> Outcome {
    let skills = skills(errand.workspace);
    let model = Kept::new(Client::new(endpoint.clone(), errand.timeout), errand.answers);
    let question = Question {
        tools: tools::tools(),
        sample: errand.sample,
        ..Question::new(&format!("{SYSTEM}{skills}"), errand.prompt, errand.max_tokens)
    };
    let mut done = Outcome::default();
    done.took.usage = Some(Usage::default());
    done.took.loaded = (!skills.is_empty()).then_some(false);
    let mut talk = Talk { errand, begun: Instant::now(), replayed: 0.0, times: Times::of(errand), done };
    talk.done.end = talk.go_on(&model, question);
    talk.times.keep();
    // In milliseconds: a sum is the same in each program that reads it.
    talk.done.took.seconds = (talk.done.took.seconds * 1e3).round() / 1e3;
    talk.done
}

/// What the workspace's skills say of themselves, as coding agents put it before a model.
fn skills(workspace: &Path) -> String {
    let folders = std::fs::read_dir(workspace.join(SKILLS)).into_iter().flatten().flatten();
    let mut lines: Vec<String> = folders
        .filter_map(|folder| Skill::read(&folder.path()).ok())
        .map(|skill| format!("\n- {0}: {1} (read {SKILLS}/{0}/SKILL.md)", skill.name, skill.description()))
        .collect();
    lines.sort();
    if lines.is_empty() {
        return String::new();
    }
    format!(
        "\n\nSkills are instructions for some kinds of tasks. Where one fits, read its file first:{}",
        lines.concat()
    )
}

/// How long the calls of a run took, beside the answers that are kept: the same answers give the same report.
struct Times {
    path: PathBuf,
    known: Vec<f64>,
    at: usize,
}

impl Times {
    fn of(errand: &Errand) -> Self {
        let path = errand.answers.join(format!("calls-{:08x}.json", errand.sample));
        let known = std::fs::read(&path).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
        Self { path, known: known.unwrap_or_default(), at: 0 }
    }

    /// What the next call took, when it was made first.
    fn next(&mut self, now: f64) -> f64 {
        if self.known.len() == self.at {
            self.known.push(now);
        }
        self.at += 1;
        self.known[self.at - 1]
    }

    /// Without its file, another run measures anew.
    fn keep(&self) {
        if !self.known.is_empty() {
            let bytes = serde_json::to_vec(&self.known).unwrap_or_default();
            let _ = crate::base::disk::write_atomic(&self.path, &bytes, 0o666);
        }
    }
}

impl Talk<'_> {
    fn seconds(&self) -> f64 {
        self.begun.elapsed().as_secs_f64() + self.replayed
    }

    fn left(&self) -> Duration {
        self.errand.timeout.saturating_sub(Duration::try_from_secs_f64(self.seconds()).unwrap_or(Duration::MAX))
    }

    fn go_on(&mut self, model: &dyn Model, mut question: Question) -> End {
        for _ in 0..self.errand.max_turns {
            let asked = Instant::now();
            let answer = match model.ask(&question) {
                Ok(answer) => answer,
                Err(_) if self.left().is_zero() => return End::TimedOut,
                // It has nothing more to say: what it did is judged.
                Err(error) if error.is::<NoContent>() && self.done.took.turns.is_some() => return End::Finished,
                Err(error) => return End::Failed(format!("{error:#}")),
            };
            self.replayed += (answer.seconds - asked.elapsed().as_secs_f64()).max(0.0);
            let took = &mut self.done.took;
            took.seconds += answer.seconds;
            took.usage = took.usage.zip(answer.usage).map(|(sum, usage)| sum + usage);
            *took.turns.get_or_insert_default() += 1;
            (took.calls, took.failed_calls) = (took.calls.or(Some(0)), took.failed_calls.or(Some(0)));
            let results = self.carry_out(&answer);
            if self.left().is_zero() {
                return End::TimedOut;
            }
            if results.is_empty() {
                return End::Finished;
            }
            question.turns.push(Turn { role: Role::Assistant, parts: answer.parts });
            question.turns.push(Turn { role: Role::User, parts: results });
        }
        End::Finished
    }

    /// Carries out what an answer calls, and returns the results.
    fn carry_out(&mut self, answer: &Answer) -> Vec<Part> {
        let mut results = Vec::new();
        for part in &answer.parts {
            let mut step = Step { role: "assistant".to_owned(), ..Step::default() };
            match part {
                Part::Text(text) => step.text.clone_from(text),
                Part::Call { id, name, arguments } => {
                    let begun = Instant::now();
                    let told = tools::call(name, arguments, self.errand, self.left());
                    let failed = told.is_err();
                    let text = told.unwrap_or_else(|error| format!("{error:#}"));
                    let took = &mut self.done.took;
                    took.seconds += self.times.next(begun.elapsed().as_secs_f64());
                    took.calls = took.calls.map(|calls| calls + 1);
                    took.failed_calls = took.failed_calls.map(|calls| calls + u32::from(failed));
                    took.loaded = took.loaded.map(|loaded| loaded || !failed && opens_a_skill(arguments));
                    step.call = Some((name.clone(), arguments.clone()));
                    step.result = Some(text.clone());
                    results.push(Part::Result { id: id.clone(), text, failed });
                }
                Part::Result { .. } => continue,
            }
            self.done.steps.push(step);
        }
        results
    }
}

/// Whether a call reads a SKILL.md.
fn opens_a_skill(arguments: &Value) -> bool {
    ["path", "command"].iter().any(|name| arguments[name].as_str().is_some_and(|text| text.contains("SKILL.md")))
}
