//! `kernels publish`.

use std::io::IsTerminal as _;
use std::process::ExitCode;

use anyhow::Result;
use serde_json::{Value, json};

use crate::against::Interpreter;
use crate::base::plural;
use crate::cli::hub::Publish;
use crate::hub::Hub;
use crate::hub::load::Trial;
use crate::hub::local::{Local, Options};
use crate::hub::plan::Change;
use crate::hub::publish::{self, How, Plan, Published};
use crate::hub::signature::Signer;
use crate::report::{Output, style};

/// The printed plan names at most this many files of a kind.
const NAMED: usize = 12;

pub(super) fn run(arguments: &Publish, output: Output) -> Result<ExitCode> {
    let options = Options {
        repo: arguments.repo.as_ref(),
        branch: arguments.branch.as_deref(),
        evidence: arguments.evidence.as_deref(),
        allow_dirty: arguments.allow_dirty,
        unproved: arguments.unproved,
    };
    let signer = arguments.sign.as_deref().map(Signer::parse).transpose()?;
    let mut local = Local::read(&arguments.dir, options)?;
    let trial = Trial::prepare(&local, arguments.python.as_ref())?;
    let python = Interpreter::chosen(arguments.python.as_ref());
    let hub = Hub::open(Some(&local.repo))?;
    let how = How {
        private: arguments.private,
        pull_request: arguments.create_pr,
        tag: arguments.tag.as_deref(),
        force: arguments.force,
        trial: trial.as_ref().ok(),
        python: &python,
    };
    let mut signs = Vec::new();
    if arguments.dry_run || signer.is_some() {
        let plan = publish::plan(&hub, &local, how)?;
        signs = signer.as_ref().map(|signer| unsigned(signer, &plan, &local, how)).unwrap_or_default();
        if arguments.dry_run {
            show(&plan, &local, &hub, output);
            for name in &signs {
                output.line(format!("  {} {name}", style::good("sign")));
            }
            let mut report = report("dry_run", &local, &hub, &plan);
            report["signs"] = json!(signs);
            report["loads"] = match &trial {
                Ok(trial) => {
                    output.line(format!("  {} {}", style::good("load"), trial.variant));
                    json!({"variant": trial.variant})
                }
                Err(why) => not_loaded(why, output),
            };
            output.json(&report);
            return Ok(ExitCode::SUCCESS);
        }
    }
    // After all checks, because an identity's signatures are written to a public log.
    if let Some(signer) = &signer {
        local.sign(signer, &signs)?;
    }
    let progress = output.is_talkative() && std::io::stderr().is_terminal();
    let tell = |line: &str| {
        if progress {
            output.note(style::faint(line));
        }
    };
    let published = publish::publish(&hub, &local, how, &tell)?;
    warn(&published.plan, &local, output);
    let mut report = done(&published, &local, &signs, &hub, output);
    report["loaded"] = loaded(&published, trial.err().as_deref(), output);
    output.json(&report);
    Ok(ExitCode::SUCCESS)
}

/// Prints and returns what the Hub's library loaded, or why it loaded nothing.
fn loaded(published: &Published, why: Option<&str>, output: Output) -> Value {
    if let Some(loaded) = &published.loaded {
        let (names, library) = (plural(loaded.names.len(), "name"), &loaded.library);
        let with = style::faint(format!("library {library}, torch {}", loaded.torch));
        output.line(format!("  {} {} through get_kernel: {names}, {with}", style::good("loaded"), loaded.variant));
        return json!(loaded);
    }
    if published.compared == 0 && published.pull_requests.is_empty() {
        return json!({"variant": null, "why": "no variant was changed"});
    }
    not_loaded(why.unwrap_or_default(), output)
}

fn not_loaded(why: &str, output: Output) -> Value {
    output.note(format!("{} not loaded through get_kernel: {why}", style::warning("warning")));
    json!({"variant": null, "why": why})
}

/// The variants whose metadata.json has no such signature on the Hub.
fn unsigned(signer: &Signer, plan: &Plan, local: &Local, how: How) -> Vec<String> {
    let kept = plan.branches.first().map(|change| &change.signatures);
    let wants = |name: &&String| how.force || kept.is_none_or(|kept| !kept.contains(&signer.place(name)));
    local.variants.iter().map(|variant| &variant.name).filter(wants).cloned().collect()
}

