//! The files that a candidate must not touch: its sources, its description, and what was built of them.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

use crate::compile::Target;
use crate::project::Project;

/// Files as they were before any child ran.
#[derive(Debug)]
pub struct Files(Vec<(PathBuf, Stamp, [u8; 32])>);

/// What changes with a file. The time of change cannot be set back by the one who changed it.
#[derive(Debug, PartialEq)]
struct Stamp(u64, u64, i64, i64);

impl From<&Metadata> for Stamp {
    fn from(file: &Metadata) -> Self {
        Self(file.ino(), file.size(), file.ctime(), file.ctime_nsec())
    }
}

impl Files {
    /// As they are now.
    pub fn of(project: &Project, target: &Target) -> Result<Self> {
        let mut paths = vec![target.library.clone()];
        for unit in &target.units {
            paths.extend([
                unit.cubin.clone(),
                unit.ptx.clone(),
                project.root.join(&unit.source),
            ]);
        }
        paths.extend(["build.toml", "kernel.toml"].map(|name| project.root.join(name)));
        let files = paths
            .into_iter()
            .map(|path| {
                let seen = look(&path).with_context(|| format!("reading {}", path.display()))?;
                Ok((path, seen.0, seen.1))
            })
            .collect::<Result<_>>()?;
        Ok(Self(files))
    }

    /// The first that is not as it was. Contents are read only where the file's entry changed: somebody else's backup
    /// or a new link to it is no change.
    pub fn changed(&self) -> Option<String> {
        self.0
            .iter()
            .find(|(path, stamp, digest)| {
                let entry = std::fs::metadata(path).ok();
                entry.as_ref().map(Stamp::from).as_ref() != Some(stamp)
                    && look(path).ok().map(|seen| seen.1).as_ref() != Some(digest)
            })
            .map(|(path, ..)| format!("{} changed while the recording process ran", path.display()))
    }
}

fn look(path: &Path) -> std::io::Result<(Stamp, [u8; 32])> {
    let stamp = Stamp::from(&std::fs::metadata(path)?);
    let bytes = std::fs::read(path)?;
    Ok((stamp, Sha256::digest(&bytes).into()))
}
