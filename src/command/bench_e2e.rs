//! `kernels bench --e2e`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Error, Result, anyhow, bail};
use serde_json::json;

use super::failure::Usage;
use super::prepare;
use crate::against::Interpreter;
use crate::base::text::for_shell;
use crate::cli::project::Bench;
use crate::end_to_end::{EndToEnd, SCRIPT, Written, run as run_script, sources};
use crate::evidence;
use crate::evidence::end_to_end::SOME_CASES;
use crate::gpu;
use crate::project::TorchProject;
use crate::report::table::window;
use crate::report::{Output, end_to_end, style};
use crate::variant;

/// Runs a project's script and shows what it found; exit 1 where something was wrong or failed.
pub(super) fn run(arguments: &Bench, output: Output) -> Result<ExitCode> {
    for path in &arguments.export {
        if end_to_end::ending(path).is_none() {
            return Err(Usage(format!(
                "--export {}: with --e2e the ending must be one of .json, .md, .svg",
                path.display()
            ))
            .into());
        }
    }
    let dir = &arguments.dir;
    if !dir.join(SCRIPT).is_file() {
        bail!(
            "there is no {}: --e2e times a whole model by this script of a project, which says how the model is built \
             and what a step of it is; docs/end-to-end.md tells how to write one, and examples/ltx_video has one",
            dir.join(SCRIPT).display()
        );
    }
    let folder = evidence::folder(dir, arguments.evidence.as_deref());
    if arguments.record {
        // Said before the script is run, which takes minutes.
        evidence::end_to_end::seen_from(&folder, dir)?;
        let some_cases = |one: &OsString| one.to_string_lossy().split('=').next() == Some(SOME_CASES);
        if arguments.script.iter().any(some_cases) {
            let cards = gpu::probe().unwrap_or_default();
            let card = cards.first().map(|card| card.name.as_str());
            evidence::end_to_end::can_be_completed(&folder, dir, card)?;
        }
    }
    let python = Interpreter::find(arguments.python.as_ref(), "--e2e")?;
    let mut given: Vec<OsString> = Vec::new();
    if let Some(rounds) = arguments.rounds {
        given.extend(["--rounds".into(), rounds.to_string().into()]);
    }
    given.extend(arguments.script.iter().cloned());
    // Which files beside the project count is known only from the result; this detects a change during the run.
    let before = sources::digest(dir, &[])?;
    let Written { result, unfinished } = run_script(dir, &python, &given, output.is_talkative())?;
    show(&result, output);
    for path in &arguments.export {
        end_to_end::write(&result, path)?;
        output.note(format!("wrote {}", path.display()));
    }
    let mut recorded = Vec::new();
    if arguments.record && unfinished.is_none() {
        if sources::digest(dir, &[])? != before {
            let error = anyhow!("nothing is recorded: sources were changed while they were timed");
            return Err(kept(error, &result, &arguments.export));
        }
        if let Some(doubt) = doubt(dir, &result) {
            output.note(format!("{} {doubt}", style::warning("remark")));
        }
        recorded = evidence::end_to_end::record(&folder, dir, &result)
            .map_err(|error| kept(error, &result, &arguments.export))?;
        for path in &recorded {
            let record = path.extension().is_some_and(|ending| ending == "json");
            let signed = if record { prepare::signed(path, arguments.sign.as_deref())? } else { String::new() };
            output.note(format!("recorded {}{signed}", path.display()));
        }
    }
    let findings = result.findings();
    output.json(&json!({ "result": result, "findings": findings, "recorded": recorded }));
    if let Some(why) = unfinished {
        bail!("{why}");
    }
    Ok(if findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Why nothing was recorded, and where the result is even so, if it took minutes to measure.
fn kept(error: Error, result: &EndToEnd, exported: &[PathBuf]) -> Error {
    if result.smoke {
        return error;
    }
    let json = |path: &&PathBuf| path.extension().is_some_and(|ending| ending == "json");
    let kept = || -> Result<PathBuf> {
        if let Some(path) = exported.iter().find(json) {
            return Ok(path.clone());
        }
        let file = tempfile::Builder::new().prefix("kernels-e2e-").suffix(".json").tempfile()?;
        end_to_end::write(result, file.path())?;
        Ok(file.into_temp_path().keep()?)
    };
    match kept() {
        Ok(path) => anyhow!("{error:#}; what was timed is in {}", path.display()),
        Err(_) => error,
    }
}

/// A remark if the timed build may come from other sources. It is not an error, because a build of the same sources by
/// another compiler has another name.
fn doubt(dir: &Path, result: &EndToEnd) -> Option<String> {
    let timed = result.kernel.get("id")?.as_ref()?;
    let project = TorchProject::open(dir).ok()?;
    let capability = &result.card.as_ref()?.capability;
    let arch: Option<u32> = capability.replace('.', "").parse().ok();
    let ids: Vec<String> =
        [Vec::new(), arch.into_iter().collect()].iter().filter_map(|archs| variant::id(&project, archs).ok()).collect();
    (!ids.is_empty() && !ids.contains(timed)).then(|| {
        format!(
            "the kernel that was timed is {timed}, and this machine's compilers would build {} of the sources that are \
             here: was it built before they were changed? `kernels build --torch {}`",
            ids[0],
            for_shell(dir)
        )
    })
}

fn show(result: &EndToEnd, output: Output) {
    let card = result.card.as_ref().map_or("no card", |card| &card.name);
    let torch = result.versions.get("torch").map_or("?", String::as_str);
    output.line(format!(
        "{} {}",
        style::strong(&result.title),
        style::faint(format!("{card}, torch {torch}, torch.compile in mode {}", result.compile_mode))
    ));
    for line in end_to_end::times(result).lines(window()) {
        output.line(line);
    }
    if let Some(table) = end_to_end::profiles(result) {
        output.line("");
        output.line("Where the time goes, ms:");
        for line in table.lines(window()) {
            output.line(line);
        }
    }
    for remark in end_to_end::remarks(result) {
        output.line(format!("{} {remark}", style::warning("remark")));
    }
}
