//! Publishing: the branch of the version, then the page on `main`, then the tag. Each step looks at what is there and does
//! what is missing, so that a run after an interrupted one completes it.

use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use serde::Serialize;
use tempfile::TempDir;

use super::fault::Fault;
use super::local::Local;
use super::plan::{Change, MAIN, Target};
use super::public::{self, Api};
use super::read::Refs;
use super::write::Commit;
use super::{Hub, Repo, signature};
use crate::base::plural;
use crate::base::repo::version_of;
use crate::compile::parallel;

/// What the command line says of the Hub.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct How<'a> {
    pub(crate) private: bool,
    pub(crate) pull_request: bool,
    pub(crate) tag: Option<&'a str>,
    pub(crate) force: bool,
}

/// What would be done.
#[derive(Debug, Serialize)]
pub(crate) struct Plan {
    pub(crate) creates_repository: bool,
    pub(crate) branches: Vec<Change>,
    pub(crate) public_api: Api,
    /// The tag, if it is not there yet.
    pub(crate) tag: Option<String>,
}

/// What was done.
#[derive(Debug)]
pub(crate) struct Published {
    pub(crate) plan: Plan,
    /// The version's branch is at this commit.
    pub(crate) commit: String,
    pub(crate) pull_requests: Vec<(String, String)>,
    /// How many files were read back and compared.
    pub(crate) compared: usize,
}

impl Published {
    pub(crate) fn changed_nothing(&self) -> bool {
        let plan = &self.plan;
        !plan.creates_repository && plan.tag.is_none() && plan.branches.iter().all(Change::is_empty)
    }
}

/// How often a branch is looked at anew, after somebody else changed it or an answer was lost.
const ROUNDS: u32 = 4;

struct Settled {
    commit: String,
    pull_request: Option<String>,
    compared: usize,
}

struct Publisher<'a> {
    hub: &'a Hub,
    local: &'a Local,
    how: How<'a>,
    tell: &'a (dyn Fn(&str) + Sync),
}

/// The plan, without any change. It refuses what would lose somebody else's files.
pub(crate) fn plan(hub: &Hub, local: &Local, how: How) -> Result<Plan> {
    Ok(look(hub, local, how)?.0)
}

/// The plan, and the branches and tags that it was made from.
fn look(hub: &Hub, local: &Local, how: How) -> Result<(Plan, Refs)> {
    let repo = &local.repo;
    if let Some(tag) = how.tag.filter(|tag| version_of(tag).is_some()) {
        bail!("`{tag}` is the name of a version's branch: choose another name for the tag, such as {tag}.0");
    }
    let exists = hub.exists(repo)?;
    ensure!(
        exists || !how.pull_request,
        "there is no repository {repo}, and --create-pr makes none: publish without it first"
    );
    let refs = if exists { hub.refs(repo)? } else { Refs::default() };
    let mut branches = Vec::new();
    for target in targets(local) {
        let change = Change::of(hub, repo, &target, &refs)?;
        change.protect(hub, repo, how.force)?;
        ensure!(
            !how.pull_request || !change.new,
            "{repo} has no branch {}, to which a change could be proposed: its owner has to publish the first",
            target.branch
        );
        branches.push(change);
    }
    let public_api = public_api(hub, local, &branches[0])?;
    let tag = how.tag.filter(|tag| {
        let there = refs.tags.get(*tag);
        there.is_none() || !branches[0].is_empty() || there != branches[0].base.as_ref()
    });
    if let Some(tag) = tag
        && refs.tags.contains_key(tag)
    {
        bail!("{repo} has the tag {tag} for another commit: choose another name");
    }
    let tag = tag.map(str::to_owned);
    Ok((Plan { creates_repository: !exists, branches, public_api, tag }, refs))
}

/// Carries it out.
pub(crate) fn publish(hub: &Hub, local: &Local, how: How, tell: &(dyn Fn(&str) + Sync)) -> Result<Published> {
    ensure!(
        hub.has_token(),
        "publishing needs a token with write access: make one at {}/settings/tokens and set HF_TOKEN, or `hf auth login`",
        hub.endpoint()
    );
    let (plan, refs) = look(hub, local, how)?;
    if plan.creates_repository {
        tell(&format!("creating {}", local.repo));
        hub.create(&local.repo, how.private)?;
    }
    let publisher = Publisher { hub, local, how, tell };
    let mut pull_requests = Vec::new();
    let mut first: Option<Settled> = None;
    for (target, planned) in targets(local).iter().zip(&plan.branches) {
        // What was seen holds until something changes: the Hub takes a commit on the same parent alone.
        let seen = (!plan.creates_repository).then(|| (planned.clone(), refs.clone()));
        let settled = publisher.settle(target, seen)?;
        pull_requests.extend(settled.pull_request.clone().map(|url| (target.branch.to_owned(), url)));
        first.get_or_insert(settled);
    }
    let first = first.context("nothing was published")?;
    if let Some(tag) = plan.tag.as_deref().filter(|_| pull_requests.is_empty()) {
        tell(&format!("tag {tag}"));
        hub.tag(&local.repo, &first.commit, tag, &publisher.summary())?;
    }
    Ok(Published { plan, commit: first.commit, pull_requests, compared: first.compared })
}

/// The version's branch, then the page.
fn targets(local: &Local) -> [Target<'_>; 2] {
    let variants: Vec<String> = local.variants.iter().map(super::built::Variant::folder).collect();
    let of_variants = local.variants.iter().flat_map(|variant| &variant.files);
    let mut if_new = vec!["build".to_owned(), signature::FOLDER.to_owned()];
    if !local.benchmarks.is_empty() {
        if_new.push("benchmarks".to_owned());
    }
    let version = Target {
        branch: &local.branch,
        files: of_variants.chain(&local.benchmarks).collect(),
        folders: variants,
        folders_if_new: if_new,
    };
    let page = Target { branch: MAIN, files: vec![&local.page], folders: Vec::new(), folders_if_new: Vec::new() };
    [version, page]
}

