//! The files that a candidate must not touch: its sources, its description, and what was built of them.

use std::path::PathBuf;

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

use crate::compile::Target;
use crate::project::Project;

/// Files with the digests of what they held.
#[derive(Debug)]
pub struct Files(Vec<(PathBuf, [u8; 32])>);

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
        let digests = paths
            .into_iter()
            .map(|path| {
                let digest =
                    digest(&path).with_context(|| format!("reading {}", path.display()))?;
                Ok((path, digest))
            })
            .collect::<Result<_>>()?;
        Ok(Self(digests))
    }

    /// The first that is not as it was.
    pub fn changed(&self) -> Option<String> {
        self.0
            .iter()
            .find(|(path, before)| digest(path).ok().as_ref() != Some(before))
            .map(|(path, _)| format!("{} changed while the recording process ran", path.display()))
    }
}

fn digest(path: &PathBuf) -> std::io::Result<[u8; 32]> {
    let bytes = std::fs::read(path)?;
    Ok(Sha256::digest(&bytes).into())
}
