//! Signatures of records, made and verified by `ssh-keygen -Y`, in `RECORD.json.sig`.
//!
//! A signature says who vouches for a record. What was measured it cannot say.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::report::file;

/// What a signature is for: one of another thing is none of a record.
const NAMESPACE: &str = "kernels-evidence";

/// Who signed a record.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Signed {
    /// Nobody.
    Not,
    /// Somebody; nobody asked who.
    Unverified,
    /// This principal of the signers' file.
    By(String),
}

/// Where the signature of a record is.
pub fn path(record: &Path) -> PathBuf {
    let mut path = record.as_os_str().to_owned();
    path.push(".sig");
    path.into()
}

/// Signs a record with a private key, or with a public one whose private key the agent holds.
pub fn sign(record: &Path, key: &Path) -> Result<PathBuf> {
    let made = make(record, key, NAMESPACE)?;
    let path = path(record);
    file::write(&path, &made)?;
    Ok(path)
}

/// A file's signature, which is for one purpose.
pub(crate) fn make(file: &Path, key: &Path, purpose: &str) -> Result<Vec<u8>> {
    ssh_keygen(&["sign", "-n", purpose, "-f", &key.to_string_lossy()], Some(file))
}

/// That a signature is of a file, whoever made it.
pub(crate) fn holds(file: &Path, signature: &Path, purpose: &str) -> Result<()> {
    ssh_keygen(&["check-novalidate", "-n", purpose, "-s", &signature.to_string_lossy()], Some(file)).map(drop)
}

/// Which of the allowed signers made the signature of a file; none of them is an error.
pub(crate) fn principal(file: &Path, signature: &Path, signers: &Path, purpose: &str) -> Result<String> {
    ensure!(signers.is_file(), "there is no file of signers {}", signers.display());
    let (signers, signature) = (signers.to_string_lossy(), signature.to_string_lossy());
    let files = ["-s", &signature, "-f", &signers];
    let wrong = || format!("{} is not signed by anyone that {signers} names", file.display());
    let found = ssh_keygen(&[&["find-principals"], &files[..]].concat(), None).with_context(wrong)?;
    let found = String::from_utf8_lossy(&found);
    let principal = found.lines().next().unwrap_or_default();
    let verify = [&["verify", "-n", purpose, "-I", principal], &files[..]].concat();
    ssh_keygen(&verify, Some(file)).with_context(wrong)?;
    Ok(principal.to_owned())
}

/// Removes a signature of what was there before.
pub(crate) fn remove(record: &Path) -> Result<()> {
    match fs::remove_file(path(record)) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", path(record).display()))
        }
        _ => Ok(()),
    }
}

/// Who signed a record. With a file of allowed signers, a record that none of them signed is an error.
pub fn verify(record: &Path, signers: Option<&Path>) -> Result<Signed> {
    let signature = path(record);
    let there = signature.is_file();
    let Some(signers) = signers else {
        return Ok(if there { Signed::Unverified } else { Signed::Not });
    };
    ensure!(there, "{} is not signed: there is no {}", record.display(), signature.display());
    Ok(Signed::By(principal(record, &signature, signers, NAMESPACE)?))
}

/// Runs `ssh-keygen -Y`, with a file as its input, and returns what it prints.
fn ssh_keygen(arguments: &[&str], input: Option<&Path>) -> Result<Vec<u8>> {
    let mut command = Command::new("ssh-keygen");
    command.arg("-Y").args(arguments).stdin(match input {
        Some(path) => Stdio::from(File::open(path).with_context(|| format!("cannot read {}", path.display()))?),
        None => Stdio::null(),
    });
    let output = command.output().context("cannot run ssh-keygen; install OpenSSH 8.2 or later")?;
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    ensure!(output.status.success(), "ssh-keygen -Y {}: {said}", arguments.first().unwrap_or(&""));
    Ok(output.stdout)
}
