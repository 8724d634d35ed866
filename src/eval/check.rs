//! Holds tasks to account: the solution passes, the untouched workspace and every mutant fail.

use std::time::Instant;

use super::files::Files;
use super::harm;
use super::lab::Lab;
use super::task::{Judge, Kind, Task};
use super::verdict::{Outcome, Verdict};
use super::verifier;
use crate::report::check::{Check, Checks, Suite};

/// One suite a task. `tell` hears each check as it ends.
pub(crate) fn check(tasks: &[Task], lab: &Lab, tell: &mut dyn FnMut(&str, &Check)) -> Vec<Suite> {
    let suite = |task: &Task| {
        let start = Instant::now();
        let mut tell = |check: &Check| tell(&task.id, check);
        let mut checks = Checks::new(&mut tell);
        of_task(task, lab, &mut checks);
        Suite {
            name: task.id.clone(),
            dir: task.folder.display().to_string(),
            checks: checks.done,
            seconds: start.elapsed().as_secs_f64(),
            ..Suite::default()
        }
    };
    tasks.iter().map(suite).collect()
}

fn of_task(task: &Task, lab: &Lab, checks: &mut Checks) {
    if !matches!(task.judge, Judge::Tests) {
        let why = match &task.judge {
            Judge::Nobody(why) => format!("unjudged: {why}"),
            _ => "a prompt has no solution to check".to_owned(),
        };
        checks.push(Check::skipped("prompt", "solution", why));
        return;
    }
    if let Some(why) = lab.lacks(&task.about) {
        checks.push(Check::skipped("solution", "solution", why));
        return;
    }
    let has_solution = task.folder.join("solution").is_dir();
    // Off the skill's subject, to leave all as it is may be right.
    let nothing_to_do = !has_solution && task.about.kind == Kind::OffTopic;
    if has_solution {
        let files = verifier::applied(task, "solution", lab);
        checks.push(of_files(task, "solution", "solution", files, true, lab));
    } else if !nothing_to_do {
        checks.push(Check::failed(
            "solution",
            "solution",
            "there is no folder `solution`: nothing shows that it can be done",
        ));
    }
    checks.push(of_files(task, "untouched", "untouched", Ok(task.environment.clone()), nothing_to_do, lab));
    let mutants = task.mutants();
    if mutants.is_empty() {
        checks.push(Check::failed(
            "mutant",
            "mutants",
            "there is no mutant: nothing shows that the tests notice a mistake",
        ));
    }
    for name in mutants {
        let files = verifier::applied(task, &format!("mutants/{name}"), lab);
        checks.push(of_files(task, "mutant", &name, files, false, lab));
    }
}

fn of_files(task: &Task, group: &str, name: &str, files: anyhow::Result<Files>, passes: bool, lab: &Lab) -> Check {
    let start = Instant::now();
    let judged = files.and_then(|files| {
        let mut judged = verifier::judge(task, &files, "", lab)?;
        harm::of_files(task, &task.environment, &files, &mut judged.verdict);
        Ok(judged)
    });
    let check = match judged {
        Err(error) => Check::failed(group, name, format!("{error:#}")),
        Ok(judged) => {
            let said = said(&judged.verdict);
            match (judged.verdict.outcome, passes) {
                (Outcome::Pass, true) => Check::passed(group, name, said),
                (Outcome::Fail | Outcome::Cheat, false) => {
                    Check::passed(group, name, format!("fails, as it should: {said}"))
                }
                (Outcome::Pass, false) => {
                    Check::failed(group, name, "it passes, and is wrong: the tests do not notice it")
                }
                _ => Check::failed(group, name, format!("{said}\n{}", judged.output)),
            }
        }
    };
    check.taking(start.elapsed().as_secs_f64())
}

fn said(verdict: &Verdict) -> String {
    let gates: Vec<String> = verdict.gates.iter().map(|(name, value)| format!("{name} {value}")).collect();
    let all = [verdict.why.clone(), gates.join(", ")];
    all.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("; ")
}
