//! Judges what a subject left: a copy of its files, the tests copied in fresh, all of it confined.
//!
//! The subject has ended, and what it may have left running writes to its own folders and not to the copy. Tests are executed
//! in folders that only they may write to; what they run of the subject's goes through `$UNTRUSTED`, which cannot write the
//! reward, read the task's folder nor signal the tests.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;

use super::files::Files;
use super::lab::Lab;
use super::task::{Judge, Need, Task, below};
use super::verdict::{Outcome, Verdict};
use crate::base::disk;
use crate::base::scratch::Scratch;
use crate::subject::supervise::{self, Ended, Job};
use crate::worker::{Request, Supervised};

/// The file beside the reward by which tests say that they cannot judge here; the reason is in it. An exit code would not do:
/// what a subject left ends with any it likes.
const CANNOT_JUDGE: &str = "cannot-judge";
/// What is read of it.
const MOST_BYTES: u64 = 64 << 10;
/// The variables that name folders of the task and of the judgement.
const FOLDERS: [&str; 6] = ["COMMON", "SOLUTION", "TESTS", "TESTS_DIR", "REWARD_DIR", "LOGS_DIR"];

/// A verdict, and what the tests said.
pub(crate) struct Judged {
    pub(crate) verdict: Verdict,
    /// The reward as it was written.
    pub(crate) reward: Option<Value>,
    /// The end of the tests' output.
    pub(crate) output: String,
}

impl From<Verdict> for Judged {
    fn from(verdict: Verdict) -> Self {
        Self { verdict, reward: None, output: String::new() }
    }
}

/// The folders of one judgement.
struct Bench {
    scratch: Scratch,
}

