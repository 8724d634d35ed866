//! A file to be published, and a file on the Hub. They are the same if their digests are equal.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;
use sha1::Sha1;
use sha2::{Digest, Sha256};

use crate::base::hex;

/// A file to be published.
#[derive(Clone, Debug)]
pub(crate) struct File {
    /// Its path in the repository.
    pub(crate) path: String,
    pub(super) content: Content,
    pub(super) size: u64,
    /// In hexadecimal, as LFS names it.
    pub(super) sha256: String,
    /// As git names it.
    blob: String,
    /// Its first bytes, by which the Hub chooses how to store it.
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
    #[serde(default)]
    size: u64,
    lfs: Option<Lfs>,
}

#[derive(Clone, Debug, Deserialize)]
struct Lfs {
    oid: String,
    size: Option<u64>,
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

    /// Its bytes; an error if they changed since the file was read and checked.
    pub(super) fn bytes(&self) -> Result<Vec<u8>> {
        match &self.content {
            Content::Disk(path) => {
                let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
                self.ensure_same(&hex(&Sha256::digest(&bytes)), path)?;
                Ok(bytes)
            }
            Content::Text(text) => Ok(text.clone()),
        }
    }

    /// The same check for a file that is sent from the disk.
    pub(super) fn ensure_unchanged(&self) -> Result<()> {
        match &self.content {
            Content::Disk(path) => {
                let hash = hashed(path, Sha256::new()).with_context(|| format!("cannot read {}", path.display()))?;
                self.ensure_same(&hex(&hash.finalize()), path)
            }
            Content::Text(_) => Ok(()),
        }
    }

    fn ensure_same(&self, now: &str, path: &Path) -> Result<()> {
        ensure!(now == self.sha256, "{} was changed while it was being published: publish again", path.display());
        Ok(())
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

    /// Its SHA-256, which only files in LFS have.
    pub(super) fn sha256(&self) -> Option<&str> {
        self.lfs.as_ref().map(|lfs| lfs.oid.strip_prefix("sha256:").unwrap_or(&lfs.oid))
    }

    /// Whether the file has these bytes.
    pub(super) fn holds(&self, bytes: &[u8]) -> bool {
        match self.sha256() {
            Some(sha256) => sha256 == hex(&Sha256::digest(bytes)),
            None => self.oid == blob(bytes),
        }
    }

    /// The same for a file on the disk, which is not read into memory whole.
    pub(super) fn is_in(&self, path: &Path) -> io::Result<bool> {
        Ok(match self.sha256() {
            Some(sha256) => sha256 == hex(&hashed(path, Sha256::new())?.finalize()),
            None => self.oid == hex(&hashed(path, blob_of(fs::metadata(path)?.len()))?.finalize()),
        })
    }

    /// Its size according to the list of files; a longer answer is another file.
    pub(super) fn size(&self) -> u64 {
        self.lfs.as_ref().and_then(|lfs| lfs.size).unwrap_or(self.size)
    }

    /// The name of its content in the cache of Hugging Face's library.
    pub(super) fn content_name(&self) -> &str {
        self.sha256().unwrap_or(&self.oid)
    }
}

/// The target of a path, which must be in the project: a link must not publish what lies elsewhere, such as a token.
pub(super) fn is_inside(root: &Path, path: &Path) -> Result<PathBuf> {
    let real = |path: &Path| path.canonicalize().with_context(|| format!("cannot read {}", path.display()));
    let to = real(path)?;
    ensure!(
        to.starts_with(real(root)?),
        "{} leads to {}, which is not in the project, and nothing of it is published: put the file itself there",
        path.display(),
        to.display()
    );
    Ok(to)
}

/// The name that git gives to a file's content.
fn blob(bytes: &[u8]) -> String {
    hex(&blob_of(bytes.len() as u64).chain_update(bytes).finalize())
}

/// The start of this hash: git's header for a content of this many bytes.
fn blob_of(bytes: u64) -> Sha1 {
    Sha1::new().chain_update(format!("blob {bytes}\0"))
}

fn hashed<H: Digest>(path: &Path, mut hash: H) -> io::Result<H> {
    let (mut file, mut part) = (fs::File::open(path)?, vec![0; 1 << 16]);
    loop {
        match io::Read::read(&mut file, &mut part)? {
            0 => return Ok(hash),
            read => hash.update(&part[..read]),
        }
    }
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
