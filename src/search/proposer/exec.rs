//! `exec:COMMAND`: a program of the user's, run by `sh` in a copy of the project with the parent's sources. It reads a
//! JSON object on standard input and edits the sources; what differs afterwards is its proposal.

use std::process::Stdio;

use anyhow::{Context, Result};
use serde_json::json;

use super::{Answer, Asked};
use crate::search::event::{Caught, Cost};
use crate::search::sources::Sources;
use crate::search::{operator, task};
use crate::subject::shell::{Said, Shell};

/// The most bytes of what the program prints that are kept.
const SAID: usize = 256 << 10;

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
    let request = request.to_string();
    let shell = Shell {
        line,
        folder: Some(&folder),
        input: request.as_bytes(),
        limit: asked.patience,
        most: SAID,
        ends_when_full: false,
        apart: true,
        stderr: Stdio::null(),
    };
    let Said { status, text, .. } = shell.run().with_context(|| format!("exec:{line}"))?;
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
