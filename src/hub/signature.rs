//! Signatures of a variant's metadata.json. `cosign` makes and checks those beside it, which the Hub's library reads;
//! `ssh-keygen` those in `signatures/`, because the library allows no file in a variant that its digests do not list.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};
use serde::Serialize;

use super::digest::{METADATA, SIGNATURE};
use crate::evidence::signature as ssh;

/// Who may have signed, by default: the workflows of kernels-community that the Hub's library trusts.
const COMMUNITY: &str = "^https://github\\.com/huggingface/kernels-community/\\.github/workflows/\
    (build|build-mac|build-windows|sign-old-builds)\\.yaml@refs/heads/main$";
const ISSUER: &str = "https://token.actions.githubusercontent.com";
/// Where signatures by SSH keys lie on a version's branch.
pub(crate) const FOLDER: &str = "signatures";
/// The namespace of these signatures, so that a signature made for another purpose is not valid for a variant.
const PURPOSE: &str = "kernels-variant";

/// What to sign with.
#[derive(Clone, Debug)]
pub(crate) enum Signer {
    /// cosign with a key, which is a file that it encrypted or an address such as `awskms://…`, or without one, with an
    /// identity that GitHub or a login in a browser proves.
    Cosign(Option<String>),
    Ssh(PathBuf),
}

