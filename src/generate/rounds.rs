//! The rounds: a draft, what speaks against it or what agents made of it, and a better one.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::job::{Job, Tried};
use super::leak::Answers;
use super::students::{self, Worth};
use super::{Writer, brief, draft};
use crate::base::dir::Dir;
use crate::base::disk;
use crate::skill::Tree;

/// The end of a run, with the skill if a draft was accepted.
#[derive(Default)]
pub(crate) struct Ended {
    pub(crate) tree: Option<Tree>,
    pub(crate) drafts: Vec<Value>,
    /// Why no draft was taken that agents worked with.
    pub(crate) refused: Option<String>,
    /// What the last draft is worth on the hold-out.
    pub(crate) holdout: Option<Value>,
}

/// A draft that agents worked with.
struct Tested {
    round: usize,
    tree: Tree,
    folder: PathBuf,
    worth: Worth,
    tokens: usize,
}

impl Tested {
    /// Whether it is better than another: by what it changes, then by less harm, then by fewer tokens.
    fn is_better_than(&self, other: &Self) -> bool {
        let order = self.worth.lift().total_cmp(&other.worth.lift());
        order.then(other.worth.harm.cmp(&self.worth.harm)).then(other.tokens.cmp(&self.tokens)).is_gt()
    }
}

/// Writes the skill. `tell` hears each step.
pub(crate) fn generate(job: &Job, writer: &Writer, tell: &mut dyn FnMut(String)) -> Result<Ended> {
    let split = job.students.as_ref().map(|students| students.split(tell)).transpose()?;
    let answers = Answers::of(&job.tasks, job.base.as_ref().map(|base| &base.tree))?;
    let mut ended = Ended::default();
    let (mut tried, mut best): (Vec<Tried>, Option<Tested>) = (Vec::new(), None);
    for round in 1..=job.rounds {
        let (answer, kept) = writer.ask(&brief::question(job, &tried))?;
        let mut this = Tried { text: answer.chars().take(200_000).collect(), ..Tried::default() };
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
            let Some((students, split)) = job.students.as_ref().zip(split.as_ref()) else {
                ended.drafts.push(note);
                return Ok(Ended { tree: Some(tree), ..ended });
            };
            let folder = folder.join(&job.name);
            let (worth, rows) = students.measure((round, &folder), "train", &split.train)?;
            tell(format!("draft {round}: {:+.2} on {} tasks that it is refined on", worth.lift(), split.train.len()));
            note["train"] = worth.json();
            this.measured = students::told(&rows, &split.train);
            let done = worth.all;
            let now = Tested { round, tree, folder, worth, tokens: all };
            if best.as_ref().is_none_or(|best| now.is_better_than(best)) {
                best = Some(now);
            }
            if done {
                ended.drafts.push(note);
                break;
            }
        }
        ended.drafts.push(note);
        tried.push(this);
    }
    if let (Some(best), Some(students), Some(split)) = (best, &job.students, split) {
        let (worth, _) = students.measure((best.round, &best.folder), "holdout", &split.holdout)?;
        let (round, lift, tasks) = (best.round, worth.lift(), split.holdout.len());
        tell(format!("draft {round}: {lift:+.2} on {tasks} tasks that no writer heard of"));
        ended.holdout = Some(worth.json());
        match worth.objection() {
            Some(why) => ended.refused = Some(format!("draft {round} is not taken: {why}")),
            None => ended.tree = Some(best.tree),
        }
    }
    Ok(ended)
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
