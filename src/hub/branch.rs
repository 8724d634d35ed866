//! Brings a branch of the Hub to its wanted contents by one commit, which is made on another branch, read back and loaded
//! before users can see it.

use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use tempfile::TempDir;

use super::Hub;
use super::cache;
use super::fault::Fault;
use super::file::{Entry, File};
use super::load::{CACHE, Loaded, Trial};
use super::local::Local;
use super::plan::{Change, MAIN, Target};
use super::read::{Refs, Revision};
use super::write::{Commit, Committed};
use crate::base::plural;

/// What the command line says of the Hub.
#[derive(Clone, Copy, Debug)]
pub(crate) struct How<'a> {
    pub(crate) private: bool,
    pub(crate) pull_request: bool,
    pub(crate) tag: Option<&'a str>,
    pub(crate) force: bool,
    /// How a change is loaded before users can see it, if it can be loaded here.
    pub(crate) trial: Option<&'a Trial>,
    /// The Python that sends large files by Xet, if the Hub asks for that.
    pub(crate) python: &'a Path,
}

/// The most attempts for a branch, which starts again if somebody else changed it or an answer was lost.
const ROUNDS: u32 = 4;

/// The result for a branch.
#[derive(Default)]
pub(super) struct Settled {
    pub(super) commit: String,
    pub(super) pull_request: Option<String>,
    /// How many files were read back and compared.
    pub(super) compared: usize,
    pub(super) loaded: Option<Loaded>,
}

pub(super) struct Publisher<'a> {
    pub(super) hub: &'a Hub,
    pub(super) local: &'a Local,
    pub(super) how: How<'a>,
    pub(super) tell: &'a (dyn Fn(&str) + Sync),
}

