//! A file to be published, and one that is on the Hub: whether they are the same is told by their digests.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde::Deserialize;
use sha1::Sha1;
use sha2::{Digest as _, Sha256};

use crate::base::hex;

/// A file to be published.
#[derive(Clone, Debug)]
pub(crate) struct File {
    /// In the repository.
    pub(crate) path: String,
    pub(super) content: Content,
    pub(super) size: u64,
    /// In hexadecimal, as LFS names it.
    pub(super) sha256: String,
    /// As git names it.
    blob: String,
    /// Its beginning, by which the Hub chooses how it is stored.
    pub(super) sample: Vec<u8>,
}

#[derive(Clone, Debug)]
pub(super) enum Content {
    Disk(PathBuf),
    Text(Vec<u8>),
}

/// A file on the Hub.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Entry {
    pub(super) path: String,
    #[serde(default, rename = "type")]
    kind: String,
    #[serde(default)]
    pub(super) oid: String,
    lfs: Option<Lfs>,
}

#[derive(Clone, Debug, Deserialize)]
struct Lfs {
    oid: String,
}

const SAMPLE: usize = 512;

impl File {
    pub(crate) fn of_disk(path: String, from: &Path) -> Result<Self> {
        let bytes = fs::read(from).with_context(|| format!("cannot read {}", from.display()))?;
        Ok(Self::of(path, &bytes, Content::Disk(from.to_owned())))
    }

    pub(crate) fn of_text(path: String, text: Vec<u8>) -> Self {
        Self::of(path, &text.clone(), Content::Text(text))
    }

    fn of(path: String, bytes: &[u8], content: Content) -> Self {
        Self {
            path,
            content,
            size: bytes.len() as u64,
            sha256: hex(&Sha256::digest(bytes)),
            blob: blob(bytes),
            sample: bytes[..bytes.len().min(SAMPLE)].to_vec(),
        }
    }

    pub(super) fn bytes(&self) -> Result<Vec<u8>> {
        match &self.content {
            Content::Disk(path) => fs::read(path).with_context(|| format!("cannot read {}", path.display())),
            Content::Text(text) => Ok(text.clone()),
        }
    }

    pub(super) fn is(&self, entry: &Entry) -> bool {
        match entry.sha256() {
            Some(sha256) => sha256 == self.sha256,
            None => entry.oid == self.blob,
        }
    }
}

impl Entry {
    pub(super) fn is_file(&self) -> bool {
        self.kind != "directory"
    }

    /// Of a file in LFS.
    pub(super) fn sha256(&self) -> Option<&str> {
        self.lfs.as_ref().map(|lfs| lfs.oid.strip_prefix("sha256:").unwrap_or(&lfs.oid))
    }

    /// Whether these bytes are the file's.
    pub(super) fn holds(&self, bytes: &[u8]) -> bool {
        match self.sha256() {
            Some(sha256) => sha256 == hex(&Sha256::digest(bytes)),
            None => self.oid == blob(bytes),
        }
    }

    /// The name of its content in the cache of Hugging Face's library.
    pub(super) fn content_name(&self) -> &str {
        self.sha256().unwrap_or(&self.oid)
    }
}

/// The name that git gives to a file's content.
fn blob(bytes: &[u8]) -> String {
    let mut hash = Sha1::new();
    hash.update(format!("blob {}\0", bytes.len()));
    hash.update(bytes);
    hex(&hash.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_has_the_name_that_git_gives_it() {
        // git hash-object
        assert_eq!(blob(b""), "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
        assert_eq!(blob(b"hello\n"), "ce013625030ba8dba906f756967f9e9ca394464a");
    }
}
