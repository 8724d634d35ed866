//! Who writes the drafts: a command that reads the question and prints the answer, a model, or a coding agent in an empty folder. A
//! question is asked once; its answer is kept.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use sha2::{Digest as _, Sha256};

use super::draft::MOST_BYTES;
use crate::base::scratch::Scratch;
use crate::base::{disk, hex};
use crate::model::{Client, Endpoint, Model as _, Question};
use crate::subject::shell::Shell;
use crate::subject::{self, Agent, End, Errand, Subject};

/// More than the largest skill that is taken.
const MAX_TOKENS: u32 = 64_000;
/// How often a coding agent may ask its model for one draft.
const TURNS: u32 = 20;

pub(crate) struct Writer {
    who: Subject,
    /// The run's folder, and where its answers are kept.
    run: PathBuf,
    folder: PathBuf,
    /// The tasks, of which it is to know no more than it is told.
    tasks: Vec<PathBuf>,
    /// How long one answer may take.
    patience: Duration,
}

impl Writer {
    pub(crate) fn new(who: Subject, run: &Path, tasks: &[PathBuf], patience: Duration) -> Self {
        Self { who, run: run.to_owned(), folder: run.join("answers"), tasks: tasks.to_owned(), patience }
    }

    /// The answer, and whether it was there already.
    pub(super) fn ask(&self, question: &str) -> Result<(String, bool)> {
        let key = hex(&Sha256::digest(question));
        let path = self.folder.join(format!("{key}.md"));
        if path.exists() {
            let kept = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
            return Ok((String::from_utf8_lossy(&kept).into_owned(), true));
        }
        let answer = self.run(question)?;
        fs::create_dir_all(&self.folder)
            .and_then(|()| {
                disk::write_atomic(&self.folder.join(format!("{key}.question.md")), question.as_bytes(), 0o600)
            })
            .and_then(|()| disk::write_atomic(&path, answer.as_bytes(), 0o600))
            .with_context(|| format!("cannot write {}", path.display()))?;
        Ok((answer, false))
    }

    fn run(&self, question: &str) -> Result<String> {
        match &self.who {
            Subject::Exec(command) => exec(command, question, self.patience),
            Subject::Http(endpoint) => self.model(endpoint, question),
            Subject::Agent(agent) => self.agent(agent, question),
            Subject::Dir(_) => bail!("a folder writes nothing"),
        }
    }

    fn model(&self, endpoint: &Endpoint, question: &str) -> Result<String> {
        let question = Question::new("", question, MAX_TOKENS);
        Ok(Client::new(endpoint.clone(), self.patience).ask(&question)?.text())
    }

    /// What the agent says last. It has no files to look at, and what it writes is not read.
    fn agent(&self, agent: &Agent, question: &str) -> Result<String> {
        let scratch = Scratch::new()?;
        let [workspace, home, log] = ["workspace", "home", "log"].map(|name| scratch.path().join(name));
        for folder in [&workspace, &home, &log] {
            fs::create_dir(folder)?;
        }
        let did = agent.run(&Errand {
            workspace: &workspace,
            home: &home,
            log: &log,
            answers: &self.folder,
            sample: 0,
            prompt: question,
            timeout: self.patience,
            max_turns: TURNS,
            max_tokens: MAX_TOKENS,
            path: subject::path(),
            hidden: self.tasks.iter().chain([&self.run]).cloned().collect(),
        })?;
        match &did.end {
            End::Failed(why) => bail!("the writer {}: {why}", self.who),
            End::TimedOut => bail!("the writer {} did not end in {} s", self.who, self.patience.as_secs()),
            End::Finished => {}
        }
        Ok(did.said().to_owned())
    }
}

fn exec(command: &str, question: &str, patience: Duration) -> Result<String> {
    let failed = || format!("the writer `{command}`");
    let again = "start the same command again, and it goes on from here";
    let shell = Shell {
        line: command,
        folder: None,
        input: question.as_bytes(),
        limit: patience,
        most: MOST_BYTES + 1,
        ends_when_full: true,
        apart: false,
        stderr: Stdio::inherit(),
    };
    let said = shell.run().with_context(failed)?;
    match said.status {
        _ if said.is_full => {}
        Some(status) if status.success() => {}
        Some(status) => bail!("{} failed ({status}); {again}", failed()),
        None => bail!("{} did not end in {} s (--timeout); {again}", failed(), patience.as_secs()),
    }
    Ok(said.text)
}
