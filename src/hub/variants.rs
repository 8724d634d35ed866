//! The variants of a published kernel.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};

use super::digest::{METADATA, Metadata};
use super::file::Entry;
use super::name::Name;
use super::read::Revision;
use super::{Hub, Pinned, Repo, signature};
use crate::base::text;
use crate::compile::parallel;

/// A variant on the Hub, and its files.
#[derive(Clone, Debug)]
pub(crate) struct Remote {
    pub(crate) name: Name,
    entries: Vec<Entry>,
    /// The signature by an SSH key.
    signature: Option<Entry>,
}

/// Which variants of a kernel are wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wanted<'a> {
    /// Those for this CPU and system.
    OfThisPlatform,
    All,
    Named(&'a str),
}

/// A kernel at a commit.
#[derive(Clone, Debug)]
pub(crate) struct Kernel {
    pub(crate) repo: Repo,
    pub(crate) revision: Revision,
    pub(crate) variants: Vec<Remote>,
}

impl Kernel {
    /// The kernel that a user's `owner/name@revision` names; one without variants is an error.
    pub(crate) fn find(hub: &Hub, pinned: &Pinned) -> Result<Self> {
        Self::at(hub, &pinned.repo, hub.resolve(pinned)?)
    }

    pub(crate) fn at(hub: &Hub, repo: &Repo, revision: Revision) -> Result<Self> {
        let mut folders: BTreeMap<String, Vec<Entry>> = BTreeMap::new();
        let mut signatures: BTreeMap<String, Entry> = BTreeMap::new();
        for (path, entry) in hub.tree(repo, &revision.commit)? {
            if let Some(metadata) = signature::by_ssh(&path) {
                signatures.insert(metadata, entry);
                continue;
            }
            let mut parts = path.split('/');
            // A server's path must not lead out of a folder here.
            let plain = path.split('/').all(|part| !part.is_empty() && part != "." && part != "..");
            if let (Some("build"), Some(folder), true) = (parts.next(), parts.next(), plain)
                && parts.next().is_some()
                && !path.ends_with(".pyc")
            {
                folders.entry(folder.to_owned()).or_default().push(entry);
            }
        }
        let named = folders.into_iter().filter_map(|(name, entries)| {
            let signature = signatures.remove(&format!("build/{name}/{METADATA}"));
            Some(Remote { name: Name::parse(&name)?, entries, signature })
        });
        let variants: Vec<Remote> = named.collect();
        ensure!(!variants.is_empty(), "{repo} has no variants at {}", revision.name);
        Ok(Self { repo: repo.clone(), revision, variants })
    }

    pub(crate) fn wanted(&self, wanted: Wanted) -> Result<Vec<&Remote>> {
        let fits = |one: &&Remote| match wanted {
            Wanted::OfThisPlatform => one.name.is_of_this_platform(),
            Wanted::All => true,
            Wanted::Named(name) => one.name.text == name,
        };
        let found: Vec<&Remote> = self.variants.iter().filter(fits).collect();
        if found.is_empty() {
            let names: Vec<String> = self.variants.iter().map(|one| one.name.text.clone()).collect();
            bail!("{} has no such variant for this machine; it has {}", self.repo, text::and(&names));
        }
        Ok(found)
    }

    pub(crate) fn metadata(&self, hub: &Hub, variant: &Remote) -> Result<Metadata> {
        let path = format!("build/{}/{METADATA}", variant.name.text);
        let entry = variant.entries.iter().find(|entry| entry.path == path);
        let entry = entry.with_context(|| format!("{path} of {} is not there", self.repo))?;
        Metadata::parse(&hub.bytes(&self.repo, &self.revision.commit, entry)?)
            .with_context(|| format!("{path} of {}", self.repo))
    }

    /// Downloads the signature by an SSH key, if there is one.
    pub(crate) fn download_signature(&self, hub: &Hub, variant: &Remote, to: &Path) -> Result<bool> {
        let signature = variant.signature.as_ref();
        let got = signature.map(|entry| hub.download(&self.repo, &self.revision.commit, entry, to)).transpose()?;
        Ok(got.is_some())
    }

    /// Downloads a variant's files into a folder, by their paths in the variant.
    pub(crate) fn download(&self, hub: &Hub, variant: &Remote, to: &Path) -> Result<()> {
        parallel::map(&variant.entries, |entry| {
            let path = to.join(variant.inside(entry));
            let folder = path.parent().unwrap_or(to);
            std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
            hub.download(&self.repo, &self.revision.commit, entry, &path)
        })?;
        Ok(())
    }
}

impl Remote {
    pub(super) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    fn inside<'a>(&self, entry: &'a Entry) -> &'a str {
        entry.path.strip_prefix(&format!("build/{}/", self.name.text)).unwrap_or(&entry.path)
    }
}
