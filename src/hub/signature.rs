//! Signatures of a variant's metadata.json, through the program `cosign`, which speaks to sigstore.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};
use serde::Serialize;

use super::digest::{METADATA, SIGNATURE};

/// Who may have signed, by default: the workflows of kernels-community, as the Hub's library has it.
pub(crate) const COMMUNITY: &str =
    "^https://github\\.com/huggingface/kernels-community/\\.github/workflows/[a-z-]+\\.yaml@refs/heads/main$";
const ISSUER: &str = "https://token.actions.githubusercontent.com";

/// What is known of a signature.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(tag = "signature", rename_all = "kebab-case")]
pub(crate) enum Signature {
    None,
    Valid,
    Invalid { why: String },
    Unchecked { why: String },
}

/// Checks that somebody whose identity matches `signer` signed the metadata.json of a variant.
pub(crate) fn check(variant: &Path, signer: &str) -> Result<Signature> {
    let bundle = variant.join(SIGNATURE);
    if !bundle.is_file() {
        return Ok(Signature::None);
    }
    let mut command = Command::new("cosign");
    command.args(["verify-blob", "--certificate-oidc-issuer", ISSUER, "--certificate-identity-regexp", signer]);
    command.arg("--bundle").arg(bundle).arg(variant.join(METADATA)).stdin(Stdio::null());
    let output = match command.output() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let why = "cosign, which checks signatures, is not installed".to_owned();
            return Ok(Signature::Unchecked { why });
        }
        output => output.context("cannot start cosign")?,
    };
    if output.status.success() {
        return Ok(Signature::Valid);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let why = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ");
    Ok(Signature::Invalid { why })
}
