//! Code paths checked beside each other: each in a process of its own, so that a kernel that loses the card's context
//! takes no other path with it, and all cores have work.

use std::io::Read;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};

use super::finding::VerifyReport;
use super::run::Choice;
use crate::compile::Target;
use crate::project::Project;

/// A verification of one code path in another process.
#[derive(Debug)]
pub struct Beside<'a> {
    /// What it verifies.
    pub target: &'a Target,
    child: Child,
}

impl<'a> Beside<'a> {
    /// Starts it.
    pub fn start(
        project: &Project,
        target: &'a Target,
        choice: &Choice,
        seed: u64,
    ) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command
            .arg("verify")
            .arg(&project.root)
            .args(["--json", "--path-arch", &target.arch.to_string()])
            .args(["--seed", &seed.to_string()])
            .args(["--device", &choice.ordinal.to_string()]);
        for dtype in &choice.dtypes {
            command.args(["--dtype", dtype.name()]);
        }
        for shape in &choice.shapes {
            command.args(["--shape", shape]);
        }
        if let Some(filter) = &choice.filter {
            command.args(["--filter", filter]);
        }
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("starting a verification of another code path")?;
        Ok(Self { target, child })
    }

    /// Waits for its report.
    pub fn finish(&mut self) -> Result<VerifyReport> {
        let mut text = String::new();
        if let Some(mut out) = self.child.stdout.take() {
            out.read_to_string(&mut text)?;
        }
        let status = self.child.wait()?;
        match serde_json::from_str::<VerifyReport>(&text) {
            Ok(report) if status.success() == report.passed() => Ok(report),
            _ => bail!(
                "the verification of compute_{} gave no report ({status})",
                self.target.arch
            ),
        }
    }
}

impl Drop for Beside<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
