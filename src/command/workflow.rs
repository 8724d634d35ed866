//! The GitHub workflow that `kernels ci --workflow` prints.

use std::fmt::Write as _;
use std::path::{Component, Path, PathBuf};

use anyhow::Result;

use crate::base::text::for_shell;
use crate::cli::project::Ci;
use crate::command::failure::Usage;
use crate::hub::local;
use crate::project::TorchProject;
use crate::toolchain::{PINNED_TORCH, Toolchain};

const TEMPLATE: &str = include_str!("workflow.yml");
const PROGRAM: &str = include_str!("workflow-program.yml");
const TORCH: &str = include_str!("workflow-torch.yml");
const PUBLISH: &str = include_str!("workflow-publish.yml");

/// The version of the Hub's library that the workflow installs.
const LIBRARY: &str = "0.17.2";

/// The workflow for some projects, relative to the repository's top, with the program from a release or a commit; with
/// `publish` it has a job that publishes them.
pub(super) fn render(arguments: &Ci) -> Result<String> {
    let Ci { dirs, from, .. } = arguments;
    let publish = if arguments.publish { publishing(dirs)? } else { String::new() };
    let for_torch = dirs.iter().any(|dir| TorchProject::is_one(dir));
    let mut dirs = dirs.iter().map(|dir| quoted(dir)).collect::<Result<Vec<_>>>()?.join(" ");
    for (option, path) in [("--evidence", &arguments.evidence), ("--signers", &arguments.signers)] {
        if let Some(path) = path {
            let _ = write!(dirs, " {option} {}", quoted(path)?);
        }
    }
    let from = match from.as_deref() {
        Some(from) => source(from)?,
        None => "${{ vars.KERNELS_FROM }}",
    };
    let (torch, flags) = if for_torch { (TORCH, " --require-torch") } else { ("", "") };
    let parts = [("@PROGRAM@\n", PROGRAM), ("@TORCH@\n", torch), (" @FLAGS@", flags)];
    let versions = [("@PINNED@", Toolchain::PINNED), ("@TORCH_VERSION@", PINNED_TORCH), ("@LIBRARY@", LIBRARY)];
    // What the user typed is inserted last, because it may contain another placeholder.
    let typed = [("@FROM@", from), ("@DIRS@", &dirs)];
    let all = parts.into_iter().chain(versions).chain(typed);
    Ok(all.fold(format!("{TEMPLATE}{publish}"), |text, (name, value)| text.replace(name, value)))
}

/// The job that publishes, with a step per project, because the job's identity is exchanged for a token of one repository.
fn publishing(dirs: &[PathBuf]) -> Result<String> {
    let (mut builds, mut subjects, mut publishes) = (String::new(), String::new(), String::new());
    for dir in dirs {
        let repo = local::repo(&TorchProject::open(dir)?, None)?;
        let path = quoted(dir)?;
        if !path.chars().all(|c| c.is_ascii_alphanumeric() || "./_-".contains(c)) {
            return Err(Usage(format!(
                "--publish: {path}: a path in an attestation has letters, digits and ./_- alone"
            ))
            .into());
        }
        // Whatever variants the repository holds, the job attests and publishes what it has built itself.
        let _ = writeln!(builds, "      - run: rm -rf {path}/build && kernels build --torch {path}");
        for file in ["metadata.json", "*.so"] {
            let _ = writeln!(subjects, "            {path}/build/*/{file}");
        }
        let _ = writeln!(
            publishes,
            "      - run: kernels publish {path} --tag \"$GITHUB_REF_NAME\" --sign\n        env:\n          HF_OIDC_RESOURCE: kernels/{repo}"
        );
    }
    let parts = [("@BUILDS@\n", builds), ("@SUBJECTS@\n", subjects), ("@PUBLISHES@\n", publishes)];
    Ok(parts.into_iter().fold(PUBLISH.to_owned(), |text, (name, value)| text.replace(name, &value)))
}

/// A release or a commit, `https://github.com/OWNER/REPOSITORY@v1.2.3`. It is inserted into the YAML without quotes.
fn source(from: &str) -> Result<&str> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/.:_-@".contains(c);
    let parts = from.rsplit_once('@').filter(|(url, tag)| url.contains("://") && !tag.is_empty() && !tag.contains('/'));
    if parts.is_none() || !from.chars().all(plain) {
        return Err(Usage(format!(
            "--from {from}: name a release or a commit, such as https://github.com/OWNER/REPOSITORY@v1.2.3"
        ))
        .into());
    }
    Ok(from)
}

/// Quotes a path for the shell of a step, inside a YAML block, where GitHub expands `${{ }}` before the shell runs.
fn quoted(dir: &Path) -> Result<String> {
    let is_inside = dir.is_relative() && !dir.components().any(|part| part == Component::ParentDir);
    let fits = |text: &str| is_inside && !text.contains("${{") && !text.chars().any(char::is_control);
    if !dir.to_str().is_some_and(fits) {
        return Err(Usage(format!(
            "{} cannot stand in a workflow: name it by its path from the repository's top",
            dir.display()
        ))
        .into());
    }
    Ok(for_shell(dir))
}