fn done(published: &Published, local: &Local, signed: &[String], hub: &Hub, output: Output) -> Value {
    let page = publish::page(hub, &local.repo, &local.branch);
    let status = if !published.pull_requests.is_empty() {
        for (branch, url) in &published.pull_requests {
            output.line(format!("{} the change of {branch}: {url}", style::good("proposed")));
        }
        "pull_request_created"
    } else if published.changed_nothing() {
        output.line(format!("{} {page}", style::good("unchanged")));
        "no_changes"
    } else {
        output.line(format!("{} {page}", style::good("published")));
        for variant in &local.variants {
            output.line(format!("  {} {}", variant.name, style::faint(plural(variant.files.len(), "file"))));
        }
        for name in signed {
            output.line(format!("  {} {name}", style::good("signed")));
        }
        if published.compared > 0 {
            output.line(format!("  {} read back and compared", plural(published.compared, "file")));
        }
        "uploaded"
    };
    let mut report = report(status, local, hub, &published.plan);
    report["commit"] = published.commit.clone().into();
    report["read_back"] = published.compared.into();
    report["signed"] = json!(signed);
    let requests = published.pull_requests.iter().map(|(branch, url)| json!({"branch": branch, "url": url}));
    report["pull_requests"] = requests.collect();
    report
}

/// The report: the keys of upstream's own tool, and ours.
fn report(status: &str, local: &Local, hub: &Hub, plan: &Plan) -> Value {
    json!({
        "status": status,
        "repo_id": local.repo.to_string(),
        "branch": local.branch,
        "url": publish::page(hub, &local.repo, &local.branch),
        "pull_requests": [],
        "endpoint": hub.endpoint(),
        "version": local.version,
        "variants": local.variants.iter().map(|variant| &variant.name).collect::<Vec<_>>(),
        "proved": local.proof.is_whole(),
        "gaps": local.proof.gaps,
        "benchmarks": local.benchmarks.iter().map(|file| &file.path).collect::<Vec<_>>(),
        "benchmarks_left_out": local.left_out,
        "plan": plan,
    })
}

fn show(plan: &Plan, local: &Local, hub: &Hub, output: Output) {
    output.line(format!("{} on {}", style::strong(&local.repo), hub.endpoint()));
    if plan.creates_repository {
        output.line(format!("  {} the repository", style::good("create")));
    }
    for change in &plan.branches {
        branch(change, output);
    }
    if let Some(tag) = &plan.tag {
        output.line(format!("  {} tag {tag}", style::good("create")));
    }
    warn(plan, local, output);
}

fn branch(change: &Change, output: Output) {
    let new = if change.new { ", new" } else { "" };
    output.line(format!("  {}{new}: {} unchanged", style::strong(&change.branch), change.unchanged));
    for (word, paths) in [
        (style::good("add    "), &change.adds),
        (style::warning("replace"), &change.replaces),
        (style::bad("delete "), &change.deletes),
    ] {
        for path in paths.iter().take(NAMED) {
            output.line(format!("    {word} {path}"));
        }
        if paths.len() > NAMED {
            output.line(format!("    {word} {} more", paths.len() - NAMED));
        }
    }
}

/// Prints warnings and notes about what is published.
fn warn(plan: &Plan, local: &Local, output: Output) {
    let lost = &plan.public_api.lost;
    if !lost.is_empty() {
        output.note(format!(
            "{} users of version {} lose {}: raise `version` in build.toml to keep them",
            style::warning("warning"),
            local.version,
            lost.join(", ")
        ));
    }
    if !local.proof.is_whole() {
        output.note(format!("{} published as not verified: no evidence covers it", style::warning("warning")));
    }
    for file in &local.left_out {
        output.note(format!(
            "{} {file} is not published: `kernels benchmark` stops at a file without a class of kernels.benchmark.Benchmark",
            style::warning("note")
        ));
    }
    if local.source.is_none() {
        output.note(format!("{} the sources lie in no git repository; the commit names none", style::warning("note")));
    }
}
