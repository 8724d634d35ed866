//! The rounds: a draft, what speaks against it, and a better one, until nothing does.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::job::{Job, Tried};
use super::leak::Answers;
use super::{Writer, brief, draft};
use crate::base::dir::Dir;
use crate::base::disk;
use crate::skill::Tree;

/// The end of a run, with the skill if a draft was accepted.
pub(crate) struct Ended {
    pub(crate) tree: Option<Tree>,
    pub(crate) drafts: Vec<Value>,
}

/// Writes the skill. `tell` hears each step.
pub(crate) fn generate(job: &Job, writer: &Writer, tell: &mut dyn FnMut(String)) -> Result<Ended> {
    let answers = Answers::of(&job.tasks, job.base.as_ref().map(|base| &base.tree));
    let (mut tried, mut drafts): (Vec<Tried>, Vec<Value>) = (Vec::new(), Vec::new());
    for round in 1..=job.rounds {
        let (answer, kept) = writer.ask(&brief::question(job, &tried))?;
        let mut this = Tried { text: answer.chars().take(200_000).collect(), told: Vec::new() };
        let (tree, reasons) = judged(job, &answer, &answers, &mut this)?;
        let folder = job.folder.join(format!("drafts/{round}"));
        keep(&folder, &answer, tree.as_ref().map(|tree| (&*job.name, tree)), &reasons)?;
        let mut note = json!({ "round": round, "kept_answer": kept, "rejected": reasons });
        for reason in &reasons {
            tell(format!("draft {round} is rejected: {reason}"));
        }
        if let Some(tree) = tree.filter(|_| reasons.is_empty()) {
            let (own, all) = draft::cost(&tree);
            (note["tokens"], note["tokens_skill_md"]) = (all.into(), own.into());
            tell(format!("draft {round}: {own} tokens in SKILL.md, {all} in all files"));
            drafts.push(note);
            return Ok(Ended { tree: Some(tree), drafts });
        }
        drafts.push(note);
        tried.push(this);
    }
    Ok(Ended { tree: None, drafts })
}

/// The files of an answer, and what speaks against them.
fn judged(job: &Job, answer: &str, answers: &Answers, this: &mut Tried) -> Result<(Option<Tree>, Vec<String>)> {
    let tree = match draft::files(answer) {
        Ok(tree) => tree,
        Err(why) => {
            this.told.push(why.clone());
            return Ok((None, vec![why]));
        }
    };
    let mut reasons = draft::objections(&tree, &job.name, job.deep.as_ref())?;
    this.told.clone_from(&reasons);
    let leaks = answers.found_in(&tree, &job.name);
    if !leaks.is_empty() {
        this.told.push("it holds text of the solution or the tests of a task; say what is general instead".to_owned());
    }
    reasons.extend(leaks);
    Ok((Some(tree), reasons))
}

/// Writes a draft into the run's folder: the answer as it came, the files if they are safe to write, and the reasons.
fn keep(folder: &Path, answer: &str, tree: Option<(&str, &Tree)>, reasons: &[String]) -> Result<()> {
    if folder.exists() {
        disk::delete(folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    let written = || -> std::io::Result<()> {
        fs::create_dir_all(folder)?;
        fs::write(folder.join("answer.md"), answer)?;
        if !reasons.is_empty() {
            fs::write(folder.join("rejected.txt"), reasons.join("\n") + "\n")?;
        }
        if let Some((name, tree)) = tree {
            fs::create_dir(folder.join(name))?;
            tree.write(&Dir::open(&folder.join(name))?)?;
        }
        Ok(())
    };
    written().with_context(|| format!("cannot write the draft to {}", folder.display()))
}
