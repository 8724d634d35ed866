//! A variant's own list of its files, the `digest` of its metadata.json, compared with the files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256, Sha512};
use walkdir::WalkDir;

use crate::base::base64;
use crate::variant::provenance::Provenance;

pub(crate) const METADATA: &str = "metadata.json";
/// The signature that `cosign` writes beside it; neither of the two is in the list.
pub(crate) const SIGNATURE: &str = "metadata.json.sigstore";

/// `metadata.json`, as far as it is read here.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct Metadata {
    pub(crate) name: String,
    pub(crate) id: String,
    pub(crate) version: u64,
    #[serde(default)]
    pub(crate) license: Option<String>,
    #[serde(default)]
    pub(crate) upstream: Option<String>,
    #[serde(default)]
    pub(crate) source: Option<String>,
    #[serde(default)]
    pub(crate) kernels_minver: Option<String>,
    #[serde(default)]
    pub(crate) python_depends: Vec<String>,
    #[serde(default)]
    pub(crate) kernel_depends: Vec<Dependency>,
    pub(crate) backend: Backend,
    /// The digest of the sources that it was built from; a key of this program's own.
    #[serde(default)]
    pub(crate) source_digest: Option<String>,
    /// Like the Hub's library, this program refuses one that it cannot read.
    #[serde(default)]
    pub(crate) provenance: Option<Provenance>,
    #[serde(default)]
    pub(crate) digest: Option<Digest>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Backend {
    pub(crate) r#type: String,
    #[serde(default)]
    pub(crate) archs: Option<Vec<String>>,
}

/// Another kernel, by version or by revision.
#[derive(Clone, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Dependency {
    pub(crate) repo_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) version: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) revision: Option<String>,
}

/// Digests in base64, by path in the variant.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Digest {
    pub(crate) algorithm: String,
    pub(crate) files: BTreeMap<String, String>,
}

impl Metadata {
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self> {
        let read: Self =
            serde_json::from_slice(bytes).context("it is not a metadata.json that this version of kernels can read")?;
        let minver = read.kernels_minver.as_deref().unwrap_or("0.0.0");
        let numbers: Vec<_> = minver.split('.').map(str::parse::<u64>).collect();
        ensure!(
            numbers.len() == 3 && numbers.iter().all(Result::is_ok),
            "kernels-minver of this metadata.json is `{minver}`, and the library takes three numbers, such as 0.17.2"
        );
        Ok(read)
    }

    /// Whether it was built from uncommitted changes, of which the library warns.
    pub(crate) fn is_dirty(&self) -> bool {
        self.provenance.as_ref().is_some_and(Provenance::is_dirty)
    }

    pub(crate) fn read(variant: &Path) -> Result<Self> {
        let path = variant.join(METADATA);
        let bytes = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        Self::parse(&bytes).with_context(|| path.display().to_string())
    }
}

impl Digest {
    /// The digest of some bytes; `None` if the algorithm is unknown.
    pub(crate) fn of(&self, bytes: &[u8]) -> Option<String> {
        match self.algorithm.as_str() {
            "sha256" => Some(base64(&Sha256::digest(bytes))),
            "sha512" => Some(base64(&Sha512::digest(bytes))),
            _ => None,
        }
    }

    /// The differences between a folder and the list.
    pub(crate) fn differences(&self, variant: &Path) -> Result<Vec<String>> {
        let mut wrong = Vec::new();
        let mut seen = BTreeSet::new();
        for path in files(variant)? {
            let file = variant.join(&path);
            if path == METADATA || path == SIGNATURE {
                continue;
            }
            let bytes = fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
            match (self.files.get(&path), self.of(&bytes)) {
                (_, None) => return Ok(vec![format!("its digests are {}, which is not known", self.algorithm)]),
                (None, _) => wrong.push(format!("{path} is not in the list of digests")),
                (Some(listed), Some(found)) if *listed != found => wrong.push(format!("{path} has another digest")),
                _ => {}
            }
            seen.insert(path);
        }
        let absent = self.files.keys().filter(|path| !seen.contains(*path));
        wrong.extend(absent.map(|path| format!("{path} is listed but does not exist")));
        Ok(wrong)
    }
}

/// The files of a folder at any depth, without Python's caches. A link is an error, because it could publish a file from
/// elsewhere.
pub(crate) fn files(folder: &Path) -> Result<Vec<String>> {
    let mut all = Vec::new();
    for entry in WalkDir::new(folder).into_iter().filter_entry(|entry| entry.file_name() != "__pycache__") {
        let entry = entry.with_context(|| format!("cannot read {}", folder.display()))?;
        let path = entry.path();
        if entry.file_type().is_dir() || path.extension().is_some_and(|ending| ending == "pyc") {
            continue;
        }
        anyhow::ensure!(entry.file_type().is_file(), "{} is not a file; a variant holds only files", path.display());
        let path = path.strip_prefix(folder).unwrap_or(path);
        let text = path.to_str().with_context(|| format!("the name {} is not UTF-8", path.display()))?;
        all.push(text.to_owned());
    }
    all.sort();
    Ok(all)
}