impl Bench {
    fn new(workspace: &Files, tests: &Files, common: &Files) -> Result<Self> {
        let bench = Self { scratch: Scratch::new()? };
        for name in ["open/home", "open/tmp", "open/workspace", "reward", "tests", "common", "bin"] {
            fs::create_dir_all(bench.at(name))
                .with_context(|| format!("cannot create {}", bench.at(name).display()))?;
        }
        workspace.write(&bench.at("open/workspace"))?;
        tests.write(&bench.at("tests"))?;
        common.write(&bench.at("common"))?;
        Ok(bench)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// Runs a script of the task's in the workspace.
    fn run(&self, lab: &Lab, task: &Task, script: &Path, reward: bool) -> Result<Ended> {
        let card = task.about.needs.contains(&Need::Card);
        let mut writes = vec![self.at("open")];
        let untrusted = self.untrusted(card, &task.folder)?;
        let mut env = lab.env(&self.at("open/home"), &self.at("open/tmp"));
        let mut name = |name: &str, path: &Path| env.push((name.to_owned(), path.display().to_string()));
        name("COMMON", &self.at("common"));
        name("SOLUTION", &task.folder.join("solution"));
        name("UNTRUSTED", &untrusted);
        if reward {
            writes.push(self.at("reward"));
            let folders =
                [("TESTS", "tests"), ("TESTS_DIR", "tests"), ("REWARD_DIR", "reward"), ("LOGS_DIR", "reward")];
            for (variable, folder) in folders {
                name(variable, &self.at(folder));
            }
        }
        supervise::run(&Job {
            program: Path::new("/bin/bash"),
            arguments: &[script.to_owned()],
            folder: &self.at("open/workspace"),
            env: &env,
            writes: &writes,
            card,
            limit: task.limit,
            bounds: None,
        })
    }

    /// A script that runs its arguments with the right to write to the workspace, the home and the temporary folder alone. They
    /// do not see the task's folder, which has the solution.
    fn untrusted(&self, card: bool, task: &Path) -> Result<PathBuf> {
        let task = task.canonicalize().with_context(|| format!("cannot read {}", task.display()))?;
        let request = Request::Confine(Supervised {
            program: "/usr/bin/env".into(),
            arguments: FOLDERS.iter().flat_map(|name| ["-u".into(), (*name).into()]).collect(),
            writes: vec![self.at("open")],
            card,
            seconds: 0.0,
            hidden: vec![task],
            bounds: None,
        });
        let (program, arguments) = request.arguments()?;
        let quoted = |text: &str| format!("'{}'", text.replace('\'', "'\\''"));
        let words: Vec<String> = arguments.iter().map(|argument| quoted(argument)).collect();
        let script = format!("#!/bin/sh\nexec {} {} \"$@\"\n", quoted(&program.to_string_lossy()), words.join(" "));
        let path = self.at("bin/untrusted");
        fs::write(&path, script)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        Ok(path)
    }
}

/// Judges a workspace, of which `left` are the files, and an answer.
pub(crate) fn judge(task: &Task, left: &Files, answer: &str, lab: &Lab) -> Result<Judged> {
    match &task.judge {
        Judge::Tests => {}
        Judge::Contains(wanted) => return Ok(contains(answer, wanted).into()),
        Judge::Nobody(why) => return Ok(Verdict::of(Outcome::Skipped, format!("unjudged: {why}")).into()),
    }
    let bench = Bench::new(left, &task.tests, &task.common)?;
    let ended = bench.run(lab, task, &bench.at("tests/test.sh"), true)?;
    let verdict = match (&ended.stopped, Verdict::read(&bench.at("reward"), task.about.roof)) {
        // Tests that were cut off may have written a reward that is not their last word.
        (Some(why), _) => Verdict::of(Outcome::Fail, format!("the tests did not end on what was left: {why}")),
        (None, Ok(Some(verdict))) => verdict,
        (None, read) => {
            let code = ended.code.unwrap_or(-1);
            let what = read.err().unwrap_or_else(|| format!("tests/test.sh ended with {code} and wrote no reward"));
            cannot_judge(&bench.at("reward")).map_or_else(
                // What was left broke them; were that an error of ours, whoever breaks them would not be counted.
                || Verdict::of(Outcome::Fail, format!("{what}{}", last(&ended.output))),
                |why| Verdict::of(Outcome::VerifierError, format!("the tests cannot judge here: {why}")),
            )
        }
    };
    let reward = fs::read(bench.at("reward/reward.json")).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
    Ok(Judged { verdict, reward, output: ended.output })
}

fn contains(answer: &str, wanted: &[String]) -> Verdict {
    let answer = answer.to_lowercase();
    let missing: Vec<&str> =
        wanted.iter().filter(|text| !answer.contains(&text.to_lowercase())).map(String::as_str).collect();
    Verdict::passed(
        missing.is_empty(),
        if missing.is_empty() { String::new() } else { format!("the answer lacks {missing:?}") },
    )
}

/// Why the tests cannot judge, if they say so.
fn cannot_judge(folder: &Path) -> Option<String> {
    let path = folder.join(CANNOT_JUDGE);
    fs::symlink_metadata(&path).ok()?;
    let text = disk::read_plain(&path, MOST_BYTES).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    Some(text.lines().next().map_or("without a reason", str::trim).to_owned())
}

fn last(output: &str) -> String {
    output.lines().rfind(|line| !line.trim().is_empty()).map_or_else(String::new, |line| format!(": {line}"))
}

/// The workspace after a solution or a mutant was laid over the task's environment: its `solve.sh` or `apply.sh`, else its
/// files.
pub(crate) fn applied(task: &Task, part: &str, lab: &Lab) -> Result<Files> {
    let overlay = below(&task.folder, part)?;
    let bench = Bench::new(&task.environment, &Files::default(), &task.common)?;
    let script = ["solve.sh", "apply.sh"].into_iter().find(|name| overlay.get(name).is_some());
    match script {
        Some(script) => {
            let path = task.folder.join(part).join(script);
            let ended = bench.run(lab, task, &path, false)?;
            if ended.code != Some(0) {
                let why = ended.stopped.unwrap_or_else(|| format!("it ended with {}", ended.code.unwrap_or(-1)));
                anyhow::bail!("{} failed: {why}{}", path.display(), last(&ended.output));
            }
        }
        None => overlay.write(&bench.at("open/workspace"))?,
    }
    Files::left(&bench.at("open/workspace"), &task.environment)
}
