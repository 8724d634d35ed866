//! Verifies a code path in a child process, at the same time as the others. A kernel that loses the CUDA context ends
//! only this process.

use std::io::Read;
use std::process::{Child, ChildStdin, Stdio};

use anyhow::{Context, Result, bail};

use super::finding::VerifyReport;
use crate::compile::Target;
use crate::project::Project;
use crate::worker::{Choice, CodePath, Request, Verify};

/// A verification of one code path in another process.
#[derive(Debug)]
pub(super) struct Beside<'a> {
    pub(super) target: &'a Target,
    child: Child,
}

impl<'a> Beside<'a> {
    pub(super) fn start(project: &Project, target: &'a Target, choice: Choice) -> Result<Self> {
        let (project, path) = (project.root.clone(), CodePath::Arch(target.arch));
        let request = Request::Verify(Verify { project, choice, path });
        let child = request
            .command()?
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("starting the verification of another code path")?;
        Ok(Self { target, child })
    }

    /// Where it hears verdicts of the first code path.
    pub(super) fn hears(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    /// Waits for its report.
    pub(super) fn finish(&mut self) -> Result<VerifyReport> {
        let mut text = String::new();
        if let Some(mut out) = self.child.stdout.take() {
            out.read_to_string(&mut text)?;
        }
        let status = self.child.wait()?;
        match serde_json::from_str::<VerifyReport>(&text) {
            Ok(report) if status.success() == report.passed() => Ok(report),
            _ => bail!("the verification of compute_{} gave no report ({status})", self.target.arch),
        }
    }
}

impl Drop for Beside<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
