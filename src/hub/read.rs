//! What is on the Hub: repositories, branches, files.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};
use serde::Deserialize;

use super::file::Entry;
use super::{Hub, Pinned, Repo};
use crate::base::http::{Method, encoded, origin};
use crate::base::repo::version_of;

/// The commit of every branch and tag.
#[derive(Clone, Debug, Default)]
pub(crate) struct Refs {
    pub(crate) branches: BTreeMap<String, String>,
    pub(crate) tags: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    branches: Vec<Ref>,
    #[serde(default)]
    tags: Vec<Ref>,
}

#[derive(Deserialize)]
struct Ref {
    name: String,
    #[serde(rename = "targetCommit")]
    commit: String,
}

/// A commit and its name.
#[derive(Clone, Debug)]
pub(crate) struct Revision {
    /// `v1`, `main`, a commit.
    pub(crate) name: String,
    pub(crate) commit: String,
}

/// Limits of a list of files: its pages and its files.
const PAGES: usize = 1000;
const FILES: usize = 100_000;
/// A larger file is not downloaded, whatever size a server reports.
const LARGEST: u64 = 4 << 30;

impl Refs {
    /// The branches of versions, in ascending order.
    pub(crate) fn versions(&self) -> BTreeMap<u64, &str> {
        self.branches.iter().filter_map(|(name, commit)| Some((version_of(name)?, commit.as_str()))).collect()
    }
}

/// Whether this is a commit's full name. It becomes the name of a folder, so nothing else is accepted from a server or a file.
pub(super) fn is_commit(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

impl Hub {
    /// Whether the repository exists, as far as this token may see.
    pub(crate) fn exists(&self, repo: &Repo) -> Result<bool> {
        let answer = self.http().send(&self.request(Method::Get, self.api(repo, "")));
        match self.expect(&format!("reading {repo}"), answer) {
            Ok(_) => Ok(true),
            Err(fault) if fault.is_missing() => Ok(false),
            Err(fault) => Err(fault.into()),
        }
    }

    pub(crate) fn refs(&self, repo: &Repo) -> Result<Refs> {
        let answer = self.http().send(&self.request(Method::Get, self.api(repo, "refs")));
        let answer: Answer = self.expect(&format!("reading the branches of {repo}"), answer)?.json()?;
        let wrong = answer.branches.iter().chain(&answer.tags).find(|one| !is_commit(&one.commit));
        if let Some(Ref { name, commit }) = wrong {
            bail!("the Hub's answer names {commit:?} as the commit of {name:?} of {repo}, which is none");
        }
        let map = |refs: Vec<Ref>| refs.into_iter().map(|one| (one.name, one.commit)).collect();
        Ok(Refs { branches: map(answer.branches), tags: map(answer.tags) })
    }

    /// The commit that a user's `@` names by a version, a branch, a tag or a commit; without it, the newest version, else
    /// `main`.
    pub(crate) fn resolve(&self, pinned: &Pinned) -> Result<Revision> {
        let repo = &pinned.repo;
        if let Some(commit) = pinned.revision.as_deref().filter(|text| is_commit(text)) {
            return Ok(Revision { name: commit.to_owned(), commit: commit.to_owned() });
        }
        let refs = self.refs(repo)?;
        let versions = refs.versions();
        let name = match &pinned.revision {
            None => versions.keys().next_back().map_or_else(|| "main".to_owned(), |version| format!("v{version}")),
            Some(text) if text.bytes().all(|byte| byte.is_ascii_digit()) => format!("v{text}"),
            Some(text) => text.clone(),
        };
        let Some(commit) = refs.branches.get(&name).or_else(|| refs.tags.get(&name)) else {
            let known: Vec<String> = versions.keys().map(u64::to_string).collect();
            bail!(
                "{repo} has no {name}; its versions are: {}",
                if known.is_empty() { "none".to_owned() } else { known.join(", ") }
            );
        };
        Ok(Revision { name, commit: commit.clone() })
    }

    /// All files of a commit, by path.
    pub(crate) fn tree(&self, repo: &Repo, commit: &str) -> Result<BTreeMap<String, Entry>> {
        let mut next = Some(self.api(repo, &format!("tree/{}?recursive=true", encoded(commit))));
        let mut files = BTreeMap::new();
        for _ in 0..PAGES {
            let Some(url) = next.take() else {
                return Ok(files);
            };
            let answer = self.http().send(&self.request(Method::Get, url));
            let answer = self.expect(&format!("listing the files of {repo}"), answer)?;
            next = answer.header("Link").and_then(|link| self.next_page(link));
            let entries: Vec<Entry> = answer.json()?;
            let entries = entries.into_iter().filter(Entry::is_file);
            files.extend(entries.map(|entry| (entry.path.clone(), entry)));
            ensure!(files.len() <= FILES, "{repo} lists more than {FILES} files");
        }
        bail!("{repo} lists more than {PAGES} pages of files")
    }

    /// `<https://…>; rel="next"`, of the same server.
    fn next_page(&self, link: &str) -> Option<String> {
        let next = link.split(',').find(|part| part.contains("rel=\"next\""))?;
        let url = next.split_once('<')?.1.split_once('>')?.0;
        (origin(url) == origin(self.endpoint())).then(|| url.to_owned())
    }

    fn resolve_url(&self, repo: &Repo, revision: &str, path: &str) -> String {
        let path: Vec<String> = path.split('/').map(encoded).collect();
        format!("{}/kernels/{repo}/resolve/{}/{}", self.endpoint(), encoded(revision), path.join("/"))
    }

    /// A file's bytes, which must match the list of files.
    pub(crate) fn bytes(&self, repo: &Repo, revision: &str, entry: &Entry) -> Result<Vec<u8>> {
        let path = &entry.path;
        let request = self.request(Method::Get, self.resolve_url(repo, revision, path)).most(entry.size().min(LARGEST));
        let bytes = self.expect(&format!("reading {path} of {repo}"), self.http().send(&request))?.bytes()?;
        ensure!(entry.holds(&bytes), "{path} of {repo} does not match its digest; try again");
        Ok(bytes)
    }

    /// A file, written to the disk.
    pub(crate) fn download(&self, repo: &Repo, revision: &str, entry: &Entry, to: &Path) -> Result<()> {
        let path = &entry.path;
        let request = self.request(Method::Get, self.resolve_url(repo, revision, path)).most(entry.size().min(LARGEST));
        self.expect(&format!("downloading {path} of {repo}"), self.http().fetch(&request, Some(to)))?;
        let same = entry.is_in(to).with_context(|| format!("cannot read {}", to.display()))?;
        ensure!(same, "{path} of {repo} does not match its digest; try again");
        Ok(())
    }
}
