//! `exec:COMMAND`: a program of the user's, run by `sh` in a copy of the project with the parent's sources. It reads a
//! JSON object on standard input and edits the sources; what differs afterwards is its proposal.

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::thread;

use anyhow::{Context, Result};
use serde_json::json;

use super::{Answer, Asked};
use crate::search::event::{Caught, Cost};
use crate::search::sources::Sources;
use crate::search::{job, operator, task};

/// The most bytes of what the program prints that are kept.
const SAID: u64 = 256 << 10;

pub(super) fn answer(line: &str, asked: &Asked) -> Result<Answer> {
    let (_copy, folder) = task::materialise(&asked.desk.task.root, &asked.parent)?;
    let plan = asked.plan;
    let request = json!({
        "candidate": plan.candidate,
        "operator": plan.operator,
        "parents": plan.parents,
        "sample": plan.sample,
        "sources": asked.desk.task.editable,
        "feedback": asked.feedback,
        "system": operator::system(),
        "question": asked.question,
    });
    let mut command = Command::new("sh");
    command.args(["-c", line]).current_dir(&folder).process_group(0);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| format!("exec:{line}: cannot start sh"))?;
    let (stdin, said) = (child.stdin.take(), job::said(child.stdout.take(), SAID));
    let writer = thread::spawn(move || stdin.map(|mut pipe| pipe.write_all(request.to_string().as_bytes())));
    let status = job::ended(&mut child, asked.patience)?;
    drop(writer.join());
    let text = said.join().unwrap_or_default();
    let sources = match status {
        Some(status) if status.success() => edited(&folder, asked),
        Some(status) => Err(vec![Caught::public("no-answer", format!("the command ended with {status}"))]),
        None => Err(vec![Caught::public("timed-out", format!("not done after {} s", asked.patience.as_secs()))]),
    };
    let thought = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().chars().take(200).collect();
    Ok(Answer { sources, thought, question: asked.question.clone(), text, cost: Cost::default() })
}

/// The sources in a copy that a program worked in. What it did to frozen files is refused by name; what it left besides is
/// passed over.
pub(super) fn edited(folder: &std::path::Path, asked: &Asked) -> Result<Sources, Vec<Caught>> {
    let task = asked.desk.task;
    let missing = |path: &&String| std::fs::symlink_metadata(folder.join(path)).is_err();
    if let Some(path) = task.editable.iter().find(missing) {
        return Err(vec![Caught::public("source-removed", format!("{path} is gone; build.toml lists it"))]);
    }
    asked.parent.with_folder(folder, &task.root, false)
}
