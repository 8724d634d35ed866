//! Files of the package besides the sources: `_ops.py`, and `metadata.json` with the digests of all files.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::plan::Plan;
use super::provenance::Provenance;
use crate::base::base64;
use crate::project::{KernelDepend, TorchProject};

pub(super) const METADATA: &str = "metadata.json";
/// The oldest version of the Hub's library that loads it, the same as kernel-builder's: without dependencies on other kernels,
/// and with them.
const MINVER: &str = "0.14.0";
const MINVER_OF_DEPENDS: &str = "0.17.0";

/// `metadata.json` as the Hub's loader reads it.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Metadata<'a> {
    name: &'a str,
    id: &'a str,
    version: u64,
    kernels_minver: &'a str,
    license: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    upstream: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<&'a str>,
    python_depends: &'a [String],
    kernel_depends: &'a [KernelDepend],
    backend: Backend,
    /// A key of this program's own, which loaders ignore. Evidence for the variant is found by it.
    source_digest: &'a str,
    provenance: &'a Provenance,
    digest: &'a Digest,
}

#[derive(Serialize)]
struct Backend {
    r#type: &'static str,
    archs: Vec<String>,
}

#[derive(Deserialize, Serialize)]
pub(super) struct Digest {
    algorithm: String,
    /// SHA-256 in base64, by path in the variant.
    pub(super) files: BTreeMap<String, String>,
}

/// The part of `metadata.json` that is read back.
#[derive(Deserialize)]
pub(super) struct Written {
    pub(super) id: String,
    #[serde(default)]
    pub(super) digest: Option<Digest>,
}

impl Digest {
    pub(super) fn new(files: BTreeMap<String, String>) -> Self {
        Self { algorithm: "sha256".to_owned(), files }
    }
}

pub(super) fn text(
    project: &TorchProject,
    plan: &Plan,
    source_digest: &str,
    digest: &Digest,
    provenance: &Provenance,
) -> Result<String> {
    let build = &project.build;
    let metadata = Metadata {
        name: &build.name,
        id: &plan.id,
        version: project.version,
        kernels_minver: if build.kernel_depends.is_empty() { MINVER } else { MINVER_OF_DEPENDS },
        license: &project.license,
        upstream: build.upstream.as_deref(),
        source: build.source.as_deref(),
        python_depends: &build.python_depends,
        kernel_depends: &build.kernel_depends,
        backend: Backend { r#type: "cuda", archs: plan.archs.iter().map(ToString::to_string).collect() },
        source_digest,
        provenance,
        digest,
    };
    let mut text = serde_json::to_string_pretty(&metadata).context("metadata.json")?;
    text.push('\n');
    Ok(text)
}

pub(super) fn ops(id: &str) -> String {
    format!(
        "\"\"\"The operators of this build, under a namespace that no other build has.\"\"\"\n\nimport torch\n\n\
         from . import {id}  # noqa: F401  (importing it registers them)\n\nops = torch.ops.{id}\n\n\n\
         def add_op_namespace_prefix(op_name: str) -> str:\n    \"\"\"The operator's name for torch.library: with this \
         build's namespace.\"\"\"\n    return f\"{id}::{{op_name}}\"\n"
    )
}

/// SHA-256 in base64.
pub(super) fn digest(bytes: &[u8]) -> String {
    base64(&Sha256::digest(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_padded() {
        for (bytes, text) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")] {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
        // From the Hub library's own test.
        assert_eq!(digest(b"hello world"), "uU0nuZNNPgilLlLX2n2r+sSE7+N6U4DukIj3rOLvzek=");
    }
}