/// How `__all__` of the first variant would change: against the same one there, else against any.
fn public_api(hub: &Hub, local: &Local, change: &Change) -> Result<Api> {
    let ours = local.variants.first().and_then(|variant| variant.names("__init__"));
    let Some(base) = change.base.as_deref().filter(|_| !change.new) else {
        return Ok(Api::of(ours, None));
    };
    let same =
        local.variants.first().and_then(|variant| change.there.get(&format!("{}/__init__.py", variant.folder())));
    let is_package =
        |path: &str| path.starts_with("build/") && path.ends_with("/__init__.py") && path.matches('/').count() == 2;
    let any = || change.there.values().find(|one| is_package(&one.path));
    let bytes = same.or_else(any).map(|entry| hub.bytes(&local.repo, base, entry)).transpose()?;
    let theirs = bytes.and_then(|bytes| public::names(&String::from_utf8_lossy(&bytes)));
    Ok(Api::of(ours, theirs.as_deref()))
}

impl Publisher<'_> {
    /// Brings a branch to what it is to have.
    fn settle(&self, target: &Target, mut seen: Option<(Change, Refs)>) -> Result<Settled> {
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
                return Ok(Settled { commit: change.base.unwrap_or_default(), pull_request: None, compared: 0 });
            }
            let error = match self.change(target, &change, &refs) {
                Ok(settled) => return Ok(settled),
                Err(error) => error,
            };
            // What is unknown, or was somebody else's doing, is looked at anew; a proposal would be made twice.
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

    /// One commit. A new branch appears with its commit on it and read back, and not before.
    fn change(&self, target: &Target, change: &Change, refs: &Refs) -> Result<Settled> {
        let (hub, repo) = (self.hub, &self.local.repo);
        (self.tell)(&format!(
            "{}: {} to add, {} to replace, {} to delete",
            target.branch,
            change.adds.len(),
            change.replaces.len(),
            change.deletes.len()
        ));
        let aside = aside(target.branch);
        let branch = if change.new {
            if refs.branches.contains_key(&aside) {
                hub.delete_branch(repo, &aside)?;
            }
            hub.create_branch(repo, &aside, change.base.as_deref())?;
            aside.as_str()
        } else {
            target.branch
        };
        let parent = match &change.base {
            Some(base) => base.clone(),
            None => hub.refs(repo)?.branches.remove(branch).context("the repository has no branch to begin from")?,
        };
        let changed =
            |file: &&&super::file::File| change.adds.contains(&file.path) || change.replaces.contains(&file.path);
        let commit = Commit {
            branch,
            parent: &parent,
            summary: self.summary(),
            description: self.local.source.as_ref().map_or_else(String::new, |source| format!("Sources: {source}")),
            files: target.files.iter().filter(changed).copied().collect(),
            deletes: change.deletes.iter().map(String::as_str).collect(),
            pull_request: self.how.pull_request,
        };
        let done = hub.commit(repo, &commit, &|line| (self.tell)(line))?;
        if self.how.pull_request {
            let url = done.pull_request_url.context("the Hub's answer names no pull request")?;
            return Ok(Settled { commit: done.commit_oid, pull_request: Some(url), compared: 0 });
        }
        let compared = self.read_back(target, &done.commit_oid)?;
        if change.new {
            ensure!(
                hub.create_branch(repo, target.branch, Some(&done.commit_oid))?,
                Fault::conflict(&format!(
                    "somebody else made the branch {} in the meantime; publish again",
                    target.branch
                ))
            );
            hub.delete_branch(repo, &aside)?;
        }
        Ok(Settled { commit: done.commit_oid, pull_request: None, compared })
    }

    /// Downloads everything into an empty folder, and compares it with what was to be published.
    fn read_back(&self, target: &Target, commit: &str) -> Result<usize> {
        let repo = &self.local.repo;
        (self.tell)(&format!("reading {} back", plural(target.files.len(), "file")));
        let scratch = TempDir::with_prefix("kernels-read-back-").context("cannot make a folder for temporary files")?;
        let there = self.hub.tree(repo, commit)?;
        let numbered: Vec<(usize, _)> = target.files.iter().enumerate().collect();
        parallel::map(&numbered, |(number, file)| {
            let entry = there.get(&file.path).filter(|entry| file.is(entry));
            let entry = entry.with_context(|| format!("{} is not in {commit} of {repo} as it was sent", file.path))?;
            self.hub.download(repo, commit, entry, &scratch.path().join(number.to_string()))
        })?;
        Ok(target.files.len())
    }

    /// Removes what an interrupted run left.
    fn clear(&self, refs: &Refs, branch: &str) -> Result<()> {
        let aside = aside(branch);
        if refs.branches.contains_key(&aside) { self.hub.delete_branch(&self.local.repo, &aside) } else { Ok(()) }
    }

    fn summary(&self) -> String {
        let Local { name, version, variants, .. } = self.local;
        format!("{name} version {version}: {}", plural(variants.len(), "variant"))
    }
}

/// Where the first commit of a branch is made. The library takes only `v` and digits for a version.
fn aside(branch: &str) -> String {
    format!("kernels-publish-{branch}")
}

/// The page of a repository, for a message.
pub(crate) fn page(hub: &Hub, repo: &Repo, branch: &str) -> String {
    format!("{}/tree/{branch}", hub.page(repo))
}
