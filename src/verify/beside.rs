//! Verifies a code path, or all of a project, in a child process, at the same time as others. A kernel that loses the CUDA context
//! ends only this process.

use std::fs::File;
use std::io::{Read, Seek};
use std::process::{Child, ChildStdin, Stdio};

use anyhow::{Context, Result, bail};

use super::finding::VerifyReport;
use super::turn;
use crate::project::Project;
use crate::worker::{Choice, CodePath, Request, Verify};

/// Verifies a project in another process, so that several can be verified at the same time.
///
/// # Errors
/// Those of the verification, as the other process said them.
pub(crate) fn whole(project: &Project, choice: Choice) -> Result<VerifyReport> {
    let choice = Choice { turns: choice.turns.or_else(turn::path), ..choice };
    Beside::start(project, CodePath::All, choice)?.finish("the verification")
}

/// A verification in another process.
#[derive(Debug)]
pub(super) struct Beside {
    child: Child,
    /// What it says on standard error.
    said: File,
}

impl Beside {
    pub(super) fn start(project: &Project, path: CodePath, choice: Choice) -> Result<Self> {
        let said = tempfile::tempfile().context("creating a file for what a verification says")?;
        let parent = Some(std::process::id());
        let request = Request::Verify(Verify { project: project.root.clone(), choice, path, parent });
        let child = request
            .command()?
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(said.try_clone()?)
            .spawn()
            .context("starting a verification in another process")?;
        Ok(Self { child, said })
    }

    /// Where it hears verdicts of the first code path.
    pub(super) fn hears(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    /// Waits for its report; `what` names it in errors.
    pub(super) fn finish(mut self, what: &str) -> Result<VerifyReport> {
        let mut text = String::new();
        if let Some(mut out) = self.child.stdout.take() {
            out.read_to_string(&mut text)?;
        }
        let status = self.child.wait()?;
        match serde_json::from_str::<VerifyReport>(&text) {
            Ok(report) if status.success() == report.passed() => Ok(report),
            _ => {
                let mut said = String::new();
                self.said.rewind()?;
                self.said.read_to_string(&mut said)?;
                let said = said.trim().trim_start_matches("error: ");
                if said.is_empty() {
                    bail!("{what} gave no report ({status})");
                }
                bail!("{said}")
            }
        }
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
