//! `kernels toolchain`.

use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use serde_json::{Value, json};

use crate::cli::project::{Toolchain as Arguments, ToolchainCommand};
use crate::report::{Output, style};
use crate::toolchain::{self, HostCompiler, PINNED_TORCH, Toolchain, Torch, Version};

/// Shows which nvcc would be used, or installs the pinned one; exit 1 when there is none.
pub(crate) fn run(arguments: &Arguments, output: Output) -> Result<ExitCode> {
    match &arguments.command {
        None => Ok(show(output)),
        Some(ToolchainCommand::Install { python, force, torch: true }) => install_torch(python, *force, output),
        Some(ToolchainCommand::Install { python, force, .. }) => {
            let progress = output.is_talkative() && std::io::stderr().is_terminal();
            let tell = |line: &str| output.note(line);
            let installed = toolchain::install(python, *force, progress, &tell)?;
            let found = &installed.toolchain;
            output.line(format!(
                "{} nvcc {} {}",
                style::good(if installed.already { "already there:" } else { "installed" }),
                found.version,
                style::faint(found.nvcc.display())
            ));
            // Another toolkit may take precedence; say so to a user who just installed this one.
            let used = Toolchain::find().ok();
            if let Some(other) = used.as_ref().filter(|used| used.nvcc != found.nvcc) {
                output.line(format!(
                    "{} nvcc {} from {} comes first: {}",
                    style::warning("note"),
                    other.version,
                    other.origin,
                    other.nvcc.display()
                ));
            }
            output.json(&json!({
                "installed": !installed.already,
                "toolchain": toolchain_json(found),
                "used": used.as_ref().map(toolchain_json),
            }));
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn install_torch(python: &Path, force: bool, output: Output) -> Result<ExitCode> {
    let progress = output.is_talkative() && std::io::stderr().is_terminal();
    let tell = |line: &str| output.note(line);
    let installed = toolchain::install_torch(python, force, progress, &tell)?;
    let found = &installed.torch;
    output.line(format!(
        "{} headers of torch {} {}",
        style::good(if installed.already { "already there:" } else { "installed" }),
        found.version,
        style::faint(found.folder.display())
    ));
    // An active environment's torch may take precedence; say so to a user who just installed this one.
    let used = Torch::find(None, found.release).ok();
    if let Some(other) = used.as_ref().filter(|used| used.folder != found.folder) {
        output.line(format!(
            "{} torch {} from {} comes first: {}",
            style::warning("note"),
            other.version,
            other.origin,
            other.folder.display()
        ));
    }
    output.json(&json!({
        "installed": !installed.already,
        "torch": torch_json(found),
        "used": used.as_ref().map(torch_json),
    }));
    Ok(ExitCode::SUCCESS)
}

fn torch_json(found: &Torch) -> Value {
    json!({
        "folder": found.folder.to_string_lossy(),
        "version": found.version,
        "cuda": found.cuda,
        "origin": found.origin,
    })
}

fn show(output: Output) -> ExitCode {
    let used = Toolchain::find();
    let host = HostCompiler::find();
    let rows = show_candidates(used.as_ref().ok(), output);
    match &host {
        Ok(host) => {
            let cpu = if host.is_native() { String::new() } else { format!(" for {}", host.cpu) };
            output.line(format!(
                "host   {}{cpu}  {}  {}",
                host.version,
                host.origin,
                style::faint(host.path.display())
            ));
        }
        Err(error) => output.line(format!("{} {error}", style::bad("host  "))),
    }
    let torch = show_torch(output);
    if used.is_ok() {
        output.line(style::faint(
            "order: CUDA_HOME, PATH, /usr/local/cuda*, /opt/cuda, an active venv's wheels, the cache",
        ));
    }
    output.json(&json!({
        "used": used.as_ref().ok().map(toolchain_json),
        "problem": used.as_ref().err().map(ToString::to_string),
        "candidates": rows,
        "host_compiler": host.as_ref().ok().map(host_json),
        "host_compiler_problem": host.as_ref().err().map(ToString::to_string),
        "pinned": Toolchain::PINNED,
        "torch": torch.as_ref().ok().map(torch_json),
        "torch_problem": torch.as_ref().err().map(ToString::to_string),
    }));
    if let Err(error) = &used {
        output.error(format!("{} {error}", style::bad("error:")));
    }
    if used.is_ok() && host.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Prints a line per candidate toolkit, and returns the same as JSON.
fn show_candidates(used: Option<&Toolchain>, output: Output) -> Vec<Value> {
    let candidates = toolchain::candidates();
    let mut rows = Vec::new();
    let mut chosen = false;
    for candidate in &candidates {
        let first = !chosen
            && match (used, &candidate.found) {
                (Some(used), Ok(found)) => used.nvcc == found.nvcc,
                _ => false,
            };
        chosen |= first;
        let (word, what) = match &candidate.found {
            Ok(found) if first => (style::good("used  "), describe(found)),
            Ok(found) => (style::faint("found "), describe(found)),
            Err(why) => (style::bad("broken"), why.clone()),
        };
        output.line(format!("{word} {what}  {}  {}", candidate.origin, style::faint(candidate.folder.display())));
        rows.push(json!({
            "origin": candidate.origin,
            "folder": candidate.folder.to_string_lossy(),
            "used": first,
            "toolchain": candidate.found.as_ref().ok().map(toolchain_json),
            "problem": candidate.found.as_ref().err(),
        }));
    }
    rows
}

/// The headers of torch, which `kernels build --torch` alone needs.
fn show_torch(output: Output) -> Result<Torch, toolchain::ToolchainError> {
    let oldest = Version::parse(PINNED_TORCH).unwrap_or(Version { major: 2, minor: 11 });
    let torch = Torch::find(None, oldest);
    match &torch {
        Ok(torch) => {
            output.line(format!(
                "torch  {}  {}  {}",
                torch.version,
                torch.origin,
                style::faint(torch.folder.display())
            ));
        }
        Err(_) => output
            .line(style::faint("torch  no headers; for `kernels build --torch`: `kernels toolchain install --torch`")),
    }
    torch
}

/// `nvcc 13.0.88 (pinned)`
pub(super) fn describe(found: &Toolchain) -> String {
    let pinned = if found.is_pinned() { " (pinned)" } else { "" };
    format!("nvcc {}{pinned}", found.version)
}

pub(super) fn toolchain_json(found: &Toolchain) -> Value {
    json!({
        "nvcc": found.nvcc.to_string_lossy(),
        "version": found.version,
        "origin": found.origin,
        "pinned": found.is_pinned(),
    })
}

pub(super) fn host_json(host: &HostCompiler) -> Value {
    json!({
        "path": host.path.to_string_lossy(),
        "version": host.version,
        "origin": host.origin,
        "cpu": host.cpu,
    })
}
