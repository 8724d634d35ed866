//! Skills from elsewhere: out of a repository through `git`, from a site or an archive through `curl`.

mod git;
mod process;
mod site;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use self::git::Repository;
use crate::skill::Tree;
use crate::skill::address::Address;
use crate::skill::source::{Skill, Source};

/// How long a repository or a file may take.
const PATIENCE: Duration = Duration::from_secs(300);

/// What one command fetches: each repository once.
#[derive(Default)]
pub(crate) struct Fetcher(BTreeMap<(String, Option<String>), Repository>);

impl Fetcher {
    /// The skills of these names at an address, all with `*`, or without names the only one; `at` is a commit to have instead
    /// of the newest.
    pub(crate) fn open(&mut self, from: &Address, names: &[String], at: Option<&str>) -> Result<Vec<Skill>> {
        match from {
            Address::Git { url, revision, .. } => {
                let state = (url.clone(), at.or(revision.as_deref()).map(str::to_owned));
                if !self.0.contains_key(&state) {
                    let repository = Repository::fetch(url, state.1.as_deref()).with_context(|| from.to_string())?;
                    self.0.insert(state.clone(), repository);
                }
                self.0[&state].open(from, names)
            }
            Address::Archive(url) => Ok(vec![site::archive(from, url)?]),
            Address::Site { url, skill } => site::open(from, url, skill.as_ref().map_or(names, std::slice::from_ref)),
        }
    }
}

fn skill(from: Address, at: String, name: &str, tree: Tree) -> Result<Skill> {
    let shown = from.to_string();
    Skill::checked(name, Source::Remote { from, at }, tree, Path::new(&shown), "")
}

/// `KERNELS_FETCH_SECONDS`, for slow lines; a year at most, which a clock can add.
fn patience() -> Duration {
    let named = std::env::var("KERNELS_FETCH_SECONDS").ok().and_then(|text| text.parse().ok());
    named
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .unwrap_or(PATIENCE)
        .min(Duration::from_secs(365 * 86_400))
}

fn too_slow<T>() -> Result<T> {
    bail!("took more than {} s; KERNELS_FETCH_SECONDS raises the limit", patience().as_secs_f64())
}
