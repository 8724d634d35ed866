//! Files that a candidate must not change: its sources, kernel.toml and build.toml, and the compiled code.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

use crate::compile::Target;
use crate::project::Project;

/// Files as they were before any recording process ran.
#[derive(Debug)]
pub(super) struct Files(Vec<(PathBuf, Stamp, [u8; 32])>);

/// Inode, size and change time. A process cannot set the change time.
#[derive(Debug, PartialEq)]
struct Stamp(u64, u64, i64, i64);

impl From<&Metadata> for Stamp {
    fn from(file: &Metadata) -> Self {
        Self(file.ino(), file.size(), file.ctime(), file.ctime_nsec())
    }
}

impl Files {
    /// Reads the files.
    pub(super) fn of(project: &Project, target: &Target) -> Result<Self> {
        let mut paths = vec![target.library.clone()];
        for unit in &target.units {
            paths.extend([unit.cubin.clone(), unit.ptx.clone(), project.root.join(&unit.source)]);
        }
        paths.extend(["build.toml", "kernel.toml"].map(|name| project.root.join(name)));
        let files = paths
            .into_iter()
            .map(|path| {
                let seen = fingerprint(&path).with_context(|| format!("reading {}", path.display()))?;
                Ok((path, seen.0, seen.1))
            })
            .collect::<Result<_>>()?;
        Ok(Self(files))
    }

    /// A message about the first file whose content changed. The content is read only if inode, size or change time
    /// differ, which a backup or a new link may change, too.
    pub(super) fn changed(&self) -> Option<String> {
        self.0
            .iter()
            .find(|(path, stamp, digest)| {
                let entry = std::fs::metadata(path).ok();
                entry.as_ref().map(Stamp::from).as_ref() != Some(stamp)
                    && fingerprint(path).ok().map(|seen| seen.1).as_ref() != Some(digest)
            })
            .map(|(path, ..)| format!("{} changed while the recording process ran", path.display()))
    }
}

fn fingerprint(path: &Path) -> std::io::Result<(Stamp, [u8; 32])> {
    let stamp = Stamp::from(&std::fs::metadata(path)?);
    let bytes = std::fs::read(path)?;
    Ok((stamp, Sha256::digest(&bytes).into()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_changed_if_its_content_has() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kernel.toml");
        std::fs::write(&path, "one").unwrap();
        let seen = fingerprint(&path).unwrap();
        let files = Files(vec![(path.clone(), seen.0, seen.1)]);
        assert_eq!(files.changed(), None);
        // Another file with the same content, as a backup makes it.
        let copy = folder.path().join("copy");
        std::fs::write(&copy, "one").unwrap();
        std::fs::rename(&copy, &path).unwrap();
        assert_eq!(files.changed(), None);
        std::fs::write(&path, "two").unwrap();
        assert!(files.changed().is_some_and(|what| what.contains("kernel.toml changed")));
        std::fs::remove_file(&path).unwrap();
        assert!(files.changed().is_some());
    }
}
