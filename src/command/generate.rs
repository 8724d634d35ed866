//! `kernels skills generate`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::CommandFactory;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::eval::agent;
use super::failure::Usage;
use crate::agent::Machine;
use crate::base::hex;
use crate::cli::{self, skills};
use crate::deep;
use crate::eval::plan::Header;
use crate::eval::tasks::folders;
use crate::generate::{Job, Students, Writer, generate};
use crate::install::Refusal;
use crate::report::{Output, style};
use crate::skill::lint::is_valid_name;
use crate::skill::source::Skill;
use crate::subject::Subject;
use crate::trace::{self, digest::digest};

/// The most tokens of all digests together.
const DIGESTS: usize = 12_000;

pub(crate) fn run(machine: &Machine, arguments: &skills::Generate, output: Output) -> Result<ExitCode> {
    let digests = digests(machine, arguments, output)?;
    let texts: Vec<String> = digests.iter().filter_map(|one| one["digest"].as_str().map(str::to_owned)).collect();
    if arguments.digest {
        if texts.is_empty() {
            return Err(Usage("--digest needs --from with a trace".to_owned()).into());
        }
        if !output.is_json() {
            output.content(texts.join("\n").as_bytes());
        }
        output.json(&json!({ "traces": digests }));
        return Ok(ExitCode::SUCCESS);
    }
    write(machine, arguments, texts, output)
}

fn write(machine: &Machine, arguments: &skills::Generate, digests: Vec<String>, output: Output) -> Result<ExitCode> {
    let task = arguments.task.clone().unwrap_or_default();
    let named = arguments.writer.clone().unwrap_or_default();
    let who = agent(&named, "--writer")?;
    if matches!(who, Subject::Dir(_)) {
        return Err(Usage(format!("--writer {named}: a folder writes nothing")).into());
    }
    for student in &arguments.students {
        agent(student, "--student")?;
    }
    let skills: Vec<&PathBuf> =
        arguments.from.iter().filter(|path| !trace::is_trace(&machine.cwd.join(path))).collect();
    let (base, from) = match skills[..] {
        [] => (None, None),
        [path] => (Some(Skill::open(path)?), Some(machine.cwd.join(path)).filter(|path| path.is_dir())),
        _ => return Err(Usage("--from takes one skill, and traces".to_owned()).into()),
    };
    let target = match (&arguments.output, &from) {
        (Some(output), _) => machine.cwd.join(output),
        (None, Some(from)) => from.clone(),
        (None, None) => return Err(Usage("-o DIR is missing: where the skill goes".to_owned()).into()),
    };
    let name = target.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
    if !is_valid_name(&name) {
        return Err(
            Usage(format!("-o {}: its name is the skill's: a-z, 0-9 and single hyphens", target.display())).into()
        );
    }
    if arguments.output.is_some() && fs::symlink_metadata(&target).is_ok() {
        return Err(there(&target).into());
    }
    let pins = base.as_ref().map(|base| base.digest.to_string());
    let mut header = json!([task, name, named, digests, pins, arguments.rounds, arguments.deep]);
    if !arguments.students.is_empty() {
        let (students, tasks) = (&arguments.students, &arguments.tasks);
        let drawn = json!([arguments.holdout, arguments.runs, arguments.seed, arguments.max_turns]);
        header = json!([header, students, tasks, drawn]);
    }
    let folder = machine.cwd.join(".kernels/generate").join(&hex(&Sha256::digest(header.to_string()))[..12]);
    let tasks: Vec<_> = arguments.tasks.iter().map(|path| folders(path)).collect::<Result<_>>()?;
    let python = std::env::var_os("KERNELS_PYTHON").map_or_else(|| "python3".into(), PathBuf::from);
    let job = Job {
        task,
        digests,
        students: students(machine, arguments, base.as_ref().and(from.as_deref()), &folder),
        base,
        tasks: tasks.concat(),
        rounds: arguments.rounds as usize,
        deep: arguments.deep.then(|| deep::Options { python, commands: cli::Cli::command() }),
        folder,
        name,
    };
    let writer = Writer::new(who, &job.folder, &job.tasks, arguments.timeout);
    let ended = generate(&job, &writer, &mut |line| output.line(line))?;
    let run = machine.show(&job.folder);
    let mut report = json!({
        "accepted": ended.tree.is_some(), "measured": job.students.is_some(), "run": job.folder.to_string_lossy(),
        "drafts": ended.drafts, "holdout": ended.holdout,
    });
    let Some(tree) = ended.tree else {
        let why = ended.refused.unwrap_or_else(|| "no draft was accepted".to_owned());
        let why = format!("{why}; {run}/drafts has each with its reasons");
        return Ok(super::failure::end(report, Vec::new(), &[why], output));
    };
    if arguments.output.is_none() {
        let before = move_away(&target, &job.folder)?;
        output.line(format!("  {} {}", style::faint("the skill as it was:"), machine.show(&before)));
    }
    let above = target.parent().context("the folder has no parent")?;
    match fs::create_dir_all(above).and_then(|()| tree.place(&target)) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            return Err(there(&target).into());
        }
        written => written.with_context(|| format!("cannot write {}", target.display()))?,
    }
    output.line(format!("  {} {}", style::good("wrote"), machine.show(&target)));
    if job.students.is_none() {
        output.line(format!(
            "nothing was measured: whether it helps, only agents at work can show (--student); {run} has the draft"
        ));
    }
    report["path"] = target.to_string_lossy().into();
    output.json(&report);
    Ok(ExitCode::SUCCESS)
}

