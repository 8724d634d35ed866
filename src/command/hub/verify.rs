//! `kernels hub verify`.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{functions, wanted};
use crate::base::plural;
use crate::base::repo::version_of;
use crate::cli::hub::Verify;
use crate::hub::Hub;
use crate::hub::digest::Metadata;
use crate::hub::signature::{self, Signature, Wanted};
use crate::hub::variants::{Kernel, Remote};
use crate::report::{Output, style};

pub(super) fn run(hub: &Hub, arguments: &Verify, output: Output) -> Result<ExitCode> {
    // An error for what is missing to run it comes before anything is fetched.
    let harness = functions::Harness::open(arguments)?;
    let kernel = Kernel::find(hub, &arguments.kernel)?;
    let chosen =
        harness.as_ref().map(|harness| harness.choose(&kernel, arguments.which.variant.as_deref())).transpose()?;
    let signer = match (&arguments.key, &arguments.signer) {
        (Some(key), _) => Wanted::Key(key),
        (None, Some(signer)) => Wanted::Identity(signer),
        (None, None) => Wanted::Anybody,
    };
    let mut rows: Vec<Value> = Vec::new();
    let mut all = true;
    for variant in kernel.wanted(wanted(&arguments.which))? {
        let scratch = TempDir::with_prefix("kernels-verify-").context("cannot make a folder for temporary files")?;
        let folder = scratch.path().join("build").join(&variant.name.text);
        kernel.download(hub, variant, &folder)?;
        let by_ssh = scratch.path().join("signature");
        let by_ssh = kernel.download_signature(hub, variant, &by_ssh)?.then_some(by_ssh);
        let signature = signature::check(&folder, by_ssh.as_deref(), signer)?;
        let (mut ok, mut row) = files(&kernel, variant, &folder, (&signature, signer), output)?;
        if let (Some(harness), true) = (&harness, chosen.as_deref() == Some(&variant.name.text)) {
            if ok {
                row["functions"] = harness.run(scratch.path(), &variant.name, output)?;
                ok = row["functions"]["ok"] == true;
            } else {
                output.error("  its functions were not run: these are not the files that were published");
            }
        }
        row["ok"] = ok.into();
        all &= ok;
        rows.push(row);
    }
    output.json(&json!({"ok": all, "repo_id": kernel.repo.to_string(), "revision": kernel.revision.name,
        "commit": kernel.revision.commit, "variants": rows}));
    Ok(if all { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Whether a variant's files match its digests, and it is signed as requested.
fn files(
    kernel: &Kernel,
    variant: &Remote,
    folder: &Path,
    (signature, wanted): (&Signature, Wanted),
    output: Output,
) -> Result<(bool, Value)> {
    let mut differences = match Metadata::read(folder) {
        Ok(Metadata { version, digest: Some(digest), .. }) => {
            let mut differences = digest.differences(folder)?;
            let branch = version_of(&kernel.revision.name);
            // The signature of an older version must not pass for a newer one.
            if branch.is_some_and(|branch| branch != version) {
                differences
                    .push(format!("metadata.json is of version {version}, and this is {}", kernel.revision.name));
            }
            differences
        }
        Ok(_) => vec!["metadata.json has no digests".to_owned()],
        Err(error) => vec![format!("{error:#}")],
    };
    differences.sort();
    // If somebody must have signed it, a signature that was not checked does not count.
    let (vouched, said) = match signature {
        Signature::Valid { by } => (true, format!("signed by {by}")),
        Signature::Invalid { why } => (false, format!("its signature is not valid: {why}")),
        Signature::None => (matches!(wanted, Wanted::Anybody), "not signed".to_owned()),
        Signature::Unchecked { why } => {
            (matches!(wanted, Wanted::Anybody), format!("its signature was not checked: {why}"))
        }
    };
    let ok = differences.is_empty() && vouched;
    let word = if ok { style::good("verified") } else { style::bad("differs") };
    output.line(format!("{word} {}: {}, {said}", variant.name.text, plural(differences.len(), "difference")));
    for difference in &differences {
        output.error(format!("  {difference}"));
    }
    Ok((ok, json!({"variant": variant.name.text, "differences": differences, "signature": signature})))
}
