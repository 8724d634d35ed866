//! What a branch would gain and lose, and which of the lost files somebody else put there.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Result;
use serde::Serialize;

use super::digest::{METADATA, Metadata, SIGNATURE};
use super::file::{Entry, File};
use super::read::Refs;
use super::{Hub, Repo, page, signature};
use crate::install::Refusal;
use crate::install::refusal::Refused;

/// The branch of the kernel's page, from which branches of versions begin.
pub(super) const MAIN: &str = "main";

/// The wanted contents of a branch.
pub(crate) struct Target<'a> {
    pub(super) branch: &'a str,
    pub(super) files: Vec<&'a File>,
    /// Folders that must hold nothing else.
    pub(super) folders: Vec<String>,
    /// The same for a new branch, which begins with the files of `main`.
    pub(super) folders_if_new: Vec<String>,
}

/// How a branch would change.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Change {
    pub(crate) branch: String,
    /// The commit that it is made from: the branch's, or for a new branch that of `main`.
    pub(crate) base: Option<String>,
    pub(crate) new: bool,
    pub(crate) adds: Vec<String>,
    pub(crate) replaces: Vec<String>,
    pub(crate) deletes: Vec<String>,
    pub(crate) unchanged: usize,
    /// Signatures on the branch that stay, because the metadata.json that they sign stays.
    pub(crate) signatures: Vec<String>,
    /// The replaced and deleted files that somebody else put there or edited, with the reason.
    pub(crate) foreign: Vec<String>,
    /// The files on the branch.
    #[serde(skip)]
    pub(super) there: BTreeMap<String, Entry>,
}

impl Change {
    /// Compares a branch, if the repository exists, with its wanted contents.
    pub(super) fn of(hub: &Hub, repo: &Repo, target: &Target, refs: &Refs) -> Result<Self> {
        let own = refs.branches.get(target.branch);
        let base = own.or_else(|| refs.branches.get(MAIN)).cloned();
        let there = match &base {
            Some(base) => hub.tree(repo, base)?,
            None => BTreeMap::new(),
        };
        let mut change = Self {
            branch: target.branch.to_owned(),
            base: base.clone(),
            new: own.is_none(),
            adds: Vec::new(),
            replaces: Vec::new(),
            deletes: Vec::new(),
            unchanged: 0,
            signatures: Vec::new(),
            foreign: Vec::new(),
            there: BTreeMap::new(),
        };
        for file in &target.files {
            match there.get(&file.path) {
                None => change.adds.push(file.path.clone()),
                Some(entry) if file.is(entry) => change.unchanged += 1,
                Some(_) => change.replaces.push(file.path.clone()),
            }
        }
        let folders = if change.new { &target.folders_if_new } else { &target.folders };
        for path in there.keys().filter(|path| target.files.iter().all(|file| file.path != **path)) {
            let inside = folders.iter().any(|folder| path.starts_with(&format!("{folder}/")));
            let signs = signature::signed(path);
            let ours = signs.as_ref().and_then(|metadata| target.files.iter().find(|file| file.path == *metadata));
            let same = ours.zip(signs.as_ref().and_then(|metadata| there.get(metadata)));
            if same.is_some_and(|(file, entry)| file.is(entry)) {
                change.signatures.push(path.clone());
            } else if inside || ours.is_some() {
                change.deletes.push(path.clone());
            }
        }
        if let Some(base) = base.filter(|_| !change.new) {
            change.foreign = change.foreign(hub, repo, &base, target, &there)?;
        }
        change.there = there;
        Ok(change)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.adds.is_empty() && self.replaces.is_empty() && self.deletes.is_empty()
    }

    /// What would be lost although it was not published as a part of a variant: files that the variant's own digests do not
    /// list or that do not match them, and a page that was edited.
    fn foreign(
        &self,
        hub: &Hub,
        repo: &Repo,
        base: &str,
        target: &Target,
        there: &BTreeMap<String, Entry>,
    ) -> Result<Vec<String>> {
        let mut foreign = Vec::new();
        let lost: Vec<&Entry> = self.replaces.iter().chain(&self.deletes).filter_map(|path| there.get(path)).collect();
        for folder in &target.folders {
            let inside: Vec<(&Entry, &str)> = lost
                .iter()
                .filter_map(|entry| Some((*entry, entry.path.strip_prefix(folder)?.strip_prefix('/')?)))
                .filter(|(_, path)| *path != SIGNATURE)
                .collect();
            if inside.is_empty() {
                continue;
            }
            let metadata = there.get(&format!("{folder}/{METADATA}"));
            let metadata = metadata.map(|entry| hub.bytes(repo, base, entry)).transpose()?;
            let digest = metadata.and_then(|bytes| Metadata::parse(&bytes).ok()).and_then(|metadata| metadata.digest);
            let Some(digest) = digest else {
                foreign.push(format!("{folder} (without digests: another program's)"));
                continue;
            };
            for (entry, path) in inside.into_iter().filter(|(_, path)| *path != METADATA) {
                match digest.files.get(path) {
                    None => foreign.push(format!("{} (added)", entry.path)),
                    Some(known) if digest.of(&hub.bytes(repo, base, entry)?).as_ref() != Some(known) => {
                        foreign.push(format!("{} (edited)", entry.path));
                    }
                    Some(_) => {}
                }
            }
        }
        for entry in lost.iter().filter(|entry| !entry.path.contains('/')) {
            if !page::is_ours(&hub.bytes(repo, base, entry)?) {
                foreign.push(format!("{} (edited, or somebody else's)", entry.path));
            }
        }
        Ok(foreign)
    }

    /// The refusal to lose what somebody else put there.
    pub(super) fn protect(&self, hub: &Hub, repo: &Repo, force: bool) -> Result<()> {
        if force || self.foreign.is_empty() {
            return Ok(());
        }
        let page = format!("{}/tree/{}", hub.page(repo), self.branch);
        Err(Refusal(vec![Refused {
            path: PathBuf::from(page),
            reason: format!("holds what `kernels publish` did not write:\n  {}", self.foreign.join("\n  ")),
            changes: Vec::new(),
            advice: vec![
                "copy what is worth keeping into the project (a page's text into CARD.md), or publish another version"
                    .to_owned(),
                "--force replaces it; it stays in the branch's history".to_owned(),
            ],
        }])
        .into())
    }
}