fn students(machine: &Machine, arguments: &skills::Generate, base: Option<&Path>, run: &Path) -> Option<Students> {
    let header = Header {
        tasks: arguments.tasks.iter().map(|path| machine.cwd.join(path)).collect(),
        agents: arguments.students.clone(),
        cli: vec![true],
        runs: arguments.runs,
        timeout_s: arguments.timeout.as_secs_f64(),
        max_turns: arguments.max_turns,
        max_tokens: 8192,
        seed: arguments.seed,
        ..Header::default()
    };
    let (base, holdout, folder) = (base.map(Path::to_owned), arguments.holdout, run.to_owned());
    (!arguments.students.is_empty()).then_some(Students { header, base, holdout, folder })
}

/// Moves the skill that was improved into the run's folder, so that nothing of it is lost.
fn move_away(skill: &Path, run: &Path) -> Result<PathBuf> {
    let names = (1..).map(|count| run.join(format!("before-{count}")));
    let folder = names.into_iter().find(|path| !path.exists()).unwrap_or_else(|| run.join("before"));
    let before = folder.join(skill.file_name().unwrap_or_default());
    fs::create_dir_all(&folder).and_then(|()| crate::base::disk::move_new(skill, &before)).with_context(|| {
        format!("cannot move {} to {}; name another folder after -o", skill.display(), before.display())
    })?;
    Ok(before)
}

fn there(path: &Path) -> Refusal {
    Refusal::of(path, "is there already", &["choose another folder; a skill is never written over"])
}

/// The digests of the traces, each within its share of the tokens.
fn digests(machine: &Machine, arguments: &skills::Generate, output: Output) -> Result<Vec<Value>> {
    let paths: Vec<_> = arguments.from.iter().filter(|path| trace::is_trace(&machine.cwd.join(path))).collect();
    let mut digests = Vec::new();
    for (at, path) in paths.iter().enumerate() {
        let trace = trace::read(&machine.cwd.join(path))?;
        let text = digest(&trace, &(at + 1).to_string(), DIGESTS / paths.len());
        for remark in &trace.remarks {
            output.note(format!("{} {}: {remark}", style::warning("note:"), path.display()));
        }
        digests.push(json!({
            "trace": path.to_string_lossy(), "kind": trace.kind, "steps": trace.steps.len(), "redacted": trace.redacted,
            "remarks": trace.remarks, "digest": text,
        }));
    }
    Ok(digests)
}
