//! `kernels skills generate`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::CommandFactory;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::failure::Usage;
use crate::agent::Machine;
use crate::base::dir::Dir;
use crate::base::hex;
use crate::cli::{self, skills};
use crate::deep;
use crate::generate::{Job, Writer, generate, tasks};
use crate::install::refusal::{Refusal, Refused};
use crate::report::{Output, style};
use crate::skill::lint::is_valid_name;
use crate::skill::source::Skill;
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
    let given = |value: &Option<String>| value.clone().unwrap_or_default();
    let (task, named) = (given(&arguments.task), given(&arguments.writer));
    let Some(command) = named.strip_prefix("exec:").filter(|command| !command.trim().is_empty()) else {
        return Err(Usage(format!("--writer {named}: is exec:COMMAND, as in 'exec:claude -p --tools \"\"'")).into());
    };
    let shown = arguments.output.clone().unwrap_or_default();
    let target = machine.cwd.join(&shown);
    let name = target.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
    if !is_valid_name(&name) {
        return Err(
            Usage(format!("-o {}: its name is the skill's: a-z, 0-9 and single hyphens", shown.display())).into()
        );
    }
    if fs::symlink_metadata(&target).is_ok() {
        return Err(there(target).into());
    }
    let skills: Vec<&PathBuf> =
        arguments.from.iter().filter(|path| !trace::is_trace(&machine.cwd.join(path))).collect();
    let base = match skills[..] {
        [] => None,
        [path] => Some(Skill::open(path)?),
        _ => return Err(Usage("--from takes one skill, and traces".to_owned()).into()),
    };
    let pins = base.as_ref().map(|base| base.digest.to_string());
    let header = json!([task, name, command, digests, pins, arguments.rounds, arguments.deep]).to_string();
    let folder = machine.cwd.join(".kernels/generate").join(&hex(&Sha256::digest(header))[..12]);
    let python = std::env::var_os("KERNELS_PYTHON").map_or_else(|| "python3".into(), PathBuf::from);
    let job = Job {
        task,
        digests,
        base,
        tasks: tasks(&arguments.tasks)?,
        rounds: arguments.rounds as usize,
        deep: arguments.deep.then(|| deep::Options { python, commands: cli::Cli::command() }),
        folder,
        name,
    };
    let writer = Writer::new(command, &job.folder);
    let ended = generate(&job, &writer, &mut |line| output.line(line))?;
    let run = machine.show(&job.folder);
    let Some(tree) = ended.tree else {
        let why = format!("no draft was accepted; {run}/drafts has each with its reasons");
        let report = json!({ "accepted": false, "run": job.folder.to_string_lossy(), "drafts": ended.drafts });
        return Ok(super::failure::end(report, Vec::new(), &[why], output));
    };
    place(&tree, &target)?;
    output.line(format!("  {} {}", style::good("wrote"), machine.show(&target)));
    output.line(format!("nothing was measured: whether it helps, only agents at work can show; {run} has the draft"));
    output.json(&json!({
        "accepted": true, "measured": false, "path": target.to_string_lossy(), "run": job.folder.to_string_lossy(),
        "drafts": ended.drafts,
    }));
    Ok(ExitCode::SUCCESS)
}

fn there(path: PathBuf) -> Refusal {
    let advice = vec!["choose another folder; a skill is never written over".to_owned()];
    Refusal(vec![Refused { path, reason: "is there already".to_owned(), changes: Vec::new(), advice }])
}

/// Writes the skill beside its place and moves it there whole, over nothing.
fn place(tree: &crate::skill::Tree, target: &Path) -> Result<()> {
    let above = target.parent().context("the folder has no parent")?;
    let write = || -> std::io::Result<()> {
        fs::create_dir_all(above)?;
        let staged = tempfile::TempDir::with_prefix_in(".kernels-generate-", above)?;
        let folder = staged.path().join("skill");
        fs::create_dir(&folder)?;
        tree.write(&Dir::open(&folder)?)?.sync()?;
        crate::base::disk::move_new(&folder, target)
    };
    match write() {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => bail!(there(target.to_owned())),
        written => written.with_context(|| format!("cannot write {}", target.display())),
    }
}

/// What the traces say, each in its share of the tokens.
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
