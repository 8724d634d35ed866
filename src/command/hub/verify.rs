//! `kernels hub verify`.

use std::process::ExitCode;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::wanted;
use crate::base::plural;
use crate::cli::hub::Verify;
use crate::hub::Hub;
use crate::hub::digest::Metadata;
use crate::hub::signature::{self, COMMUNITY, Signature};
use crate::hub::variants::Kernel;
use crate::report::{Output, style};

pub(super) fn run(hub: &Hub, arguments: &Verify, output: Output) -> Result<ExitCode> {
    let kernel = Kernel::find(hub, &arguments.kernel)?;
    let signer = arguments.signer.as_deref();
    let mut rows: Vec<Value> = Vec::new();
    let mut all = true;
    for variant in kernel.wanted(wanted(&arguments.which))? {
        let scratch = TempDir::with_prefix("kernels-verify-").context("cannot make a folder for temporary files")?;
        kernel.download(hub, variant, scratch.path())?;
        let differences = match Metadata::read(scratch.path()).map(|metadata| metadata.digest) {
            Ok(Some(digest)) => digest.differences(scratch.path())?,
            Ok(None) => vec!["metadata.json has no digests".to_owned()],
            Err(error) => vec![format!("{error:#}")],
        };
        let signature = signature::check(scratch.path(), signer.unwrap_or(COMMUNITY))?;
        // What must be signed by somebody is not verified by a signature that nobody looked at.
        let vouched = match &signature {
            Signature::Valid => true,
            Signature::Invalid { .. } => false,
            Signature::None | Signature::Unchecked { .. } => signer.is_none(),
        };
        let ok = differences.is_empty() && vouched;
        all &= ok;
        let said = match &signature {
            Signature::None => "not signed".to_owned(),
            Signature::Valid => "signed".to_owned(),
            Signature::Invalid { why } => format!("its signature is not valid: {why}"),
            Signature::Unchecked { why } => format!("its signature was not checked: {why}"),
        };
        let word = if ok { style::good("verified") } else { style::bad("differs") };
        output.line(format!("{word} {}: {}, {said}", variant.name.text, plural(differences.len(), "difference")));
        for difference in &differences {
            output.error(format!("  {difference}"));
        }
        rows.push(json!({"variant": variant.name.text, "ok": ok, "differences": differences, "signature": signature}));
    }
    output.json(&json!({"ok": all, "repo_id": kernel.repo.to_string(), "revision": kernel.revision.name,
        "commit": kernel.revision.commit, "variants": rows}));
    Ok(if all { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