/// Who must have signed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wanted<'a> {
    /// Nobody; if it is signed, the signer is shown.
    Anybody,
    /// An identity that matches this regular expression.
    Identity(&'a str),
    /// A public key of cosign, or one of the allowed signers of `ssh-keygen`.
    Key(&'a Path),
}

/// The result of checking a signature.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(tag = "signature", rename_all = "kebab-case")]
pub(crate) enum Signature {
    None,
    Valid { by: String },
    Invalid { why: String },
    Unchecked { why: String },
}

/// The path of the metadata.json that the file at this path of a repository signs.
pub(super) fn signed(path: &str) -> Option<String> {
    let beside = || path.strip_suffix(SIGNATURE).filter(|folder| folder.ends_with('/'));
    by_ssh(path).or_else(|| Some(format!("{}{METADATA}", beside()?)))
}

/// The same for signatures by SSH keys only.
pub(super) fn by_ssh(path: &str) -> Option<String> {
    let variant = path.strip_prefix(FOLDER)?.strip_prefix('/')?.strip_suffix(".sig")?;
    Some(format!("build/{variant}/{METADATA}"))
}

impl Signer {
    /// The signer for the value of `--sign=`; an empty value means an identity.
    pub(crate) fn parse(key: &str) -> Result<Self> {
        if key.is_empty() || key.contains("://") {
            return Ok(Self::Cosign(Some(key.to_owned()).filter(|key| !key.is_empty())));
        }
        let bytes = fs::read(key).with_context(|| format!("cannot read the key {key}"))?;
        let cosign = bytes.starts_with(b"-----BEGIN ENCRYPTED ");
        Ok(if cosign { Self::Cosign(Some(key.to_owned())) } else { Self::Ssh(key.into()) })
    }

    /// Where the signature of a variant lies in the repository.
    pub(crate) fn place(&self, variant: &str) -> String {
        match self {
            Self::Ssh(_) => format!("{FOLDER}/{variant}.sig"),
            Self::Cosign(_) => format!("build/{variant}/{SIGNATURE}"),
        }
    }

    /// The signature of a metadata.json.
    pub(crate) fn sign(&self, metadata: &Path) -> Result<Vec<u8>> {
        let key = match self {
            Self::Ssh(key) => return ssh::make(metadata, key, PURPOSE),
            Self::Cosign(key) => key,
        };
        let folder = tempfile::tempdir().context("cannot make a folder for temporary files")?;
        let bundle = folder.path().join(SIGNATURE);
        let mut command = Command::new("cosign");
        command.arg("sign-blob").arg(metadata).arg("--bundle").arg(&bundle).arg("--yes");
        if let Some(key) = key {
            command.args(["--key", key]);
        }
        // It may ask for a password, or for a login in the browser.
        let output = match command.stdin(Stdio::inherit()).stderr(Stdio::inherit()).output() {
            Err(error) if error.kind() == ErrorKind::NotFound => bail!(
                "cosign, which signs, is not installed (https://docs.sigstore.dev/cosign/system_config/installation); \
                 --sign=KEY signs with an SSH key instead"
            ),
            output => output.context("cannot start cosign")?,
        };
        ensure!(output.status.success(), "cosign did not sign {} ({})", metadata.display(), output.status);
        let made = fs::read(&bundle).with_context(|| format!("cosign wrote no signature of {}", metadata.display()))?;
        let bundled =
            serde_json::from_slice(&made).is_ok_and(|bundle: serde_json::Value| bundle["mediaType"].is_string());
        ensure!(
            bundled,
            "this cosign writes signatures that the Hub's library does not read: install version 3 or later"
        );
        Ok(made)
    }
}

/// Checks the signatures of a variant's metadata.json: cosign's beside it, and an SSH key's in another file.
pub(crate) fn check(variant: &Path, by_ssh: Option<&Path>, wanted: Wanted) -> Result<Signature> {
    let (metadata, bundle) = (variant.join(METADATA), variant.join(SIGNATURE));
    let by_cosign = bundle.is_file();
    let through = |arguments: &[&str], by: &str| through_cosign(arguments, &bundle, &metadata, by);
    match (wanted, by_ssh) {
        (Wanted::Key(key), by_ssh) if !is_of_cosign(key)? => match by_ssh {
            Some(signature) => Ok(match ssh::principal(&metadata, signature, key, PURPOSE) {
                Ok(by) => Signature::Valid { by },
                Err(error) => Signature::Invalid { why: format!("{error:#}") },
            }),
            None if by_cosign => Ok(unchecked("it is signed through cosign, and --key names keys of SSH")),
            None => Ok(Signature::None),
        },
        (Wanted::Key(key), _) if by_cosign => through(&["--key", &key.to_string_lossy()], &key.to_string_lossy()),
        (Wanted::Identity(signer), _) if by_cosign => through(&identity(signer), signer),
        (Wanted::Anybody, _) if by_cosign => match through(&identity(COMMUNITY), "kernels-community")? {
            Signature::Invalid { .. } if has_key(&bundle) => {
                Ok(unchecked("it is signed with a key of cosign: name the public one with --key"))
            }
            Signature::Invalid { .. } => {
                let any = ["--certificate-oidc-issuer-regexp", ".*", "--certificate-identity-regexp", ".*"];
                Ok(match through(&any, "")? {
                    Signature::Valid { .. } => {
                        unchecked("somebody else than kernels-community signed it: name who may have with --signer")
                    }
                    other => other,
                })
            }
            other => Ok(other),
        },
        (Wanted::Anybody, Some(signature)) => Ok(match ssh::holds(&metadata, signature, PURPOSE) {
            Ok(()) => unchecked("it is signed with an SSH key: name who may have signed it with --key"),
            Err(error) => Signature::Invalid { why: format!("{error:#}") },
        }),
        (_, Some(_)) => Ok(unchecked("it is signed with an SSH key alone: --key with a file of signers checks that")),
        (_, None) => Ok(Signature::None),
    }
}

fn unchecked(why: &str) -> Signature {
    Signature::Unchecked { why: why.to_owned() }
}

fn identity(signer: &str) -> [&str; 4] {
    ["--certificate-oidc-issuer", ISSUER, "--certificate-identity-regexp", signer]
}

/// Whether a file has a public key as cosign writes it. SSH's allowed signers are one per line, without such a header.
fn is_of_cosign(key: &Path) -> Result<bool> {
    let bytes = fs::read(key).with_context(|| format!("cannot read {}", key.display()))?;
    Ok(bytes.trim_ascii_start().starts_with(b"-----BEGIN "))
}

/// Whether this signature was made with a key, without a certificate that names the signer.
fn has_key(bundle: &Path) -> bool {
    let read = || serde_json::from_slice::<serde_json::Value>(&fs::read(bundle).ok()?).ok();
    read().is_some_and(|bundle| bundle["verificationMaterial"]["publicKey"].is_object())
}

fn through_cosign(arguments: &[&str], bundle: &Path, metadata: &Path, by: &str) -> Result<Signature> {
    let mut command = Command::new("cosign");
    command.arg("verify-blob").args(arguments).arg("--bundle").arg(bundle).arg(metadata).stdin(Stdio::null());
    let output = match command.output() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Ok(unchecked("cosign, which checks signatures, is not installed"));
        }
        output => output.context("cannot start cosign")?,
    };
    if output.status.success() {
        return Ok(Signature::Valid { by: by.to_owned() });
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let why = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ");
    Ok(Signature::Invalid { why })
}
