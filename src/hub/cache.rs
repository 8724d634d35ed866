//! The cache of Hugging Face's libraries, in their layout: `kernels--owner--name/{blobs,refs,snapshots}`. `get_kernel` loads
//! what is there without a connection.

use std::env;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use super::file::{Entry, File};
use super::read::Revision;
use super::variants::{Kernel, Remote};
use super::{Hub, Repo, token};
use crate::base::disk;
use crate::compile::parallel;
use crate::report::file;

/// `HF_HUB_CACHE`, else `hub` in `HF_HOME`.
pub(crate) fn folder() -> Result<PathBuf> {
    let set = env::var_os("HF_HUB_CACHE").filter(|value| !value.is_empty()).map(PathBuf::from);
    set.or_else(|| Some(token::home()?.join("hub"))).context("there is no home folder; set HF_HUB_CACHE")
}

/// Puts variants into it, and returns the folder, which `get_local_kernel` takes as well.
pub(crate) fn keep(hub: &Hub, kernel: &Kernel, variants: &[&Remote]) -> Result<PathBuf> {
    let entries: Vec<&Entry> = variants.iter().flat_map(|variant| variant.entries()).collect();
    fill(hub, (&kernel.repo, &kernel.revision), &entries, &folder()?)
}

/// Puts files of a commit into a cache.
pub(super) fn fill(
    hub: &Hub,
    (repo, revision): (&Repo, &Revision),
    entries: &[&Entry],
    cache: &Path,
) -> Result<PathBuf> {
    let top = cache.join(format!("kernels--{}--{}", repo.owner, repo.name));
    let (blobs, snapshot) = (top.join("blobs"), top.join("snapshots").join(&revision.commit));
    for folder in [&blobs, &snapshot, &top.join("refs")] {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    parallel::map(entries, |entry| {
        let name = entry.content_name();
        anyhow::ensure!(name.bytes().all(|byte| byte.is_ascii_hexdigit()), "{} has a strange digest", entry.path);
        let blob = blobs.join(name);
        if !entry.is_in(&blob).unwrap_or_default() {
            let fresh = blobs.join(format!("{name}.{}.incomplete", disk::unique()));
            let got = hub.download(repo, &revision.commit, entry, &fresh);
            let put = got
                .and_then(|()| fs::rename(&fresh, &blob).with_context(|| format!("cannot write {}", blob.display())));
            if put.is_err() {
                let _ = fs::remove_file(&fresh);
            }
            put?;
        }
        link(&snapshot, &entry.path, name)
    })?;
    let name = &revision.name;
    if *name != revision.commit && !name.contains('/') {
        file::write(&top.join("refs").join(name), revision.commit.as_bytes())?;
    }
    Ok(snapshot)
}

/// Puts files that are not on the Hub yet into a cache, as the files of this commit.
pub(super) fn lay(repo: &Repo, commit: &str, files: &[&File], cache: &Path) -> Result<()> {
    let snapshot = cache.join(format!("kernels--{}--{}", repo.owner, repo.name)).join("snapshots").join(commit);
    for file in files {
        let place = snapshot.join(&file.path);
        let folder = place.parent().unwrap_or(&snapshot);
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        fs::write(&place, file.bytes()?).with_context(|| format!("cannot write {}", place.display()))?;
    }
    Ok(())
}

/// A relative link from a snapshot to a blob.
fn link(snapshot: &Path, path: &str, blob: &str) -> Result<()> {
    let place = snapshot.join(path);
    let folder = place.parent().unwrap_or(snapshot);
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    // One `..` per folder of the path, and two for the snapshot.
    let up = "../".repeat(path.split('/').count() + 1);
    match symlink(format!("{up}blobs/{blob}"), &place) {
        // A file of a commit never changes, so the link that is there is right. A folder is there if the Hub lists the same
        // path as a file and as a folder.
        Err(error) if error.kind() == ErrorKind::AlreadyExists && !place.is_dir() => Ok(()),
        made => made.with_context(|| format!("cannot write {}", place.display())),
    }
}
