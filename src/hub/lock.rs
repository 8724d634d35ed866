//! kernels.lock: for each kernel that a Python project names, and each kernel that those name, its commit.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use serde::{Deserialize, Serialize};

use super::digest::Dependency;
use super::read::{Revision, is_commit};
use super::variants::Kernel;
use super::{Hub, Pinned};
use crate::base::disk;

pub(crate) const LOCK: &str = "kernels.lock";
/// No more are resolved, because a server could name others without end.
const MOST: usize = 1000;
/// The most bytes of either file.
const LARGEST: u64 = 8 << 20;
const PROJECT: &str = "pyproject.toml";

/// One row of the file, as the Hub's library reads it.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Locked {
    pub(crate) dependency: Dependency,
    lock: Commit,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Commit {
    commit: String,
}

#[derive(Deserialize)]
struct PyProject {
    #[serde(default)]
    tool: Tool,
}

#[derive(Default, Deserialize)]
struct Tool {
    #[serde(default)]
    kernels: Kernels,
}

#[derive(Default, Deserialize)]
struct Kernels {
    #[serde(default)]
    dependencies: BTreeMap<String, u64>,
}

impl Locked {
    /// The kernel that a row names, at its commit.
    pub(crate) fn kernel(&self, hub: &Hub) -> Result<Kernel> {
        let pinned = pinned(&self.dependency)?;
        let commit = self.lock.commit.clone();
        ensure!(is_commit(&commit), "{LOCK} names {commit:?} as the commit of {}, which is none", pinned.repo);
        // Named by its commit: a project's file must not decide what other projects find in the cache for a version.
        Kernel::at(hub, &pinned.repo, Revision { name: commit.clone(), commit })
    }

    pub(crate) fn commit(&self) -> &str {
        &self.lock.commit
    }
}

fn pinned(dependency: &Dependency) -> Result<Pinned> {
    let revision = dependency.version.map(|version| version.to_string()).or_else(|| dependency.revision.clone());
    let repo = dependency.repo_id.parse().map_err(|why: String| anyhow::anyhow!(why))?;
    Ok(Pinned { repo, revision })
}

/// Resolves everything that the pyproject.toml of a folder names.
pub(crate) fn resolve(hub: &Hub, dir: &Path) -> Result<Vec<Locked>> {
    let path = dir.join(PROJECT);
    let text = text(&path)?;
    let project: PyProject = toml::from_str(&text).with_context(|| path.display().to_string())?;
    let named = project.tool.kernels.dependencies;
    ensure!(
        !named.is_empty(),
        "{} names no kernels; write them as [tool.kernels.dependencies], for example \"kernels-community/activation\" = 1",
        path.display()
    );
    let mut open: Vec<Dependency> = named
        .into_iter()
        .map(|(repo_id, version)| Dependency { repo_id, version: Some(version), revision: None })
        .collect();
    let mut locked: BTreeMap<Dependency, Locked> = BTreeMap::new();
    while let Some(dependency) = open.pop() {
        if locked.contains_key(&dependency) {
            continue;
        }
        let kernel = Kernel::find(hub, &pinned(&dependency)?)?;
        for variant in &kernel.variants {
            open.extend(kernel.metadata(hub, variant)?.kernel_depends);
        }
        ensure!(locked.len() < MOST, "{} leads to more than {MOST} kernels", path.display());
        let lock = Commit { commit: kernel.revision.commit };
        locked.insert(dependency.clone(), Locked { dependency, lock });
    }
    Ok(locked.into_values().collect())
}

/// What is in a file of a folder that may be a clone: a link would lead to other files, whose lines an error shows.
fn text(path: &Path) -> Result<String> {
    let cannot = || format!("cannot read {}, which is to be a regular file", path.display());
    let leads_out = path.parent().is_some_and(|folder| disk::leads_out(path, folder));
    ensure!(!leads_out, "{} is a link out of its folder; copy the file into it", path.display());
    let bytes = path.canonicalize().and_then(|real| disk::read_plain(&real, LARGEST)).with_context(cannot)?;
    String::from_utf8(bytes).with_context(cannot)
}

/// The rows of a folder's kernels.lock.
pub(crate) fn read(dir: &Path) -> Result<Vec<Locked>> {
    let path = dir.join(LOCK);
    ensure!(path.symlink_metadata().is_ok(), "there is no {}; `kernels hub lock` writes it", path.display());
    let text = text(&path)?;
    serde_json::from_str(&text).with_context(|| path.display().to_string())
}
