//! Publishes the branch of the version, then the page on `main`, then the tag. Each step compares with what is there and does
//! only what is missing, so that the next run completes an interrupted one.

use anyhow::{Context as _, Result, bail, ensure};
use serde::Serialize;

pub(crate) use super::branch::How;
use super::branch::{Publisher, Settled};
use super::load::Loaded;
use super::local::Local;
use super::plan::{Change, MAIN, Target};
use super::public::{self, Api};
use super::read::Refs;
use super::{Hub, Repo, signature};
use crate::base::repo::version_of;

/// What would be done.
#[derive(Debug, Serialize)]
pub(crate) struct Plan {
    pub(crate) creates_repository: bool,
    pub(crate) branches: Vec<Change>,
    pub(crate) public_api: Api,
    /// The tag, if it does not exist yet.
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
    /// What the Hub's library loaded.
    pub(crate) loaded: Option<Loaded>,
}

impl Published {
    pub(crate) fn changed_nothing(&self) -> bool {
        let plan = &self.plan;
        !plan.creates_repository && plan.tag.is_none() && plan.branches.iter().all(Change::is_empty)
    }
}

/// Makes the plan and changes nothing. It is an error if somebody else's files would be lost.
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

/// Publishes.
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
        // The plan can be used as it is: the Hub refuses the commit if the branch has changed since.
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
    let Settled { commit, compared, loaded, .. } = first;
    Ok(Published { plan, commit, pull_requests, compared, loaded })
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

/// How `__all__` of the first variant would change, compared with the same variant on the branch, else with any.
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

/// The page of a repository, for a message.
pub(crate) fn page(hub: &Hub, repo: &Repo, branch: &str) -> String {
    format!("{}/tree/{branch}", hub.page(repo))
}
