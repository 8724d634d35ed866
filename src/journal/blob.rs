//! Contents in a run's folder, each under its SHA-256: `blobs/ab/cdef…`. A file has its name only when it is whole.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use sha2::{Digest as _, Sha256};

use crate::base::{disk, hex};

const BLOBS: &str = "blobs";
/// What is read into memory at once.
const LARGEST: u64 = 1 << 30;

pub(super) fn put(folder: &Path, contents: &[u8]) -> Result<String> {
    let digest = hex(&Sha256::digest(contents));
    let path = place(folder, &digest);
    if fs::metadata(&path).is_ok_and(|meta| meta.is_file() && meta.len() == contents.len() as u64) {
        return Ok(digest);
    }
    let shelf = folder.join(BLOBS).join(&digest[..2]);
    let new = !shelf.exists();
    fs::create_dir_all(&shelf)
        .and_then(|()| disk::write_atomic(&path, contents, 0o666))
        .and_then(|()| disk::sync_folder(&shelf))
        .and_then(|()| if new { disk::sync_folder(&folder.join(BLOBS)) } else { Ok(()) })
        .with_context(|| format!("cannot write {}", path.display()))?;
    Ok(digest)
}

pub(super) fn get(folder: &Path, digest: &str) -> Result<Vec<u8>> {
    if digest.len() != 64 || !digest.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
        bail!("`{digest}` is no SHA-256 in 64 hexadecimal digits");
    }
    let path = place(folder, digest);
    let contents = disk::read_plain(&path, LARGEST).with_context(|| format!("cannot read {}", path.display()))?;
    if hex(&Sha256::digest(&contents)) != digest {
        bail!("{} has other contents than its name says: it was changed, or the disk is failing", path.display());
    }
    Ok(contents)
}

fn place(folder: &Path, digest: &str) -> PathBuf {
    folder.join(BLOBS).join(&digest[..2]).join(&digest[2..])
}

/// Removes what a writer that was killed had begun to write. The caller holds the lock.
pub(super) fn tidy(folder: &Path) {
    let shelves = fs::read_dir(folder.join(BLOBS)).into_iter().flatten().flatten().map(|shelf| shelf.path());
    for shelf in shelves.chain([folder.to_owned()]) {
        for entry in fs::read_dir(shelf).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with('.') && name.ends_with(".tmp") {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}