impl Publisher<'_> {
    /// Brings a branch to its wanted contents.
    pub(super) fn settle(&self, target: &Target, mut seen: Option<(Change, Refs)>) -> Result<Settled> {
        let repo = &self.local.repo;
        for round in 1.. {
            let (change, refs) = if let Some(seen) = seen.take() {
                seen
            } else {
                let refs = self.hub.refs(repo)?;
                (Change::of(self.hub, repo, target, &refs)?, refs)
            };
            change.protect(self.hub, repo, self.how.force)?;
            if change.is_empty() && !change.new {
                self.clear(&refs, target.branch)?;
                return Ok(Settled { commit: change.base.unwrap_or_default(), ..Settled::default() });
            }
            let error = match self.change(target, &change, &refs) {
                Ok(settled) => return Ok(settled),
                Err(error) => error,
            };
            // If the outcome is unknown or somebody else interfered, try again. A pull request would be made twice.
            let again =
                Fault::of(&error).is_some_and(|fault| fault.is_open() || [404, 409, 412].contains(&fault.status));
            if !again || round == ROUNDS || self.how.pull_request {
                return Err(error);
            }
            (self.tell)(&format!("looking at {} again: {error}", target.branch));
            thread::sleep(Duration::from_millis(200) * round);
        }
        bail!("{} did not come to rest", target.branch)
    }

    /// Makes one commit. A new branch is created only when its commit was read back and loaded. A branch that users load from
    /// changes only after the same commit was loaded from another branch.
    fn change(&self, target: &Target, change: &Change, refs: &Refs) -> Result<Settled> {
        let (hub, repo) = (self.hub, &self.local.repo);
        (self.tell)(&format!(
            "{}: {} to add, {} to replace, {} to delete",
            target.branch,
            change.adds.len(),
            change.replaces.len(),
            change.deletes.len()
        ));
        let loads = self.how.trial.is_some() && target.branch != MAIN;
        if self.how.pull_request {
            let loaded = if loads { self.load_unsent(target)? } else { None };
            let done = self.commit(target, change, target.branch)?;
            let url = done.pull_request_url.context("the Hub's answer names no pull request")?;
            return Ok(Settled { commit: done.commit_oid, pull_request: Some(url), loaded, ..Settled::default() });
        }
        let tried = if change.new || loads { self.try_aside(target, change, refs, loads)? } else { Settled::default() };
        let aside = aside(target.branch);
        if change.new {
            ensure!(
                hub.create_branch(repo, target.branch, Some(&tried.commit))?,
                Fault::conflict(&format!(
                    "somebody else made the branch {} in the meantime; publish again",
                    target.branch
                ))
            );
            hub.delete_branch(repo, &aside)?;
            return Ok(tried);
        }
        if loads {
            hub.delete_branch(repo, &aside)?;
        }
        let commit = self.commit(target, change, target.branch)?.commit_oid;
        let (compared, _) = self.read_back(target, &commit, false)?;
        Ok(Settled { commit, compared, ..tried })
    }

    /// Makes the commit on a branch from which nobody loads, reads it back, and loads it if `loads`.
    fn try_aside(&self, target: &Target, change: &Change, refs: &Refs, loads: bool) -> Result<Settled> {
        let (hub, repo, aside) = (self.hub, &self.local.repo, aside(target.branch));
        if refs.branches.contains_key(&aside) {
            hub.delete_branch(repo, &aside)?;
        }
        hub.create_branch(repo, &aside, change.base.as_deref())?;
        let commit = self.commit(target, change, &aside)?.commit_oid;
        let (compared, loaded) = self.read_back(target, &commit, loads)?;
        if let Some(Err(error)) = loaded {
            hub.delete_branch(repo, &aside)?;
            return Err(error).with_context(|| not_loaded(target));
        }
        Ok(Settled { commit, pull_request: None, compared, loaded: loaded.transpose()? })
    }

    /// Loads what is to be proposed, from the local files: a pull request has no branch from which it could be read back.
    fn load_unsent(&self, target: &Target) -> Result<Option<Loaded>> {
        let Some(trial) = self.how.trial else { return Ok(None) };
        (self.tell)(&format!("loading {}", trial.variant));
        let scratch = TempDir::with_prefix("kernels-unsent-").context("cannot make a folder for temporary files")?;
        let commit = "0".repeat(40);
        cache::lay(&self.local.repo, &commit, &target.files, &scratch.path().join(CACHE))?;
        trial.load(self.local, &commit, scratch.path()).with_context(|| not_loaded(target)).map(Some)
    }

    fn commit(&self, target: &Target, change: &Change, branch: &str) -> Result<Committed> {
        let (hub, repo) = (self.hub, &self.local.repo);
        let parent = match &change.base {
            Some(base) => base.clone(),
            None => hub.refs(repo)?.branches.remove(branch).context("the repository has no branch to begin from")?,
        };
        let changed = |file: &&&File| change.adds.contains(&file.path) || change.replaces.contains(&file.path);
        let commit = Commit {
            branch,
            parent: &parent,
            summary: self.summary(),
            description: self.local.source.as_ref().map_or_else(String::new, |source| format!("Sources: {source}")),
            files: target.files.iter().filter(changed).copied().collect(),
            deletes: change.deletes.iter().map(String::as_str).collect(),
            pull_request: self.how.pull_request,
            python: self.how.python,
        };
        hub.commit(repo, &commit, &|line| (self.tell)(line))
    }

    /// Downloads everything into an empty cache, compares it with what was to be published, and loads it if `loads`.
    fn read_back(&self, target: &Target, commit: &str, loads: bool) -> Result<(usize, Option<Result<Loaded>>)> {
        let (repo, count) = (&self.local.repo, target.files.len());
        (self.tell)(&format!("reading {} back", plural(count, "file")));
        let scratch = TempDir::with_prefix("kernels-read-back-").context("cannot make a folder for temporary files")?;
        let there = self.hub.tree(repo, commit)?;
        let same = |file: &&File| -> Result<&Entry> {
            let entry = there.get(&file.path).filter(|entry| file.is(entry));
            entry.with_context(|| format!("{} is not in {commit} of {repo} as it was sent", file.path))
        };
        let entries: Vec<&Entry> = target.files.iter().map(same).collect::<Result<_>>()?;
        let revision = Revision { name: commit.to_owned(), commit: commit.to_owned() };
        cache::fill(self.hub, (repo, &revision), &entries, &scratch.path().join(CACHE))?;
        let trial = self.how.trial.filter(|_| loads);
        let loaded = trial.map(|trial| {
            (self.tell)(&format!("loading {}", trial.variant));
            trial.load(self.local, commit, scratch.path())
        });
        Ok((count, loaded))
    }

    /// Removes what an interrupted run left.
    fn clear(&self, refs: &Refs, branch: &str) -> Result<()> {
        let aside = aside(branch);
        if refs.branches.contains_key(&aside) { self.hub.delete_branch(&self.local.repo, &aside) } else { Ok(()) }
    }

    pub(super) fn summary(&self) -> String {
        let Local { name, version, variants, .. } = self.local;
        format!("{name} version {version}: {}", plural(variants.len(), "variant"))
    }
}

fn not_loaded(target: &Target) -> String {
    format!(
        "the Hub's library does not load what was to be published, and nothing of it can be seen on {}: mend it, \
         `kernels build --torch`, and publish again",
        target.branch
    )
}

/// The branch on which a commit is tried. The library does not take it for a version, because it is not `v` and digits.
fn aside(branch: &str) -> String {
    format!("kernels-publish-{branch}")
}
